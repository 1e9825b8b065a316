package broker

import (
	"errors"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/partition"
)

// # Produce (0): versions 3-13, listed as 0-13
//
// Appends one record batch to each partition, each independently of the others. The batches alias the connection's read
// buffer; the log checks them, patches offset, epoch and append time in place, and writes them from there. The answer
// waits until all of them are durable and visible; meanwhile the next request of the connection is appended. acks 1 and
// -1 are the same: there is one replica, and neither is answered before its flush. A duplicate is answered with the
// offsets of the first copy, once that one is durable. acks 0 has no answer, and its failures close the connection.
//
// min.insync.replicas is ignored, because replica counts have no meaning yet.
//
// TimeoutMs bounds the wait for the flush, and for a log that cannot accept more at the moment. It counts as at least a
// second, because clients that ask for less only mean other replicas. After REQUEST_TIMED_OUT the records may be in the
// log; an idempotent producer finds out by retrying.
//
//	v3   record batches of format version 2; transactional id
//	v5   log start offset in the answer
//	v7   zstd
//	v8   record errors and messages
//	v9   flexible
//	v10  leader and its address with NOT_LEADER_OR_FOLLOWER
//	v12  transactions of version 2
//	v13  topics by id
//
// Errors, in the order of the checks: TRANSACTIONAL_ID_AUTHORIZATION_FAILED for every partition when a transactional batch
// came without a transactional id; UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION; INVALID_RECORD for no batch, more than
// one, or an old format; UNSUPPORTED_COMPRESSION_TYPE; INVALID_REQUIRED_ACKS; INVALID_TOPIC_EXCEPTION for an internal topic;
// NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR; INVALID_TXN_STATE for a transactional batch (no transaction can be open);
// and what the log's checks find: INVALID_RECORD, MESSAGE_TOO_LARGE, CORRUPT_MESSAGE, INVALID_TIMESTAMP,
// RECORD_LIST_TOO_LARGE, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH; REQUEST_TIMED_OUT.
func produceAPI() api {
	return api{
		key: produceKey, name: "Produce", min: 0, max: 13, served: 3, flexible: 9,
		shape: shape{
			text(), fixed(2 + 4), // transactional id, acks, timeout
			list(producedTopicSize+64, text().until(12), fixed(16).since(13),
				list(producedPartitionSize+40, fixed(4), blob())),
		},
		handle: (*call).produce,
	}
}

const (
	produceKey = 0

	// adminClientID is the client id that may write to internal topics.
	adminClientID = "__admin_client"

	// leastProduceTimeout is the shortest time that a produce waits for its flush.
	leastProduceTimeout = time.Second
)

func (c *call) produce() (answer, error) {
	req := c.server.takeProduceRequest()
	defer c.server.giveProduceRequest(req)
	req.SetVersion(c.version)
	if err := req.UnsafeReadFrom(c.body); err != nil {
		return nil, unparsable(err)
	}
	c.details.names(req)
	timeout := max(time.Duration(req.TimeoutMillis)*time.Millisecond, leastProduceTimeout)
	p := &producing{
		call:     c,
		req:      req,
		topics:   c.server.backend.Topics(),
		deadline: c.arrived.Add(timeout),
		unlawful: req.TransactionID == nil && anyTransactional(req),
	}
	a, failed := p.appendAll()
	if req.Acks == 0 {
		if failed != nil {
			return nil, &hangUp{ClosedFailedProduce, failed}
		}
		return nil, nil
	}
	return a, nil
}

// producing is a Produce request while its batches are appended.
type producing struct {
	*call
	req      *kmsg.ProduceRequest
	topics   Topics
	deadline time.Time // the end of the request's timeout
	unlawful bool      // a transactional batch has no transactional id
	found    []foundTopic
}

// foundTopic is what the metadata says of a topic of the request.
type foundTopic struct {
	topic   *Topic
	unknown error
}

