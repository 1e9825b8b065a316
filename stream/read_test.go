package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/stream/catalog"
	"github.com/tidemark-io/tidemark/stream/catalog/catalogtest"
)

// readTest is a reader over a store with faults and a log cache, with streams 0 to 9 open, in a bubble of its own time. A
// block of an object holds ten records of 100 bytes and ten rows: a unit has 100 rows and 1340 bytes.
type readTest struct {
	*objectReader
	t       require.TestingT
	memory  *viewCatalog
	store   *faultstore.Store
	trace   *faultstore.Trace
	node    catalog.Node
	records *cacheTest
}

// viewCatalog is a catalog whose next views can be replaced.
type viewCatalog struct {
	*catalogtest.Memory
	mu    sync.Mutex
	views []catalog.View // what the next calls of View return
}

func (c *viewCatalog) View() catalog.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.views) > 0 {
		v := c.views[0]
		c.views = c.views[1:]
		return v
	}
	return c.Memory.View()
}

func (c *viewCatalog) setViews(views ...catalog.View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.views = views
}

func readConfig() Config {
	cfg := cacheConfig()
	cfg.ObjectBlockSize, cfg.UploadStreamSplit = 1000, 1<<20
	cfg.CacheBlockSize, cfg.CacheIndexSize = 1<<20, 1<<20
	cfg.ReadaheadStep, cfg.ReadaheadMax = 2000, 8000
	return cfg
}

func newReadTest(t require.TestingT, cfg Config) *readTest {
	r := &readTest{t: t, memory: &viewCatalog{Memory: catalogtest.NewMemory(time.Now)}}
	r.store = faultstore.New(mem.New(), nil)
	r.trace = r.store.Trace(nil)
	r.node = openStreams(t, r.memory.Memory, 10)
	r.records = newCacheTest(t, cfg)
	r.objectReader = newObjectReader(readerOptions{
		data: r.store, catalog: r.memory, namespace: DefaultNamespace, cfg: cfg, cache: r.records.logCache,
	})
	return r
}

func runRead(t *testing.T, change func(*Config), test func(t *testing.T, r *readTest)) {
	synctest.Test(t, func(t *testing.T) {
		cfg := readConfig()
		if change != nil {
			change(&cfg)
		}
		r := newReadTest(t, cfg)
		defer r.close()
		test(t, r)
	})
}

// record is a record of ten rows whose payload says where it belongs.
func testRecord(id catalog.StreamID, base int64) Record {
	payload := make([]byte, 100)
	binary.BigEndian.PutUint64(payload, uint64(id))
	binary.BigEndian.PutUint64(payload[92:], uint64(base))
	return Record{Stream: id, Epoch: 4, Base: base, Count: 10, Payload: payload}
}

// commit makes the next n records of each stream one object on the data bucket, which the log cache does not have.
func (r *readTest) commit(n int, ids ...catalog.StreamID) {
	u := newUploader(uploaderOptions{
		data: r.store, catalog: r.memory.Memory, node: r.node, namespace: DefaultNamespace, cfg: r.cfg,
	})
	defer u.close()
	var records []Record
	for _, id := range ids {
		for range n {
			records = append(records, testRecord(id, r.records.next[id]))
			r.records.next[id] += 10
		}
	}
	require.NoError(r.t, u.uploadRecords(context.Background(), records))
	r.trace.Reset()
}

// cacheNext puts the next n records of a stream into the log cache.
func (r *readTest) cacheNext(id catalog.StreamID, n int) {
	for range n {
		require.NoError(r.t, r.records.put(testRecord(id, r.records.next[id]), 0))
		r.records.next[id] += 10
	}
}

// get reads and returns the bases of the records, having checked their content.
func (r *readTest) get(id catalog.StreamID, start, end int64, maxBytes int) []int64 {
	records, err := r.read(context.Background(), id, start, end, maxBytes, false)
	require.NoError(r.t, err)
	return checkRecords(r.t, id, records)
}

func checkRecords(t require.TestingT, id catalog.StreamID, records []Record) []int64 {
	for _, got := range records {
		require.Equal(t, testRecord(id, got.Base), got)
	}
	return offsets(records)
}

// bases is from, from+10 and so on, below to.
func bases(from, to int64) []int64 {
	all := []int64{}
	for ; from < to; from += 10 {
		all = append(all, from)
	}
	return all
}

