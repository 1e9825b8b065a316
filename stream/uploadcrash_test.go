package stream

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// crashPoint is a point of an upload at which the process dies (5.2).
type crashPoint struct {
	// stop arranges that the upload gets no further than the point; calls that wait there return when gone is closed.
	stop func(c *cluster, p *process, gone <-chan struct{})
	// pass is how long it takes to get there, once the upload is asked for.
	pass time.Duration
	// recovered and dropped are what the next process finds in the WAL.
	recovered int
	dropped   Dropped
	// remains are how many objects the catalog does not know are on the data bucket.
	remains int
}

// stopCatalog stops at a call of the catalog, before or after it takes effect.
func stopCatalog(call string, after bool) func(*cluster, *process, <-chan struct{}) {
	return func(_ *cluster, p *process, gone <-chan struct{}) {
		hook := func(name string) error {
			if name != call {
				return nil
			}
			<-gone
			return errGone
		}
		if after {
			p.catalog.set(nil, hook)
			return
		}
		p.catalog.set(hook, nil)
	}
}

// stopWrites lets some objects be written and holds all others.
func stopWrites(n int) func(*cluster, *process, <-chan struct{}) {
	return func(c *cluster, p *process, _ <-chan struct{}) {
		gate := faultstore.NewGate(faultstore.Writes)
		p.data.SetInjector(gate.Inject)
		go func() {
			if held, err := gate.Held(c.Context(), 2); err == nil {
				gate.Release(held[:n]...)
			}
		}()
	}
}

// stopDeletes lets the WAL's objects with the given windows be deleted and no others.
func stopDeletes(windows ...int64) func(*cluster, *process, <-chan struct{}) {
	return func(_ *cluster, p *process, _ <-chan struct{}) {
		deletes := func(op faultstore.Op) bool { return op.Kind == objstore.OpDelete }
		p.wal.SetInjector(faultstore.When(deletes, func(op faultstore.Op) faultstore.Fault {
			fault := faultstore.Fault{Keys: map[string]error{}}
			for _, key := range op.Keys {
				deletable := func(w int64) bool { return key == walKey(5, 1, w) }
				if !slices.ContainsFunc(windows, deletable) {
					fault.Keys[key] = objstore.ErrTransient
				}
			}
			return fault
		}))
	}
}

// The rows of the test are six, each in a WAL object of its own. The first stream's become an object of their own, the
// others' share one.
var crashPoints = map[string]crashPoint{
	"seal, before prepare":               {stop: stopCatalog("prepare", false), recovered: 6},
	"prepare":                            {stop: stopCatalog("prepare", true), recovered: 6},
	"prepare, and no object is written":  {stop: stopWrites(0), recovered: 6},
	"some objects written":               {stop: stopWrites(1), recovered: 6, remains: 1},
	"all objects written":                {stop: stopCatalog("commit", false), recovered: 6, remains: 2},
	"commit proposed, it was applied":    {stop: stopCatalog("commit", true), dropped: Dropped{Committed: 6}},
	"commit applied, before trim":        {stop: nil, dropped: Dropped{Committed: 6}},
	"trim persisted, deletes not done":   {stop: stopDeletes(), pass: 5 * time.Second, dropped: Dropped{Trimmed: 1}},
	"some deletes done, from the front":  {stop: stopDeletes(0, 1), pass: 5 * time.Second, dropped: Dropped{Trimmed: 1}},
	"some deletes done, from the back":   {stop: stopDeletes(4, 5), pass: 5 * time.Second},
	"some deletes done, from the middle": {stop: stopDeletes(2), pass: 5 * time.Second, dropped: Dropped{Trimmed: 1}},
	"all deletes done":                   {stop: stopDeletes(0, 1, 2, 3, 4, 5), pass: 5 * time.Second},
}

func TestF24_F27_AfterEachCrashPointOfAnUploadTheRowsAreThereOnce(t *testing.T) {
	for name, point := range crashPoints {
		t.Run(name, func(t *testing.T) {
			runCluster(t, func(c *cluster) {
				c.config.UploadStreamSplit = 10
				p := c.start(5)
				streams := []*Stream{p.stream(), p.stream(), p.stream()}
				want := []int64{4, 1, 1}
				for i, s := range streams {
					c.appendMany(s, int(want[i]))
				}
				gone := make(chan struct{})
				if point.stop != nil {
					point.stop(c, p, gone)
				}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_ = p.Upload(c.Context())
				}()
				c.pass(uploadLinger + point.pass)
				p.catalog.fail(errGone)
				close(gone)
				p.kill()
				<-ended
				require.Len(c, c.unknownObjects(), point.remains)

				next := c.start(5)
				found := next.events.recovered()
				require.Equal(c, point.recovered, found.Records)
				require.Equal(c, point.dropped, found.Dropped)
				for i, s := range streams {
					again := next.reopen(s.ID())
					require.Equal(c, named(s, 0, want[i]), c.rows(again), "from the objects")
					c.appendMany(again, 2)
					require.Equal(c, named(s, 0, want[i]+2), c.rows(again))
				}
				require.NoError(c, next.Upload(c.Context()))
				require.Empty(c, catalog.Check(c.catalog.View()))
				c.pass(c.config.UploadPrepareTTL)
				require.NoError(c, next.Clean(c.Context()))
				c.pass(c.config.GCGrace)
				require.NoError(c, next.Clean(c.Context()))
				require.Empty(c, c.unknownObjects(), "what was written in vain is removed when its ids have expired")
				next.close()
			})
		})
	}
}

