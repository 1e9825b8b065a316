package stream

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// failEvery fails every k-th call that matches, counted from the first.
func failEvery(k int, match func(faultstore.Op) bool, err error) faultstore.Injector {
	var mu sync.Mutex
	calls := 0
	return faultstore.When(match, func(faultstore.Op) faultstore.Fault {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls%k == 1%k {
			return faultstore.Fault{Err: err}
		}
		return faultstore.Fault{}
	})
}

func isRead(op faultstore.Op) bool {
	return op.Kind == objstore.OpReadRange || op.Kind == objstore.OpGet
}

func TestReadsSucceedThoughEveryKthCallOfTheStoreFails(t *testing.T) {
	for _, class := range []error{objstore.ErrTransient, objstore.ErrThrottled} {
		for k := 2; k <= 5; k++ {
			runCluster(t, func(c *cluster) {
				c.config.ObjectBlockSize = 200
				writer := c.start(5)
				streams := []*Stream{writer.stream(), writer.stream(), writer.stream()}
				for _, s := range streams {
					c.appendMany(s, 300)
				}
				writer.close()

				p := c.start(5) // its caches are cold
				p.data.SetInjector(failEvery(k, isRead, class))
				trace := p.data.Trace(isRead)
				var all sync.WaitGroup
				for _, s := range streams {
					reader := p.reopen(s.ID())
					all.Go(func() { require.Equal(c, named(reader, 0, 300), c.rows(reader)) })
				}
				all.Wait()
				failed := strings.Count(trace.String(), objstore.ErrTransient.Error()) +
					strings.Count(trace.String(), objstore.ErrThrottled.Error())
				require.Positive(c, failed)
				require.Equal(c, failed, strings.Count(p.events.String(), "read again"), "each is told")
				p.data.SetInjector(nil)
				p.close()
			})
		}
	}
}

// TestARetryAsksForNothingThatCame: of a read over many units one request fails, and only that is made again.
func TestARetryAsksForNothingThatCame(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.small = 0
		r.commit(10, 1, 2) // two streams: the units of one do not lie side by side with those of the next object
		r.commit(10, 1, 2)
		r.commit(10, 1, 2)
		require.Equal(t, bases(0, 300), r.get(1, 0, 300, all))
		sound := r.requests()

		var told []StoreRetriedEvent
		options := r.readerOptions
		options.data, options.retried = r.store, func(e StoreRetriedEvent) { told = append(told, e) }
		fresh := newObjectReader(options)
		defer fresh.close()
		fresh.small = 0
		r.store.SetInjector(faultstore.When(isRead, faultstore.FailNth(3, objstore.ErrTransient)))
		records, err := fresh.read(t.Context(), 1, 0, 300, all, false)
		require.NoError(t, err)
		require.Equal(t, bases(0, 300), checkRecords(t, 1, records))
		require.Len(t, told, 1)
		require.Equal(t, StoreRetriedEvent{
			Op: objstore.OpReadRange, Key: told[0].Key, Try: 1, Delay: told[0].Delay, Err: told[0].Err,
		}, told[0])
		require.Len(t, r.requests(), len(sound)+1)
	})
}

func TestACancelledReadDoesNotWaitForTheStore(t *testing.T) {
	for _, class := range []error{objstore.ErrTransient, objstore.ErrThrottled} {
		runRead(t, nil, func(t *testing.T, r *readTest) {
			r.commit(10, 1)
			r.store.SetInjector(faultstore.Always(faultstore.Fault{Err: class}))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := r.read(ctx, 1, 0, 100, all, false)
				ended <- err
			}()
			<-time.After(10 * time.Millisecond)
			synctest.Wait() // it waits for its next try
			cancelled := time.Now()
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
			require.Equal(t, cancelled, time.Now())
			synctest.Wait()
			calls := r.store.Calls()
			<-time.After(time.Minute)
			require.Equal(t, calls, r.store.Calls(), "nobody asks on for it")
		})
	}
}

func TestAReadTellsAtOnceWhatIsForGood(t *testing.T) {
	for _, class := range []error{objstore.ErrDenied, objstore.ErrInvalid, objstore.ErrClosed} {
		runRead(t, nil, func(t *testing.T, r *readTest) {
			r.commit(10, 1)
			r.store.SetInjector(faultstore.Always(faultstore.Fault{Err: class}))
			before := r.store.Calls()
			began := time.Now()
			_, err := r.read(t.Context(), 1, 0, 100, all, false)
			require.ErrorIs(t, err, class)
			require.Equal(t, began, time.Now())
			require.Equal(t, before+1, r.store.Calls())
		})
	}
}

