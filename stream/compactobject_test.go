package stream

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

func (d *depot) objectRound(c *compactor, stream int, major bool) {
	d.Helper()
	require.NoError(d, c.objectRound(d.Context(), d.streams[stream], major))
	d.verify()
}

func TestSmallObjectsAreMerged(t *testing.T) {
	inDepot(t, 2, func(d *depot) {
		for range 3 {
			d.object(run{0, 2, 50})
		}
		d.set(run{0, 1, 50}) // in between, so the next ones do not follow
		d.object(run{0, 2, 50})
		begun := d.metadata.View().ClockMs()
		d.wait(time.Hour)
		d.object(run{0, 2, 50})
		d.object(run{1, 2, 50})
		d.trim(0, 9) // three records of the first group

		d.objectRound(d.compactor(), 0, false)
		objects := d.objects(0)
		require.Len(d, objects, 2)
		require.Equal(d, []int64{6, 18}, []int64{objects[0].Start, objects[0].End}, "CP-14: without the dead block")
		require.Equal(d, []int64{21, 33}, []int64{objects[1].Start, objects[1].End})
		require.Equal(d, begun, objects[1].DataMs)
		require.Len(d, d.objects(1), 1, "one object is no group")
		d.objectRound(d.compactor(), 0, false)
		require.Equal(d, objects, d.objects(0), "nothing is left to do")
		d.cleanAll()
	})
}

