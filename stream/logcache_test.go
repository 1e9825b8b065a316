package stream

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// cacheTest is a log cache with streams that go on where they ended.
type cacheTest struct {
	*logCache
	t         require.TestingT
	next      map[catalog.StreamID]int64
	wal       int64
	evictions int
}

func newCacheTest(t require.TestingT, cfg Config) *cacheTest {
	c := &cacheTest{t: t, next: map[catalog.StreamID]int64{}}
	c.logCache = newLogCache(cfg, func() { c.evictions++ })
	return c
}

// cacheConfig is a cache of one MiB, the least threshold that there is (LC-8).
func cacheConfig() Config {
	cfg := DefaultConfig()
	cfg.CacheWALSize, cfg.CacheMaxStreams = 10<<20, 100
	return cfg
}

// add puts the next record of a stream, of so many rows and bytes.
func (c *cacheTest) add(id catalog.StreamID, count int32, size int) Record {
	r := Record{Stream: id, Epoch: 4, Base: c.next[id], Count: count, Payload: make([]byte, size)}
	require.NoError(c.t, c.put(r, c.wal))
	c.next[id], c.wal = r.End(), c.wal+1
	return r
}

// offsets shows records as their bases.
func offsets(records []Record) []int64 {
	bases := []int64{}
	for _, r := range records {
		bases = append(bases, r.Base)
	}
	return bases
}

func TestLC1_ABlockIsSealedWhenItIsFull(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Config)
		fill   func(*cacheTest)
		want   int // records of stream 1 in the sealed block
	}{
		"by its cost": {
			func(cfg *Config) { cfg.UploadThreshold = 1 << 20 },
			func(c *cacheTest) {
				for range 3 {
					c.add(1, 1, 1<<19-RecordHeaderSize-recordBookkeeping)
				}
			}, 2,
		},
		"by its streams": {
			func(cfg *Config) { cfg.CacheMaxStreams = 3 },
			func(c *cacheTest) {
				for id := range catalog.StreamID(5) {
					c.add(id, 1, 10)
				}
			}, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := cacheConfig()
			test.change(&cfg)
			c := newCacheTest(t, cfg)
			test.fill(c)
			sealed := c.takeSealed()
			require.Len(t, sealed, 1)
			require.Len(t, sealed[0].records(1), test.want)
			require.Empty(t, c.takeSealed(), "each block is handed over once")
			c.seal()
			require.Len(t, c.takeSealed(), 1, "what is forced")
			c.seal()
			require.Empty(t, c.takeSealed(), "nothing is there to be sealed")
		})
	}
}

func TestF06_ABlockSpansNoMoreOffsetsThanAnIndexEntryCan(t *testing.T) {
	for _, test := range []struct {
		counts []int32
		blocks int
	}{
		{[]int32{math.MaxInt32}, 1},
		{[]int32{math.MaxInt32 - 1, 1}, 1},
		{[]int32{math.MaxInt32, 1}, 2},
		{[]int32{1, math.MaxInt32}, 2},
		{[]int32{math.MaxInt32, math.MaxInt32, math.MaxInt32}, 3},
	} {
		t.Run(fmt.Sprint(test.counts), func(t *testing.T) {
			c := newCacheTest(t, cacheConfig())
			for _, count := range test.counts {
				c.add(9, count, 10)
			}
			c.seal()
			sealed := c.takeSealed()
			require.Len(t, sealed, test.blocks)
			for _, b := range sealed {
				run := b.runs[9]
				require.LessOrEqual(t, run.end()-run.start(), int64(math.MaxInt32))
			}
		})
	}
}

func TestLC2_ARecordThatDoesNotFollowIsADefect(t *testing.T) {
	c := newCacheTest(t, cacheConfig())
	c.add(9, 10, 100)
	before := c.cost()
	for _, base := range []int64{9, 11, 0} {
		err := c.put(Record{Stream: 9, Epoch: 4, Base: base, Count: 1}, 7)
		require.Equal(t, &DiscontinuityError{Stream: 9, Want: 10, Got: base}, err)
	}
	require.Equal(t, before, c.cost(), "nothing was added")
	c.add(9, 1, 1)
}

func TestLC2_AStreamThatWasElsewhereBeginsABlockOfItsOwn(t *testing.T) {
	c := newCacheTest(t, cacheConfig())
	c.add(9, 10, 100)
	require.NoError(t, c.put(Record{Stream: 9, Epoch: 5, Base: 70, Count: 10}, 1))
	require.Len(t, c.takeSealed(), 1, "one block holds records of one epoch (UP-10)")
	require.Equal(t, []int64{0}, offsets(c.get(9, 0, 100, 1000)), "a run without a gap")
	require.Equal(t, []int64{70}, offsets(c.get(9, 20, 100, 1000)))
	require.Equal(t, []int64{70}, offsets(c.get(9, 75, 100, 1000)))
	require.Empty(t, c.get(9, 20, 70, 1000))
}

