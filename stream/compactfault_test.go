package stream

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// interruption is what happens to one of the calls that a scenario makes of the store and of the catalog, counted together.
type interruption struct {
	at    int
	after bool // the call happens, and its reply is lost
	// crash ends the process with the call: whatever it does afterwards fails and changes nothing.
	crash bool

	seen   atomic.Int64
	cancel func()
}

// strikes counts a call.
func (i *interruption) strikes() (hit, after bool) {
	n := int(i.seen.Add(1)) - 1
	if n == i.at && i.crash {
		i.cancel()
	}
	return n == i.at || i.crash && n > i.at, i.after && n == i.at
}

// interrupt runs a part of a test with an interruption.
func (d *depot) interrupt(i *interruption, during func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(d.Context())
	defer cancel()
	i.cancel = cancel
	cause := func(class error) error {
		if i.crash {
			return context.Canceled
		}
		return class
	}
	d.store.SetInjector(func(op faultstore.Op) faultstore.Fault {
		if hit, after := i.strikes(); hit {
			return faultstore.Fault{Err: cause(objstore.ErrTransient), After: after}
		}
		return faultstore.Fault{}
	})
	d.catalog.inject(func(int) (error, bool) {
		if hit, after := i.strikes(); hit {
			return cause(catalog.ErrUnavailable), after
		}
		return nil, false
	})
	during(ctx)
	d.store.SetInjector(nil)
	d.catalog.inject(nil)
}

// aBusyNode has something for every job: sets to merge and to split, objects to merge and to link, dead objects, a composite
// of which much is dead, and objects whose grace is over, a composite among them.
func aBusyNode(d *depot) {
	for range 2 {
		d.object(run{3, 10, 100})
	}
	d.objectRound(d.compactor(), 3, true)
	d.trim(3, 60)
	d.objectRound(d.compactor(), 3, false)
	for range 2 {
		d.object(run{4, 10, 100})
	}
	d.objectRound(d.compactor(), 4, true)
	d.trim(4, 21)
	d.kill(2)
	d.wait(10 * time.Minute)
	for range 2 {
		d.set(run{0, 2, 20}, run{1, 5, 100}, run{2, 1, 10})
		d.object(run{3, 1, 50})
		d.object(run{2, 12, 100})
	}
	d.trim(1, 7)
	d.object(run{3, 20, 100})
}

// everyJob runs each job once. Errors are the caller's to look at: an interrupted job fails or not.
func (d *depot) everyJob(ctx context.Context) error {
	err := d.compactor().roundNow(ctx)
	_, cleaned := d.cleaner().round(ctx)
	return errors.Join(err, cleaned)
}

// TestEveryCallOfCompactionMayFail fails every call of all jobs once: before or after it happened, with the process going on
// or dead. Nothing is lost, the next time all is well, and nothing is left behind (F29, F30, F35, F-10, F-14).
func TestEveryCallOfCompactionMayFail(t *testing.T) {
	for name, kind := range map[string]struct{ after, crash bool }{
		"a call fails":        {},
		"a reply is lost":     {after: true},
		"crash before a call": {crash: true},
		"crash after a call":  {crash: true, after: true},
	} {
		t.Run(name, func(t *testing.T) {
			calls, again := 0, true
			for n := 0; again; n++ {
				inDepot(t, 5, func(d *depot) {
					aBusyNode(d)
					i := &interruption{at: n, after: kind.after, crash: kind.crash}
					d.interrupt(i, func(ctx context.Context) { _ = d.everyJob(ctx) })
					calls = int(i.seen.Load())
					again = calls > n
					d.verify()
					if kind.crash {
						d.register()
						for _, s := range d.streams { // as recovery does, for whoever leads them next
							require.NoError(d, d.metadata.CloseStream(d.Context(), d.node, s, d.epoch(s)))
							_, err := d.metadata.OpenStream(d.Context(), d.node, s, d.epoch(s)+1)
							require.NoError(d, err)
						}
					}
					require.NoError(d, d.everyJob(d.Context()))
					d.verify()
					d.cleanAll()
				})
			}
			require.Greater(t, calls, 20)
		})
	}
}

