package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sink is a server that only answers: produced records get their offsets and are forgotten, except for one batch of each
// partition, which consumers are sent again and again. It bounds what the client can do. With a [floor] it stores what is
// produced, and sends consumers nothing.
type sink struct {
	listener net.Listener
	wait     sync.WaitGroup
	floor    *floor // nil if nothing is stored

	mu struct {
		sync.Mutex
		conns map[net.Conn]bool
		logs  map[string]*sinkLog // by topic/partition
		sizes map[string]int32    // partitions of each topic
		err   error               // of storing; ends its connection
	}
}

type sinkLog struct {
	end    int64
	sample []byte // one produced batch
	count  int64  // its records
}

// sinkVersions are the highest versions that the sink speaks: the newest in which topics are named by name.
var sinkVersions = map[int16]int16{
	int16(kmsg.Produce): 9, int16(kmsg.Fetch): 12, int16(kmsg.ListOffsets): 7, int16(kmsg.Metadata): 9,
	int16(kmsg.ApiVersions): 3, int16(kmsg.CreateTopics): 6, int16(kmsg.DeleteTopics): 5, int16(kmsg.InitProducerID): 4,
}

func startSink(f *floor) (*sink, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("bench: sink: %w", err)
	}
	s := &sink{listener: listener, floor: f}
	s.mu.conns = map[net.Conn]bool{}
	s.mu.logs = map[string]*sinkLog{}
	s.mu.sizes = map[string]int32{}
	s.wait.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.mu.conns[conn] = true
			s.mu.Unlock()
			s.wait.Go(func() { s.serve(conn) })
		}
	})
	return s, nil
}

func (s *sink) addr() string { return s.listener.Addr().String() }

// stop ends all connections and returns after the last goroutine.
func (s *sink) stop() {
	s.listener.Close()
	s.mu.Lock()
	for conn := range s.mu.conns {
		conn.Close()
	}
	s.mu.Unlock()
	s.wait.Wait()
}