func TestF62_TinyRecordsCostMoreThanTheirBytes(t *testing.T) {
	c := newCacheTest(t, cacheConfig())
	for range 10 {
		c.add(9, 1, 10)
	}
	require.Equal(t, int64(10*(10+33+64)), c.cost(), "LC-3")
}

// TestF62_TheCacheTakesNoMoreMemoryThanItCounts compares the heap with the cost of records of 10 bytes.
func TestF62_TheCacheTakesNoMoreMemoryThanItCounts(t *testing.T) {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what the first one found is swept
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	c := newCacheTest(t, DefaultConfig())
	for c.cost() < 16<<20 {
		for id := range catalog.StreamID(100) {
			c.add(id, 1, 10)
		}
	}
	require.Less(t, heap()-before, c.cost())
	runtime.KeepAlive(c)
}

func TestLC4_Get(t *testing.T) {
	c := newCacheTest(t, cacheConfig())
	c.next[9] = 100
	for range 6 { // 100, 110, ... 150, in three blocks
		c.add(9, 10, 100)
		c.add(8, 1, 100)
		if c.next[9]%20 == 0 {
			c.seal()
		}
	}
	for name, test := range map[string]struct {
		start, end int64
		maxBytes   int
		want       []int64
	}{
		"from a batch's first offset":      {110, 200, 1000, []int64{110, 120, 130, 140, 150}},
		"from the middle of a batch":       {115, 200, 1000, []int64{110, 120, 130, 140, 150}},
		"from the last offset":             {159, 200, 1000, []int64{150}},
		"up to an offset":                  {100, 130, 1000, []int64{100, 110, 120}},
		"up to the middle of a batch":      {100, 121, 1000, []int64{100, 110, 120}},
		"up to a number of bytes":          {100, 200, 299, []int64{100, 110}},
		"exactly a number of bytes":        {100, 200, 300, []int64{100, 110, 120}},
		"at least one record":              {100, 200, 0, []int64{100}},
		"only the tail is here":            {50, 200, 200, []int64{100, 110}},
		"only the tail, up to an offset":   {50, 101, 1000, []int64{100}},
		"the end is where the tail begins": {50, 100, 1000, []int64{}},
		"all is before":                    {10, 50, 1000, []int64{}},
		"all is behind":                    {160, 200, 1000, []int64{}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, offsets(c.get(9, test.start, test.end, test.maxBytes)))
		})
	}
	require.Empty(t, c.get(7, 0, 200, 1000), "a stream that is not here")
}

func TestLC5_OnlyTheOldestFreeBlocksAreEvicted(t *testing.T) {
	cfg := cacheConfig()
	cfg.CacheWALSize = 3 << 20
	c := newCacheTest(t, cfg)
	big := 1<<20 - RecordHeaderSize - recordBookkeeping
	c.add(9, 1, big)
	c.add(9, 1, big)
	blocks := c.takeSealed()
	require.Len(t, blocks, 2)
	c.markFree(blocks[0])
	require.Zero(t, c.evictions, "there is room")
	c.add(9, 1, big)
	require.Equal(t, 1, c.evictions)
	require.Equal(t, []int64{1, 2}, offsets(c.get(9, 0, 10, 1<<30)))
	c.add(9, 1, big)
	require.Equal(t, 1, c.evictions, "what is not committed stays, however full it is")
	require.Equal(t, int64(3<<20), c.cost())
	c.markFree(blocks[1])
	require.Equal(t, 2, c.evictions)
	require.Equal(t, []int64{2, 3}, offsets(c.get(9, 0, 10, 1<<30)))
}

func TestLC5_NoMoreThan64BlocksAreKeptOnceTheyAreFree(t *testing.T) {
	c := newCacheTest(t, cacheConfig())
	for i := range 70 {
		c.next[9] = int64(100 * i) // with gaps, so that they cannot be merged
		c.add(9, 1, 10)
		c.seal()
	}
	for _, b := range c.takeSealed() {
		c.markFree(b)
	}
	require.Len(t, c.mu.blocks, 64)
	require.Equal(t, []int64{600}, offsets(c.get(9, 0, 10_000, 1000)))
}