// requests is the trace since the last call, with keys shortened to the number of the object.
func (r *readTest) requests() []string {
	synctest.Wait()
	lines := strings.Split(strings.TrimSuffix(r.trace.String(), "\n"), "\n")
	r.trace.Reset()
	all := []string{}
	for _, line := range lines {
		if line != "" {
			before, after, _ := strings.Cut(line, " ")
			all = append(all, before+" "+after[strings.LastIndex(after, "/")+1:])
		}
	}
	slices.Sort(all)
	return all
}

const all = 1 << 30 // bytes, or offsets

func TestTailReadsMakeNoRequests(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(10, 1)
		r.cacheNext(1, 20)
		require.Equal(t, bases(100, 300), r.get(1, 100, 300, all))
		require.Equal(t, bases(290, 300), r.get(1, 299, 300, 1))
		require.Equal(t, bases(150, 180), r.get(1, 155, 178, all))
		require.Empty(t, r.requests())
	})
}

func TestRD2_AReadJoinsTheHeadFromObjectsAndTheTailFromMemory(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(30, 1)
		r.cacheNext(1, 20) // 300 to 500
		for name, test := range map[string]struct {
			start, end int64
			maxBytes   int
			want       []int64
		}{
			"all":                                {0, 500, all, bases(0, 500)},
			"across":                             {255, 345, all, bases(250, 350)},
			"the head only":                      {205, 300, all, bases(200, 300)},
			"a limit in the head":                {205, 500, 500, bases(200, 250)},
			"a limit at the end of the head":     {205, 500, 1000, bases(200, 300)},
			"a limit just behind the head":       {205, 500, 1099, bases(200, 300)},
			"a limit in the tail":                {205, 500, 1250, bases(200, 320)},
			"one record of the head":             {205, 500, 0, bases(200, 210)},
			"the last record of the head, alone": {290, 500, 0, bases(290, 300)},
		} {
			require.Equal(t, test.want, r.get(1, test.start, test.end, test.maxBytes), name)
		}
	})
}

func TestAJoinThatDoesNotFitFailsLoudly(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(10, 1)
		overlapping := testRecord(1, 95)
		require.NoError(t, r.records.put(overlapping, 0))
		_, err := r.read(t.Context(), 1, 50, 105, all, false)
		require.ErrorIs(t, err, ErrNotContinuous)
		var where *NotContinuousError
		require.ErrorAs(t, err, &where)
		require.Equal(t, int64(95), where.Want)
	})
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(10, 1)
		r.records.next[1] = 150 // a hole
		r.cacheNext(1, 10)
		_, err := r.read(t.Context(), 1, 100, 250, all, false)
		require.ErrorIs(t, err, ErrNotContinuous)
		require.Equal(t, bases(50, 100), r.get(1, 50, 250, all), "nothing is read over the hole")
	})
}

func TestRD1_AReadThatMeetsAnOldViewLooksOnceMore(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		old := r.memory.Memory.View()
		r.commit(10, 1)
		r.memory.setViews(slices.Repeat([]catalog.View{old}, 2*(readResets+1))...)
		require.Equal(t, bases(0, 100), r.get(1, 0, 100, all))
		r.memory.setViews(slices.Repeat([]catalog.View{old}, 100)...)
		_, err := r.read(t.Context(), 2, 0, 100, all, false)
		require.ErrorIs(t, err, ErrNotContinuous)
		require.ErrorContains(t, err, "stream 2 at 0")
	})
}

func TestRD3_AReadThatMayNotWaitStartsNothing(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(30, 1)
		r.cacheNext(1, 5)
		for range 2 {
			_, err := r.read(t.Context(), 1, 150, 350, all, true)
			require.ErrorIs(t, err, ErrWouldBlock)
		}
		require.Empty(t, r.requests())
		require.Equal(t, bases(150, 200), r.get(1, 150, 200, all))
		r.requests()

		fast := func(start, end int64) []int64 {
			records, err := r.read(t.Context(), 1, start, end, all, true)
			require.NoError(t, err)
			return checkRecords(t, 1, records)
		}
		require.Equal(t, bases(100, 200), fast(100, 200), "a unit in memory")
		require.Equal(t, bases(180, 200), fast(185, 350), "what is in memory of a read")
		require.Equal(t, bases(310, 330), fast(310, 330), "the log cache")
		require.Empty(t, r.requests())
	})
}

func TestBC1_AdjacentUnitsShareAGET(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(50, 1, 2) // one object, units of 1340 bytes, stream 1 first
		require.Equal(t, bases(0, 300), r.get(1, 5, 300, all))
		require.Equal(t, []string{"read 0 0+13808", "read 0 0+4020"}, r.requests(), "the index, three units")
	})
}

