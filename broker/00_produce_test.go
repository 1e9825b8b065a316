package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

func TestProduceAppendsInEveryVersion(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	for version := int16(3); version <= 13; version++ {
		resp := do[*kmsg.ProduceResponse](c, produceTo(version, topic, 0, -1, records("a", "b")))
		want := kmsg.NewProduceResponseTopicPartition()
		want.BaseOffset = int64(version-3) * 2
		want.LogAppendTime = -1
		if version >= 5 { // before, there is none, which reads as -1
			want.LogStartOffset = 0
		}
		require.Equal(t, []kmsg.ProduceResponseTopicPartition{want}, resp.Topics[0].Partitions, "version %d", version)
		if version >= 13 {
			require.Equal(t, topic.ID, resp.Topics[0].TopicID)
		} else {
			require.Equal(t, topic.Name, resp.Topics[0].Topic)
		}
	}
	require.Equal(t, int64(22), r.log(topic, 0).Offsets().HighWatermark)
}

// patched changes a header field of a batch and, unless it is the checksum, makes the checksum right again.
func patched(b []byte, at int, field ...byte) []byte {
	copy(b[at:], field)
	if at < 17 || at > 20 {
		binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	}
	return b
}

// Positions of header fields in a batch.
const (
	posMagic           = 16
	posChecksum        = 17
	posAttributes      = 21
	posLastOffsetDelta = 23
	posProducerID      = 43
	posCount           = 57
)

func TestF49_MalformedBatchesAreRefused(t *testing.T) {
	good := func() []byte { return records("x", "y") }
	tests := []struct {
		name    string
		version int16
		records []byte
		want    int16
	}{
		{"null records", 13, nil, codeInvalidRecord},
		{"empty records", 13, []byte{}, codeInvalidRecord},
		{"less than a batch header", 13, good()[:16], codeInvalidRecord},
		{"half a batch", 13, good()[:70], codeInvalidRecord},
		{"two batches", 13, append(good(), good()...), codeInvalidRecord},
		{"magic 1", 13, patched(good(), posMagic, 1), codeInvalidRecord},
		{"base offset 5", 13, patched(good(), 7, 5), codeInvalidRecord},
		{"length of a header less one", 13, patched(good(), 11, 48), codeCorruptMessage},
		{"checksum", 13, patched(good(), posChecksum, 1, 2, 3, 4), codeCorruptMessage},
		{"last offset delta", 13, patched(good(), posLastOffsetDelta, 0, 0, 0, 9), codeInvalidRecord},
		{"record count 0", 13, patched(good(), posCount, 0, 0, 0, 0), codeInvalidRecord},
		{"record count negative", 13, patched(good(), posCount, 0xFF, 0xFF, 0xFF, 0xFF), codeInvalidRecord},
		{"control bit", 13, patched(good(), posAttributes+1, 1<<5), codeInvalidRecord},
		{"log append time bit", 13, patched(good(), posAttributes+1, 1<<3), codeInvalidTimestamp},
		{"codec 5", 13, patched(good(), posAttributes+1, 5), codeUnsupportedCompressionType},
		{"zstd before version 7", 6, batchOf(batch.BuilderOptions{Codec: batch.Zstd}, "x"), codeUnsupportedCompressionType},
		{"producer without sequence", 13, idempotent(5, 0, -1, "x"), codeInvalidRecord},
		{"gzip that is none", 13, patched(good(), posAttributes+1, 1), codeInvalidRecord},
		{"larger than max.message.bytes", 13, records(string(make([]byte, 1<<20))), codeMessageTooLarge},
		{"too far in the future", 13, futureBatch(), codeInvalidTimestamp},
	}
	r := newRig(t)
	topic := r.topic("t", 2, nil)
	c := r.dial()
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			req := produceTo(test.version, topic, 0, -1, test.records)
			other := kmsg.NewProduceRequestTopicPartition()
			other.Partition, other.Records = 1, records("fine")
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, other)

			resp := do[*kmsg.ProduceResponse](c, req)
			got := resp.Topics[0].Partitions
			require.Equal(t, test.want, got[0].ErrorCode, "%v", got[0].ErrorMessage)
			require.Equal(t, int64(-1), got[0].BaseOffset)
			require.Equal(t, int64(-1), got[0].LogAppendTime)
			if test.version >= 8 {
				require.NotEmpty(t, *got[0].ErrorMessage)
				require.Equal(t, int64(0), got[0].LogStartOffset)
			}
			require.Equal(t, codeNone, got[1].ErrorCode)
			require.Equal(t, int64(i), got[1].BaseOffset)
			require.Equal(t, int64(0), r.log(topic, 0).Offsets().LogEnd)
		})
	}
}

