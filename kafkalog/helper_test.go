package kafkalog

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testDir = "data/orders-0"

// epochMs is where the clock of a test stands at first: 2023-11-14T22:13:20Z.
const epochMs int64 = 1_700_000_000_000

// bench is a place to open logs in: a file system, a clock that only the test moves, and the events so far.
type bench struct {
	t   require.TestingT
	fs  vfs.FS
	env *Env
	ms  atomic.Int64

	mu     sync.Mutex
	events []any
}

// newBench returns a bench on an empty file system in memory. Every log that is still open when the test ends is checked.
func newBench(t testing.TB) *bench { return newBenchOn(t, memfs.New()) }

func newBenchOn(t testing.TB, fsys vfs.FS) *bench {
	b := makeBench(t, fsys)
	t.Cleanup(func() {
		b.checkAll()
		require.NoError(t, b.env.Close())
	})
	return b
}

// makeBench is newBenchOn for those who close it themselves.
func makeBench(t require.TestingT, fsys vfs.FS) *bench {
	b := &bench{t: t, fs: fsys}
	b.ms.Store(epochMs)
	b.env = NewEnv(EnvOptions{FS: fsys, Now: b.now, Events: b.collector(), Jitter: func(int64) int64 { return 0 }})
	return b
}

func (b *bench) now() time.Time { return time.UnixMilli(b.ms.Load()) }

func (b *bench) advance(d time.Duration) time.Time {
	b.ms.Add(d.Milliseconds())
	return b.now()
}

func (b *bench) note(e any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, e)
}

func (b *bench) collector() Events {
	return Events{
		PartialBatch: func(e PartialBatchEvent) { b.note(e) },
		DamagedBatch: func(e DamagedBatchEvent) { b.note(e) },
		Split:        func(e SplitEvent) { b.note(e) },
		LogEndBehind: func(e LogEndBehindEvent) { b.note(e) },
		Failed:       func(e FailedEvent) { b.note(e) },
		CloseFailed:  func(e FailedEvent) { b.note(e) },
		RollFlushed: func(e RollFlushedEvent) {
			if e.Err != nil {
				b.note(e)
			}
		},
		FutureTimestamp: func(e FutureTimestampEvent) { b.note(e) },
	}
}

// eventsOf returns the events of one type so far.
func eventsOf[E any](b *bench) []E {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []E
	for _, e := range b.events {
		if e, ok := e.(E); ok {
			found = append(found, e)
		}
	}
	return found
}

func (b *bench) checkAll() {
	b.env.mu.Lock()
	var logs []*Log
	for l := range b.env.mu.logs {
		logs = append(logs, l)
	}
	b.env.mu.Unlock()
	for _, l := range logs {
		require.Empty(b.t, l.Check(), "%s", l)
	}
}

// open opens the log of the test.
func (b *bench) open(o Options) *Log {
	l, err := Open(b.env, testDir, o)
	require.NoError(b.t, err)
	return l
}

// reopen closes the log after a sync, as a clean stop does, and opens it again.
func (b *bench) reopen(l *Log, o Options) *Log {
	require.NoError(b.t, l.Sync())
	require.NoError(b.t, l.Close())
	o.Clean, o.RecoveryPoint = true, l.RecoveryPoint()
	return b.open(o)
}

// smallSegments is a configuration in which everything happens often.
func smallSegments() Config {
	c := DefaultConfig()
	c.SegmentBytes = 600
	c.IndexIntervalBytes = 100
	c.RetentionMs = -1
	c.FileDeleteDelayMs = 1000
	return c
}

// data describes a batch of a test.
type data struct {
	records  int
	size     int   // bytes of each value
	ts       int64 // of the first record; each following one is 1 ms later
	codec    batch.Codec
	producer int64 // 0 is none
	epoch    int16
	sequence int32
	txn      bool
	seed     int
}

func (d data) build(t require.TestingT) batch.Batch {
	if d.records == 0 {
		d.records = 1
	}
	if d.ts == 0 {
		d.ts = epochMs
	}
	b := batch.NewBuilder(batch.BuilderOptions{
		Codec: d.codec, LeaderEpoch: -1, HasProducer: d.producer > 0, ProducerID: d.producer, ProducerEpoch: d.epoch,
		BaseSequence: d.sequence, Transactional: d.txn,
	})
	value := make([]byte, d.size)
	for i := range value {
		value[i] = byte(i*7 + d.seed)
	}
	for i := range d.records {
		b.Add(d.ts+int64(i), fmt.Appendf(nil, "key-%d-%d", d.seed, i), value)
	}
	built, err := b.Build()
	require.NoError(t, err)
	return built
}

// marker returns the batch that ends a transaction.
func marker(producer int64, epoch int16, commit bool) batch.Batch {
	return batch.EndMarker(batch.EndMarkerOptions{
		LeaderEpoch: -1, ProducerID: producer, ProducerEpoch: epoch, Commit: commit, Timestamp: epochMs,
	})
}

// mustAppend appends as a client without an epoch and returns the base offset.
func mustAppend(t require.TestingT, l *Log, d data) int64 {
	a, err := l.Append(d.build(t), AppendOptions{LeaderEpoch: -1})
	require.NoError(t, err)
	return a.BaseOffset
}

// fill appends n batches of two records.
func fill(t require.TestingT, l *Log, n int) {
	for i := range n {
		mustAppend(t, l, data{records: 2, size: 40, ts: epochMs + int64(10*i), seed: i})
	}
}

// allBytes returns everything from the log start on.
func allBytes(t require.TestingT, l *Log) []byte {
	r, err := l.ReadRaw(l.LogStart(), l.LogEnd(), 1<<30)
	require.NoError(t, err)
	return r.Bytes
}

// baseOffsets returns the base offsets of the batches in some bytes.
func baseOffsets(t require.TestingT, data []byte) []int64 {
	offsets := []int64{}
	for len(data) > 0 {
		b, rest, err := batch.Next(data)
		require.NoError(t, err)
		offsets = append(offsets, b.BaseOffset())
		data = rest
	}
	return offsets
}
