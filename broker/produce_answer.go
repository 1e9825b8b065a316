package broker

import (
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/partition"
)

// produceAnswer is the answer to a Produce request whose batches are in their logs but perhaps not yet durable.
type produceAnswer struct {
	correlation int32
	deadline    time.Time
	via         Via
	resp        kmsg.ProduceResponse
	partitions  []kmsg.ProduceResponseTopicPartition // of all topics; resp has slices of it
	appends     []*partition.Append                  // one for each of partitions; nil where it failed
	details     *details
}

const (
	producedTopicSize     = int(unsafe.Sizeof(kmsg.ProduceResponseTopic{}))
	producedPartitionSize = int(unsafe.Sizeof(kmsg.ProduceResponseTopicPartition{})) + 8
	recordErrorSize       = 128 // with its text
)

func (a *produceAnswer) weight() int {
	n := len(a.resp.Topics)*producedTopicSize + len(a.partitions)*producedPartitionSize
	for i := range a.partitions {
		n += len(a.partitions[i].ErrorRecords) * recordErrorSize
	}
	return n
}

func (a *produceAnswer) write(w *answerWriter) error {
	for i, done := range a.appends {
		if done == nil {
			continue
		}
		if err := w.awaitAppend(done, a.deadline); err != nil {
			if w.ctx.Err() != nil {
				return w.ctx.Err()
			}
			failAfterAppend(&a.partitions[i], err, a.resp.Version)
		}
	}
	a.addEndpoints(w.server)
	a.details.answers(&a.resp)
	buf := frameStart(w.encoder(a.weight()), a.correlation, a.resp.IsFlexible())
	buf = frameEnd(a.resp.AppendTo(buf), 0)
	err := w.send(buf)
	w.keep(buf)
	return err
}

// failAfterAppend turns the answer for a partition into a failure.
func failAfterAppend(out *kmsg.ProduceResponseTopicPartition, err error, version int16) {
	out.BaseOffset, out.LogAppendTime = -1, -1
	out.ErrorCode = codeByTopic(err, version >= 13)
	out.ErrorMessage = message(err)
}

// addEndpoints adds the addresses of the leaders that the answer names.
func (a *produceAnswer) addEndpoints(s *Server) {
	if a.resp.Version < 10 {
		return
	}
	var leaders []int32
	for i := range a.partitions {
		if id := a.partitions[i].CurrentLeader.LeaderID; id >= 0 {
			leaders = append(leaders, id)
		}
	}
	for _, n := range s.endpoints(a.via, leaders) {
		a.resp.Brokers = append(a.resp.Brokers, kmsg.ProduceResponseBroker{
			NodeID: n.ID, Host: n.Host, Port: n.Port, Rack: optional(n.Rack),
		})
	}
}

// endpoints returns the nodes with the given ids.
func (s *Server) endpoints(via Via, ids []int32) []Node {
	if len(ids) == 0 {
		return nil
	}
	wanted := make(map[int32]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	var found []Node
	for _, n := range s.backend.Nodes(via) {
		if wanted[n.ID] {
			found = append(found, n)
		}
	}
	return found
}

// awaitAppend waits until records are durable by their topic's rule. It returns errFlushTimedOut at the deadline.
func (w *answerWriter) awaitAppend(a *partition.Append, deadline time.Time) error {
	select {
	case <-a.Done():
		return a.Err()
	default:
	}
	expired := w.startTimer(deadline)
	defer w.stopTimer()
	select {
	case <-a.Done():
		return a.Err()
	case <-expired:
		return errFlushTimedOut
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}

// takeProduceRequest returns a request to decode into, to reuse its slices.
func (s *Server) takeProduceRequest() *kmsg.ProduceRequest {
	if req, ok := s.produceRequests.Get().(*kmsg.ProduceRequest); ok {
		return req
	}
	return kmsg.NewPtrProduceRequest()
}

// keepTopics is the largest number of topics for which a decoded request is kept for reuse.
const keepTopics = 64

func (s *Server) giveProduceRequest(req *kmsg.ProduceRequest) {
	if cap(req.Topics) > keepTopics {
		return
	}
	clear(req.Topics[:cap(req.Topics)]) // drop references to the frame
	topics := req.Topics[:0]
	*req = kmsg.NewProduceRequest()
	req.Topics = topics
	s.produceRequests.Put(req)
}

// optional returns s, or null when it is empty.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
