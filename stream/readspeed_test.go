package stream

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/dir"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/vfs"
)

// distant answers range reads like a store in a cloud: after 20 ms, and with 100 MB/s on each connection.
func distant(op faultstore.Op) faultstore.Fault {
	if op.Kind != objstore.OpReadRange {
		return faultstore.Fault{}
	}
	took := 20*time.Millisecond + time.Duration(op.Len)*10*time.Nanosecond
	return faultstore.Fault{Hook: func(ctx context.Context) { _ = pause(ctx, took) }}
}

// commitLarge makes n records of a stream objects of perObject records each, of 1 MiB and one row.
func (r *readTest) commitLarge(n, perObject int) {
	u := newUploader(uploaderOptions{
		data: r.store, catalog: r.memory.Memory, node: r.node, namespace: DefaultNamespace, cfg: r.cfg,
	})
	defer u.close()
	payload := make([]byte, 1<<20)
	for at := 0; at < n; at += perObject {
		var records []Record
		for i := at; i < at+perObject; i++ {
			records = append(records, Record{Stream: 1, Epoch: 4, Base: int64(i), Count: 1, Payload: payload})
		}
		require.NoError(r.t, u.uploadRecords(context.Background(), records))
	}
	r.trace.Reset()
}

// scan reads rows in reads of so many bytes, and returns how long each half took.
func (r *readTest) scan(rows int64, maxBytes int) (first, second time.Duration) {
	begun, half := time.Now(), time.Time{}
	for next := int64(0); next < rows; {
		if next >= rows/2 && half.IsZero() {
			half = time.Now()
		}
		found, err := r.read(context.Background(), 1, next, rows, maxBytes, false)
		require.NoError(r.t, err)
		next = found[len(found)-1].End()
	}
	return half.Sub(begun), time.Since(half)
}

// rangesTime is how long it takes to read the same bytes with so many range GETs at a time, of the size that reads use.
func (r *readTest) rangesTime(size int64, parallel int) time.Duration {
	begun := time.Now()
	var all sync.WaitGroup
	offsets := make(chan int64)
	for range parallel {
		all.Go(func() {
			for range offsets {
				distant(faultstore.Op{Kind: objstore.OpReadRange, Len: 4 << 20}).Hook(context.Background())
			}
		})
	}
	for off := int64(0); off < size; off += 4 << 20 {
		offsets <- off
	}
	close(offsets)
	all.Wait()
	return time.Since(begun)
}

// TestAColdScanComesCloseToParallelRangeReads compares in the time of a bubble, in which only the store takes any: once the
// readahead has grown, a scan is about as fast as the eight range GETs at a time that fit into it.
func TestAColdScanComesCloseToParallelRangeReads(t *testing.T) {
	const mib = 192
	for _, maxBytes := range []int{1 << 20, 4 << 20, 16 << 20} {
		for _, perObject := range []int{mib, 32} {
			t.Run(fmt.Sprintf("reads=%dMiB/objects=%dMiB", maxBytes>>20, perObject), func(t *testing.T) {
				runRead(t, func(cfg *Config) { *cfg = DefaultConfig() }, func(t *testing.T, r *readTest) {
					r.commitLarge(mib, perObject)
					r.store.SetInjector(distant)
					first, second := r.scan(mib, maxBytes)
					eight := r.rangesTime(mib<<20, 8)
					whole, warm := eight.Seconds()/(first+second).Seconds(), eight.Seconds()/2/second.Seconds()
					t.Logf("%.2f of eight range GETs at a time, %.2f in the second half", whole, warm)
					require.Greater(t, warm, 0.85)
					require.Greater(t, whole, 0.5)
				})
			})
		}
	}
}

// TestF62_ManyReadersFromTheEarliestOffsetStayWithinTheCache has twenty readers scan from the start at once. What the cache
// holds is bounded by its capacity, and by as much again for what reads are waiting for.
func TestF62_ManyReadersFromTheEarliestOffsetStayWithinTheCache(t *testing.T) {
	runRead(t, func(cfg *Config) {
		*cfg = DefaultConfig()
		cfg.CacheBlockSize, cfg.ReadaheadMax = 8<<20, 2<<20
	}, func(t *testing.T, r *readTest) {
		r.commitLarge(32, 8)
		var most int64
		var mu sync.Mutex
		r.store.SetInjector(func(op faultstore.Op) faultstore.Fault {
			mu.Lock()
			defer mu.Unlock()
			most = max(most, r.blocks.size())
			return distant(op)
		})
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				_ = pause(t.Context(), time.Duration(i)*150*time.Millisecond)
				r.scan(32, 3<<20)
			})
		}
		all.Wait()
		require.LessOrEqual(t, most, 2*r.cfg.CacheBlockSize)
		require.Greater(t, most, r.cfg.CacheBlockSize/2)
	})
}

// BenchmarkColdScan reads an object of 128 MiB in a directory, with nothing in memory: as records, and as range GETs of the
// same size, eight at a time, that nobody looks at.
func BenchmarkColdScan(b *testing.B) {
	const mib = 128
	r := newReadTest(b, DefaultConfig())
	defer r.close()
	data, err := dir.Open(vfs.OS(), b.TempDir())
	require.NoError(b, err)
	defer data.Close()
	r.store = faultstore.New(data, nil)
	r.commitLarge(mib, mib)
	objects := r.memory.Memory.View().Objects(1, 0, mib, 1)
	key, size := DataKey(DefaultNamespace, objects[0].Object), objects[0].Size

	b.Run("impl=stream", func(b *testing.B) {
		b.SetBytes(mib << 20)
		for b.Loop() {
			cold := newObjectReader(readerOptions{
				data: data, catalog: r.memory, namespace: DefaultNamespace, cfg: r.cfg, cache: r.records.logCache,
			})
			for next := int64(0); next < mib; {
				found, err := cold.read(b.Context(), 1, next, mib, 16<<20, false)
				require.NoError(b, err)
				next = found[len(found)-1].End()
			}
			cold.close()
		}
	})
	b.Run("impl=ranges", func(b *testing.B) {
		b.SetBytes(mib << 20)
		for b.Loop() {
			err := parallel.Each(b.Context(), mib/4, 8, func(i int) {
				p := make([]byte, min(4<<20, size-int64(i)<<22))
				if err := data.ReadRange(b.Context(), key, p, int64(i)<<22); err != nil {
					b.Error(err)
				}
			})
			require.NoError(b, err)
		}
	})
}