// serve answers the requests of one connection in order until it breaks.
func (s *sink) serve(conn net.Conn) {
	defer func() {
		conn.Close()
		s.mu.Lock()
		delete(s.mu.conns, conn)
		s.mu.Unlock()
	}()
	var in io.Reader = conn
	if s.floor == nil {
		in = bufio.NewReaderSize(conn, 1<<20)
	}
	var size [4]byte
	var frame []byte
	for {
		if _, err := io.ReadFull(in, size[:]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint32(size[:]))
		if cap(frame) < n || s.floor == nil { // without a floor, frames are kept to be served
			frame = make([]byte, n)
		}
		frame = frame[:n]
		if _, err := io.ReadFull(in, frame); err != nil {
			return
		}
		answer, err := s.answer(frame)
		if err != nil {
			return
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

// answer returns the frame that answers a request frame.
func (s *sink) answer(frame []byte) ([]byte, error) {
	r := kbin.Reader{Src: frame}
	key, version, correlation := r.Int16(), r.Int16(), r.Int32()
	r.NullableString() // client id
	req := kmsg.RequestForKey(key)
	if req == nil || !r.Ok() {
		return nil, fmt.Errorf("bench: sink: request %d", key)
	}
	highest, known := sinkVersions[key]
	if !known {
		return nil, fmt.Errorf("bench: sink: request %d is not answered here", key)
	}
	if version > highest { // only ApiVersions may have an unknown version; it is answered as version 0
		version = 0
		req.SetVersion(0)
		resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
		resp.ErrorCode = 35
		s.versions(resp)
		return sinkFrame(correlation, resp, false), nil
	}
	req.SetVersion(version)
	if req.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	if err := req.ReadFrom(r.Src); err != nil {
		return nil, fmt.Errorf("bench: sink: %w", err)
	}
	resp := req.ResponseKind()
	resp.SetVersion(version)
	s.fill(req, resp)
	if err := s.failed(); err != nil {
		return nil, err
	}
	return sinkFrame(correlation, resp, req.IsFlexible() && key != int16(kmsg.ApiVersions)), nil
}

// failed returns the first error of storing.
func (s *sink) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.err
}

func sinkFrame(correlation int32, resp kmsg.Response, flexibleHeader bool) []byte {
	out := kbin.AppendInt32(make([]byte, 4, 256), correlation)
	if flexibleHeader {
		out = append(out, 0)
	}
	out = resp.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}

func (s *sink) fill(req kmsg.Request, resp kmsg.Response) {
	switch req := req.(type) {
	case *kmsg.ApiVersionsRequest:
		s.versions(resp.(*kmsg.ApiVersionsResponse))
	case *kmsg.MetadataRequest:
		s.metadata(req, resp.(*kmsg.MetadataResponse))
	case *kmsg.InitProducerIDRequest:
		resp.(*kmsg.InitProducerIDResponse).ProducerID = 1
	case *kmsg.CreateTopicsRequest:
		s.create(req, resp.(*kmsg.CreateTopicsResponse))
	case *kmsg.DeleteTopicsRequest:
		for _, t := range req.TopicNames {
			answer := kmsg.NewDeleteTopicsResponseTopic()
			answer.Topic = kmsg.StringPtr(t)
			resp := resp.(*kmsg.DeleteTopicsResponse)
			resp.Topics = append(resp.Topics, answer)
		}
		s.forget(req.TopicNames)
	case *kmsg.ProduceRequest:
		s.produce(req, resp.(*kmsg.ProduceResponse))
	case *kmsg.FetchRequest:
		s.fetch(req, resp.(*kmsg.FetchResponse))
	case *kmsg.ListOffsetsRequest:
		s.offsets(req, resp.(*kmsg.ListOffsetsResponse))
	}
}

func (s *sink) versions(resp *kmsg.ApiVersionsResponse) {
	for key, highest := range sinkVersions {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MaxVersion = key, highest
		resp.ApiKeys = append(resp.ApiKeys, k)
	}
}

func (s *sink) create(req *kmsg.CreateTopicsRequest, resp *kmsg.CreateTopicsResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range req.Topics {
		s.mu.sizes[t.Topic] = t.NumPartitions
		answer := kmsg.NewCreateTopicsResponseTopic()
		answer.Topic = t.Topic
		resp.Topics = append(resp.Topics, answer)
	}
}

// forget removes what is stored of topics.
func (s *sink) forget(topics []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.floor != nil {
		s.mu.err = errors.Join(s.mu.err, s.floor.drop(topics))
	}
}

func (s *sink) metadata(req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) {
	host, portText, _ := net.SplitHostPort(s.addr())
	port, _ := strconv.Atoi(portText)
	broker := kmsg.NewMetadataResponseBroker()
	broker.Host, broker.Port = host, int32(port)
	resp.Brokers = append(resp.Brokers, broker)
	resp.ClusterID, resp.ControllerID = kmsg.StringPtr("null"), broker.NodeID
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range req.Topics {
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic = t.Topic
		for p := range s.mu.sizes[*t.Topic] {
			partition := kmsg.NewMetadataResponseTopicPartition()
			partition.Partition = p
			partition.Replicas, partition.ISR = []int32{0}, []int32{0}
			topic.Partitions = append(topic.Partitions, partition)
		}
		resp.Topics = append(resp.Topics, topic)
	}
}

func (s *sink) log(topic string, partition int32) *sinkLog {
	name := fmt.Sprintf("%s/%d", topic, partition)
	if s.mu.logs[name] == nil {
		s.mu.logs[name] = &sinkLog{}
	}
	return s.mu.logs[name]
}

func (s *sink) produce(req *kmsg.ProduceRequest, resp *kmsg.ProduceResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range req.Topics {
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			const countAt = 57 // of the record count in a batch
			log := s.log(t.Topic, p.Partition)
			count := int64(binary.BigEndian.Uint32(p.Records[countAt:]))
			switch {
			case s.floor != nil:
				s.mu.err = errors.Join(s.mu.err, s.floor.store(t.Topic, p.Partition, p.Records, log.end))
			case count > log.count:
				log.sample, log.count = p.Records, count
			}
			partition := kmsg.NewProduceResponseTopicPartition()
			partition.Partition = p.Partition
			partition.BaseOffset = log.end
			partition.LogAppendTime = -1
			log.end += count
			topic.Partitions = append(topic.Partitions, partition)
		}
		resp.Topics = append(resp.Topics, topic)
	}
}

func (s *sink) fetch(req *kmsg.FetchRequest, resp *kmsg.FetchResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range req.Topics {
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			log := s.log(t.Topic, p.Partition)
			partition := kmsg.NewFetchResponseTopicPartition()
			partition.Partition = p.Partition
			partition.HighWatermark = p.FetchOffset + 1<<40 // there is always more
			partition.LastStableOffset, partition.LogStartOffset = partition.HighWatermark, 0
			offset := p.FetchOffset
			for len(partition.RecordBatches)+len(log.sample) <= int(p.PartitionMaxBytes) && log.count > 0 {
				start := len(partition.RecordBatches)
				partition.RecordBatches = append(partition.RecordBatches, log.sample...)
				binary.BigEndian.PutUint64(partition.RecordBatches[start:], uint64(offset)) // not covered by the checksum
				offset += log.count
			}
			topic.Partitions = append(topic.Partitions, partition)
		}
		resp.Topics = append(resp.Topics, topic)
	}
}

func (s *sink) offsets(req *kmsg.ListOffsetsRequest, resp *kmsg.ListOffsetsResponse) {
	for _, t := range req.Topics {
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			partition := kmsg.NewListOffsetsResponseTopicPartition()
			partition.Partition = p.Partition
			partition.Offset = 0
			topic.Partitions = append(topic.Partitions, partition)
		}
		resp.Topics = append(resp.Topics, topic)
	}
}
