package stream

import (
	"context"
	"fmt"
	"math"
	"slices"
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

// faultCatalog is a catalog whose calls of an upload can be made to fail, before or after they happen.
type faultCatalog struct {
	*catalogtest.Memory
	mu     sync.Mutex
	calls  []string
	inject func(n int, call string) catalogFault
}

// catalogFault says what happens to a call: it fails, and has an effect or not.
type catalogFault struct {
	err   error
	after bool
}

func (c *faultCatalog) do(call string, f func() error) error {
	c.mu.Lock()
	n, inject := len(c.calls), c.inject
	c.calls = append(c.calls, call)
	c.mu.Unlock()
	var fault catalogFault
	if inject != nil {
		fault = inject(n, call)
	}
	if fault.err != nil && !fault.after {
		return fault.err
	}
	if err := f(); err != nil || fault.err == nil {
		return err
	}
	return fault.err
}

func (c *faultCatalog) PrepareObjects(
	ctx context.Context, n catalog.Node, count int, ttl time.Duration,
) (first catalog.ObjectID, err error) {
	err = c.do(fmt.Sprintf("prepare %d", count), func() (err error) {
		first, err = c.Memory.PrepareObjects(ctx, n, count, ttl)
		return err
	})
	return first, err
}

func (c *faultCatalog) Commit(ctx context.Context, n catalog.Node, commit catalog.Commit) error {
	text := "commit"
	for _, r := range committedRanges(commit) {
		text += fmt.Sprintf(" %d:%d-%d", r.Stream, r.Start, r.End)
	}
	return c.do(text, func() error { return c.Memory.Commit(ctx, n, commit) })
}

// log returns the calls so far and forgets them.
func (c *faultCatalog) log() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = nil
	return calls
}

// setInject replaces the faults.
func (c *faultCatalog) setInject(inject func(n int, call string) catalogFault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inject = inject
}

// uploadTest is an uploader of node 5 over a store with faults, with streams 0 to 9 open, in a bubble of its own time.
type uploadTest struct {
	*uploader
	t       *testing.T
	memory  *faultCatalog
	store   *faultstore.Store
	trace   *faultstore.Trace
	records *cacheTest

	mu       sync.Mutex
	done     []int64 // WAL offsets of the last records of the committed blocks
	failures []error
	retried  []string
	deleted  []catalog.StreamID // of which the uploader says that they are gone
}

func runUpload(t *testing.T, change func(*Config), test func(t *testing.T, u *uploadTest)) {
	synctest.Test(t, func(t *testing.T) {
		u := &uploadTest{t: t, memory: &faultCatalog{Memory: catalogtest.NewMemory(time.Now)}}
		u.store = faultstore.New(mem.New(), nil)
		u.trace = u.store.Trace(nil)
		cfg := cacheConfig()
		cfg.UploadThreshold, cfg.ObjectBlockSize = 1<<20, 64<<10
		if change != nil {
			change(&cfg)
		}
		u.records = newCacheTest(t, cfg)
		node := openStreams(t, u.memory.Memory, 10)
		u.uploader = newUploader(uploaderOptions{
			data: u.store, catalog: u.memory, node: node, namespace: DefaultNamespace, cfg: cfg, cache: u.records.logCache,
			events: Events{UploadRetried: func(e UploadRetriedEvent) {
				u.mu.Lock()
				defer u.mu.Unlock()
				u.retried = append(u.retried, fmt.Sprintf("%s %d", e.Step, e.Try))
			}},
			committed: func(b *cacheBlock) {
				u.mu.Lock()
				defer u.mu.Unlock()
				u.done = append(u.done, b.lastOffset)
			},
			gone: func(ids []catalog.StreamID) {
				u.mu.Lock()
				defer u.mu.Unlock()
				u.deleted = append(u.deleted, ids...)
			},
			failed: func(err error) {
				u.mu.Lock()
				defer u.mu.Unlock()
				u.failures = append(u.failures, err)
			},
		})
		defer u.close()
		test(t, u)
		require.Empty(t, catalog.Check(u.memory.View()))
	})
}