func TestAReadGivesAStoreThatIsGoneUpInTheEnd(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(10, 1)
		r.store.SetInjector(faultstore.Always(faultstore.Fault{Err: objstore.ErrTransient}))
		before := r.store.Calls()
		_, err := r.read(t.Context(), 1, 0, 100, all, false)
		require.ErrorIs(t, err, objstore.ErrTransient)
		require.Equal(t, before+readPatience().tries, r.store.Calls())
	})
}

// TestAThrottledStoreIsLeftAloneByAll: while one call pauses since the store asked for it, no other one begins.
func TestAThrottledStoreIsLeftAloneByAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := mem.New()
		require.NoError(t, bucket.Put(t.Context(), "k", []byte("tide")))
		allowance := faultstore.NewAllowance(0)
		faulty := faultstore.New(bucket, allowance.Inject)
		var until time.Time
		s := newPatientStore(faulty, readPatience(), func(e StoreRetriedEvent) { until = time.Now().Add(e.Delay) })
		var all sync.WaitGroup
		get := func() {
			_, err := s.Get(t.Context(), "k")
			require.NoError(t, err)
		}
		all.Go(get)
		synctest.Wait()
		require.Equal(t, 1, faulty.Calls())
		allowance.Grant(100)
		for range 20 {
			all.Go(get)
		}
		synctest.Wait()
		require.Equal(t, 1, faulty.Calls())
		all.Wait()
		require.Equal(t, until, time.Now())
		require.Equal(t, 22, faulty.Calls())
	})
}

// TestCompactionMakesCallsAgain: every k-th call of the store and of the catalog fails, and one round does everything.
func TestCompactionMakesCallsAgain(t *testing.T) {
	for k := 2; k <= 4; k++ {
		inDepot(t, 5, func(d *depot) {
			aBusyNode(d)
			single := func(op faultstore.Op) bool { // what an upload in parts sent is done over by the next round
				return op.Kind != objstore.OpWrite && op.Kind != objstore.OpFinish && op.Kind != objstore.OpAbort
			}
			var retried atomic.Int64
			c := d.compactor()
			c.data.(*patientStore).retried = func(StoreRetriedEvent) { retried.Add(1) }
			d.store.SetInjector(failEvery(k, single, objstore.ErrTransient))
			d.catalog.inject(func(n int) (error, bool) {
				if n%k == 0 {
					return catalog.ErrUnavailable, n%2 == 0
				}
				return nil, false
			})
			require.NoError(d, c.roundNow(d.Context()))
			d.store.SetInjector(nil)
			d.catalog.inject(nil)
			require.Empty(d, d.failures)
			require.Positive(d, retried.Load())
			d.verify()
			done := len(d.done)
			require.NoError(d, d.compactor().roundNow(d.Context()))
			require.Len(d, d.done, done, "nothing was left to do")
			d.cleanAll()
		})
	}
}

// TestARoundThatAnUploadInPartsEndedComesAgainSoon: such an upload cannot go on where it failed, so the round does it over,
// after a pause that grows while it fails, and not after the whole interval.
func TestARoundThatAnUploadInPartsEndedComesAgainSoon(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.set(run{0, 4, 100})
		d.set(run{0, 4, 100})
		writes := func(op faultstore.Op) bool { return op.Kind == objstore.OpWrite }
		allowance := faultstore.NewAllowance(0) // of uploads in parts
		d.store.SetInjector(faultstore.When(writes, allowance.Inject))
		ctx, cancel := context.WithCancel(d.Context())
		ended := make(chan struct{})
		c := d.compactor(func(c *compactConfig) { c.interval, c.repeat = time.Hour, 10*time.Second })
		go func() {
			defer close(ended)
			c.run(ctx)
		}()
		<-time.After(time.Hour + 75*time.Second) // at once, after 10, 20 and 40 s
		synctest.Wait()
		require.Len(d, d.failures, 4)
		require.Empty(d, d.done)
		allowance.Grant(100)
		<-time.After(90 * time.Second)
		synctest.Wait()
		require.Len(d, d.failures, 4)
		require.Len(d, d.done, 1)
		cancel()
		<-ended
		d.verify()
	})
}