func TestBC1_ReadersOfOneUnitShareAGET(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(50, 1)
		gate := faultstore.NewGate(func(op faultstore.Op) bool { return op.Kind == objstore.OpReadRange })
		r.store.SetInjector(gate.Inject)
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				got := r.get(1, 110, 120, 100)
				if !slices.Equal(got, []int64{110}) {
					t.Errorf("got %v", got)
				}
			})
		}
		for range 2 { // the index, the unit
			held, err := gate.Held(t.Context(), 1)
			require.NoError(t, err)
			synctest.Wait()
			require.Len(t, held, 1)
			gate.Release(held...)
			synctest.Wait()
		}
		all.Wait()
		require.Equal(t, 2, r.store.Count(objstore.OpReadRange))
	})
}

func TestBC2_AnIndexIsReadOnceAndKeptWhileThereIsRoom(t *testing.T) {
	runRead(t, func(cfg *Config) { cfg.CacheIndexSize = 2*layoutCost + 2*entryCost }, func(t *testing.T, r *readTest) {
		for range 3 {
			r.commit(10, 1)
		}
		index := func(base int64) bool {
			before := r.store.Calls()
			r.get(1, base, base+10, 1)
			synctest.Wait()
			return r.store.Calls()-before > 1 // the unit, and the index
		}
		require.True(t, index(0))
		r.get(1, 100, 110, 1)
		<-time.After(2 * maxUnusedAge) // the units are evicted, the indexes are not
		synctest.Wait()
		require.False(t, index(0))
		require.True(t, index(200), "a third one, which takes the place of the second")
		<-time.After(2 * maxUnusedAge)
		synctest.Wait()
		require.False(t, index(0))
		require.True(t, index(100))
	})
}

func TestBC3_BC6_AReadThatGoesOnTakesTheReaderOverAndReadsAhead(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(200, 1) // 20 units of 1340+100 bytes
		const unit = 10*133 + 10
		at := func(first, n int) string { return fmt.Sprintf("read 0 %d+%d", first*unit, n*unit) }
		require.Equal(t, bases(0, 100), r.get(1, 0, 100, 1000))
		require.Equal(t, []string{at(0, 1), fmt.Sprintf("read 0 0+%d", 20*unit+20*36+48)}, r.requests(),
			"the index, and no more than what is asked for: this may be a probe")
		require.Equal(t, bases(100, 150), r.get(1, 100, 200, 500))
		require.Equal(t, []string{at(1, 1), at(2, 5)}, r.requests(),
			"it goes on: readahead of 6000 bytes, since it had to wait twice")
		require.Equal(t, bases(150, 200), r.get(1, 150, 300, 500))
		require.Equal(t, bases(200, 400), r.get(1, 200, 400, 2000))
		require.Empty(t, r.requests(), "more than half of it is left ahead")
		require.Equal(t, bases(400, 500), r.get(1, 400, 500, 1000))
		require.Equal(t, []string{at(7, 3)}, r.requests(), "less than half is left")
		require.Equal(t, bases(500, 700), r.get(1, 500, 700, 2000))
		require.Empty(t, r.requests(), "it had not to wait")
	})
}

func TestBC3_AReaderIsForgottenAfterAMinute(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(200, 1)
		r.get(1, 0, 100, 1000)
		r.get(1, 100, 200, 1000)
		require.NotEmpty(t, r.requests())
		require.NotZero(t, r.blocks.count())
		<-time.After(3 * maxUnusedAge)
		synctest.Wait()
		require.Nil(t, r.readers.take(1, 200))
		require.Zero(t, r.blocks.count(), "BC-7: nothing that is unused for so long is kept")
		require.Zero(t, r.blocks.size())
		r.mu.Lock()
		require.Nil(t, r.mu.sweep, "and nothing wakes up to look for it")
		r.mu.Unlock()
	})
}

func TestTheNumberOfReadersIsBounded(t *testing.T) {
	p := newReaderPool()
	for i := range int64(maxReaders) {
		require.Nil(t, p.put(newSeqReader(1, i, 0)))
	}
	require.Equal(t, int64(0), p.put(newSeqReader(1, 7, 0)).next, "the one that was idle longest")
	require.Nil(t, p.take(1, 0))
	require.NotNil(t, p.take(1, 7))
	require.NotNil(t, p.take(1, 7), "two readers may stop at the same place")
	require.Nil(t, p.take(1, 7))
	require.Nil(t, p.take(2, 8))
}