// openStreams registers node 5 and opens that many streams in epoch 4.
func openStreams(t require.TestingT, c catalog.Catalog, count int) catalog.Node {
	ctx := context.Background()
	epoch, err := c.RegisterNode(ctx, catalog.Registration{ID: 5, Expected: -1, Incarnation: [16]byte{1}})
	require.NoError(t, err)
	node := catalog.Node{ID: 5, Epoch: epoch}
	first, err := c.CreateStreams(ctx, node, count)
	require.NoError(t, err)
	for i := range count {
		_, err := c.OpenStream(ctx, node, first+catalog.StreamID(i), 4)
		require.NoError(t, err)
	}
	return node
}

// addBlock fills a block with records of the streams and seals it.
func (u *uploadTest) addBlock(size int, ids ...catalog.StreamID) {
	for _, id := range ids {
		u.records.add(id, 10, size)
	}
	u.records.seal()
	synctest.Wait()
}

func (u *uploadTest) committedBlocks() []int64 {
	synctest.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.done)
}

func (u *uploadTest) failure() error {
	synctest.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	require.LessOrEqual(u.t, len(u.failures), 1, "failed is called once")
	if len(u.failures) == 0 {
		return nil
	}
	return u.failures[0]
}

// stored is every record that readers of the catalog find, by stream.
func (u *uploadTest) stored() map[catalog.StreamID][]int64 {
	found := map[catalog.StreamID][]int64{}
	v := u.memory.View()
	for s := range v.Streams() {
		for _, o := range v.Objects(s.ID, s.Start, math.MaxInt64, math.MaxInt) {
			key := DataKey(DefaultNamespace, o.Object)
			b, err := u.store.Get(context.Background(), key)
			require.NoError(u.t, err)
			require.Equal(u.t, o.Size, int64(len(b)))
			_, records, err := DecodeObject(key, b)
			require.NoError(u.t, err)
			for _, r := range records {
				if r.Stream == s.ID {
					found[s.ID] = append(found[s.ID], r.Base)
				}
			}
		}
	}
	return found
}

func TestUP1_Plan(t *testing.T) {
	type stream struct {
		id   catalog.StreamID
		size int
	}
	for name, test := range map[string]struct {
		block []stream
		want  uploadPlan
	}{
		"an empty block":             {nil, uploadPlan{}},
		"one small stream":           {[]stream{{9, 1}}, uploadPlan{own: []catalog.StreamID{9}}},
		"small streams":              {[]stream{{9, 1}, {3, 99}}, uploadPlan{set: []catalog.StreamID{3, 9}}},
		"one of the size":            {[]stream{{9, 100}, {3, 1}}, uploadPlan{[]catalog.StreamID{3}, []catalog.StreamID{9}}},
		"by the sum of the payloads": {[]stream{{9, 50}, {3, 1}, {9, 50}}, uploadPlan{[]catalog.StreamID{3}, []catalog.StreamID{9}}},
		"only large streams":         {[]stream{{9, 100}, {3, 200}}, uploadPlan{own: []catalog.StreamID{3, 9}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newCacheBlock(time.Time{})
			for _, s := range test.block {
				b.add(Record{Stream: s.id, Count: 1, Payload: make([]byte, s.size)})
			}
			require.Equal(t, test.want, planUpload(b, 100))
		})
	}
	plan := uploadPlan{set: []catalog.StreamID{1, 4}, own: []catalog.StreamID{2, 3}}
	require.Equal(t, 3, plan.objects())
	require.Equal(t, []objectPlan{
		{70, []catalog.StreamID{1, 4}, true}, {71, []catalog.StreamID{2}, false}, {72, []catalog.StreamID{3}, false},
	}, plan.assign(70), "the stream-set object has the first id")
}