// unknownObjects are the keys on the data bucket that the catalog does not list.
func (c *cluster) unknownObjects() []string {
	c.Helper()
	known := map[string]bool{}
	v := c.catalog.View()
	for set := range v.StreamSets() {
		known[DataKey(DefaultNamespace, set.Object)] = true
	}
	for s := range v.Streams() {
		for _, o := range v.StreamObjects(s.ID) {
			known[DataKey(DefaultNamespace, o.Object)] = true
		}
	}
	listed, err := listAll(c.Context(), c.data.Open(), "")
	require.NoError(c, err)
	var unknown []string
	for _, o := range listed {
		if !known[o.Key] {
			unknown = append(unknown, o.Key)
		}
	}
	return unknown
}

// TestF09_CrashesAtRandomUnderRandomFaults: eight streams append and are uploaded side by side, each in blocks of its own, while
// the calls of store and metadata are slow, fail, or lose their replies; and the process is killed at any moment, some times
// over. The end of no stream ever goes back, and what was acknowledged is there once.
func TestF09_CrashesAtRandomUnderRandomFaults(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		lives := rapid.SliceOfN(rapid.IntRange(0, 400), 1, 4).Draw(r, "milliseconds to live")
		storeFaults := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 20).Draw(r, "store")
		catalogFaults := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 20).Draw(r, "catalog")
		runCluster(t, func(c *cluster) {
			c.config.CacheMaxStreams = 1
			c.config.UploadInterval, c.config.WALTrimPersist = 10*time.Millisecond, 20*time.Millisecond
			ids := []catalog.StreamID{}
			first := c.start(5)
			for range 8 {
				ids = append(ids, first.stream().ID())
			}
			first.close()
			acked, ends := make([]int64, len(ids)), make([]int64, len(ids))
			for _, life := range lives {
				p := c.start(5)
				c.endsOnlyGrow(ids, ends)
				var writers sync.WaitGroup
				for i, id := range ids {
					s := p.reopen(id)
					require.GreaterOrEqual(c, s.Next(), acked[i], "stream %d", id)
					acked[i] = s.Next() // what was stored and not acknowledged is there for good
					writers.Go(func() {
						for n := 0; ; n++ {
							if _, err := s.Append(c.Context(), 1, fmt.Appendf(nil, "%d@%d", id, acked[i])); err != nil {
								return
							}
							acked[i]++
							<-time.After(time.Duration(1+n*(i+3)%11) * time.Millisecond)
						}
					})
				}
				p.faultyUploads(storeFaults, catalogFaults)
				c.pass(time.Duration(life) * time.Millisecond)
				c.endsOnlyGrow(ids, ends)
				p.kill()
				writers.Wait()
			}
			p := c.start(5)
			c.endsOnlyGrow(ids, ends)
			for i, id := range ids {
				s := p.reopen(id)
				require.GreaterOrEqual(c, s.Next(), acked[i], "stream %d", id)
				require.Equal(c, named(s, 0, s.Next()), c.rows(s))
			}
			p.close()
			require.Empty(c, catalog.Check(c.catalog.View()))
		})
	})
}

// endsOnlyGrow holds the ends of streams in the catalog against those of the last call.
func (c *cluster) endsOnlyGrow(ids []catalog.StreamID, ends []int64) {
	c.Helper()
	for i, id := range ids {
		row, _ := c.catalog.View().Stream(id)
		require.GreaterOrEqual(c, row.End, ends[i], "the end of stream %d", id)
		ends[i] = row.End
	}
}

// faultyUploads has the calls of uploads go wrong as numbers say, again and again.
func (p *process) faultyUploads(storeFaults, catalogFaults []int) {
	slow := func(n int) { <-time.After(time.Duration(n*7%29) * time.Millisecond) }
	p.data.SetInjector(faultstore.When(faultstore.Writes, func(op faultstore.Op) faultstore.Fault {
		delay := func(ctx context.Context) { _ = pause(ctx, time.Duration(op.Index*11%37)*time.Millisecond) }
		switch storeFaults[op.Index%len(storeFaults)] {
		case 0:
			return faultstore.Fault{Err: objstore.ErrTransient, Hook: delay}
		case 1:
			return faultstore.Fault{Err: objstore.ErrThrottled, After: true}
		case 2, 3, 4, 5:
			return faultstore.Fault{Hook: delay}
		}
		return faultstore.Fault{}
	}))
	var mu sync.Mutex
	calls := 0
	p.catalog.setAround(func(call string, do func() error) error {
		mu.Lock()
		n := calls
		calls++
		mu.Unlock()
		if call != "commit" && call != "prepare" {
			return do()
		}
		slow(n)
		switch catalogFaults[n%len(catalogFaults)] {
		case 0, 1:
			return catalog.ErrUnavailable
		case 2:
			if err := do(); err != nil {
				return err
			}
			return catalog.ErrUnavailable
		}
		return do()
	})
}
