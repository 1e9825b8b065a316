package runner_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/coordinator"
	"github.com/tidemark-io/tidemark/coordinator/runner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memLog is a log in memory that is durable when it is told so.
type memLog struct {
	mu       sync.Mutex
	entries  []runner.Entry // by offset, from start
	start    int64
	durable  int64 // offsets below survive a crash
	held     bool  // syncs wait for release
	flying   []*memAppend
	refuse   error         // of appends
	broken   error         // of syncs
	gate     chan struct{} // replay waits for it, if not nil
	replayed int
	batches  int
	max      int
	maxCarry int // what Carry takes; 0 is everything
}

type memAppend struct {
	end  int64
	done chan struct{}
	err  error
}

func (a *memAppend) Done() <-chan struct{} { return a.done }

func (a *memAppend) Err() error { return a.err }

func newMemLog() *memLog { return &memLog{max: 1 << 20} }

func (l *memLog) Replay(ctx context.Context, visit func(runner.Entry) error) error {
	if l.gate != nil {
		select {
		case <-l.gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	l.mu.Lock()
	entries := slices.Clone(l.entries[:l.durable-l.start])
	l.replayed = len(entries)
	l.mu.Unlock()
	for _, e := range entries {
		if err := visit(e); err != nil {
			return err
		}
	}
	return nil
}

func (l *memLog) Append(_ context.Context, _ int64, records []runner.KeyValue) (runner.Pending, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return nil, l.refuse
	}
	l.batches++
	for _, r := range records {
		l.entries = append(l.entries, runner.Entry{Offset: l.endLocked(), Key: r.Key, Value: r.Value, ProducerID: -1})
	}
	a := &memAppend{end: l.endLocked(), done: make(chan struct{})}
	l.flying = append(l.flying, a)
	if !l.held {
		l.landLocked()
	}
	return a, nil
}

func (l *memLog) Carry(ctx context.Context, ms int64, record runner.KeyValue) (runner.Pending, error) {
	if l.maxCarry > 0 && len(record.Value) > l.maxCarry {
		return nil, coordinator.ErrRecordTooLarge
	}
	return l.Append(ctx, ms, []runner.KeyValue{record})
}

// landLocked makes everything durable, or fails.
func (l *memLog) landLocked() {
	if l.broken == nil {
		l.durable = l.endLocked()
	}
	for _, a := range l.flying {
		a.err = l.broken
		close(a.done)
	}
	l.flying = nil
}

// hold keeps appends from becoming durable.
func (l *memLog) hold() { l.set(func() { l.held = true }) }

// release makes what was appended durable, once.
func (l *memLog) release() { l.set(l.landLocked) }

func (l *memLog) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func (l *memLog) endLocked() int64 { return l.start + int64(len(l.entries)) }

func (l *memLog) MaxBatchBytes() int { return l.max }

func (l *memLog) Empty() bool { return l.End() == l.start }

func (l *memLog) End() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.endLocked()
}

func (l *memLog) Trim(offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if offset > l.durable {
		return errors.New("not durable")
	}
	l.entries = slices.Clone(l.entries[offset-l.start:])
	l.start = offset
	return nil
}

// crash is what the log is after a power cut.
func (l *memLog) crash() *memLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &memLog{entries: slices.Clone(l.entries[:l.durable-l.start]), start: l.start, durable: l.durable, max: l.max, maxCarry: l.maxCarry}
}

// rig is a runner over logs in memory.
type rig struct {
	t      testing.TB
	runner *runner.Runner
	logs   []*memLog
	events *recorder
}

type recorder struct {
	mu      sync.Mutex
	loaded  []runner.Loaded
	failed  []runner.LoadFailed
	skipped []runner.Skipped
	ended   []runner.Ended
	checked []runner.Checkpointed
}

func record[T any](r *recorder, list *[]T) func(T) {
	return func(e T) {
		r.mu.Lock()
		defer r.mu.Unlock()
		*list = append(*list, e)
	}
}

func newRig(t testing.TB, logs []*memLog, set ...func(*runner.Options)) *rig {
	r := &rig{t: t, logs: logs, events: &recorder{}}
	o := runner.Options{
		Partitions: func() int32 { return int32(len(r.logs)) },
		Open:       func(p int32) (runner.Log, error) { return r.logs[p], nil },
		Events: runner.Events{
			Loaded: record(r.events, &r.events.loaded), LoadFailed: record(r.events, &r.events.failed),
			Skipped: record(r.events, &r.events.skipped), Ended: record(r.events, &r.events.ended),
			Checkpointed: record(r.events, &r.events.checked),
		},
	}
	for _, f := range set {
		f(&o)
	}
	r.runner = runner.New(o)
	t.Cleanup(r.close)
	return r
}

func (r *rig) close() {
	for _, l := range r.logs {
		l.set(func() { l.held = false; l.landLocked() })
	}
	require.NoError(r.t, r.runner.Close(context.Background()))
}

// wait waits for the answer to a call.
func wait[A coordinator.Answer](t testing.TB, c *runner.Call) A {
	t.Helper()
	<-c.Done()
	a, ok := c.Answer().(A)
	require.True(t, ok, "%T", c.Answer())
	return a
}

func open(c *runner.Call) bool {
	select {
	case <-c.Done():
		return false
	default:
		return true
	}
}

func commitOf(group string, partition int32, offset int64) *coordinator.Commit {
	return &coordinator.Commit{Group: group, Generation: -1, RetentionMs: -1, Offsets: []coordinator.CommittedOffset{
		{Topic: "t", Partition: partition, Offset: offset, LeaderEpoch: -1},
	}}
}

func fetchOf(group string, partition int32) *coordinator.Fetch {
	return &coordinator.Fetch{Group: group, Topics: []coordinator.FetchTopic{{Topic: "t", Partitions: []int32{partition}}}}
}

// fetched is the offset that a fetch was answered with.
func fetched(t testing.TB, c *runner.Call) int64 {
	t.Helper()
	a := wait[*coordinator.FetchAnswer](t, c)
	require.NoError(t, a.Err)
	return a.Topics[0].Partitions[0].Offset
}

// commit commits and returns what is wrong with all of it.
func (r *rig) commit(group string, partition int32, offset int64) error {
	return wait[*coordinator.CommitAnswer](r.t, r.runner.Submit(commitOf(group, partition, offset))).Err
}

// ready waits until the shard of a group takes requests.
func (r *rig) ready(group string) {
	for errors.Is(wait[*coordinator.Description](r.t, r.runner.Submit(&coordinator.Describe{Group: group})).Err, coordinator.ErrLoading) {
	}
}
