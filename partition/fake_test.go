package partition

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/topicconfig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeStore is a log that keeps nothing but its end. A test can hold its syncs and fail them.
type fakeStore struct {
	mu        sync.Mutex
	start     int64
	end       int64
	durable   int64
	stable    int64 // last stable offset; -1: none
	size      int64
	syncs     []int64 // what each sync made durable
	syncing   int     // syncs that run
	most      int     // syncs that ran at the same time
	sequences map[int64]kafkalog.Appended
	fenced    bool
	closed    int
	calls     []string // maintenance
	producers int
	delay     time.Duration // MaintenanceDelay; negative: none
	upkeepErr error

	entered chan struct{} // receives at the start of each sync, if not nil
	held    chan error    // each sync waits for a value, and fails with it, if not nil
	failing error         // every append fails with it
	final   error         // what it says of itself after that
	pool    *syncGauge    // shared by stores whose syncs are counted together
}

// syncGauge counts syncs of several stores that run at the same time.
type syncGauge struct {
	mu            sync.Mutex
	running, most int
}

func (g *syncGauge) change(n int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running += n
	g.most = max(g.most, g.running)
}

func newFakeStore() *fakeStore {
	return &fakeStore{stable: -1, delay: -1, sequences: map[int64]kafkalog.Appended{}}
}

func (f *fakeStore) Append(b batch.Batch, _ kafkalog.AppendOptions) (kafkalog.Appended, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failing != nil {
		return kafkalog.Appended{}, f.failing
	}
	key := b.ProducerID()<<32 | int64(b.BaseSequence())
	if before, ok := f.sequences[key]; ok && b.ProducerID() >= 0 {
		before.Duplicate = true
		return before, nil
	}
	done := kafkalog.Appended{BaseOffset: f.end, LastOffset: f.end + int64(b.Count()) - 1, AppendTime: -1}
	f.sequences[key] = done
	f.end += int64(b.Count())
	f.size += int64(len(b))
	return done, nil
}

func (f *fakeStore) Failed() error { return f.final }

func (f *fakeStore) SyncTo() (int64, error) {
	f.mu.Lock()
	end := f.end
	f.syncing++
	f.most = max(f.most, f.syncing)
	entered, held := f.entered, f.held
	f.mu.Unlock()
	f.pool.change(1)
	defer f.pool.change(-1)

	var err error
	if entered != nil {
		entered <- struct{}{}
	}
	if held != nil {
		err = <-held
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.syncing--
	if err != nil {
		return 0, err
	}
	f.durable = max(f.durable, end)
	f.syncs = append(f.syncs, end)
	return end, nil
}

func (f *fakeStore) Sync() error {
	_, err := f.SyncTo()
	return err
}

func (f *fakeStore) LastStable(hw int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stable >= 0 {
		return min(f.stable, hw)
	}
	return hw
}

func (f *fakeStore) note(call string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
}

func (f *fakeStore) noted() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

func (f *fakeStore) synced() []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]int64(nil), f.syncs...)
}

func (f *fakeStore) get(field *int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *field
}

func (f *fakeStore) LogStart() int64         { return f.get(&f.start) }
func (f *fakeStore) LocalLogStart() int64    { return f.get(&f.start) }
func (f *fakeStore) FirstSegmentBase() int64 { return 0 }
func (f *fakeStore) LogEnd() int64           { return f.get(&f.end) }
func (f *fakeStore) Size() int64             { return f.get(&f.size) }

func (f *fakeStore) TrimTo(offset int64) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.start = max(f.start, offset)
	return f.start, nil
}

func (f *fakeStore) Tick(time.Time, int64) error {
	f.note("tick")
	return nil
}

func (f *fakeStore) Maintain(time.Time) error {
	f.note("maintain")
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.upkeepErr == nil {
		f.delay = -1
	}
	return f.upkeepErr
}

func (f *fakeStore) MaintenanceDelay(time.Time) (time.Duration, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(f.delay, 0), f.delay >= 0
}

func (f *fakeStore) RemoveExpiredProducers(time.Time, time.Duration) { f.note("expire") }

func (f *fakeStore) ActiveProducers() []kafkalog.ActiveProducer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return make([]kafkalog.ActiveProducer, f.producers)
}

func (f *fakeStore) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed++
	return nil
}

func (f *fakeStore) Fence() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fenced = true
}

var errUnused = errors.New("the fake does not do this")

func (f *fakeStore) UnsyncedTail() (kafkalog.Tail, bool)                      { return kafkalog.Tail{}, false }
func (f *fakeStore) SetConfig(kafkalog.Config)                                {}
func (f *fakeStore) AssignEpoch(int32, int64) error                           { return nil }
func (f *fakeStore) EpochForOffset(int64) (int32, bool)                       { return 0, true }
func (f *fakeStore) EndOffsetForEpoch(e int32) (int32, int64)                 { return e, f.LogEnd() }
func (f *fakeStore) RecoveryPoint() int64                                     { return f.get(&f.durable) }
func (f *fakeStore) ReadRegions(_, _ int64, _ int) (*kafkalog.Regions, error) { return nil, errUnused }
func (f *fakeStore) MaxTimestampOffset() (kafkalog.TimestampOffset, bool, error) {
	return kafkalog.TimestampOffset{}, false, errUnused
}
func (f *fakeStore) OffsetForTimestampChecked(int64) (kafkalog.TimestampOffset, bool, error) {
	return kafkalog.TimestampOffset{}, false, errUnused
}
func (f *fakeStore) AbortedInRange(int64, int64) ([]kafkalog.AbortedTxn, error) {
	return nil, errUnused
}

// bench is a flusher, a maintainer and logs over fake stores, all closed when the test ends.
type bench struct {
	t          *testing.T
	flusher    *Flusher
	maintainer *Maintainer
	events     Events
	logs       []*Log
}

func newBench(t *testing.T, o FlusherOptions) *bench {
	return &bench{t: t, flusher: NewFlusher(o), maintainer: NewMaintainer(MaintainerOptions{})}
}

func (b *bench) log(f *fakeStore, settings map[string]string) *Log { return b.logOf(f, settings) }

func (b *bench) logOf(f store, settings map[string]string) *Log {
	b.t.Helper()
	o := Options{
		Flusher: b.flusher, Maintainer: b.maintainer, Now: time.Now,
		Topic: "orders", Index: int32(len(b.logs)), Dir: "orders-0", Events: b.events,
	}
	l := newLog(o, f, newSettings(newSettingsOf(b.t, settings)))
	require.NoError(b.t, l.start(0, true))
	b.logs = append(b.logs, l)
	return l
}

func newSettingsOf(t *testing.T, settings map[string]string) topicconfig.Config {
	t.Helper()
	c, err := topicconfig.Parse(settings)
	require.NoError(t, err)
	return c
}

func (b *bench) close() {
	for _, l := range b.logs {
		_ = l.Close()
	}
	b.maintainer.Close()
	b.flusher.Close()
}

// records is a batch of n records as a producer sends it.
func records(t testing.TB, n int) []byte { return produced(t, n, -1, 0) }

func produced(t testing.TB, n int, producer int64, sequence int32) []byte {
	t.Helper()
	builder := batch.NewBuilder(batch.BuilderOptions{
		HasProducer: producer >= 0, ProducerID: producer, BaseSequence: sequence,
	})
	for range n {
		builder.Add(time.Now().UnixMilli(), nil, []byte("value"))
	}
	built, err := builder.Build()
	require.NoError(t, err)
	return bytes.Clone(built)
}

func isDone(a *Append) bool {
	select {
	case <-a.Done():
		return true
	default:
		return false
	}
}