func TestGroupsOfObjectsKeepTheirLimits(t *testing.T) {
	state := func(start, end, size int64, composite bool) catalog.StreamObjectState {
		return catalog.StreamObjectState{StreamObject: catalog.StreamObject{
			Object: catalog.ObjectID(start), Start: start, End: end, Size: size, Attributes: catalog.NewAttributes(composite, 0, false),
		}}
	}
	const wide = 1<<31 - 1
	for name, c := range map[string]struct {
		objects    []catalog.StreamObjectState
		start      int64
		composites bool
		want       [][]int64
	}{
		"one":                          {[]catalog.StreamObjectState{state(0, 1, 1, false)}, 0, false, nil},
		"two":                          {[]catalog.StreamObjectState{state(0, 1, 1, false), state(1, 2, 1, false)}, 0, false, [][]int64{{0, 1}}},
		"a gap":                        {[]catalog.StreamObjectState{state(0, 1, 1, false), state(2, 3, 1, false)}, 0, false, nil},
		"a dead one":                   {[]catalog.StreamObjectState{state(0, 1, 1, false), state(1, 2, 1, false)}, 1, false, nil},
		"just the limit":               {[]catalog.StreamObjectState{state(0, 1, 60, false), state(1, 2, 40, false)}, 0, false, [][]int64{{0, 1}}},
		"above the limit":              {[]catalog.StreamObjectState{state(0, 1, 60, false), state(1, 2, 41, false), state(2, 3, 1, false)}, 0, false, [][]int64{{1, 2}}},
		"one above the limit":          {[]catalog.StreamObjectState{state(0, 1, 200, false), state(1, 2, 1, false)}, 0, false, nil},
		"composites do not join":       {[]catalog.StreamObjectState{state(0, 1, 1, false), state(1, 2, 1, true), state(2, 3, 1, false)}, 0, false, nil},
		"composites join":              {[]catalog.StreamObjectState{state(0, 1, 1, false), state(1, 2, 1, true)}, 0, true, [][]int64{{0, 1}}},
		"F06 as wide as fits":          {[]catalog.StreamObjectState{state(0, 9, 1, false), state(9, wide, 1, false)}, 0, false, [][]int64{{0, 9}}},
		"F06 one offset wider":         {[]catalog.StreamObjectState{state(0, 9, 1, false), state(9, wide+1, 1, false)}, 0, false, nil},
		"F06 far out, and close again": {[]catalog.StreamObjectState{state(0, 1<<40, 1, false), state(1<<40, 1<<40+5, 1, false), state(1<<40+5, 1<<40+6, 1, false)}, 0, false, [][]int64{{1 << 40, 1<<40 + 5}}},
	} {
		t.Run(name, func(t *testing.T) {
			c0 := newCompactor(compactorOptions{cfg: testConfig()})
			var got [][]int64
			for _, group := range c0.objectGroups(streamView{catalog.Stream{Start: c.start}, c.objects}, 100, c.composites) {
				var ids []int64
				for _, o := range group {
					ids = append(ids, int64(o.Object))
				}
				got = append(got, ids)
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestCompositesLinkWhatIsThere(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		first := d.object(run{0, 20, 100})
		second := d.object(run{0, 20, 100})
		d.objectRound(d.compactor(), 0, true)
		objects := d.objects(0)
		require.Len(d, objects, 1)
		require.True(d, objects[0].Attributes.IsComposite())
		require.EqualValues(d, 40*(100+RecordHeaderSize+blockHeaderSize), objects[0].Size, "CMP-4")
		require.Empty(d, d.metadata.View().Destroyed(10), "CP-15: the bytes are kept")
		d.cleanAll()
		require.Len(d, d.keys(), 3)

		// A composite and what follows it become one composite over the plain objects.
		third := d.object(run{0, 20, 100})
		d.objectRound(d.compactor(), 0, true)
		layout, err := loadLayout(d.Context(), d.base, DefaultNamespace, d.objects(0)[0].Object, 0, objects[0].Attributes)
		require.NoError(d, err)
		require.Equal(d, []Component{{first, 0, 0}, {second, 20, 0}, {third, 40, 0}}, layout.components)
		d.cleanAll()
		require.Len(d, d.keys(), 4)

		// Components that are dead go when it is rebuilt, and not before the commit.
		d.trim(0, 63)
		d.objectRound(d.compactor(), 0, false)
		objects = d.objects(0)
		require.Len(d, objects, 1)
		require.Equal(d, []int64{63, 180}, []int64{objects[0].Start, objects[0].End})
		require.Equal(d, "rebuild", d.done[len(d.done)-1].Kind)
		require.Len(d, d.keys(), 5)
		d.cleanAll()
		require.NotContains(d, d.keys(), DataKey(DefaultNamespace, first))
		require.Len(d, d.keys(), 3)

		// All of it goes with the stream.
		d.deleteStream(0)
		d.cleanAll()
		require.Empty(d, d.keys(), "GC-1")
	})
}

func TestCompositesOfLittleDeadAreLeftAlone(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.object(run{0, 20, 100})
		d.object(run{0, 20, 100})
		d.objectRound(d.compactor(), 0, true)
		before := d.objects(0)
		d.trim(0, 12) // four blocks of 143 bytes, the limit is 600
		d.objectRound(d.compactor(), 0, false)
		require.Equal(d, before, d.objects(0))
		d.trim(0, 15)
		d.objectRound(d.compactor(), 0, false)
		require.NotEqual(d, before, d.objects(0))
	})
}

func TestDeadObjectsAreDroppedInSteps(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		for range maxCleanup + 1 {
			d.object(run{0, 1, 1})
		}
		d.trim(0, 3*(maxCleanup+1))
		d.objectRound(d.compactor(), 0, false)
		require.Empty(d, d.objects(0))
		require.Len(d, d.done, 2)
		require.Equal(d, []any{"cleanup", maxCleanup, 1}, []any{d.done[0].Kind, d.done[0].Sources, d.done[1].Sources})
		d.cleanAll()
		require.Empty(d, d.keys())
	})
}

func TestADeadCompositeGoesWithItsComponents(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.object(run{0, 20, 100})
		d.object(run{0, 20, 100})
		d.objectRound(d.compactor(), 0, true)
		d.trim(0, 120)
		d.objectRound(d.compactor(), 0, false)
		require.Equal(d, catalog.DeepDelete, d.metadata.View().Destroyed(1)[0].Operation)
		d.cleanAll()
		require.Empty(d, d.keys())
	})
}

func TestStreamsOfOthersAreLeftAlone(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.object(run{0, 1, 10})
		d.object(run{0, 1, 10})
		require.NoError(d, d.metadata.CloseStream(d.Context(), d.node, d.streams[0], 1))
		d.objectRound(d.compactor(), 0, true)
		require.Len(d, d.objects(0), 2)
	})
}