func TestLC6_SmallFreeBlocksThatJoinBecomeOne(t *testing.T) {
	c := newCacheTest(t, cacheConfig())
	var want []int64
	for i := range 20 {
		want = append(want, c.add(9, 2, 10).Base)
		c.add(catalog.StreamID(i%3), 1, 10)
		c.seal()
	}
	cost := c.cost()
	for i, b := range c.takeSealed() {
		c.markFree(b)
		require.Equal(t, want, offsets(c.get(9, 0, 1000, 1000)), "after block %d", i)
	}
	require.Less(t, len(c.mu.blocks), 12)
	require.Equal(t, cost, c.cost())
}

func TestLC6_BlocksThatDoNotJoinOrAreTooLargeStayAsTheyAre(t *testing.T) {
	gaps := newCacheTest(t, cacheConfig())
	for i := range 20 {
		gaps.next[9] = int64(100 * i)
		gaps.add(9, 1, 10)
		gaps.seal()
	}
	large := newCacheTest(t, cacheConfig())
	for range 20 {
		large.add(9, 1, 400<<10)
		large.seal()
	}
	for _, c := range []*cacheTest{gaps, large} {
		for _, b := range c.takeSealed() {
			c.markFree(b)
		}
		require.Len(t, c.mu.blocks, 20)
	}
}

func TestLC7_ShortMemoryForcesOneUploadAtATime(t *testing.T) {
	cfg := cacheConfig()
	cfg.CacheWALSize, cfg.UploadThreshold = 30<<20, 10<<20
	c := newCacheTest(t, cfg)
	for range 23 {
		c.add(9, 1, 1<<20)
	}
	require.Len(t, c.takeSealed(), 2)
	c.add(9, 1, 1<<20)
	pressed := c.takeSealed()
	require.Len(t, pressed, 1, "80 % cannot be evicted")
	require.True(t, pressed[0].hurried)
	for c.cost() < 30<<20 {
		c.add(9, 1, 1<<20)
	}
	require.Empty(t, c.takeSealed(), "one is under way")
	c.markFree(pressed[0])
	require.Len(t, c.takeSealed(), 1, "memory is still short")
}

func TestLC8_TheThresholdIsAThirdOfTheCacheAndAtLeastOneMiB(t *testing.T) {
	for _, test := range [][3]int64{{100 << 20, 200 << 20, 200 << 20 / 3}, {10 << 20, 200 << 20, 10 << 20}, {10, 10, 1 << 20}} {
		cfg := DefaultConfig()
		cfg.UploadThreshold, cfg.CacheWALSize = test[0], test[1]
		require.Equal(t, test[2], newLogCache(cfg, nil).threshold)
	}
}

func TestUP8_ABlockIsSealedWhenItsFirstRecordIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCacheTest(t, cacheConfig())
		_, waiting := c.sealOlder(time.Minute, time.Now())
		require.False(t, waiting)
		begun := time.Now()
		c.add(9, 1, 10)
		<-time.After(time.Second)
		c.add(9, 1, 10)
		due, waiting := c.sealOlder(time.Minute, time.Now())
		require.True(t, waiting)
		require.Equal(t, begun.Add(time.Minute), due)
		<-time.After(time.Until(due))
		_, waiting = c.sealOlder(time.Minute, time.Now())
		require.False(t, waiting)
		require.Len(t, c.takeSealed(), 1)
	})
}

// TestTheLogCacheAgreesWithAPlainSlice appends, seals, commits, reopens streams elsewhere and reads at random. The model is
// all records that ever were, per stream.
func TestTheLogCacheAgreesWithAPlainSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := cacheConfig()
		cfg.CacheWALSize = rapid.SampledFrom([]int64{3 << 20, 4 << 20, 8 << 20}).Draw(t, "capacity")
		cfg.CacheMaxStreams = rapid.IntRange(2, 6).Draw(t, "streams of a block")
		c := newCacheTest(t, cfg)
		all := map[catalog.StreamID][]Record{}
		var sealed []*cacheBlock
		ids := rapid.Custom(func(t *rapid.T) catalog.StreamID { return catalog.StreamID(rapid.IntRange(0, 4).Draw(t, "stream")) })
		epoch := int64(1)
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				id := ids.Draw(t, "id")
				for range rapid.IntRange(1, 30).Draw(t, "n") {
					r := Record{
						Stream: id, Epoch: epoch, Base: c.next[id], Count: rapid.Int32Range(1, 9).Draw(t, "rows"),
						Payload: make([]byte, rapid.SampledFrom([]int{0, 10, 1000, 200_000}).Draw(t, "bytes")),
					}
					require.NoError(t, c.put(r, 0))
					all[id], c.next[id] = append(all[id], r), r.End()
				}
			},
			"seal":   func(*rapid.T) { c.seal() },
			"commit": func(t *rapid.T) { sealed = append(sealed, c.takeSealed()...); sealed = freeSome(t, c.logCache, sealed) },
			"elsewhere": func(t *rapid.T) {
				c.seal()
				epoch++
				c.next[ids.Draw(t, "id")] += rapid.Int64Range(0, 50).Draw(t, "rows")
			},
			"get": func(t *rapid.T) {
				id := ids.Draw(t, "id")
				start := rapid.Int64Range(0, c.next[id]+5).Draw(t, "start")
				end := start + rapid.Int64Range(1, 200).Draw(t, "rows")
				maxBytes := rapid.SampledFrom([]int{0, 15, 3000, 1 << 30}).Draw(t, "bytes")
				want := plainGet(cached(c.logCache, id), start, end, maxBytes)
				require.Equal(t, offsets(want), offsets(c.get(id, start, end, maxBytes)))
			},
			"": func(t *rapid.T) { checkCache(t, c.logCache, all) },
		})
	})
}

