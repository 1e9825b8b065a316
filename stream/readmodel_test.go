package stream

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

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

// TestRD1_ReadsFindEveryRecordWhileBlocksMove appends faster than the log cache has room for, while blocks are uploaded,
// become free and are evicted, and readers read whatever is confirmed: between memory and objects there is never a gap.
func TestRD1_ReadsFindEveryRecordWhileBlocksMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := readConfig()
		cfg.CacheWALSize, cfg.ObjectBlockSize, cfg.CacheBlockSize = 3<<20, 50<<10, 1<<20
		r := newReadTest(t, cfg)
		defer r.close()
		room := make(chan struct{}, 1)
		r.records.logCache.evicted = func() {
			select {
			case room <- struct{}{}:
			default:
			}
		}
		r.store.SetInjector(func(op faultstore.Op) faultstore.Fault {
			return faultstore.Fault{Hook: func(ctx context.Context) { _ = pause(ctx, time.Duration(op.Index%7)*10*time.Millisecond) }}
		})
		u := newUploader(uploaderOptions{
			data: r.store, catalog: r.memory.Memory, node: r.node, namespace: DefaultNamespace, cfg: cfg,
			cache: r.records.logCache, committed: func(*cacheBlock) {}, failed: func(err error) { t.Error(err) },
		})
		defer u.close()
		var confirmed [3]atomic.Int64
		record := func(id, base int64) Record {
			payload := make([]byte, 10<<10)
			binary.BigEndian.PutUint64(payload, uint64(id<<32|base))
			return Record{Stream: catalog.StreamID(id), Epoch: 4, Base: base, Count: 1, Payload: payload}
		}
		var all sync.WaitGroup
		all.Go(func() {
			for i := range int64(900) {
				for r.records.cost() >= cfg.CacheWALSize {
					<-room
				}
				if err := r.records.put(record(i%3, i/3), 0); err != nil {
					t.Error(err)
				}
				confirmed[i%3].Store(i/3 + 1)
				_ = pause(t.Context(), 100*time.Microsecond)
			}
		})
		for i := range 8 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(7, uint64(i)))
				for range 150 {
					_ = pause(t.Context(), time.Duration(random.IntN(5000))*time.Microsecond)
					id := int64(random.IntN(3))
					end := confirmed[id].Load()
					if end == 0 {
						continue
					}
					start := random.Int64N(end)
					found, err := r.read(t.Context(), catalog.StreamID(id), start, end, random.IntN(300<<10), false)
					if err != nil {
						t.Error(err)
						return
					}
					for k, got := range found {
						if want := record(id, start+int64(k)); got.Base != want.Base || !bytes.Equal(got.Payload, want.Payload) {
							t.Errorf("stream %d: got %d, want %d", id, got.Base, want.Base)
						}
					}
				}
			})
		}
		all.Wait()
		require.Positive(t, r.store.Count(objstore.OpReadRange), "not all was in memory")
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
		r.small = rapid.SampledFrom([]int64{0, 5000, indexTail}).Draw(t, "small objects")
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

// checkBlockCache holds what the cache counts against what it has.
func checkBlockCache(t *rapid.T, c *blockCache) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cost, idle := int64(0), 0
	shared := map[*unitLoad]bool{}
	for _, u := range c.mu.units {
		cost += u.cost
		if !shared[u.load] {
			cost, shared[u.load] = cost+u.load.owed, true
		}
		if u.place != nil {
			require.Zero(t, u.holders)
			idle++
		}
	}
	require.Equal(t, cost, c.mu.cost)
	require.Equal(t, idle, c.mu.finished.Len()+c.mu.used.Len())
	if idle > 0 {
		require.LessOrEqual(t, c.mu.cost, c.capacity)
	}
}