func futureBatch() []byte {
	b := batch.NewBuilder(batch.BuilderOptions{})
	b.Add(testTime, []byte("k"), []byte("long ago"))
	b.Add(time.Now().UnixMilli()+2*time.Hour.Milliseconds(), []byte("k"), []byte("in two hours"))
	built, _ := b.Build() // a builder that got valid records
	return built
}

func TestF49_RecordErrorsNameTheRecords(t *testing.T) {
	r := newRig(t)
	plain := r.topic("plain", 1, nil)
	compacted := r.topic("compacted", 1, map[string]string{"cleanup.policy": "compact"})
	c := r.dial()

	got := c.produce(plain, 0, futureBatch())
	require.Equal(t, codeInvalidTimestamp, got.ErrorCode)
	require.Len(t, got.ErrorRecords, 1)
	require.Equal(t, int32(1), got.ErrorRecords[0].RelativeOffset)

	b := batch.NewBuilder(batch.BuilderOptions{})
	b.Add(testTime, []byte("k"), []byte("v"))
	b.Add(testTime, nil, []byte("v"))
	built, err := b.Build()
	require.NoError(t, err)
	got = c.produce(compacted, 0, built)
	require.Equal(t, codeInvalidRecord, got.ErrorCode)
	require.Len(t, got.ErrorRecords, 1)
	require.Equal(t, int32(1), got.ErrorRecords[0].RelativeOffset)
	require.NotEmpty(t, *got.ErrorRecords[0].ErrorMessage)
}

func TestProduceChecksComeInKafkasOrder(t *testing.T) {
	transactional := batchOf(batch.BuilderOptions{HasProducer: true, ProducerID: 1, Transactional: true}, "x")
	tests := []struct {
		name    string
		change  func(*kmsg.ProduceRequest)
		version int16
		records []byte
		want    int16
	}{
		{"transactional without id, before all else", func(r *kmsg.ProduceRequest) {
			r.Topics[0].Topic, r.Topics[0].TopicID, r.Acks = "nowhere", TopicID{1}, 7
		}, 13, transactional, codeTransactionalIDAuthorization},
		{"unknown id before bad records", func(r *kmsg.ProduceRequest) { r.Topics[0].TopicID = TopicID{1} }, 13, nil, codeUnknownTopicID},
		{"F-67: zero id", func(r *kmsg.ProduceRequest) { r.Topics[0].TopicID = TopicID{} }, 13, records("x"), codeUnknownTopicID},
		{"unknown name before bad records", func(r *kmsg.ProduceRequest) { r.Topics[0].Topic = "nowhere" }, 12, nil, codeUnknownTopicOrPartition},
		{"unknown partition", func(r *kmsg.ProduceRequest) { r.Topics[0].Partitions[0].Partition = 9 }, 13, nil, codeUnknownTopicOrPartition},
		{"negative partition", func(r *kmsg.ProduceRequest) { r.Topics[0].Partitions[0].Partition = -1 }, 13, nil, codeUnknownTopicOrPartition},
		{"bad records before bad acks", func(r *kmsg.ProduceRequest) { r.Acks = 2 }, 13, nil, codeInvalidRecord},
		{"old format before bad acks", func(r *kmsg.ProduceRequest) { r.Acks = 2 }, 13, patched(records("x"), posMagic, 0), codeInvalidRecord},
		{"zstd before bad acks", func(r *kmsg.ProduceRequest) { r.Acks = 2 }, 6,
			batchOf(batch.BuilderOptions{Codec: batch.Zstd}, "x"), codeUnsupportedCompressionType},
		{"two batches before bad acks", func(r *kmsg.ProduceRequest) { r.Acks = 2 }, 13, append(records("x"), records("x")...), codeInvalidRecord},
		{"bad acks", func(r *kmsg.ProduceRequest) { r.Acks = 2 }, 13, records("x"), codeInvalidRequiredAcks},
		{"bad acks before a bad checksum", func(r *kmsg.ProduceRequest) { r.Acks = -2 }, 13, patched(records("x"), posChecksum, 9), codeInvalidRequiredAcks},
		{"transactional with id", func(r *kmsg.ProduceRequest) { r.TransactionID = kmsg.StringPtr("tx") }, 13, transactional, codeInvalidTxnState},
	}
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			req := produceTo(test.version, topic, 0, -1, test.records)
			test.change(req)
			resp := do[*kmsg.ProduceResponse](c, req)
			require.Equal(t, test.want, resp.Topics[0].Partitions[0].ErrorCode)
			require.Equal(t, req.Topics[0].Topic == "nowhere" && test.version < 13, resp.Topics[0].Topic == "nowhere")
			if test.version >= 13 {
				require.Equal(t, req.Topics[0].TopicID, resp.Topics[0].TopicID, "the id that was asked")
			}
			require.Equal(t, int64(0), r.log(topic, 0).Offsets().LogEnd)
		})
	}
}

