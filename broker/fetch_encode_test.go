package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/partition"
)

// sinkConn is a connection that keeps what is written to it.
type sinkConn struct {
	net.Conn
	bytes.Buffer
}

func (c *sinkConn) Write(b []byte) (int, error) { return c.Buffer.Write(b) }

func (c *sinkConn) Read(b []byte) (int, error) { return c.Buffer.Read(b) }

// encoded writes a fetch answer, as it is, and returns the frame.
func encoded(t testing.TB, s *Server, f *fetchAnswer) []byte {
	t.Helper()
	var out sinkConn
	w := &answerWriter{server: s, ctx: context.Background(), sink: &out}
	require.NoError(t, f.send(w))
	require.Equal(t, int64(out.Buffer.Len()), w.sent)
	return out.Buffer.Bytes()
}

// expected is the frame that kmsg makes of the same answer.
func expected(t testing.TB, s *Server, f *fetchAnswer) []byte {
	t.Helper()
	resp := kmsg.NewPtrFetchResponse()
	resp.Version, resp.ErrorCode, resp.SessionID = f.version, f.code, f.sessionID
	for i := range f.items {
		it := &f.items[i]
		if i == 0 || !f.sameTopic(&f.items[i-1], it) {
			topic := kmsg.NewFetchResponseTopic()
			topic.Topic, topic.TopicID = it.topic, it.id
			resp.Topics = append(resp.Topics, topic)
		}
		last := &resp.Topics[len(resp.Topics)-1]
		last.Partitions = append(last.Partitions, expectedPartition(t, f, it))
	}
	for _, n := range s.endpoints(f.via, f.namedLeaders()) {
		resp.Brokers = append(resp.Brokers, kmsg.FetchResponseBroker{NodeID: n.ID, Host: n.Host, Port: n.Port, Rack: optional(n.Rack)})
	}
	return frameEnd(resp.AppendTo(frameStart(nil, f.correlation, f.version >= 12)), 0)
}

func expectedPartition(t testing.TB, f *fetchAnswer, it *fetchItem) kmsg.FetchResponseTopicPartition {
	t.Helper()
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.ErrorCode = it.index, it.found.code
	p.HighWatermark, p.LastStableOffset, p.LogStartOffset = it.found.highWatermark, it.found.lastStable, it.found.logStart
	p.PreferredReadReplica = -1
	if f.isolation == partition.ReadCommitted && it.found.code == codeNone {
		p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
		for _, a := range it.found.aborted {
			p.AbortedTransactions = append(p.AbortedTransactions, kmsg.FetchResponseTopicPartitionAbortedTransaction{
				ProducerID: a.ProducerID, FirstOffset: a.FirstOffset,
			})
		}
	}
	if it.found.diverging.epoch >= 0 {
		p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = it.found.diverging.epoch, it.found.diverging.end
	}
	if it.found.namesLeader && f.version >= 16 {
		p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = it.leader, it.leaderEpoch
	}
	var err error
	p.RecordBatches, err = it.found.records.AppendTo([]byte{})
	require.NoError(t, err)
	return p
}

// fetchAnswers are answers with everything that a response can have.
func fetchAnswers(version int16, small, large partition.Records) map[string]*fetchAnswer {
	item := func(topic string, index int32, found fetched) fetchItem {
		it := fetchItem{topic: topic, index: index, leader: testNode, leaderEpoch: 12, found: found}
		copy(it.id[:], topic+"--------------------")
		it.found.size = found.records.Len()
		return it
	}
	none := epochEnd{noEpoch, -1}
	good := func(r partition.Records) fetched {
		return fetched{highWatermark: 50, lastStable: 40, logStart: 3, records: r, diverging: none}
	}
	aborted := good(small)
	aborted.aborted = []partition.AbortedTxn{{ProducerID: 9, FirstOffset: 4}, {ProducerID: 1 << 40, FirstOffset: 5}}
	diverged := good(partition.Records{})
	diverged.diverging = epochEnd{3, 17}
	base := fetchAnswer{version: version, correlation: 1234567}
	helper := fetchAnswer{version: version}

	answers := map[string]*fetchAnswer{}
	add := func(name string, change func(*fetchAnswer)) {
		f := base
		change(&f)
		answers[name] = &f
	}
	add("empty", func(*fetchAnswer) {})
	if version >= 7 {
		add("session error", func(f *fetchAnswer) { f.code = codeInvalidFetchSessionEpoch })
	}
	add("one", func(f *fetchAnswer) { f.items = []fetchItem{item("a", 0, good(small))} })
	add("committed", func(f *fetchAnswer) {
		f.isolation = partition.ReadCommitted
		f.items = []fetchItem{item("a", 0, aborted), item("a", 1, good(partition.Records{})), item("a", 2, helper.failed(partition.ErrOffsetOutOfRange))}
	})
	add("everything", func(f *fetchAnswer) {
		if version >= 7 {
			f.sessionID = 1 << 30
		}
		f.items = []fetchItem{
			item("first", 0, good(large)),
			item("first", 4, good(small)),
			item("second", 1, helper.failed(partition.ErrNotLeader)),
			item("second", 2, helper.failed(partition.ErrFenced)),
			item("first", 5, good(large)), // a topic may come again
			item("third", 0, good(partition.Records{})),
		}
		if version >= 12 {
			f.items = append(f.items, item("third", 1, diverged))
		}
	})
	return answers
}

