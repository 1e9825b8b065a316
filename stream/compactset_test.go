package stream

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// sets and objects list what is committed.
func (d *depot) sets() (ids []catalog.ObjectID) {
	for s := range d.metadata.View().StreamSets() {
		ids = append(ids, s.Object)
	}
	return ids
}

func (d *depot) objects(stream int) []catalog.StreamObjectState {
	return d.metadata.View().StreamObjects(d.streams[stream])
}

func (d *depot) setRound(c *compactor) (more bool) {
	d.Helper()
	more, err := c.setRound(d.Context())
	require.NoError(d, err)
	d.verify()
	return more
}

func TestASetRoundMergesAndSplits(t *testing.T) {
	inDepot(t, 4, func(d *depot) {
		first := d.set(run{0, 2, 20}, run{1, 5, 100}, run{2, 1, 10})
		begun := d.metadata.View().ClockMs()
		d.wait(time.Minute)
		second := d.set(run{0, 3, 20}, run{1, 1, 100}, run{3, 4, 10})
		alone := d.object(run{3, 1, 10})
		d.verify()

		require.False(d, d.setRound(d.compactor()))
		require.Len(d, d.sets(), 1)
		require.NotContains(d, d.sets(), first)
		require.NotContains(d, d.sets(), second)
		split := d.objects(1)
		require.Len(d, split, 1)
		require.Equal(d, []int64{0, 18, begun}, []int64{split[0].Start, split[0].End, split[0].DataMs})
		for set := range d.metadata.View().StreamSets() {
			require.Equal(d, begun, set.DataMs, "CP-10: as old as the oldest source")
		}
		require.Equal(d, alone, d.objects(3)[0].Object)
		require.Len(d, d.done, 1)
		event := d.done[0]
		require.Equal(d, []any{"set", 2, 2}, []any{event.Kind, event.Sources, event.Outputs})

		require.False(d, d.setRound(d.compactor()), "nothing is left to do")
		require.Len(d, d.done, 1)
		d.cleanAll()
	})
}

func TestIndexEntriesOfCompactedObjectsStandForGroupsOfBlocks(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.set(run{0, 4, 100})
		d.set(run{0, 4, 100})
		d.setRound(d.compactor(func(c *compactConfig) { c.plans.splitBytes = 1 << 20; c.plans.cacheBytes = 1 << 20 }))
		for set := range d.metadata.View().StreamSets() {
			layout, err := loadLayout(d.Context(), d.base, DefaultNamespace, set.Object, set.Size, 0)
			require.NoError(d, err)
			require.Equal(d, Index{{Stream: d.streams[0], Delta: 24, Records: 8, Size: 8 * (100 + RecordHeaderSize + blockHeaderSize)}},
				layout.entries, "CP-8")
		}
	})
}

func TestGroupsOfBlocksKeepTheirLimits(t *testing.T) {
	entry := IndexEntry{Stream: 1, Start: 100, Delta: 10, Records: 5, Size: 1000}
	next := IndexEntry{Stream: 1, Start: 110, Delta: 10, Records: 5, Size: 1000}
	with := func(change func(before, e *IndexEntry)) bool {
		before, e := entry, next
		change(&before, &e)
		return groups(before, e)
	}
	require.True(t, groups(entry, next))
	require.False(t, with(func(_, e *IndexEntry) { e.Stream++ }))
	require.False(t, with(func(_, e *IndexEntry) { e.Start++ }), "a gap")
	require.False(t, with(func(b, _ *IndexEntry) { b.Size = groupBytes - 1000 }))
	require.True(t, with(func(b, _ *IndexEntry) { b.Size = groupBytes - 1001 }))
	require.False(t, with(func(b, _ *IndexEntry) { b.Records = 1<<31 - 5 }))
	require.True(t, with(func(b, _ *IndexEntry) { b.Records = 1<<31 - 6 }))
	for _, fits := range []bool{true, false} { // F-06: the boundary is exact
		last := int64(100 + 1<<31 - 1)
		if !fits {
			last++
		}
		require.Equal(t, fits, with(func(b, e *IndexEntry) {
			b.Delta = 1<<31 - 1 - 10
			e.Start = b.End()
			e.Delta = int32(last - e.Start)
		}))
	}
}

func TestWhatIsDeadIsNotCopied(t *testing.T) {
	inDepot(t, 3, func(d *depot) {
		d.set(run{0, 6, 100}, run{1, 1, 100})
		d.set(run{0, 1, 100}, run{2, 1, 100})
		d.trim(0, 10)
		d.deleteStream(2)
		d.setRound(d.compactor())
		v := d.metadata.View()
		objects := v.Objects(d.streams[0], 10, 21, 10)
		require.Len(d, objects, 1)
		require.EqualValues(d, 9, objects[0].Start, "the block that holds the start is kept whole")

		d.trim(0, 21)
		d.trim(1, 3)
		d.setRound(d.compactor())
		require.NoError(d, d.compactor().objectRound(d.Context(), d.streams[0], false))
		require.Empty(d, d.sets())
		d.cleanAll()
		require.Empty(d, d.keys(), "GC-7")
	})
}