func TestBC7_ReadersThatStoppedDoNotKeepTheCacheFull(t *testing.T) {
	runRead(t, func(cfg *Config) { cfg.CacheBlockSize = 10_000 }, func(t *testing.T, r *readTest) {
		r.commit(300, 1)
		for i := range int64(30) {
			r.get(1, i*100+50, i*100+60, 1) // in the middle of a unit
		}
		require.LessOrEqual(t, r.blocks.size(), r.cfg.CacheBlockSize)
		r.requests()
		require.Equal(t, bases(60, 100), r.get(1, 60, 100, 1000), "the reader goes on")
		require.Len(t, r.requests(), 1, "its unit was evicted")
		require.Equal(t, bases(2960, 3000), r.get(1, 2960, 3000, 1000))
		require.Empty(t, r.requests(), "this one's was not")
	})
}

func TestBC6_NothingIsReadAheadWhenTheCacheHasNoRoomForIt(t *testing.T) {
	runRead(t, func(cfg *Config) { cfg.CacheBlockSize = 9000 }, func(t *testing.T, r *readTest) {
		r.commit(200, 1)
		r.get(1, 0, 100, 1000)
		r.requests()
		r.get(1, 100, 200, 1000)
		require.Len(t, r.requests(), 1, "9000 bytes are less than the next size and the largest one")
	})
}

func TestBC6_TheReadaheadGrowsUpToItsMaximum(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(500, 1)
		for i := range int64(10) {
			r.get(1, i*200, i*200+200, 2000)
			<-time.After(time.Second)
		}
		s := r.readers.take(1, 2000)
		require.NotNil(t, s)
		require.LessOrEqual(t, s.size, r.cfg.ReadaheadMax)
		require.Greater(t, s.size, r.cfg.ReadaheadStep)
		<-time.After(time.Second)
		s.held = []*unit{{done: make(chan struct{})}, {done: make(chan struct{})}, {done: make(chan struct{})}}
		s.grow(r.cfg, 3)
		s.held = nil
		require.Equal(t, r.cfg.ReadaheadMax, s.size)
		r.keep(s)
	})
}

// compact replaces all stream objects of a stream by one with the same records, and deletes their bytes.
func (r *readTest) compact(id catalog.StreamID, composite bool) {
	ctx := context.Background()
	v := r.memory.Memory.View()
	sources := v.StreamObjects(id)
	object, err := r.memory.PrepareObjects(ctx, r.node, 1, time.Hour)
	require.NoError(r.t, err)
	c := catalog.StreamCompaction{
		Object: object, Stream: id, Epoch: 4, Start: sources[0].Start, End: sources[len(sources)-1].End,
	}
	var linked CompositeObject
	var records []Record
	var keys []string
	for _, s := range sources {
		key := DataKey(DefaultNamespace, s.Object)
		b, err := r.store.Get(ctx, key)
		require.NoError(r.t, err)
		index, own, err := DecodeObject(key, b)
		require.NoError(r.t, err)
		linked.Components = append(linked.Components, Component{Object: s.Object, FirstBlock: int32(len(linked.Entries))})
		linked.Entries = append(linked.Entries, index...)
		records = append(records, own...)
		keys = append(keys, key)
		c.Sources = append(c.Sources, s.Object)
		operation := catalog.Delete
		if composite {
			operation = catalog.KeepData
		}
		c.Operations = append(c.Operations, operation)
	}
	var b []byte
	if composite {
		c.Size, c.Attributes = linked.LinkedBytes(), catalog.NewAttributes(true, 0, false)
		b, err = linked.Encode()
		require.NoError(r.t, err)
	} else {
		var w byteWriter
		o := NewObjectWriter(&w, r.cfg.ObjectBlockSize)
		for _, record := range records {
			require.NoError(r.t, o.Add(record))
		}
		require.NoError(r.t, o.Close())
		b, c.Size = w, o.Size()
	}
	require.NoError(r.t, r.store.Put(ctx, DataKey(DefaultNamespace, object), b))
	require.NoError(r.t, r.memory.CompactStream(ctx, r.node, c))
	if !composite {
		require.NoError(r.t, r.store.Delete(ctx, keys...))
	}
	r.trace.Reset()
}

type byteWriter []byte

func (w *byteWriter) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}

func TestCMP5_ACompositeIsReadFromItsComponents(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(10, 1)
		r.commit(25, 1)
		r.commit(10, 1)
		r.compact(1, true)
		require.Equal(t, bases(90, 400), r.get(1, 95, 400, all))
		require.Equal(t, []string{"get 3", "read 0 0+1340", "read 1 0+3355", "read 2 0+1340"}, r.requests())
		require.Equal(t, bases(0, 450), r.get(1, 0, 450, all))
		require.Empty(t, r.requests())
	})
}