// holdingBack commits what a compaction does only after change has run: what a plan does not know of.
func (d *depot) holdingBack(change func()) {
	d.catalog.inject(func(n int) (error, bool) {
		if n == 1 { // the first change reserves ids
			change()
		}
		return nil, false
	})
}

func TestF31_AReaderFindsTheRowsOfAnObjectThatWasCompactedAway(t *testing.T) {
	inDepot(t, 2, func(d *depot) {
		d.set(run{0, 2, 50}, run{1, 1, 10})
		d.set(run{0, 2, 50}, run{1, 1, 10})
		before := d.metadata.View() // a reader has it
		d.setRound(d.compactor())
		d.wait(9 * time.Minute)
		d.cleanRound(d.cleaner())
		records, err := readCommitted(d.Context(), d.base, before, d.streams[0])
		require.NoError(d, err, "F-35: within the grace the old objects are there")
		require.Equal(d, d.appended[d.streams[0]], records)
		d.wait(time.Minute)
		d.cleanRound(d.cleaner())
		_, err = readCommitted(d.Context(), d.base, before, d.streams[0])
		require.ErrorIs(d, err, objstore.ErrNotFound, "then a new view is needed")
		d.verify()
	})
}

func TestF32_AnOutputThatLacksABlockIsNotCommitted(t *testing.T) {
	inDepot(t, 2, func(d *depot) {
		d.set(run{0, 2, 50}, run{1, 6, 100})
		d.set(run{0, 2, 50}, run{1, 6, 100})
		before := d.sets()
		for name, spoil := range map[string]func(*compactionPlan){
			"a merged block is missing": func(p *compactionPlan) {
				merged := &p.stages[0][len(p.stages[0])-1]
				merged.blocks = merged.blocks[1:]
			},
			"a split output is missing": func(p *compactionPlan) { p.stages[0] = p.stages[0][1:] },
			"everything is missing":     func(p *compactionPlan) { p.stages = nil },
		} {
			c := d.compactor()
			c.plan = func(o []planObject, f liveFrom, l planLimits) (compactionPlan, error) {
				plan, err := planCompaction(o, f, l)
				spoil(&plan)
				return plan, err
			}
			_, err := c.setRound(d.Context())
			require.ErrorIs(d, err, errUncovered, name)
			require.Equal(d, before, d.sets())
			require.Len(d, d.keys(), 2, "what was written is gone")
			d.verify()
		}
		// Metadata refuses it too, were the check wrong.
		err := d.metadata.Commit(d.Context(), d.node, catalog.Commit{Object: catalog.NoObject, Compacted: before})
		require.ErrorIs(d, err, catalog.ErrCompactionLosesData)
		d.setRound(d.compactor())
		d.cleanAll()
	})
}

func TestF33_ATrimBetweenPlanAndCommit(t *testing.T) {
	for trimmed := int64(0); trimmed <= 18; trimmed++ {
		inDepot(t, 2, func(d *depot) {
			d.set(run{0, 3, 100}, run{1, 1, 10})
			d.set(run{0, 3, 100}, run{1, 1, 10})
			d.holdingBack(func() { d.trim(0, trimmed) })
			d.setRound(d.compactor())
			d.catalog.inject(nil)
			d.object(run{0, 1, 100})
			d.object(run{0, 1, 100})
			d.holdingBack(func() { d.trim(0, min(18+trimmed, 24)) })
			d.objectRound(d.compactor(), 0, false)
			d.catalog.inject(nil)
			require.NoError(d, d.everyJob(d.Context()))
			d.verify()
			d.cleanAll()
		})
	}
}

func TestF34_AStreamThatIsDestroyedBetweenPlanAndCommit(t *testing.T) {
	for gone := range 3 {
		inDepot(t, 3, func(d *depot) {
			for range 2 {
				d.set(run{0, 1, 10}, run{1, 6, 100}, run{2, 1, 10})
			}
			d.holdingBack(func() { d.deleteStream(gone) })
			d.setRound(d.compactor())
			d.catalog.inject(nil)
			require.Len(d, d.done, 1, "the rest is committed")
			d.cleanAll()
		})
	}
}

