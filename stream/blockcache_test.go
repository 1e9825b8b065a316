package stream

import (
	"math"
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

// blocksTest is a block cache over one object, whose units do not lie side by side.
type blocksTest struct {
	*blockCache
	t     *testing.T
	store *faultstore.Store
}

func runBlocks(t *testing.T, capacity int64, test func(t *testing.T, c *blocksTest)) {
	synctest.Test(t, func(t *testing.T) {
		c := &blocksTest{t: t, store: faultstore.New(mem.New(), nil)}
		var object []byte
		for i := range int64(10) {
			object = append(AppendBlock(object, []Record{testRecord(1, i*10)}), 0)
		}
		require.NoError(t, c.store.Put(t.Context(), "object", object))
		var running sync.WaitGroup
		keyOf := func(catalog.ObjectID) string { return "object" }
		c.blockCache = newBlockCache(t.Context(), &running, c.store, keyOf, capacity)
		test(t, c)
		running.Wait()
	})
}

const blocksTestUnit = blockHeaderSize + RecordHeaderSize + 100 // bytes of an object

func (c *blocksTest) source(i int64) unitSource {
	return unitSource{1, IndexEntry{
		Stream: 1, Start: i * 10, Delta: 10, Records: 1, Position: i * (blocksTestUnit + 1), Size: blocksTestUnit,
	}}
}

// use loads some units and gives them back.
func (c *blocksTest) use(finished bool, numbers ...int64) {
	for _, i := range numbers {
		u := c.hold([]unitSource{c.source(i)})[0]
		<-u.done
		require.NoError(c.t, u.err)
		synctest.Wait()
		c.release(u, finished)
	}
}

// has are the units that are there.
func (c *blocksTest) has() []int64 {
	var there []int64
	for i := range int64(10) {
		c.mu.Lock()
		if c.mu.units[c.source(i).key()] != nil {
			there = append(there, i)
		}
		c.mu.Unlock()
	}
	return there
}

func TestBC7_WhatIsFinishedIsEvictedFirstAndThenTheLeastRecentlyUsed(t *testing.T) {
	runBlocks(t, 4*(blocksTestUnit+recordBookkeeping), func(t *testing.T, c *blocksTest) {
		c.use(false, 0, 1)
		c.use(true, 2)
		require.Equal(t, c.capacity-2*(blocksTestUnit+recordBookkeeping), c.free(), "what is finished is as good as free")
		c.use(false, 3, 0)
		require.Equal(t, []int64{0, 1, 2, 3}, c.has())
		c.use(false, 4)
		require.Equal(t, []int64{0, 1, 3, 4}, c.has())
		c.use(false, 5)
		require.Equal(t, []int64{0, 3, 4, 5}, c.has())
		require.Equal(t, 6, c.store.Count(objstore.OpReadRange))
		c.use(true, 0)
		c.use(false, 0)
		c.use(false, 6)
		require.Equal(t, []int64{0, 4, 5, 6}, c.has(), "it is used again, so it is finished no more")
	})
}

func TestBC7_WhatIsHeldIsNotEvictedHoweverFullTheCacheIs(t *testing.T) {
	runBlocks(t, 1, func(t *testing.T, c *blocksTest) {
		units := c.hold([]unitSource{c.source(0), c.source(1), c.source(2)})
		synctest.Wait()
		require.Equal(t, []int64{0, 1, 2}, c.has())
		c.release(units[1], false)
		require.Equal(t, []int64{0, 2}, c.has())
		again := c.hold([]unitSource{c.source(0)})
		c.release(units[0], true)
		require.Equal(t, []int64{0, 2}, c.has(), "another reader is not finished with it")
		c.release(again[0], false)
		c.release(units[2], false)
		require.Empty(t, c.has())
		require.Zero(t, c.size())
	})
}

func TestBC7_WhatIsNotUsedForAMinuteIsEvicted(t *testing.T) {
	runBlocks(t, 1<<20, func(t *testing.T, c *blocksTest) {
		c.use(false, 0)
		<-time.After(maxUnusedAge / 2)
		c.use(true, 1)
		require.True(t, c.evictUnused(time.Now()))
		require.Equal(t, []int64{0, 1}, c.has())
		<-time.After(maxUnusedAge / 2)
		require.True(t, c.evictUnused(time.Now()))
		require.Equal(t, []int64{1}, c.has())
		<-time.After(maxUnusedAge / 2)
		require.False(t, c.evictUnused(time.Now()))
		require.Empty(t, c.has())
	})
}

func TestBC8_ALoadGoesOnWhileOneOfItsUnitsIsWanted(t *testing.T) {
	runBlocks(t, 1<<20, func(t *testing.T, c *blocksTest) {
		gate := faultstore.NewGate(func(faultstore.Op) bool { return true })
		c.store.SetInjector(gate.Inject)
		long := c.source(0)
		long.entry.Position, long.entry.Size = 0, blocksTestUnit
		next := unitSource{1, IndexEntry{Position: blocksTestUnit, Size: 1}} // the byte between two blocks: not a block
		units := c.hold([]unitSource{long, next})
		c.release(units[1], false)
		synctest.Wait()
		held, err := gate.Held(t.Context(), 1)
		require.NoError(t, err)
		require.Len(t, held, 1, "one GET for both")
		gate.Open()
		<-units[0].done
		require.NoError(t, units[0].err)
		<-units[1].done
		require.ErrorIs(t, units[1].err, ErrCorrupt)
		synctest.Wait()
		require.Equal(t, 1, c.count(), "what is broken is not kept")
		c.release(units[0], false)
	})
}

// size and count are what the cache has: bytes and units.
func (c *blockCache) size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.cost
}

func (c *blockCache) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.units)
}

func BenchmarkBlockCacheHit(b *testing.B) {
	r := newReadTest(b, DefaultConfig())
	defer r.close()
	r.commit(1000, 1)
	if _, err := r.read(b.Context(), 1, 0, 10_000, math.MaxInt, false); err != nil {
		b.Fatal(err)
	}
	for name, bytes := range map[string]int{"records=1": 0, "records=100": 10_000} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := int64(0); b.Loop(); i++ {
				start := i * 7919 % 9000
				if _, err := r.read(b.Context(), 1, start, 10_000, bytes, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