func TestClientsDoNotWriteToInternalTopics(t *testing.T) {
	r := newRig(t)
	topic := r.topic("__consumer_offsets", 1, nil)
	c := r.dial()
	require.Equal(t, codeInvalidTopicException, c.produce(topic, 0, records("x")).ErrorCode)

	req := produceTo(13, topic, 0, -1, records("x"))
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID(adminClientID)).AppendRequest(nil, req, 1)
	_, err := c.conn.Write(frame)
	require.NoError(t, err)
	resp := c.receive(req, 1).(*kmsg.ProduceResponse)
	require.Equal(t, codeNone, resp.Topics[0].Partitions[0].ErrorCode)
}

func TestProduceNamesTheLeader(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	r.backend.setPartition("t", 0, Partition{Leader: testNode + 1, LeaderEpoch: 4})
	c := r.dial()
	got := c.produce(topic, 0, records("x"))
	require.Equal(t, codeNotLeaderOrFollower, got.ErrorCode)
	require.Equal(t, kmsg.ProduceResponseTopicPartitionCurrentLeader{LeaderID: testNode + 1, LeaderEpoch: 4}, got.CurrentLeader)

	// A log that was fenced under a node that the metadata still call the leader.
	r.backend.setPartition("t", 0, Partition{Leader: testNode, LeaderEpoch: 5})
	r.log(topic, 0).Fence()
	resp := do[*kmsg.ProduceResponse](c, produceTo(13, topic, 0, -1, records("x")))
	require.Equal(t, codeNotLeaderOrFollower, resp.Topics[0].Partitions[0].ErrorCode)
	require.Equal(t, []kmsg.ProduceResponseBroker{
		{NodeID: testNode, Host: "pipe.example", Port: 9092, Rack: kmsg.StringPtr("r1")},
	}, resp.Brokers)
}

func TestProducerSequences(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	steps := []struct {
		name     string
		epoch    int16
		sequence int32
		want     int16
		base     int64
	}{
		{"first", 0, 0, codeNone, 0},
		{"next", 0, 2, codeNone, 2},
		{"T14: duplicate gets the first offsets", 0, 0, codeNone, 0},
		{"gap", 0, 9, codeOutOfOrderSequenceNumber, -1},
		{"newer epoch not from 0", 1, 4, codeOutOfOrderSequenceNumber, -1},
		{"newer epoch", 1, 0, codeNone, 4},
		{"F-43: older epoch is 47, not a leader epoch error", 0, 4, codeInvalidProducerEpoch, -1},
	}
	for _, step := range steps {
		got := c.produce(topic, 0, idempotent(77, step.epoch, step.sequence, "a", "b"))
		require.Equal(t, step.want, got.ErrorCode, step.name)
		require.Equal(t, step.base, got.BaseOffset, step.name)
		require.Equal(t, int64(0), got.LogStartOffset, step.name)
	}
	require.Equal(t, int64(6), r.log(topic, 0).Offsets().LogEnd)
}

