package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

var testPrefix = WALPrefix{Cluster: "tm-1", Node: 5}

// walTest is a WAL over a store with faults, in a bubble of its own time.
type walTest struct {
	*walWriter
	t     *testing.T
	base  *mem.Store
	store *faultstore.Store
	trace *faultstore.Trace

	mu   sync.Mutex
	acks []string
	next int64
	old  bool // the node's epoch is no longer proven
}

// runWAL runs a test in a bubble: time passes when everybody waits.
func runWAL(t *testing.T, test func(t *testing.T, w *walTest)) {
	synctest.Test(t, func(t *testing.T) {
		w := &walTest{t: t, base: mem.New()}
		w.store = faultstore.New(w.base, nil)
		w.trace = w.store.Trace(nil)
		begun := time.Now()
		proof := func() time.Time {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.old {
				return begun
			}
			return time.Now()
		}
		limits := walLimits{
			batchBytes: 1 << 20, batchInterval: 250 * time.Millisecond, maxUnflushed: 1 << 20, inflight: 3,
			maxPutAge: 10 * time.Minute,
		}
		w.walWriter = newWALWriter(w.store, testPrefix, 12, 0, limits, walHooks{proof: proof})
		test(t, w)
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // what is on its way fails
		_ = w.close(ctx)
	})
}

// append submits the next record, whose payload has size bytes.
func (w *walTest) append(size int) error {
	base := w.next
	err := w.submit(Record{Stream: 9, Epoch: 4, Base: base, Count: 1, Payload: make([]byte, size)},
		func(_ int64, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			text := fmt.Sprint(base)
			var fenced *WALFencedError
			switch {
			case errors.As(err, &fenced):
				text += fmt.Sprintf(" fenced by %d", fenced.ByEpoch)
			case errors.Is(err, ErrWALFailed):
				text += " failed"
			}
			w.acks = append(w.acks, text)
		})
	if err == nil {
		w.next++
	}
	return err
}

func (w *walTest) mustAppend() {
	w.t.Helper()
	require.NoError(w.t, w.append(10))
}

// appendAlone appends a record and seals it.
func (w *walTest) appendAlone() {
	w.t.Helper()
	w.mustAppend()
	w.walWriter.mu.Lock()
	w.walWriter.mu.queue.seal(time.Now(), w.hooks.proof())
	w.startUploadsLocked()
	w.walWriter.mu.Unlock()
}

// pass lets time pass in the bubble.
func (w *walTest) pass(d time.Duration) { <-time.After(d) }

// acked waits until nothing moves, and returns what was acknowledged.
func (w *walTest) acked() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.acks...)
}

func (w *walTest) windowKey(window int64) string {
	return testPrefix.Key(WALKey{Epoch: 12, Start: window * Window})
}

func TestWAL3_ALoneAppendCostsOnePutAndNothingElse(t *testing.T) {
	runWAL(t, func(t *testing.T, w *walTest) {
		begun := time.Now()
		w.mustAppend()
		require.Equal(t, []string{"0"}, w.acked())
		require.Equal(t, begun, time.Now(), "no time has passed")
		require.Equal(t, "put-if-absent "+w.windowKey(0)+" +115\n", w.trace.String())
	})
}

func TestWAL2_UnderLoadThereIsOnePutEachInterval(t *testing.T) {
	runWAL(t, func(t *testing.T, w *walTest) {
		for range 100 { // one each 10 ms
			w.mustAppend()
			w.pass(10 * time.Millisecond)
		}
		require.NoError(t, w.flush(t.Context()))
		require.Len(t, w.acked(), 100)
		require.LessOrEqual(t, w.store.Count(objstore.OpPutIfAbsent), 6)
		require.Equal(t, w.store.Calls(), w.store.Count(objstore.OpPutIfAbsent))
	})
}

// TestWithoutAnIntervalCallersThatComeAgainShareAPut: every append of sixteen callers takes one PUT, and a caller's way, though
// they did not begin together. They would take two and half of the objects for each half of the callers.
func TestWithoutAnIntervalCallersThatComeAgainShareAPut(t *testing.T) {
	const callers, rounds, put = 16, 20, 10 * time.Millisecond
	for _, way := range []time.Duration{0, 3 * time.Millisecond} {
		runWAL(t, func(t *testing.T, w *walTest) {
			w.walWriter.mu.queue.limits.batchInterval = 0
			w.store.SetInjector(func(faultstore.Op) faultstore.Fault {
				return faultstore.Fault{Hook: func(ctx context.Context) { _ = pause(ctx, put) }}
			})
			begun := time.Now()
			var all sync.WaitGroup
			for c := range callers {
				all.Go(func() {
					for i := range rounds {
						done := make(chan error, 1)
						err := w.submit(Record{Stream: catalog.StreamID(c), Epoch: 4, Base: int64(i), Count: 1},
							func(_ int64, err error) { done <- err })
						if err != nil || <-done != nil {
							t.Errorf("append %d of caller %d: %v", i, c, err)
							return
						}
						w.pass(way)
					}
				})
			}
			all.Wait()
			require.LessOrEqual(t, w.store.Count(objstore.OpPutIfAbsent), rounds+2)
			require.LessOrEqual(t, time.Since(begun), (rounds+2)*(put+way))
		})
	}
}

