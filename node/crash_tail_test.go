package node_test

import (
	"bytes"
	"crypto/rand"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/node/nodetest"
	"github.com/tidemark-io/tidemark/vfs"
)

// The files of a log whose directory holds one segment.
const (
	ordersLog   = "data/orders-0/00000000000000000000.log"
	ordersIndex = "data/orders-0/00000000000000000000.index"
)

func TestF03_ATornLastBatchIsCutAndSaidAndNothingElseHappens(t *testing.T) {
	m := machine(t)
	var log said
	m.Config.Log = slog.New(slog.NewTextHandler(&log, nil))
	m.Start()
	c := client(t, m)
	createTopic(t, c, 1, map[string]string{"index.interval.bytes": "0"}, "orders")
	var ends []int // of the batches in the file
	for range 4 {
		produce(t, c, "orders", 0, "value")
		info, err := m.FS.Stat(ordersLog)
		require.NoError(t, err)
		ends = append(ends, int(info.Size()))
	}
	m.CutPower(nodetest.Cut{Keep: 1})
	// The checkpoints are those of a start: nothing says yet that the records were flushed.
	left := m.FS
	for size := ends[3] - 1; size >= 0; size-- {
		if size > 0 && size < ends[2] && size%17 != 0 {
			continue // every byte of the last batch, some of the others, and none
		}
		m.FS = left.CrashClean()
		f, err := m.FS.Open(ordersLog, vfs.ReadWrite)
		require.NoError(t, err)
		require.NoError(t, f.Truncate(int64(size)))
		require.NoError(t, f.Close())
		log.reset()
		m.Start()
		whole, torn := int64(0), size
		for _, end := range ends {
			if end <= size {
				whole++
				torn = size - end
			}
		}
		require.Len(t, consume(t, m, "orders"), int(whole), "%d bytes", size)
		require.Equal(t, position{"orders", 0, whole}, produce(t, c, "orders", 0, "next"), "%d bytes", size)
		if torn > 0 {
			require.Len(t, linesWith(log.String(), "recovery cut the torn end of a log"), 1, "%d bytes: %s", size, log.String())
		}
		m.Stop() // and the machine's end checks the indexes against the log
		checkLogs(t, m)
	}
	m.Start()
	incompressible := make([]byte, 128<<10) // more than a log holds without an index
	_, _ = rand.Read(incompressible)
	produce(t, c, "orders", 0, string(incompressible))
	m.Stop()
	checkLogs(t, m)
	require.True(t, exists(m.FS, ordersIndex))
}

func (s *said) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Reset()
}

func linesWith(text, part string) (lines []string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			lines = append(lines, line)
		}
	}
	return lines
}

// fetchRaw returns the batches of partition 0 as they come over the wire.
func fetchRaw(t *testing.T, m *nodetest.Machine, topic string) []byte {
	t.Helper()
	c := client(t, m)
	created := kmsg.NewPtrMetadataRequest()
	about := kmsg.NewMetadataRequestTopic()
	about.Topic = kmsg.StringPtr(topic)
	created.Topics = append(created.Topics, about)
	meta, err := created.RequestWith(within(t), c)
	require.NoError(t, err)
	fetch := kmsg.NewPtrFetchRequest()
	fetch.MaxBytes = 1 << 20
	from := kmsg.NewFetchRequestTopic()
	from.Topic, from.TopicID = topic, meta.Topics[0].TopicID
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.PartitionMaxBytes = 1 << 20
	from.Partitions = append(from.Partitions, partition)
	fetch.Topics = append(fetch.Topics, from)
	got, err := fetch.RequestWith(within(t), c)
	require.NoError(t, err)
	require.Zero(t, got.Topics[0].Partitions[0].ErrorCode)
	return bytes.Clone(got.Topics[0].Partitions[0].RecordBatches)
}

func TestF25_AppendTimesAndTheirChecksumsAreTheSameAfterARestart(t *testing.T) {
	m := machine(t)
	m.Start()
	c := client(t, m)
	createTopic(t, c, 1, map[string]string{"message.timestamp.type": "LogAppendTime"}, "orders")
	began := time.Now().Add(-time.Second)
	old := time.UnixMilli(1_000_000_000_000)
	for range 3 {
		r := &kgo.Record{Topic: "orders", Value: []byte("value"), Timestamp: old}
		require.NoError(t, c.ProduceSync(within(t), r).FirstErr())
	}
	before := fetchRaw(t, m, "orders")
	batches := 0
	for rest := before; len(rest) > 0; batches++ {
		var b batch.Batch
		var err error
		b, rest, err = batch.Next(rest)
		require.NoError(t, err)
		require.NoError(t, b.VerifyCRC())
		require.True(t, b.Attributes().LogAppendTime())
		require.GreaterOrEqual(t, b.MaxTimestamp(), began.UnixMilli())
	}
	require.Equal(t, 3, batches)
	m.Stop()
	m.Start()
	require.Equal(t, before, fetchRaw(t, m, "orders"), "after a stop in order")
	m.CutPower(nodetest.Cut{Seed: 1})
	m.Start()
	require.Equal(t, before, fetchRaw(t, m, "orders"), "after a power cut")
}