func TestF25_LogAppendTimeIsInTheAnswerAndInTheRecords(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
	c := r.dial()
	before := time.Now().UnixMilli()
	p := c.produce(topic, 0, records("x"))
	require.Equal(t, codeNone, p.ErrorCode)
	require.GreaterOrEqual(t, p.LogAppendTime, before)

	got := c.fetchOne(fetchFrom(13, topic, 0, 0))
	b, _, err := batch.Next(got.RecordBatches)
	require.NoError(t, err)
	require.NoError(t, b.VerifyCRC())
	require.True(t, b.Attributes().LogAppendTime())
	require.Equal(t, p.LogAppendTime, b.MaxTimestamp())
}

func TestT06_AcksZeroHasNoAnswer(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	c.send(produceTo(13, topic, 0, 0, records("a")))
	require.Equal(t, int64(1), c.mustProduce(topic, 0, records("b")), "the next answer is that of the next request")
}

func TestAcksZeroThatFailsClosesTheConnection(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	require.Equal(t, int64(0), c.mustProduce(topic, 0, records("a")))
	c.send(produceTo(13, topic, 0, 0, nil))
	c.requireClosed()
	closed := r.events.closing(t, 1)
	require.Equal(t, ClosedFailedProduce, closed.Reason)
	require.ErrorContains(t, closed.Err, "record batch")
}

func TestF12_ADuplicateWaitsForTheFirstCopyToBeDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newHeldDisk(memfs.New())
		r := newRigOn(t, disk)
		topic := r.topic("t", 1, nil)
		first, second := r.dial(), r.dial()

		disk.hold()
		batch := idempotent(5, 0, 0, "once")
		first.send(produceTo(13, topic, 0, -1, batch))
		synctest.Wait()
		require.NoError(t, first.conn.Close()) // the producer loses its connection and tries again

		req := produceTo(13, topic, 0, -1, batch)
		answered := make(chan kmsg.Response)
		go func() { answered <- do[*kmsg.ProduceResponse](second, req) }()
		synctest.Wait()
		select {
		case got := <-answered:
			t.Fatalf("the duplicate was answered before its records were durable: %+v", got)
		default:
		}
		require.Equal(t, int64(0), r.log(topic, 0).Offsets().HighWatermark)

		disk.release()
		got := (<-answered).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		require.Equal(t, codeNone, got.ErrorCode)
		require.Equal(t, int64(0), got.BaseOffset)
		require.Equal(t, int64(1), r.log(topic, 0).Offsets().HighWatermark, "the record is there once")
		r.stop()
	})
}

func TestAProduceThatWaitsForItsFlushDoesNotHoldUpTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newHeldDisk(memfs.New())
		r := newRigOn(t, disk)
		topic := r.topic("t", 1, nil)
		c := r.dial()
		disk.hold()
		req := produceTo(13, topic, 0, -1, records("x"))
		var sent []int32
		for range 5 {
			sent = append(sent, c.send(req))
		}
		synctest.Wait()
		require.Equal(t, int64(5), r.log(topic, 0).Offsets().LogEnd, "all are appended")
		require.Equal(t, int64(0), r.log(topic, 0).Offsets().HighWatermark)
		disk.release()
		for i, correlation := range sent {
			got := c.receive(req, correlation).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
			require.Equal(t, int64(i), got.BaseOffset, "in order")
		}
		r.stop()
	})
}

func TestAProduceThatIsNotDurableInTimeSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newHeldDisk(memfs.New())
		r := newRigOn(t, disk)
		topic := r.topic("t", 1, nil)
		c := r.dial()
		disk.hold()
		req := produceTo(13, topic, 0, -1, records("x"))
		req.TimeoutMillis = 5000
		start := time.Now()
		got := do[*kmsg.ProduceResponse](c, req).Topics[0].Partitions[0]
		require.Equal(t, codeRequestTimedOut, got.ErrorCode)
		require.Equal(t, int64(-1), got.BaseOffset)
		require.Equal(t, 5*time.Second, time.Since(start))

		req.TimeoutMillis = 0
		start = time.Now()
		require.Equal(t, codeRequestTimedOut, do[*kmsg.ProduceResponse](c, req).Topics[0].Partitions[0].ErrorCode)
		require.Equal(t, leastProduceTimeout, time.Since(start))
		disk.release()
		r.stop()
	})
}