func TestF4_AcknowledgementsWaitForEveryEarlierPut(t *testing.T) {
	runWAL(t, func(t *testing.T, w *walTest) {
		gate := faultstore.NewGate(faultstore.Writes)
		w.store.SetInjector(gate.Inject)
		for range 3 {
			w.appendAlone()
		}
		held, err := gate.Held(t.Context(), 3)
		require.NoError(t, err)
		byKey := map[string]faultstore.Op{}
		for _, op := range held {
			byKey[op.Key] = op
		}
		gate.Release(byKey[w.windowKey(2)])
		gate.Release(byKey[w.windowKey(1)])
		require.Empty(t, w.acked())
		gate.Release(byKey[w.windowKey(0)])
		require.Equal(t, []string{"0", "1", "2"}, w.acked())
	})
}

func TestF5_ALostReplyIsRecognised(t *testing.T) {
	runWAL(t, func(t *testing.T, w *walTest) {
		w.store.SetInjector(faultstore.LoseReply(0, objstore.ErrTransient))
		w.mustAppend()
		require.Empty(t, w.acked())
		w.pass(2 * time.Second)
		require.Equal(t, []string{"0"}, w.acked())
		require.Equal(t, 2, w.store.Count(objstore.OpPutIfAbsent))
		require.Equal(t, 1, w.store.Count(objstore.OpGet))
	})
}

func TestF6_AnotherWritersObjectFencesTheLog(t *testing.T) {
	runWAL(t, func(t *testing.T, w *walTest) {
		w.mustAppend()
		require.Equal(t, []string{"0"}, w.acked())
		fence := EncodeWALObject(WALHeader{Start: Window, Node: 5, Epoch: 13, Trim: -1}, []Record{Sentinel()})
		require.NoError(t, w.base.Put(t.Context(), w.windowKey(1), fence))
		gate := faultstore.NewGate(faultstore.Matching(objstore.OpPutIfAbsent, w.windowKey(1)))
		w.store.SetInjector(gate.Inject)
		for range 3 {
			w.appendAlone()
		}
		require.Equal(t, []string{"0"}, w.acked(), "later windows are stored and not acknowledged")
		gate.Open()
		require.Equal(t, []string{"0", "1 fenced by 13", "2 fenced by 13", "3 fenced by 13"}, w.acked())
		err := w.append(10)
		var fenced *WALFencedError
		require.ErrorAs(t, err, &fenced)
		require.Equal(t, WALFencedError{Key: w.windowKey(1), ByEpoch: 13}, *fenced)
		require.ErrorIs(t, w.flush(t.Context()), ErrWALFailed)
		got, err := w.base.Get(t.Context(), w.windowKey(1))
		require.NoError(t, err)
		require.Equal(t, fence, got, "F08: the other writer's object is as it was")
	})
}

func TestF7_AStoreThatIsDownForMinutesLosesNothing(t *testing.T) {
	runWAL(t, func(t *testing.T, w *walTest) {
		w.store.SetInjector(faultstore.Always(faultstore.Fault{Err: objstore.ErrTransient}))
		for range 5 {
			w.appendAlone()
		}
		w.pass(5 * time.Minute)
		require.Empty(t, w.acked())
		w.store.SetInjector(nil)
		w.pass(2 * time.Minute)
		require.Equal(t, []string{"0", "1", "2", "3", "4"}, w.acked())
		page, err := w.base.List(t.Context(), objstore.ListRequest{})
		require.NoError(t, err)
		require.Len(t, page.Objects, 5, "no object twice")
	})
}

func TestF8_AStoreThatIsDownForTooLongFailsTheLog(t *testing.T) {
	runWAL(t, func(t *testing.T, w *walTest) {
		w.store.SetInjector(faultstore.Always(faultstore.Fault{Err: objstore.ErrThrottled}))
		w.mustAppend()
		w.mustAppend()
		w.pass(12 * time.Minute)
		require.Equal(t, []string{"0 failed", "1 failed"}, w.acked())
		require.ErrorContains(t, w.append(10), "last known to be current")
	})
}