func TestADeadObjectIsNotRead(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.set(run{0, 6, 100})
		d.trim(0, 18)
		trace := d.store.Trace(nil)
		d.setRound(d.compactor())
		require.Empty(d, trace.String(), "CP-1")
		require.Empty(d, d.sets())
	})
}

func TestNeighboursAreReadTogether(t *testing.T) {
	inDepot(t, 3, func(d *depot) {
		d.set(run{0, 2, 100}, run{1, 2, 100}, run{2, 2, 100})
		d.set(run{0, 2, 100}, run{1, 2, 100}, run{2, 2, 100})
		trace := d.store.Trace(nil)
		d.setRound(d.compactor(func(c *compactConfig) { c.plans.splitBytes = 1 << 20; c.plans.cacheBytes = 1 << 20 }))
		lines := slices.Sorted(slices.Values(strings.Split(strings.TrimSpace(trace.String()), "\n")))
		require.Equal(d, []string{
			"create 20000000/DEFAULT/2",
			"finish 20000000/DEFAULT/2",
			"read 00000000/DEFAULT/0 0+1122", // footer and index: all of a small object
			"read 00000000/DEFAULT/0 0+858",  // six blocks in one request
			"read 10000000/DEFAULT/1 0+1122",
			"read 10000000/DEFAULT/1 0+858",
			"write 20000000/DEFAULT/2 +156",
			"write 20000000/DEFAULT/2 +429",
			"write 20000000/DEFAULT/2 +429",
			"write 20000000/DEFAULT/2 +429",
			"write 20000000/DEFAULT/2 +429",
		}, lines)
	})
}

func TestObjectsOfNodesThatAreGoneAreAdopted(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		mine := d.set(run{0, 1, 10})
		other := d.set(run{0, 1, 10})
		c := d.compactor()
		c.node = catalog.Node{ID: 2, Epoch: 1}
		_, err := d.metadata.RegisterNode(d.Context(), catalog.Registration{ID: 2, Expected: -1, Incarnation: [16]byte{2}})
		require.NoError(d, err)
		d.setRound(c)
		require.Equal(d, []catalog.ObjectID{mine, other}, d.sets(), "of another node")
		c.adopts = func(id catalog.NodeID) bool { return id == 1 }
		d.setRound(c)
		require.Len(d, d.sets(), 1)
	})
}

func TestOldObjectsAreSplit(t *testing.T) {
	inDepot(t, 3, func(d *depot) {
		old := d.set(run{0, 2, 50}, run{1, 3, 10}, run{2, 1, 10})
		d.setRound(d.compactor())
		require.Equal(d, []catalog.ObjectID{old}, d.sets(), "nothing in common with another, and not old")
		d.wait(2 * time.Hour)
		young := d.set(run{0, 1, 10})
		d.trim(2, 3)
		// The young one shares a stream, so both would be compacted: exclude it by a limit of one object.
		d.setRound(d.compactor(func(c *compactConfig) { c.plans.maxObjects = 1 }))
		require.Equal(d, []catalog.ObjectID{young}, d.sets())
		require.Len(d, d.objects(0), 1)
		require.Len(d, d.objects(1), 1)
		require.Empty(d, d.objects(2), "dead")
		require.Equal(d, "split", d.done[0].Kind)
		d.cleanAll()
	})
}

func TestOldObjectsOfManyRunsAreSplitInSteps(t *testing.T) {
	inDepot(t, 5, func(d *depot) {
		d.set(run{0, 1, 10}, run{1, 1, 50}, run{2, 1, 20}, run{3, 1, 30}, run{4, 1, 40})
		d.wait(2 * time.Hour)
		d.trim(0, 0) // the clock of the metadata moves with changes only
		few := func(c *compactConfig) { c.plans.maxStreamObjects = 2 }
		for _, left := range []int{3, 1, 0} {
			d.setRound(d.compactor(few))
			ranges := 0
			for set := range d.metadata.View().StreamSets() {
				ranges += len(set.Ranges)
			}
			require.Equal(d, left, ranges)
		}
		d.cleanAll()
	})
}

func TestACommitFitsIntoOneEntryOfTheMetadataLog(t *testing.T) {
	inDepot(t, 20, func(d *depot) {
		for range 2 {
			var runs []run
			for s := range 20 {
				runs = append(runs, run{s, 1, 10 + 400*(s%2)})
			}
			d.set(runs...)
		}
		sets := d.sets()
		d.setRound(d.compactor(func(c *compactConfig) { c.maxCommitBytes = 600 }))
		require.Equal(d, sets, d.sets(), "both share everything: no smaller plan")

		// A catalog that takes less than was thought: the next round asks for less.
		d.catalog.inject(func(n int) (error, bool) {
			if n == 1 {
				return catalog.ErrTooLarge, false
			}
			return nil, false
		})
		c := d.compactor()
		before := c.config.maxCommitBytes
		more, err := c.setRound(d.Context())
		require.NoError(d, err)
		require.True(d, more)
		require.Equal(d, before/2, c.config.maxCommitBytes)
		d.setRound(c)
		require.Len(d, d.sets(), 1)
		d.cleanAll()
	})
}