func TestAStreamThatMovesAwayMeanwhileIsNoFailure(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.object(run{0, 1, 10})
		d.object(run{0, 1, 10})
		d.store.SetInjector(faultstore.When(faultstore.Writes, faultstore.Always(faultstore.Fault{Hook: func(context.Context) {
			_ = d.metadata.CloseStream(d.Context(), d.node, d.streams[0], 1)
			_, _ = d.metadata.OpenStream(d.Context(), d.node, d.streams[0], 2)
		}})))
		d.objectRound(d.compactor(), 0, false)
		require.Len(d, d.objects(0), 2)
		d.store.SetInjector(nil)
		d.objectRound(d.compactor(), 0, false)
		require.Len(d, d.objects(0), 1)
		d.cleanAll()
	})
}

func TestStreamsWarmUpBeforeTheyAreCompacted(t *testing.T) {
	inDepot(t, 2, func(d *depot) {
		c := d.compactor(func(c *compactConfig) { c.interval, c.minorInterval, c.majorInterval = 0, 30*time.Second, 0 })
		d.object(run{0, 1, 10})
		d.object(run{0, 1, 10})
		for _, want := range []int{2, 1} {
			ctx, cancel := context.WithTimeout(d.Context(), time.Minute-time.Second+2*time.Second*time.Duration(2-want))
			c.run(ctx)
			cancel()
			require.Len(d, d.objects(0), want, "CP-16")
		}
	})
}

func TestMajorPassesComeInTheirInterval(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		c := d.compactor(func(c *compactConfig) { c.interval = 0 })
		d.object(run{0, 20, 100})
		d.object(run{0, 20, 100})
		for _, want := range []int{2, 1} {
			ctx, cancel := context.WithTimeout(d.Context(), time.Duration(2-want)*time.Hour+20*time.Minute)
			c.run(ctx)
			cancel()
			require.Len(d, d.objects(0), want)
		}
		require.Empty(d, d.failures)
		d.verify()
	})
}

// TestCompactionStopsWithinOneObject: what is under way when the engine stops ends with its next call, and leaves nothing
// behind that does not expire.
func TestCompactionStopsWithinOneObject(t *testing.T) {
	inDepot(t, 2, func(d *depot) {
		for range 4 {
			d.set(run{0, 3, 100}, run{1, 5, 10})
			d.object(run{1, 2, 10})
		}
		ctx, cancel := context.WithCancel(d.Context())
		var calls atomic.Int64
		d.store.SetInjector(faultstore.Always(faultstore.Fault{Hook: func(context.Context) {
			if calls.Add(1) == 5 {
				cancel()
			}
		}}))
		d.compactor(func(c *compactConfig) { c.minorInterval = time.Minute }).run(ctx)
		require.Less(d, calls.Load(), int64(5+readers), "but for the reads that were under way")
		d.store.SetInjector(nil)
		d.verify()
		d.cleanAll()
	})
}

func TestCompactionIsThrottled(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.object(run{0, 20, 100})
		d.object(run{0, 20, 100})
		c := d.compactor(func(c *compactConfig) { c.minorBytes = 1 << 20 })
		c.throttle = newThrottle(100)
		begun := time.Now()
		d.objectRound(c, 0, false)
		moved := 2 * 40 * (100 + RecordHeaderSize + blockHeaderSize)
		require.InDelta(d, float64(moved)/100, time.Since(begun).Seconds(), 5)
	})
}

func TestAThrottleSharesItsRateAndSavesASecond(t *testing.T) {
	var now time.Time
	now = now.Add(time.Hour)
	th := newThrottle(1000)
	require.Equal(t, -500*time.Millisecond, th.take(500, now), "a second was saved")
	require.Equal(t, 500*time.Millisecond, th.take(1000, now))
	require.Equal(t, 500*time.Millisecond, th.take(1000, now.Add(time.Second)))
	require.Equal(t, 9*time.Second, th.take(10_000, now.Add(time.Minute)))
	require.NoError(t, newThrottle(0).wait(t.Context(), 1<<40))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, newThrottle(1).wait(ctx, 10), context.Canceled)
}
