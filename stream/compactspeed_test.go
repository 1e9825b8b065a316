package stream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// benchT is a benchmark as tests of compaction want it.
type benchT struct{ *testing.B }

// BenchmarkSetCompaction compacts 16 objects of 4 MiB of 64 streams into one, over a store in memory. Beside it stands what
// the store alone takes to give and take the same bytes.
func BenchmarkSetCompaction(b *testing.B) {
	const sets, streams, size = 16, 64, 4 << 20
	newNode := func(b *testing.B) *depot {
		d := newDepot(benchT{b}, streams)
		for range sets {
			var runs []run
			for s := range streams {
				runs = append(runs, run{s, 4, size / streams / 4})
			}
			d.set(runs...)
		}
		return d
	}
	b.Run("v=compact", func(b *testing.B) {
		b.SetBytes(sets * size)
		for range b.N {
			b.StopTimer()
			d := newNode(b)
			c := d.compactor(func(c *compactConfig) { c.plans.splitBytes, c.plans.cacheBytes, c.partBytes = 8<<20, 200<<20, 16<<20 })
			b.StartTimer()
			_, err := c.setRound(d.Context())
			require.NoError(b, err)
		}
	})
	b.Run("v=copy", func(b *testing.B) {
		b.SetBytes(sets * size)
		d := newNode(b)
		b.ResetTimer()
		for range b.N {
			for id := range catalog.ObjectID(sets) {
				data, err := d.base.Get(d.Context(), DataKey(DefaultNamespace, id))
				require.NoError(b, err)
				require.NoError(b, d.base.Put(d.Context(), "copy", data))
			}
		}
	})
}

// BenchmarkPlan plans 500 objects of 1,000 streams each.
func BenchmarkPlan(b *testing.B) {
	var objects []planObject
	for o := range catalog.ObjectID(500) {
		var entries []IndexEntry
		for s := range catalog.StreamID(1000) {
			entries = append(entries, planEntry(s, int64(o)*10, int64(o)*10+10, 1000))
		}
		objects = append(objects, planned(o, entries...))
	}
	limits := testConfig().compaction().plans
	limits.splitBytes, limits.maxStreams, limits.maxStreamObjects, limits.cacheBytes = 8<<20, 10_000, 5000, 200<<20
	for b.Loop() {
		plan, err := planCompaction(objects, startsAt(nil), limits)
		require.NoError(b, err)
		require.Len(b, plan.sources, 500)
	}
}

// BenchmarkDeepCheck reads 64 MiB in 16 objects.
func BenchmarkDeepCheck(b *testing.B) {
	d := newDepot(benchT{b}, 16)
	for s := range 16 {
		d.object(run{s, 64, 64 << 10})
	}
	b.SetBytes(64 << 20)
	for b.Loop() {
		for f, err := range Check(d.Context(), CheckOptions{
			Catalog: d.metadata, WAL: d.base, Data: d.base, Cluster: "tm", Deep: true, Overdue: time.Hour,
		}) {
			require.NoError(b, err)
			require.Fail(b, f.String())
		}
	}
}