// freeSome commits some of the sealed blocks, oldest first, and returns the rest.
func freeSome(t *rapid.T, c *logCache, sealed []*cacheBlock) []*cacheBlock {
	n := rapid.IntRange(0, len(sealed)).Draw(t, "blocks")
	for _, b := range sealed[:n] {
		c.markFree(b)
	}
	return sealed[n:]
}

// cached is everything that the cache has of a stream.
func cached(c *logCache, id catalog.StreamID) []Record {
	var all []Record
	for from := int64(0); ; from = all[len(all)-1].End() {
		run := c.get(id, from, math.MaxInt64, math.MaxInt)
		if len(run) == 0 {
			return all
		}
		all = append(all, run...)
	}
}

// plainGet is LC-4 over a slice of records.
func plainGet(records []Record, start, end int64, maxBytes int) []Record {
	var found []Record
	for _, r := range records {
		if r.End() <= start {
			continue
		}
		follows := len(found) == 0 || found[len(found)-1].End() == r.Base
		if r.Base >= end || !follows || len(found) > 0 && len(r.Payload) > maxBytes {
			break
		}
		found, maxBytes = append(found, r), maxBytes-len(r.Payload)
	}
	return found
}

// checkCache holds the cache against all records: it has the newest ones of each stream, and among them all that are not
// committed; its cost is theirs; and it holds no more than it must.
func checkCache(t *rapid.T, c *logCache, all map[catalog.StreamID][]Record) {
	cost, held := int64(0), map[catalog.StreamID]int{}
	for _, b := range c.mu.blocks {
		for id, run := range b.runs {
			if b.state != blockFree {
				held[id] += len(run.records)
			}
			for _, r := range run.records {
				cost += recordCost(r)
			}
		}
	}
	require.Equal(t, cost, c.cost())
	for id, records := range all {
		have := cached(c, id)
		require.Equal(t, offsets(records[len(records)-len(have):]), offsets(have))
		require.GreaterOrEqual(t, len(have), held[id])
	}
	if len(c.mu.blocks) > 0 && c.mu.blocks[0].state == blockFree {
		require.LessOrEqual(t, c.cost()*10, c.capacity*9)
		require.LessOrEqual(t, len(c.mu.blocks), maxCacheBlocks)
	}
}

func BenchmarkLogCachePut(b *testing.B) {
	for _, size := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprintf("payload=%d", size), func(b *testing.B) {
			c := newLogCache(DefaultConfig(), func() {})
			payload := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for i := int64(0); b.Loop(); i++ {
				if err := c.put(Record{Stream: catalog.StreamID(i % 100), Base: i / 100, Count: 1, Payload: payload}, i); err != nil {
					b.Fatal(err)
				}
				for _, block := range c.takeSealed() {
					c.markFree(block)
				}
			}
		})
	}
}

func BenchmarkLogCacheGet(b *testing.B) {
	c := newLogCache(DefaultConfig(), func() {})
	const records = 100_000
	for i := range int64(records) {
		if err := c.put(Record{Stream: 9, Base: i, Count: 1, Payload: make([]byte, 100)}, i); err != nil {
			b.Fatal(err)
		}
	}
	for name, bytes := range map[string]int{"records=1": 0, "records=100": 10_000} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := int64(0); b.Loop(); i++ {
				if len(c.get(9, i*7919%(records-100), math.MaxInt64, bytes)) == 0 {
					b.Fatal("nothing")
				}
			}
		})
	}
}