func TestF31_F35_AReadGoesOnWhenItsObjectIsCompactedAndDeleted(t *testing.T) {
	for _, seen := range []string{"nothing", "the index", "some units"} {
		t.Run("having seen "+seen, func(t *testing.T) {
			runRead(t, nil, func(t *testing.T, r *readTest) {
				r.commit(50, 1)
				r.commit(50, 1)
				next := int64(0)
				switch seen {
				case "the index":
					next = 10
					require.Equal(t, bases(0, 10), r.get(1, 0, 10, 1))
				case "some units":
					next = 300
					require.Equal(t, bases(0, 150), r.get(1, 0, 150, all))
					require.Equal(t, bases(150, 300), r.get(1, 150, 300, all))
				}
				gate := faultstore.NewGate(func(op faultstore.Op) bool { return op.Kind == objstore.OpReadRange })
				r.store.SetInjector(gate.Inject)
				got := make(chan []int64)
				go func() { got <- r.get(1, next, 1000, all) }()
				_, err := gate.Held(t.Context(), 1)
				require.NoError(t, err)
				r.compact(1, false)
				gate.Open()
				have := <-got
				for have[len(have)-1] < 990 { // what was found before the error came first
					have = append(have, r.get(1, have[len(have)-1]+10, 1000, all)...)
				}
				require.Equal(t, bases(next, 1000), have)
			})
		})
	}
}

func TestBC5_AfterAResetNothingIsReadAheadForAMinute(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(100, 1)
		r.commit(100, 1)
		r.get(1, 0, 10, 1)
		s := r.readers.take(1, 10)
		s.drop(r.blocks) // as if the unit had been evicted
		r.keep(s)
		<-time.After(time.Second)
		r.blocks.evictUnused(time.Now().Add(time.Hour))
		r.compact(1, false)
		require.Equal(t, bases(10, 20), r.get(1, 10, 20, 1))
		r.requests()
		r.get(1, 20, 200, all)
		require.Len(t, r.requests(), 1)
		<-time.After(r.cfg.ReadaheadCooldown)
		r.get(1, 200, 210, 1)
		require.Len(t, r.requests(), 2)
	})
}

func TestBC5_AnObjectThatStaysAwayIsAnError(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(10, 1)
		require.NoError(t, r.store.Delete(t.Context(), DataKey(DefaultNamespace, 0)))
		r.trace.Reset()
		_, err := r.read(t.Context(), 1, 0, 100, all, false)
		require.ErrorIs(t, err, objstore.ErrNotFound)
		require.ErrorContains(t, err, "reading stream 1 at 0")
		require.ErrorContains(t, err, DataKey(DefaultNamespace, 0))
		require.Len(t, r.requests(), 1+readResets)
	})
}

func TestSTR7_AReadBelowATrimIsOutOfRange(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(10, 1)
		require.NoError(t, r.memory.TrimStream(t.Context(), r.node, 1, 4, 55))
		_, err := r.read(t.Context(), 1, 40, 100, all, false)
		var where *OffsetRangeError
		require.ErrorAs(t, err, &where)
		require.Equal(t, &OffsetRangeError{Stream: 1, Want: 40, Low: 55, High: 100}, where)
		require.Equal(t, bases(50, 100), r.get(1, 55, 100, all))
	})
}

// badView is a view whose objects are not what they should be.
type badView struct {
	catalog.View
	change func([]catalog.ObjectRange)
}

func (v badView) Objects(s catalog.StreamID, start, end int64, limit int) []catalog.ObjectRange {
	objects := v.View.Objects(s, start, end, limit)
	v.change(objects)
	return objects
}

func TestBC4_F41_ObjectsThatDoNotFollowAreAnErrorAndNoLoop(t *testing.T) {
	for name, change := range map[string]func(o []catalog.ObjectRange){
		"a gap":                  func(o []catalog.ObjectRange) { o[1].Start += 10 },
		"an overlap":             func(o []catalog.ObjectRange) { o[1].Start -= 10 },
		"the first begins above": func(o []catalog.ObjectRange) { o[0].Start += 10 },
		"an empty one":           func(o []catalog.ObjectRange) { o[0].End = o[0].Start },
		"an end past the index":  func(o []catalog.ObjectRange) { o[0].End += 10; o[1].Start += 10 },
	} {
		t.Run(name, func(t *testing.T) {
			runRead(t, nil, func(t *testing.T, r *readTest) {
				r.commit(10, 1)
				r.commit(10, 1)
				r.memory.setViews(slices.Repeat([]catalog.View{badView{r.memory.Memory.View(), change}}, 100)...)
				_, err := r.read(t.Context(), 1, 0, 200, all, false)
				require.ErrorIs(t, err, ErrNotContinuous)
				require.Less(t, r.store.Calls(), 20)
			})
		})
	}
}