func TestWhatALimitKeepsOutIsForTheNextRound(t *testing.T) {
	inDepot(t, 4, func(d *depot) {
		for s := range 4 {
			d.set(run{s, 1, 10})
			d.set(run{s, 1, 10})
		}
		c := d.compactor(func(c *compactConfig) { c.plans.maxStreams = 3 })
		require.True(d, d.setRound(c), "CP-12")
		require.Equal(d, 2, d.done[0].Excluded, "CP-4")
		require.Len(d, d.sets(), 3)
		require.False(d, d.setRound(c))
	})
}

func TestADamagedObjectHoldsUpNobody(t *testing.T) {
	inDepot(t, 2, func(d *depot) {
		d.set(run{0, 2, 50})
		damaged := d.set(run{0, 2, 50}, run{1, 2, 50})
		d.set(run{0, 2, 50})
		d.set(run{0, 2, 50})
		key := DataKey(DefaultNamespace, damaged)
		whole, err := d.base.Get(d.Context(), key)
		require.NoError(d, err)
		for name, at := range map[string]int{"the footer": len(whole) - 1, "a block's header": 0} {
			bad := slices.Clone(whole)
			bad[at] ^= 0xFF
			require.NoError(d, d.base.Put(d.Context(), key, bad))
			c := d.compactor()
			d.failures = nil
			more, err := c.setRound(d.Context())
			require.NoError(d, err)
			if name != "the footer" { // it was found when all was planned: the rest is due soon
				require.True(d, more)
				_, err = c.setRound(d.Context())
				require.NoError(d, err)
			}
			require.Contains(d, d.sets(), damaged, name)
			require.Len(d, d.failures, 1)
			require.ErrorContains(d, d.failures[0], fmt.Sprintf("object %d is left out of compaction", damaged))
			require.NoError(d, d.base.Put(d.Context(), key, whole))
			d.verify()
		}
		require.Len(d, d.sets(), 2)
		d.cleanAll()
	})
}

func TestCompactionStopsWhenTheNodeIsFenced(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.set(run{0, 1, 10})
		d.set(run{0, 1, 10})
		c := d.compactor()
		var fenced error
		c.fenced = func(err error) { fenced = err }
		d.register()
		c.run(d.Context())
		require.ErrorIs(d, fenced, catalog.ErrNodeEpochMismatch)
		require.Len(d, d.sets(), 2)
	})
}

func TestCompactionRunsInItsIntervals(t *testing.T) {
	inDepot(t, 4, func(d *depot) {
		for s := range 4 {
			d.set(run{s, 1, 10})
			d.set(run{s, 1, 10})
		}
		ctx, cancel := context.WithTimeout(d.Context(), 20*time.Minute+time.Second)
		defer cancel()
		d.compactor(func(c *compactConfig) { c.plans.maxStreams = 3 }).run(ctx)
		require.Len(d, d.sets(), 3, "one round after 20 minutes")
		ctx, cancel = context.WithTimeout(d.Context(), 20*time.Minute+11*time.Second)
		defer cancel()
		d.compactor(func(c *compactConfig) { c.plans.maxStreams = 1 }).run(ctx)
		require.Empty(d, d.failures)
		d.verify()
	})
}

func TestObjectsThatSomebodyElseCompactedMeanwhileAreNoFailure(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		for range 3 {
			d.set(run{0, 1, 10})
		}
		others := func(at int) { // do it all before the call of that number
			calls := 0
			var mu sync.Mutex
			d.store.SetInjector(func(faultstore.Op) faultstore.Fault {
				mu.Lock()
				defer mu.Unlock()
				if calls++; calls != at {
					return faultstore.Fault{}
				}
				return faultstore.Fault{Hook: func(context.Context) {
					d.setRound(d.compactor())
					d.wait(11 * time.Minute)
					d.cleanRound(d.cleaner())
				}}
			})
		}
		for at := 1; at <= 7; at++ { // three indexes, three reads, a write
			others(at)
			_, err := d.compactor().setRound(d.Context())
			require.NoError(d, err)
			d.store.SetInjector(nil)
			require.LessOrEqual(d, len(d.sets()), 1) // none, once the stream is long enough for an object of its own
			d.verify()
			for range 2 {
				d.set(run{0, 1, 10})
			}
		}
		// One that is missing and in use is told.
		require.NoError(d, d.base.Delete(d.Context(), DataKey(DefaultNamespace, d.sets()[0])))
		_, err := d.compactor().setRound(d.Context())
		require.NoError(d, err)
		require.ErrorIs(d, d.failures[len(d.failures)-1], objstore.ErrNotFound)
	})
}
