package stream

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

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
	r.small = 0 // the objects of tests are small: their units are to be seen
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

func TestASmallObjectIsOneRequest(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.small = indexTail
		r.commit(30, 1, 2)
		require.Equal(t, bases(50, 200), r.get(1, 55, 200, all))
		require.Equal(t, bases(0, 300), r.get(2, 0, 300, all))
		require.Len(t, r.requests(), 1, "the whole object came with its index")
		r.commit(10, 1)
		r.commit(10, 1)
		r.compact(1, true)
		require.Equal(t, bases(290, 500), r.get(1, 295, 500, all))
		require.Equal(t, []string{"get 3", "read 1 0+1340", "read 2 0+1340"}, r.requests(), "a composite is not one")
	})
}

func TestF54_DamageInASmallObjectIsToldWhereItIs(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.small = indexTail
		r.commit(30, 1, 2)
		key := DataKey(DefaultNamespace, 0)
		good, err := r.store.Get(t.Context(), key)
		require.NoError(t, err)
		for _, at := range []int{1340, len(good) - 1, len(good) - 60} { // a block, the footer, the index
			require.NoError(t, r.store.Put(t.Context(), key, flipByte(good, at)))
			_, err := r.read(t.Context(), 1, 100, 200, all, false)
			require.ErrorContains(t, err, key)
			require.ErrorContains(t, err, "reading stream 1 at 100")
			r.indexes = newIndexCache(r.indexes.ctx, &r.running, 1<<20, r.indexes.load)
			r.blocks.evictUnused(time.Now().Add(time.Hour))
		}
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

func (w *byteWriter) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}

func (v badView) Objects(s catalog.StreamID, start, end int64, limit int) []catalog.ObjectRange {
	objects := v.View.Objects(s, start, end, limit)
	v.change(objects)
	return objects
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