func TestProduceToADeletedTopic(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	log := r.log(topic, 0)
	require.NoError(t, r.backend.DeleteTopics(context.Background(), []TopicID{topic.ID})[0])
	c := r.dial()
	require.Equal(t, codeUnknownTopicID, c.produce(topic, 0, records("x")).ErrorCode)
	resp := do[*kmsg.ProduceResponse](c, produceTo(12, topic, 0, -1, records("x")))
	require.Equal(t, codeUnknownTopicOrPartition, resp.Topics[0].Partitions[0].ErrorCode)

	// A request that had found the log before it was deleted.
	_, err := log.Append(context.Background(), records("x"), partition.AppendOptions{})
	require.Equal(t, codeUnknownTopicID, codeByTopic(err, true))
	require.Equal(t, codeUnknownTopicOrPartition, codeByTopic(err, false))
}

func TestAProduceThatTheLogDoesNotTakeInTimeSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newHeldDisk(memfs.New())
		r := newRigOn(t, disk)
		topic := r.topic("t", 1, map[string]string{"tidemark.flush": "every"})
		first, second := r.dial(), r.dial()
		disk.hold()
		held := produceTo(13, topic, 0, -1, records("held"))
		correlation := first.send(held)
		synctest.Wait()

		req := produceTo(13, topic, 0, -1, records("finds no room"))
		req.TimeoutMillis = 5000
		start := time.Now()
		got := do[*kmsg.ProduceResponse](second, req).Topics[0].Partitions[0]
		require.Equal(t, codeRequestTimedOut, got.ErrorCode)
		require.Equal(t, 5*time.Second, time.Since(start))
		require.Equal(t, int64(1), r.log(topic, 0).Offsets().LogEnd, "it is not there")

		disk.release()
		require.Equal(t, codeNone, first.receive(held, correlation).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
		r.stop()
	})
}

func TestF43_AFailedFlushIsAStorageErrorOfItsPartitionOnly(t *testing.T) {
	disk := newHeldDisk(memfs.New())
	r := newRigOn(t, disk)
	topic, other := r.topic("t", 1, nil), r.topic("other", 1, nil)
	c := r.dial()
	disk.fail(errors.New("the disk is gone"))
	for range 2 { // the failure is final
		got := c.produce(topic, 0, records("x"))
		require.Equal(t, codeKafkaStorageError, got.ErrorCode)
		require.Equal(t, int64(-1), got.BaseOffset)
		require.NotEmpty(t, *got.ErrorMessage)
	}
	disk.fail(nil)
	require.Equal(t, codeKafkaStorageError, c.produce(topic, 0, records("x")).ErrorCode)
	require.Equal(t, int64(0), c.mustProduce(other, 0, records("x")))
	require.Empty(t, c.fetchOne(fetchFrom(18, topic, 0, 0)).RecordBatches, "what is not durable is not visible")
}

func TestF68_EveryCodecIntoACompactedTopicAndOutAgain(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, map[string]string{"cleanup.policy": "compact"}) // records are inspected
	c := r.dial()
	var want []string
	for codec := batch.None; codec <= batch.Zstd; codec++ {
		value := strings.Repeat(codec.String(), 300)
		want = append(want, value)
		sent := batchOf(batch.BuilderOptions{Codec: codec}, value)
		c.mustProduce(topic, 0, bytes.Clone(sent))

		got := c.fetchOne(fetchFrom(18, topic, 0, int64(codec)))
		require.Equal(t, sent[posAttributes:], got.RecordBatches[posAttributes:], "T18: stored and served as it was sent")

		if codec != batch.None {
			broken := patched(bytes.Clone(sent), len(sent)/2+20, 0xFF, 0xFE, 0xFD, 0xFC)
			require.Contains(t, []int16{codeInvalidRecord, codeCorruptMessage}, c.produce(topic, 0, broken).ErrorCode, codec.String())
		}
	}
	require.Equal(t, want, values(t, c.fetchOne(fetchFrom(18, topic, 0, 0)).RecordBatches))
}