// appendAll appends every batch: those of a partition in the order of the request, those of different partitions side by
// side if there are many. The error is one of a partition that failed.
func (p *producing) appendAll() (*produceAnswer, error) {
	a := p.prepare()
	all := make([]appender, appenders(len(a.partitions)))
	for i := range all {
		all[i] = appender{producing: p, ctx: lateContext{parent: p.conn.ctx, deadline: p.deadline}, this: i, of: len(all)}
	}
	if len(all) == 1 {
		all[0].run(a)
		return a, all[0].failed
	}
	var running sync.WaitGroup
	for i := range all {
		running.Go(func() { all[i].runGuarded(a) })
	}
	running.Wait()
	var failed error
	for i := range all {
		if all[i].panicked != nil {
			panic(all[i].panicked)
		}
		if failed == nil {
			failed = all[i].failed
		}
	}
	return a, failed
}

// prepare looks the topics up and makes the answer, without what the appends will say.
func (p *producing) prepare() *produceAnswer {
	n := 0
	for i := range p.req.Topics {
		n += len(p.req.Topics[i].Partitions)
	}
	a := &produceAnswer{
		correlation: p.correlation,
		deadline:    p.deadline,
		via:         p.conn.info.Via,
		details:     p.details,
		appends:     make([]*partition.Append, n),
		partitions:  make([]kmsg.ProduceResponseTopicPartition, n),
	}
	a.resp.Version = p.version
	a.resp.Topics = make([]kmsg.ProduceResponseTopic, len(p.req.Topics))
	p.found = make([]foundTopic, len(p.req.Topics))
	first := 0
	for i := range p.req.Topics {
		rt := &p.req.Topics[i]
		ref := topicRef{id: rt.TopicID, name: rt.Topic, byID: p.version >= 13}
		t, unknown := ref.find(p.topics)
		p.found[i] = foundTopic{t, unknown}
		out := &a.resp.Topics[i]
		out.TopicID = rt.TopicID
		if t != nil {
			out.Topic = t.Name
		} else {
			out.Topic = strings.Clone(rt.Topic)
		}
		end := first + len(rt.Partitions)
		out.Partitions = a.partitions[first:end:end]
		first = end
	}
	return a
}

// partitionsAnAppender is for how many partitions of a request another goroutine pays.
const partitionsAnAppender = 32

// appenders returns how many goroutines append to n partitions.
func appenders(n int) int {
	return max(1, min(runtime.GOMAXPROCS(0), n/partitionsAnAppender))
}

// appender appends some of the batches of a request. It belongs to one goroutine.
type appender struct {
	*producing
	ctx      lateContext // ends with the request's timeout
	this, of int         // which appender this is, of how many
	failed   error       // the first failure of a partition
	panicked *carriedPanic
}

// runGuarded is run on a goroutine of its own, whose panics must become the connection's.
func (p *appender) runGuarded(a *produceAnswer) {
	defer func() {
		if v := recover(); v != nil {
			p.panicked = &carriedPanic{v, debug.Stack()}
		}
	}()
	p.run(a)
}

// run appends the batches that are this appender's.
func (p *appender) run(a *produceAnswer) {
	defer p.ctx.release()
	n := 0
	for i := range p.req.Topics {
		rt := &p.req.Topics[i]
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			if p.of == 1 || home(rt, rp, p.of) == p.this {
				a.partitions[n], a.appends[n] = p.appendOne(p.found[i].topic, rp, p.found[i].unknown)
			}
			n++
		}
	}
}

// home returns which of so many appenders a partition belongs to: the same one wherever in the request the partition is,
// so that its batches are appended in order.
func home(t *kmsg.ProduceRequestTopic, p *kmsg.ProduceRequestTopicPartition, of int) int {
	spread := uint32(p.Partition) + uint32(t.TopicID[15])
	if n := len(t.Topic); n > 0 {
		spread += uint32(t.Topic[n-1])
	}
	const mix = 0x9E3779B1 // 2^32 by the golden ratio, so that a request for every second partition is spread too
	return int(spread * mix >> 16 % uint32(of))
}

