package meta_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/metatest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var background = context.Background()

func put(key, value string) meta.Command { return meta.PutKv{Key: key, Value: []byte(value)} }

// open returns a log on a backend; both are closed when the test ends.
func open(t *testing.T, b meta.Backend, o meta.Options) *meta.Log {
	t.Helper()
	l, err := meta.Open(background, b, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = l.Close()
		_ = b.Close()
	})
	return l
}

// gated is a backend whose appends wait until they are let through one by one.
type gated struct {
	meta.Backend
	arrived chan int      // receives the size of each append
	let     chan struct{} // lets one through
}

func newGated(b meta.Backend) *gated {
	return &gated{Backend: b, arrived: make(chan int), let: make(chan struct{})}
}

func (g *gated) Append(ctx context.Context, index uint64, entry []byte) error {
	select {
	case g.arrived <- len(entry):
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-g.let:
		return g.Backend.Append(ctx, index, entry)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// recorder keeps what a log reports.
type recorder struct {
	mu      sync.Mutex
	applied []meta.AppliedEvent
	snaps   []meta.SnapshotEvent
	retries []meta.RetryEvent
	stopped []error
	fell    []meta.FallbackEvent
}

func (r *recorder) events() meta.Events {
	return meta.Events{
		Applied:     func(e meta.AppliedEvent) { r.mu.Lock(); defer r.mu.Unlock(); r.applied = append(r.applied, e) },
		Snapshotted: func(e meta.SnapshotEvent) { r.mu.Lock(); defer r.mu.Unlock(); r.snaps = append(r.snaps, e) },
		Retrying:    func(e meta.RetryEvent) { r.mu.Lock(); defer r.mu.Unlock(); r.retries = append(r.retries, e) },
		FellBack:    func(e meta.FallbackEvent) { r.mu.Lock(); defer r.mu.Unlock(); r.fell = append(r.fell, e) },
		Stopped:     func(err error) { r.mu.Lock(); defer r.mu.Unlock(); r.stopped = append(r.stopped, err) },
	}
}

func TestMP3_ACallerReadsItsOwnWrites(t *testing.T) {
	l := open(t, metatest.NewMemory("c").Join(), meta.Options{})
	require.Equal(t, "c", l.ClusterID())
	before := l.View()
	r, err := l.Do(background, put("k", "v"))
	require.NoError(t, err)
	require.Equal(t, meta.Result{Value: []byte("v"), Version: 1}, r)
	v, ok := l.View().Get("k")
	require.True(t, ok)
	require.Equal(t, meta.KV{Value: []byte("v"), Version: 1}, v)
	_, ok = before.Get("k")
	require.False(t, ok, "an older view changed")

	_, err = l.Do(background, put("", "v"))
	require.ErrorIs(t, err, meta.InvalidArgument)
	results, err := l.Propose(background)
	require.NoError(t, err)
	require.Empty(t, results)
}

func TestMP1_CommandsThatWaitShareAnEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(metatest.NewMemory("c").Join())
		var rec recorder
		l := open(t, g, meta.Options{Events: rec.events()})
		var callers sync.WaitGroup
		propose := func(n int) {
			callers.Go(func() {
				commands := make([]meta.Command, n)
				for i := range commands {
					commands[i] = put(fmt.Sprint(n, "/", i), "v")
				}
				results, err := l.Propose(background, commands...)
				require.NoError(t, err)
				require.Len(t, results, n)
			})
		}
		propose(1)
		<-g.arrived // the first is on its way alone; the others wait for it
		for range 50 {
			propose(3)
		}
		propose(200)
		synctest.Wait()
		var entries int
		for done := false; !done; entries++ {
			g.let <- struct{}{}
			synctest.Wait()
			select {
			case <-g.arrived:
			default:
				done = true
			}
		}
		callers.Wait()
		require.NoError(t, l.Close())
		var commands []int
		for _, e := range rec.applied {
			require.True(t, e.Own)
			commands = append(commands, e.Commands)
		}
		require.Equal(t, []int{1, 256, 94}, commands)
	})
}

