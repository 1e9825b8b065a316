package stream

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