func TestF52_BC8_AnIndexThatIsCorruptIsNotKept(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(10, 1)
		key := DataKey(DefaultNamespace, 0)
		good, err := r.store.Get(t.Context(), key)
		require.NoError(t, err)
		for name, bad := range map[string][]byte{
			"cut off":   good[:len(good)-1],
			"zeros":     make([]byte, len(good)),
			"empty":     {},
			"bit flips": flipByte(good, len(good)-60),
		} {
			require.NoError(t, r.store.Put(t.Context(), key, bad))
			_, err := r.read(t.Context(), 1, 0, 100, all, false)
			require.Error(t, err, "BC-9: %s", name)
			require.ErrorContains(t, err, key, name)
			require.NoError(t, r.store.Put(t.Context(), key, good))
			require.Equal(t, bases(0, 100), r.get(1, 0, 100, all), name)
			r.indexes = newIndexCache(r.indexes.ctx, &r.running, 1<<20, r.indexes.load)
			r.blocks.evictUnused(time.Now().Add(time.Hour))
		}
	})
}

// flipByte returns a copy with the bits of one byte turned.
func flipByte(b []byte, at int) []byte {
	b = slices.Clone(b)
	b[at] ^= 0xFF
	return b
}

func TestF54_DamageInABlockIsToldAtItsOffsetAndWhatIsBeforeItIsServed(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(50, 1, 2)
		key := DataKey(DefaultNamespace, 0)
		good, err := r.store.Get(t.Context(), key)
		require.NoError(t, err)
		require.NoError(t, r.store.Put(t.Context(), key, flipByte(good, 2*1340))) // the magic of stream 1's third block
		require.Equal(t, bases(0, 200), r.get(1, 0, 500, all))
		_, err = r.read(t.Context(), 1, 200, 500, all, false)
		var version *VersionError
		require.ErrorAs(t, err, &version)
		require.Equal(t, key, version.Object)
		require.Equal(t, int64(2*1340), version.Position)
		require.ErrorContains(t, err, "reading stream 1 at 200")
		require.Equal(t, bases(300, 500), r.get(1, 300, 500, all), "what is behind it can be read")
		require.Equal(t, bases(0, 500), r.get(2, 0, 500, all), "and so can other streams")
	})
}

func TestBC8_AFailedLoadIsNotKept(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(10, 1)
		for n := range 2 { // the index, the unit
			r.store.SetInjector(faultstore.FailNth(n, objstore.ErrTransient))
			_, err := r.read(t.Context(), 1, 0, 100, all, false)
			require.ErrorIs(t, err, objstore.ErrTransient)
			r.store.SetInjector(nil)
			require.Equal(t, bases(0, 100), r.get(1, 0, 100, all))
			r.indexes = newIndexCache(r.indexes.ctx, &r.running, 1<<20, r.indexes.load)
			r.blocks.evictUnused(time.Now().Add(time.Hour))
			if s := r.readers.take(1, 100); s != nil {
				s.drop(r.blocks)
			}
		}
	})
}

func TestBC8_WhoCancelsFailsNobodyElse(t *testing.T) {
	for _, at := range []string{"index", "unit"} {
		t.Run(at, func(t *testing.T) {
			runRead(t, nil, func(t *testing.T, r *readTest) {
				r.commit(10, 1)
				if at == "unit" {
					r.indexes.prefetch(r.memory.Memory.View().Objects(1, 0, 1, 1)[0])
					synctest.Wait()
				}
				gate := faultstore.NewGate(func(op faultstore.Op) bool { return op.Kind == objstore.OpReadRange })
				r.store.SetInjector(gate.Inject)
				r.requests()
				ctx, cancel := context.WithCancel(t.Context())
				cancelled, got := make(chan error), make(chan []int64, 3)
				go func() {
					_, err := r.read(ctx, 1, 0, 100, all, false)
					cancelled <- err
				}()
				_, err := gate.Held(t.Context(), 1)
				require.NoError(t, err)
				for range 3 {
					go func() { got <- r.get(1, 0, 100, all) }()
				}
				synctest.Wait()
				cancel()
				require.ErrorIs(t, <-cancelled, context.Canceled)
				gate.Open()
				for range 3 {
					require.Equal(t, bases(0, 100), <-got)
				}
				want := map[string]int{"index": 2, "unit": 1}[at]
				require.Len(t, r.requests(), want)
			})
		})
	}
}