func TestML2_WhatDoesNotFitIsSplitBetweenCommandsAndKeepsItsOrder(t *testing.T) {
	var rec recorder
	l := open(t, metatest.NewMemory("c").Join(), meta.Options{MaxEntryBytes: 200, Events: rec.events()})
	var commands []meta.Command
	for i := range 300 {
		commands = append(commands, put("last", fmt.Sprint(i)))
	}
	results, err := l.Propose(background, commands...)
	require.NoError(t, err)
	for i, r := range results {
		require.Equal(t, meta.Result{Value: fmt.Append(nil, i), Version: uint64(i + 1)}, r)
	}
	index := l.View().Index()
	_, err = l.Propose(background, put("k", "v"), put("k", string(make([]byte, 200))))
	require.ErrorIs(t, err, meta.ErrTooLarge)
	_, err = l.Propose(background, put("\xff", "v"))
	require.ErrorContains(t, err, "UTF-8")
	require.Equal(t, index, l.View().Index(), "nothing was proposed")

	require.NoError(t, l.Close())
	require.Greater(t, len(rec.applied), 2)
	for _, e := range rec.applied {
		require.LessOrEqual(t, e.Bytes, 200)
	}
}

func TestACallerThatGoesAwayInTimeProposesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(metatest.NewMemory("c").Join())
		l := open(t, g, meta.Options{})
		ctx, cancel := context.WithCancel(background)
		errs := make(chan error, 2)
		go func() { _, err := l.Propose(ctx, put("taken", "v")); errs <- err }()
		<-g.arrived
		go func() { _, err := l.Propose(ctx, put("waiting", "v")); errs <- err }()
		synctest.Wait()
		cancel()
		unknown := 0
		for range 2 {
			err := <-errs
			require.ErrorIs(t, err, context.Canceled)
			if errors.Is(err, meta.ErrOutcomeUnknown) {
				unknown++
			}
		}
		require.Equal(t, 1, unknown, "only the one that was on its way may be in")
		g.let <- struct{}{}
		synctest.Wait()
		_, ok := l.View().Get("taken")
		require.True(t, ok)
		_, ok = l.View().Get("waiting")
		require.False(t, ok)
	})
}

func TestCloseAnswersWhoeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(metatest.NewMemory("c").Join())
		l := open(t, g, meta.Options{})
		errs := make(chan error, 3)
		propose := func() { _, err := l.Propose(background, put("k", "v")); errs <- err }
		go propose()
		<-g.arrived
		go propose()
		go func() { _, err := l.WaitApplied(background, 5); errs <- err }()
		synctest.Wait()
		require.NoError(t, l.Err())
		require.NoError(t, l.Close())
		for range 3 {
			require.ErrorIs(t, <-errs, meta.ErrClosed)
		}
		require.ErrorIs(t, l.Err(), meta.ErrClosed)
		_, err := l.Propose(background, put("k", "v"))
		require.ErrorIs(t, err, meta.ErrClosed)
		require.NoError(t, l.Close(), "closing again is no error")
	})
}

func TestWaitersSeeTheStateTheyWaitFor(t *testing.T) {
	l := open(t, metatest.NewMemory("c").Join(), meta.Options{})
	waited := make(chan uint64)
	go func() {
		s, err := l.WaitApplied(background, 3)
		require.NoError(t, err)
		waited <- s.Index()
	}()
	changed := l.Changes()
	for range 3 {
		_, err := l.Do(background, put("k", "v"))
		require.NoError(t, err)
	}
	<-changed
	require.GreaterOrEqual(t, <-waited, uint64(3))
	ended, cancel := context.WithCancel(background)
	cancel()
	_, err := l.WaitApplied(ended, 4)
	require.ErrorIs(t, err, context.Canceled)
	_, err = l.Propose(ended, put("k", "v"))
	require.Equal(t, context.Canceled, err)
	require.Equal(t, uint64(3), l.View().Index())
}

func TestF09_RivalsNeverUndoEachOther(t *testing.T) { synctest.Test(t, rivalsNeverUndoEachOther) }