func TestF35_TheCleanerDeletesBytesBeforeItForgetsThem(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.kill(3)
		d.wait(10 * time.Minute)
		d.catalog.inject(func(n int) (error, bool) { // the first change expires ids
			if n == 1 {
				return catalog.ErrUnavailable, false
			}
			return nil, false
		})
		_, err := d.cleaner().round(d.Context())
		require.ErrorIs(d, err, catalog.ErrUnavailable)
		require.Empty(d, d.keys())
		require.Len(d, d.metadata.View().Destroyed(10), 3)
		require.Equal(d, CleanedEvent{Deleted: 3}, d.cleanRound(d.cleaner()), "not found is success")
		require.Empty(d, d.metadata.View().Destroyed(10))
	})
}

func TestF36_ACompositeGoesWithItsComponentsAndNoOthers(t *testing.T) {
	inDepot(t, 2, func(d *depot) {
		for s := range 2 {
			d.object(run{s, 20, 100})
			d.object(run{s, 20, 100})
			d.objectRound(d.compactor(), s, true)
			d.object(run{s, 20, 100})
			d.objectRound(d.compactor(), s, true) // the first composite is superseded by one that links the same objects
		}
		d.deleteStream(0)
		d.cleanAll()
		d.verify()
		require.Len(d, d.keys(), 4, "one composite of three")
	})
}

func TestF28_IdsThatExpireDuringACompaction(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.set(run{0, 1, 10})
		d.set(run{0, 1, 10})
		before := d.sets()
		d.holdingBack(func() {
			d.wait(25 * time.Hour)
			_, err := d.metadata.ExpirePrepared(d.Context())
			require.NoError(d, err)
		})
		_, err := d.compactor().setRound(d.Context())
		require.ErrorIs(d, err, catalog.ErrObjectNotPrepared)
		require.Equal(d, before, d.sets())
		require.Len(d, d.keys(), 2, "GC-4: a writer that is late deletes what it wrote")
		d.catalog.inject(nil)
		d.setRound(d.compactor())
		d.cleanAll()
	})
}

// TestNothingIsDeletedAfterAnUnknownOutcome: a commit whose reply was lost may be followed by another compaction, which
// links what it wrote; a refusal of the second try says nothing about the first.
func TestNothingIsDeletedAfterAnUnknownOutcome(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.object(run{0, 1, 10})
		d.object(run{0, 1, 10})
		d.object(run{0, 20, 100})
		d.catalog.inject(func(n int) (error, bool) {
			switch n {
			case 1:
				return catalog.ErrUnavailable, true // applied
			case 2:
				d.catalog.inject(nil)
				d.objectRound(d.compactor(), 0, true) // somebody links the new object
			}
			return nil, false
		})
		c := d.compactor()
		require.Error(d, c.mergeSmall(d.Context(), must(c.viewStream(d.streams[0]))))
		d.verify()
		require.True(d, d.objects(0)[0].Attributes.IsComposite())
		d.cleanAll()
	})
}

func must(v streamView, ok bool) streamView {
	if !ok {
		panic("not led here")
	}
	return v
}

func TestF25_AMultipartWriteThatFailsIsAbortedAndDoneAgain(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.set(run{0, 4, 100})
		d.set(run{0, 4, 100})
		before := d.sets()
		trace := d.store.Trace(faultstore.Writes)
		d.store.SetInjector(faultstore.When(
			func(op faultstore.Op) bool { return op.Kind == objstore.OpWrite }, faultstore.FailNth(1, objstore.ErrTransient)))
		_, err := d.compactor().setRound(d.Context())
		require.ErrorIs(d, err, objstore.ErrTransient)
		require.Equal(d, before, d.sets())
		require.Contains(d, trace.String(), "abort ")
		require.NotContains(d, trace.String(), "finish ")
		d.setRound(d.compactor())
		d.cleanAll()
	})
}