func TestUP10_ABlockBecomesItsObjectsInOneCommit(t *testing.T) {
	runUpload(t, func(cfg *Config) { cfg.UploadStreamSplit = 1000 }, func(t *testing.T, u *uploadTest) {
		u.records.add(3, 10, 100)
		u.records.add(1, 5, 2000)
		u.records.add(2, 1, 100)
		u.addBlock(100, 3)
		require.Equal(t, []int64{3}, u.committedBlocks())
		require.Equal(t, []string{"prepare 2", "commit 2:0-1 3:0-20 1:0-5"}, u.memory.log())
		require.Equal(t, 2, u.store.Calls(), "a small object is one put (OBJ-6)")
		require.Equal(t, map[catalog.StreamID][]int64{1: {0}, 2: {0}, 3: {0, 10}}, u.stored())

		v := u.memory.View()
		sets := slices.Collect(v.StreamSets())
		require.Len(t, sets, 1)
		require.Equal(t, []catalog.Range{
			{Stream: 2, Epoch: 4, Start: 0, End: 1, Size: 143}, {Stream: 3, Epoch: 4, Start: 0, End: 20, Size: 276},
		}, sets[0].Ranges)
		own := v.StreamObjects(1)
		require.Len(t, own, 1)
		require.Equal(t, sets[0].Object+1, own[0].Object)
		require.Equal(t, int64(2000+33+10+36+48), own[0].Size)
	})
}

func TestUP2_WritesOverlapAndCommitsKeepTheirOrder(t *testing.T) {
	runUpload(t, nil, func(t *testing.T, u *uploadTest) {
		gate := faultstore.NewGate(faultstore.Writes)
		u.store.SetInjector(gate.Inject)
		for range 6 {
			u.addBlock(100, 1, 2)
		}
		held, err := gate.Held(t.Context(), uploadBlocks)
		require.NoError(t, err)
		require.Len(t, held, uploadBlocks, "so many blocks are written at once")
		require.Equal(t, slices.Repeat([]string{"prepare 1"}, uploadBlocks), u.memory.log())
		gate.Release(held[1:]...)
		require.Empty(t, u.committedBlocks(), "nothing overtakes the first block")
		require.Empty(t, u.memory.log())
		gate.Release(held[0])
		require.Equal(t, []int64{1, 3, 5, 7}, u.committedBlocks())
		gate.Open()
		require.Equal(t, []int64{1, 3, 5, 7, 9, 11}, u.committedBlocks())
		require.Equal(t, []int64{0, 10, 20, 30, 40, 50}, u.stored()[2])
	})
}

func TestUP8_ForcedUploadsThatComeTogetherAreServedByOneSeal(t *testing.T) {
	runUpload(t, nil, func(t *testing.T, u *uploadTest) {
		require.NoError(t, u.force(t.Context()), "nothing is there")
		require.Empty(t, u.memory.log())
		var all sync.WaitGroup
		for i := range 10 {
			u.records.add(catalog.StreamID(i), 1, 10)
			all.Go(func() {
				if err := u.force(t.Context()); err != nil {
					t.Error(err)
				}
				require.Contains(t, u.stored(), catalog.StreamID(i), "what was put before is committed")
			})
			<-time.After(9 * time.Millisecond)
		}
		all.Wait()
		require.Len(t, u.memory.log(), 2, "one prepare, one commit")
	})
}

func TestUP8_ABlockIsUploadedWhenItIsOldOrFull(t *testing.T) {
	runUpload(t, nil, func(t *testing.T, u *uploadTest) {
		u.records.add(1, 1, 10)
		<-time.After(59 * time.Second)
		require.Empty(t, u.committedBlocks())
		u.records.add(1, 1, 10)
		<-time.After(21 * time.Second)
		require.Equal(t, []int64{1}, u.committedBlocks(), "its first record is older than upload.interval")
		u.records.add(1, 1, 1<<20)
		require.Equal(t, []int64{1, 2}, u.committedBlocks(), "it is full")
	})
}