func TestF57_ALoadThatNobodyWaitsForAnyMoreIsCancelled(t *testing.T) {
	for _, at := range []string{"index", "unit"} {
		t.Run(at, func(t *testing.T) {
			runRead(t, nil, func(t *testing.T, r *readTest) {
				r.commit(10, 1)
				if at == "unit" {
					r.indexes.prefetch(r.memory.Memory.View().Objects(1, 0, 1, 1)[0])
					synctest.Wait()
				}
				gate := faultstore.NewGate(func(op faultstore.Op) bool { return op.Kind == objstore.OpReadRange })
				r.store.SetInjector(gate.Inject)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() {
					_, err := r.read(ctx, 1, 0, 100, all, false)
					ended <- err
				}()
				_, err := gate.Held(t.Context(), 1)
				require.NoError(t, err)
				cancel()
				require.ErrorIs(t, <-ended, context.Canceled)
				synctest.Wait()
				held, err := gate.Held(t.Context(), 0)
				require.NoError(t, err)
				require.Empty(t, held)
				require.Zero(t, r.blocks.size())
				held2, _ := r.demand.Used()
				require.Zero(t, held2)
				gate.Open()
				require.Equal(t, bases(0, 100), r.get(1, 0, 100, all), "a fresh load")
			})
		})
	}
}

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

func TestAColdScanOverlapsItsRequests(t *testing.T) {
	runRead(t, func(cfg *Config) {
		*cfg = DefaultConfig()
	}, func(t *testing.T, r *readTest) {
		u := newUploader(uploaderOptions{
			data: r.store, catalog: r.memory.Memory, node: r.node, namespace: DefaultNamespace, cfg: r.cfg,
		})
		defer u.close()
		var records []Record
		for i := range int64(64) {
			records = append(records, Record{Stream: 1, Epoch: 4, Base: i, Count: 1, Payload: make([]byte, 1<<20)})
		}
		require.NoError(t, u.uploadRecords(t.Context(), records))
		gate := faultstore.NewGate(func(op faultstore.Op) bool { return op.Kind == objstore.OpReadRange && op.Off < 60<<20 })
		r.store.SetInjector(gate.Inject)
		got := make(chan int)
		go func() {
			found, err := r.read(t.Context(), 1, 0, 64, 16<<20, false)
			if err != nil {
				t.Error(err)
			}
			got <- len(found)
		}()
		held, err := gate.Held(t.Context(), 4)
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, held, 4, "16 MiB in ranges of 4 MiB")
		gate.Open()
		require.Equal(t, 16, <-got)
	})
}

func TestF19_F52_ManyReadersWithACacheOfOneByte(t *testing.T) {
	runRead(t, func(cfg *Config) { cfg.CacheBlockSize, cfg.CacheIndexSize = 1, 1 }, func(t *testing.T, r *readTest) {
		for range 4 {
			r.commit(50, 1, 2, 3)
		}
		var all sync.WaitGroup
		for i := range 32 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(i)))
				for range 30 {
					id, start := catalog.StreamID(1+random.IntN(3)), int64(random.IntN(200))*10
					end := min(start+int64(1+random.IntN(300)), 2000)
					found, err := r.read(t.Context(), id, start, end, 1<<30, false)
					if err != nil {
						t.Error(err)
						return
					}
					checkRecords(t, id, found)
					if found[0].Base != start || found[len(found)-1].End() < end {
						t.Errorf("read [%d, %d), want [%d, %d)", found[0].Base, found[len(found)-1].End(), start, end)
					}
				}
			})
		}
		all.Wait()
		synctest.Wait()
		<-time.After(3 * maxUnusedAge)
		synctest.Wait()
		require.Zero(t, r.blocks.size())
		require.Zero(t, r.blocks.count())
	})
}

func TestCloseEndsReadsThatWait(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(10, 1)
		gate := faultstore.NewGate(func(op faultstore.Op) bool { return true })
		r.store.SetInjector(gate.Inject)
		ended := make(chan error)
		go func() {
			_, err := r.read(context.Background(), 1, 0, 100, all, false)
			ended <- err
		}()
		_, err := gate.Held(t.Context(), 1)
		require.NoError(t, err)
		go r.close()
		require.ErrorIs(t, <-ended, ErrClosed)
		_, err = r.read(context.Background(), 1, 0, 100, all, false)
		require.ErrorIs(t, err, ErrClosed)
	})
}