func TestFetchResponsesAreThoseOfKmsg(t *testing.T) {
	r := newRig(t)
	small, large := someRecords(t, r, "small", 100), someRecords(t, r, "large", 300_000)
	defer small.Release()
	defer large.Release()
	require.Greater(t, large.Len(), int64(sendfileThreshold))
	for version := int16(4); version <= 18; version++ {
		for name, f := range fetchAnswers(version, small, large) {
			t.Run(fmt.Sprintf("v%d/%s", version, name), func(t *testing.T) {
				want := expected(t, r.server, f)
				require.Equal(t, want, encoded(t, r.server, f))
				var resp kmsg.FetchResponse
				resp.Version = version
				require.NoError(t, resp.ReadFrom(responseBody(t, want[sizeBytes:], f.correlation, version >= 12)))
			})
		}
	}
}

// someRecords are records of about the given size in a log.
func someRecords(t testing.TB, r *rig, name string, size int) partition.Records {
	t.Helper()
	topic := r.topic(name, 1, nil)
	r.dial().mustProduce(topic, 0, records(string(bytes.Repeat([]byte{'x'}, size))))
	read, err := r.log(topic, 0).Read(0, partition.ReadUncommitted, 1<<20, true)
	require.NoError(t, err)
	return read.Records
}

func TestManySmallRecordsAreNotAllCopied(t *testing.T) {
	r := newRig(t)
	some := someRecords(t, r, "t", 30_000)
	defer some.Release()
	f := &fetchAnswer{version: 13}
	for i := range 100 {
		f.items = append(f.items, fetchItem{
			id: TopicID{1}, index: int32(i),
			found: fetched{records: some, size: some.Len(), diverging: epochEnd{noEpoch, -1}},
		})
	}
	frame := fetchFrame{flexible: true}
	f.encode(&frame, r.server)
	require.LessOrEqual(t, len(frame.buf), maxCopied+2*int(some.Len()))
	require.Equal(t, expected(t, r.server, f), encoded(t, r.server, f))
}

func TestFetchFrameSizeCountsRecordsThatAreWrittenApart(t *testing.T) {
	r := newRig(t)
	large := someRecords(t, r, "t", 300_000)
	defer large.Release()
	f := &fetchAnswer{version: 11, items: []fetchItem{
		{topic: "t", found: fetched{records: large, size: large.Len(), diverging: epochEnd{noEpoch, -1}}},
	}}
	frame := encoded(t, r.server, f)
	require.Equal(t, len(frame)-sizeBytes, int(binary.BigEndian.Uint32(frame)))
	_, _, err := batch.Next(frame[len(frame)-int(large.Len()):])
	require.NoError(t, err)
}

func TestADiskThatFailsWhileAResponseIsEncodedCostsOnePartition(t *testing.T) {
	r := newRig(t)
	good, bad := someRecords(t, r, "good", 100), someRecords(t, r, "bad", 100)
	defer good.Release()
	size := bad.Len()
	bad.Release() // reading them fails from now on
	for _, version := range []int16{4, 12, 18} {
		f := &fetchAnswer{version: version, correlation: 1}
		for i, records := range []partition.Records{good, bad, good} {
			f.items = append(f.items, fetchItem{
				topic: "t", index: int32(i), found: fetched{records: records, size: size, diverging: epochEnd{noEpoch, -1}},
			})
		}
		frame := encoded(t, r.server, f)
		var resp kmsg.FetchResponse
		resp.Version = version
		require.NoError(t, resp.ReadFrom(responseBody(t, frame[sizeBytes:], 1, version >= 12)))
		got := resp.Topics[0].Partitions
		require.Equal(t, []int16{codeNone, codeKafkaStorageError, codeNone}, []int16{got[0].ErrorCode, got[1].ErrorCode, got[2].ErrorCode})
		require.Equal(t, []int{int(good.Len()), 0, int(good.Len())}, []int{len(got[0].RecordBatches), len(got[1].RecordBatches), len(got[2].RecordBatches)})
		require.Equal(t, int64(-1), got[1].HighWatermark)
	}
}