// appendOne appends one batch, unless err says that it was already refused.
func (p *appender) appendOne(t *Topic, req *kmsg.ProduceRequestTopicPartition, err error,
) (kmsg.ProduceResponseTopicPartition, *partition.Append) {
	out := kmsg.NewProduceResponseTopicPartition()
	out.Partition = req.Partition
	out.BaseOffset, out.LogAppendTime, out.LogStartOffset = -1, -1, -1
	var log *partition.Log
	var done *partition.Append
	if log, err = p.logOf(t, req, err); err == nil {
		done, err = log.Append(&p.ctx, req.Records, partition.AppendOptions{Acks: p.req.Acks, ProduceVersion: p.version})
	}
	if err == nil {
		out.BaseOffset, out.LogAppendTime, out.LogStartOffset = done.BaseOffset, done.AppendTime, done.LogStart
		return out, done
	}
	if p.failed == nil {
		p.failed = err
	}
	if log != nil {
		out.LogStartOffset = log.Offsets().LogStart
	}
	p.fail(&out, t, err)
	return out, nil
}

// logOf makes the checks that come before the log's own, in Kafka's order.
func (p *producing) logOf(t *Topic, req *kmsg.ProduceRequestTopicPartition, err error) (*partition.Log, error) {
	switch {
	case p.unlawful:
		return nil, errNoTransactionalID
	case err != nil:
		return nil, err
	case req.Partition < 0 || int(req.Partition) >= len(t.Partitions):
		return nil, ErrUnknownPartition
	}
	var log *partition.Log
	switch {
	case p.req.Acks < -1 || p.req.Acks > 1:
		err = errInvalidAcks
	case (t.Internal || isInternalName(t.Name)) && p.clientID != adminClientID:
		err = errInternalTopic
	default:
		log, err = p.server.lead(t, req.Partition)
		if err == nil && isTransactional(req.Records) {
			err = errNoTransaction
		}
	}
	if err == nil {
		return log, nil
	}
	if bad := checkRecords(req.Records, p.version); bad != nil {
		err = bad // Kafka checks this first
	}
	return nil, err
}

// fail fills in the answer for a partition whose batch was refused.
func (p *producing) fail(out *kmsg.ProduceResponseTopicPartition, t *Topic, err error) {
	out.ErrorCode = codeByTopic(err, p.version >= 13)
	out.ErrorMessage = message(err)
	var invalid *batch.ValidationError
	if errors.As(err, &invalid) {
		for _, r := range invalid.RecordErrors {
			out.ErrorRecords = append(out.ErrorRecords, kmsg.ProduceResponseTopicPartitionErrorRecord{
				RelativeOffset: r.Index, ErrorMessage: &r.Message,
			})
		}
	}
	if out.ErrorCode == codeNotLeaderOrFollower && t != nil {
		leader := t.Partitions[out.Partition]
		out.CurrentLeader.LeaderID, out.CurrentLeader.LeaderEpoch = leader.Leader, leader.LeaderEpoch
	}
}

// checkRecords makes the checks of records that precede the lookup of the partition.
func checkRecords(records []byte, version int16) error {
	var magic *batch.MagicError
	first, rest, err := batch.Next(records)
	switch {
	case errors.As(err, &magic):
		return errOldRecords
	case isEOF(err):
		return errNoRecords
	case err != nil:
		return nil // the log's checks report it
	case first.Attributes().Codec() == batch.Zstd && version < 7:
		return errZstdTooEarly
	}
	if _, _, err := batch.Next(rest); err == nil {
		return errNoRecords
	}
	return nil
}

func isTransactional(records []byte) bool {
	h, err := batch.ParseHeader(records)
	return err == nil && h.IsTransactional()
}

func anyTransactional(req *kmsg.ProduceRequest) bool {
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			if isTransactional(req.Topics[i].Partitions[j].Records) {
				return true
			}
		}
	}
	return false
}