// TestReadsAgreeWithAPlainSlice appends, commits, evicts, compacts, trims and reads at random, with faults of the store:
// what a read returns is always what was written, and there is nothing that it cannot read once the faults are gone.
func TestReadsAgreeWithAPlainSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := readConfig()
		cfg.CacheBlockSize = rapid.SampledFrom([]int64{1, 5000, 1 << 20}).Draw(t, "block cache")
		cfg.CacheIndexSize = rapid.SampledFrom([]int64{1, 1000, 1 << 20}).Draw(t, "index cache")
		r := newReadTest(t, cfg)
		defer r.close()
		ids := rapid.Custom(func(t *rapid.T) catalog.StreamID { return catalog.StreamID(rapid.IntRange(1, 3).Draw(t, "stream")) })
		trimmed := map[catalog.StreamID]int64{}
		u := newUploader(uploaderOptions{
			data: r.store, catalog: r.memory.Memory, node: r.node, namespace: DefaultNamespace, cfg: cfg,
		})
		defer u.close()
		var sealed []*cacheBlock
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) { r.cacheNext(ids.Draw(t, "id"), rapid.IntRange(1, 60).Draw(t, "n")) },
			"commit": func(t *rapid.T) {
				r.store.SetInjector(nil)
				r.records.seal()
				sealed = append(sealed, r.records.takeSealed()...)
				for _, b := range sealed {
					var records []Record
					for _, id := range b.streams() {
						records = append(records, b.records(id)...)
					}
					require.NoError(t, u.uploadRecords(context.Background(), records))
					r.records.markFree(b)
				}
				sealed = nil
			},
			"evict": func(t *rapid.T) {
				r.records.mu.Lock()
				for len(r.records.mu.blocks) > 0 && r.records.mu.blocks[0].state == blockFree {
					r.records.mu.cost -= r.records.mu.blocks[0].cost
					r.records.mu.blocks = r.records.mu.blocks[1:]
				}
				r.records.mu.Unlock()
			},
			"compact": func(t *rapid.T) {
				id := ids.Draw(t, "id")
				r.store.SetInjector(nil)
				if objects := r.memory.Memory.View().StreamObjects(id); len(objects) > 1 && isPlainRun(objects) {
					r.compact(id, rapid.Bool().Draw(t, "composite"))
				}
			},
			"trim": func(t *rapid.T) {
				id := ids.Draw(t, "id")
				st, _ := r.memory.Memory.View().Stream(id)
				start := rapid.Int64Range(st.Start, st.End).Draw(t, "start")
				require.NoError(t, r.memory.TrimStream(context.Background(), r.node, id, 4, start))
				trimmed[id] = start
			},
			"fault": func(t *rapid.T) {
				r.store.SetInjector(faultstore.FailNth(rapid.IntRange(0, 3).Draw(t, "n"), objstore.ErrTransient))
			},
			"read": func(t *rapid.T) {
				id := ids.Draw(t, "id")
				low, high := trimmed[id], r.records.next[id]
				if low == high {
					return
				}
				for start, reads := rapid.Int64Range(low, high-1).Draw(t, "start"), 0; start < high && reads < 3; reads++ {
					end := rapid.Int64Range(start+1, high).Draw(t, "end")
					maxBytes := rapid.SampledFrom([]int{0, 250, 2500, all}).Draw(t, "bytes")
					got, err := r.read(context.Background(), id, start, end, maxBytes, rapid.Bool().Draw(t, "fast"))
					if errors.Is(err, ErrWouldBlock) || errors.Is(err, objstore.ErrTransient) {
						r.store.SetInjector(nil)
						got, err = r.read(context.Background(), id, start, end, maxBytes, false)
					}
					require.NoError(t, err)
					checkRecords(t, id, got)
					last := got[len(got)-1].End()
					require.Equal(t, bases(start-start%10, last), offsets(got))
					require.Less(t, got[len(got)-1].Base, end)
					require.LessOrEqual(t, 100*len(got), max(maxBytes, 100))
					start = last
				}
			},
			"": func(t *rapid.T) { checkBlockCache(t, r.blocks) },
		})
	})
}

func isPlainRun(objects []catalog.StreamObjectState) bool {
	for i, o := range objects {
		if o.Attributes.IsComposite() || i > 0 && o.Start != objects[i-1].End {
			return false
		}
	}
	return true
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

// checkBlockCache holds what the cache counts against what it has.
func checkBlockCache(t *rapid.T, c *blockCache) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cost, held, idle := int64(0), int64(0), 0
	for _, u := range c.mu.units {
		cost += u.cost
		if u.holders > 0 {
			held += u.cost
		}
		if u.place != nil {
			require.Zero(t, u.holders)
			idle++
		}
	}
	require.Equal(t, cost, c.mu.cost)
	require.Equal(t, idle, c.mu.finished.Len()+c.mu.used.Len())
	require.LessOrEqual(t, c.mu.cost, max(c.capacity, held))
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