func TestWAL12_APutThatEndsAfterALongSleepIsNotAcknowledged(t *testing.T) {
	runWAL(t, func(t *testing.T, w *walTest) {
		gate := faultstore.NewReplyGate(faultstore.Writes)
		w.store.SetInjector(gate.Inject)
		w.mustAppend()
		synctest.Wait()
		w.pass(11 * time.Minute)
		gate.Open()
		require.Equal(t, []string{"0 failed"}, w.acked())
	})
}

func TestF9_ADefiniteRefusalFailsTheLogAtOnce(t *testing.T) {
	runWAL(t, func(t *testing.T, w *walTest) {
		w.store.SetInjector(faultstore.Always(faultstore.Fault{Err: objstore.ErrDenied}))
		begun := time.Now()
		w.mustAppend()
		require.Equal(t, []string{"0 failed"}, w.acked())
		require.Equal(t, begun, time.Now())
		err := w.append(10)
		require.ErrorIs(t, err, objstore.ErrDenied)
		require.ErrorContains(t, err, w.windowKey(0))
		require.ErrorContains(t, err, "mem://")
		require.Equal(t, 1, w.store.Calls())
	})
}

func TestF10_AFullLogTakesRecordsAgainOnceItHasRoom(t *testing.T) {
	runWAL(t, func(t *testing.T, w *walTest) {
		gate := faultstore.NewGate(faultstore.Writes)
		w.store.SetInjector(gate.Inject)
		require.NoError(t, w.append(700_000))
		require.ErrorIs(t, w.append(700_000), ErrOverCapacity)
		require.NoError(t, w.append(100_000), "a smaller one fits")
		gate.Open()
		require.Equal(t, []string{"0"}, w.acked())
		require.NoError(t, w.append(700_000))
		require.NoError(t, w.flush(t.Context()))
		require.Equal(t, []string{"0", "1", "2"}, w.acked())
	})
}

func TestCloseFlushesAndRefuses(t *testing.T) {
	runWAL(t, func(t *testing.T, w *walTest) {
		for range 10 {
			w.mustAppend()
		}
		require.NoError(t, w.close(t.Context()))
		require.Len(t, w.acked(), 10)
		require.ErrorIs(t, w.append(10), ErrClosed)
	})
}

func TestCloseOfAStuckLogFailsWhatIsOnItsWay(t *testing.T) {
	runWAL(t, func(t *testing.T, w *walTest) {
		w.store.SetInjector(faultstore.NewGate(faultstore.Writes).Inject)
		w.mustAppend()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, w.close(ctx), context.DeadlineExceeded)
		require.Equal(t, []string{"0 failed"}, w.acked())
	})
}

// TestWhatWasAcknowledgedIsStored fails every call in turn, before and after it took effect, and reads back what the store
// holds: every acknowledged record is in it once, at the place that the acknowledgement named.
func TestWhatWasAcknowledgedIsStored(t *testing.T) {
	for _, fault := range []faultstore.Fault{
		{Err: objstore.ErrTransient}, {Err: objstore.ErrTransient, After: true}, {Err: objstore.ErrThrottled}, {Err: objstore.ErrDenied},
	} {
		for n := range 6 {
			runWAL(t, func(t *testing.T, w *walTest) {
				inject := faultstore.FailNth(n, fault.Err)
				if fault.After {
					inject = faultstore.LoseReply(n, fault.Err)
				}
				w.store.SetInjector(inject)
				places := map[int64]int64{}
				for base := range int64(5) {
					_ = w.submit(Record{Stream: 1, Base: base, Count: 1}, func(offset int64, err error) {
						if err == nil {
							places[base] = offset
						}
					})
					w.pass(300 * time.Millisecond)
				}
				_ = w.flush(t.Context())
				synctest.Wait()
				stored := map[int64]int64{}
				page, err := w.base.List(t.Context(), objstore.ListRequest{})
				require.NoError(t, err)
				for _, o := range page.Objects {
					data, err := w.base.Get(t.Context(), o.Key)
					require.NoError(t, err)
					_, frames, err := DecodeWALObject(o.Key, data)
					require.NoError(t, err)
					for _, f := range frames {
						if f.Record.IsMark() {
							continue
						}
						require.NotContains(t, stored, f.Record.Base)
						stored[f.Record.Base] = f.Offset
					}
				}
				for base, offset := range places {
					require.Equal(t, offset, stored[base])
				}
				if fault.Err != objstore.ErrDenied {
					require.Len(t, places, 5)
				}
			})
		}
	}
}