func rivalsNeverUndoEachOther(t *testing.T) {
	storage := metatest.NewMemory("c")
	var logs []*meta.Log
	for node := range int32(4) {
		logs = append(logs, open(t, metatest.Lossy(storage.Join(), uint64(node)), meta.Options{Node: node}))
	}
	const each = 25
	var rivals sync.WaitGroup
	for _, l := range logs {
		rivals.Go(func() {
			for done := 0; done < each; {
				at, _ := l.View().Get("cursor")
				r, err := l.Do(background, meta.CasKv{Key: "cursor", Expected: at.Version, Value: append(append([]byte{}, at.Value...), '.')})
				if err != nil {
					t.Error(err)
					return
				}
				if r.Swapped {
					done++
				}
			}
		})
	}
	rivals.Wait()
	var last uint64
	for _, l := range logs {
		last = max(last, l.View().Index())
	}
	var snapshots []string
	for _, l := range logs {
		s, err := l.WaitApplied(background, last)
		require.NoError(t, err)
		v, _ := s.Get("cursor")
		require.Len(t, v.Value, each*len(logs), "an update was lost or made twice")
		snapshots = append(snapshots, string(s.EncodeSnapshot()))
	}
	for _, s := range snapshots {
		require.True(t, s == snapshots[0], "nodes that applied the same history differ")
	}
}

func TestEntriesCarryTheEpochOfOurOwnRegistration(t *testing.T) {
	b := metatest.NewMemory("c").Join()
	l := open(t, b, meta.Options{Node: 3, FirstNonce: 40, Now: func() time.Time { return time.UnixMilli(1234) }})
	for _, c := range []meta.Command{
		meta.RegisterNode{Node: 8, ExpectedEpoch: -1, Incarnation: [16]byte{1}},
		meta.RegisterNode{Node: 3, ExpectedEpoch: -1, Incarnation: [16]byte{2}},
		put("k", "v"),
	} {
		_, err := l.Do(background, c)
		require.NoError(t, err)
	}
	entries, err := b.Read(background, 1, 10)
	require.NoError(t, err)
	var headers []meta.Entry
	for _, data := range entries {
		e, err := meta.DecodeEntry(data)
		require.NoError(t, err)
		e.Commands = nil
		headers = append(headers, e)
	}
	require.Equal(t, []meta.Entry{
		{Node: 3, NodeEpoch: 0, Nonce: 40, NowMs: 1234},
		{Node: 3, NodeEpoch: 0, Nonce: 41, NowMs: 1234},
		{Node: 3, NodeEpoch: 1, Nonce: 42, NowMs: 1234},
	}, headers)
	require.Equal(t, int64(1234), l.View().ClockMs())
}

// away is a backend that does not answer until it is told to.
type away struct {
	meta.Backend
	mu   sync.Mutex
	gone bool
}

func (a *away) set(gone bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone = gone
}

func (a *away) err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone {
		return fmt.Errorf("%w: nobody answers", meta.ErrUnavailable)
	}
	return nil
}

func (a *away) Append(ctx context.Context, index uint64, entry []byte) error {
	if err := a.err(); err != nil {
		return err
	}
	return a.Backend.Append(ctx, index, entry)
}

func (a *away) Head(ctx context.Context) (uint64, error) {
	if err := a.err(); err != nil {
		return 0, err
	}
	return a.Backend.Head(ctx)
}

func TestABackendThatIsAwayIsWaitedForWithLongerAndLongerPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &away{Backend: metatest.NewMemory("c").Join()}
		var rec recorder
		events := rec.events()
		events.Retrying = func(e meta.RetryEvent) {
			rec.retries = append(rec.retries, e)
			a.set(e.Attempt < 12) // back at the twelfth attempt
		}
		l := open(t, a, meta.Options{Events: events})
		a.set(true)
		_, err := l.Do(background, put("k", "v"))
		require.NoError(t, err)
		require.NoError(t, l.Close())
		var pauses []time.Duration
		for _, r := range rec.retries {
			require.ErrorIs(t, r.Err, meta.ErrUnavailable)
			pauses = append(pauses, r.After)
		}
		require.Equal(t, 10*time.Millisecond, pauses[0])
		require.Equal(t, 20*time.Millisecond, pauses[1])
		require.Equal(t, time.Second, pauses[len(pauses)-1])
		require.Len(t, pauses, 12)
		require.Equal(t, uint64(1), l.View().Index())
	})
}