func TestLC7_AFullCacheAsksForAnUploadUnlessOneIsUnderWay(t *testing.T) {
	runUpload(t, nil, func(t *testing.T, u *uploadTest) {
		gate := faultstore.NewGate(faultstore.Writes)
		u.store.SetInjector(gate.Inject)
		u.records.add(1, 1, 10)
		u.kick()
		_, err := gate.Held(t.Context(), 1)
		require.NoError(t, err)
		for range 10 {
			u.records.add(1, 1, 10)
			u.kick()
			<-time.After(time.Second)
		}
		held, err := gate.Held(t.Context(), 1)
		require.NoError(t, err)
		require.Len(t, held, 1)
		gate.Open()
		require.Equal(t, []int64{0}, u.committedBlocks())
	})
}

func TestUP9_AnUploadIsSpreadOverTheTimeInWhichItsDataCame(t *testing.T) {
	for name, test := range map[string]struct {
		collect, want time.Duration
		force         time.Duration // after which somebody waits for it; 0 for nobody
	}{
		"young":            {50 * time.Millisecond, 0, 0},
		"in ten seconds":   {10 * time.Second, 10 * time.Second, 0},
		"in fifty seconds": {50 * time.Second, 20 * time.Second, 0},
		"forced meanwhile": {50 * time.Second, 5 * time.Second, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			runUpload(t, func(cfg *Config) { cfg.ObjectPartSize = 200 << 10 }, func(t *testing.T, u *uploadTest) {
				u.records.add(1, 1, 1<<19)
				<-time.After(test.collect)
				begun := time.Now()
				u.records.add(1, 1, 1<<19)
				var all sync.WaitGroup
				all.Go(func() {
					if test.force > 0 {
						<-time.After(test.force)
						_ = u.force(t.Context())
					}
				})
				for len(u.committedBlocks()) == 0 {
					<-time.After(10 * time.Millisecond)
				}
				require.InDelta(t, test.want.Seconds(), time.Since(begun).Seconds(), 0.5)
				all.Wait()
			})
		})
	}
}

func TestCloseLeavesWhatIsUnderWay(t *testing.T) {
	runUpload(t, nil, func(t *testing.T, u *uploadTest) {
		gate := faultstore.NewGate(faultstore.Writes)
		u.store.SetInjector(gate.Inject)
		u.addBlock(100, 1)
		_, err := gate.Held(t.Context(), 1)
		require.NoError(t, err)
		forced := make(chan error)
		go func() { forced <- u.force(t.Context()) }()
		<-time.After(time.Second)
		u.close()
		require.ErrorIs(t, <-forced, ErrClosed)
		require.NoError(t, u.failure(), "closing is no failure")
		require.Empty(t, u.committedBlocks())
		require.ErrorIs(t, u.force(t.Context()), ErrClosed)
	})
}

func TestForceEndsWithItsContextAndTheUploadGoesOn(t *testing.T) {
	runUpload(t, nil, func(t *testing.T, u *uploadTest) {
		u.store.SetInjector(faultstore.When(faultstore.Writes, faultstore.FailNth(0, objstore.ErrTransient)))
		u.records.add(1, 1, 10)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, u.force(ctx), context.DeadlineExceeded)
		<-time.After(time.Minute)
		require.Equal(t, []int64{0}, u.committedBlocks())
	})
}

func BenchmarkUploadEncode(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("payload=%d", size), func(b *testing.B) {
			block := newCacheBlock(time.Time{})
			for i := 0; block.size < 8<<20; i++ {
				block.add(Record{Stream: catalog.StreamID(i % 10), Base: int64(i / 10), Count: 1, Payload: make([]byte, size)})
			}
			plan := planUpload(block, math.MaxInt64).assign(1)[0]
			b.SetBytes(block.size)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := writeRecords(discard{}, block, plan, 1<<20); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
