package catalogtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/stream/catalog"
	"github.com/tidemark-io/tidemark/stream/catalog/catalogtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryPassesTheSuite(t *testing.T) {
	catalogtest.Run(t, func(_ *testing.T, now func() time.Time) catalog.Catalog { return catalogtest.NewMemory(now) })
}

// TestInvariantsHoldAfterRandomCalls makes calls that may or may not be allowed and checks M-INV after each.
func TestInvariantsHoldAfterRandomCalls(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		ctx := t.Context()
		m := catalogtest.NewMemory(time.Now)
		epoch, err := m.RegisterNode(ctx, catalog.Registration{ID: 1, Expected: -1, Incarnation: [16]byte{1}})
		require.NoError(r, err)
		n := catalog.Node{ID: 1, Epoch: epoch}
		_, err = m.CreateStreams(ctx, n, 3)
		require.NoError(r, err)
		stream := rapid.Map(rapid.IntRange(0, 2), func(i int) catalog.StreamID { return catalog.StreamID(i) })
		offset := rapid.Int64Range(0, 60)
		object := rapid.Map(rapid.IntRange(0, 12), func(i int) catalog.ObjectID { return catalog.ObjectID(i) })
		epochs := rapid.Int64Range(1, 3)
		ranges := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) catalog.Range {
			s := stream.Draw(r, "stream")
			row, _ := m.View().Stream(s)
			start := row.End
			if rapid.Bool().Draw(r, "anywhere") {
				start = offset.Draw(r, "start")
			}
			return catalog.Range{Stream: s, Epoch: row.Epoch, Start: start, End: start + rapid.Int64Range(0, 9).Draw(r, "count")}
		}), 1, 3)
		r.Repeat(map[string]func(*rapid.T){
			"": func(r *rapid.T) { require.Empty(r, catalog.Check(m.View())) },
			"prepare": func(r *rapid.T) {
				_, err := m.PrepareObjects(ctx, n, 1, time.Hour)
				require.NoError(r, err)
			},
			"open":  func(r *rapid.T) { _, _ = m.OpenStream(ctx, n, stream.Draw(r, "s"), epochs.Draw(r, "e")) },
			"close": func(r *rapid.T) { _ = m.CloseStream(ctx, n, stream.Draw(r, "s"), epochs.Draw(r, "e")) },
			"trim": func(r *rapid.T) {
				_ = m.TrimStream(ctx, n, stream.Draw(r, "s"), epochs.Draw(r, "e"), offset.Draw(r, "o"))
			},
			"delete": func(r *rapid.T) { _ = m.DeleteStream(ctx, n, stream.Draw(r, "s"), epochs.Draw(r, "e")) },
			"upload": func(r *rapid.T) {
				_ = m.Commit(ctx, n, catalog.Commit{Object: object.Draw(r, "o"), Ranges: ranges.Draw(r, "r")})
			},
			"upload of one": func(r *rapid.T) {
				one := ranges.Draw(r, "r")[0]
				_ = m.Commit(ctx, n, catalog.Commit{Object: catalog.NoObject, StreamObjects: []catalog.StreamObject{{
					Object: object.Draw(r, "o"), Stream: one.Stream, Epoch: one.Epoch, Start: one.Start, End: one.End,
				}}})
			},
			"compact sets": func(r *rapid.T) {
				var c catalog.Commit
				for set := range m.View().StreamSets() {
					c.Compacted = append(c.Compacted, set.Object)
					c.Ranges = append(c.Ranges, set.Ranges...)
				}
				if len(c.Ranges) > 1 && rapid.Bool().Draw(r, "forget one") {
					c.Ranges = c.Ranges[1:]
				}
				c.Object = object.Draw(r, "o")
				_ = m.Commit(ctx, n, c)
			},
			"compact stream": func(r *rapid.T) {
				s := stream.Draw(r, "s")
				row, _ := m.View().Stream(s)
				c := catalog.StreamCompaction{
					Object: object.Draw(r, "o"), Stream: s, Epoch: row.Epoch, Start: offset.Draw(r, "from"), End: offset.Draw(r, "to"),
				}
				for _, o := range m.View().StreamObjects(s) {
					c.Sources = append(c.Sources, o.Object)
					c.Operations = append(c.Operations, catalog.Delete)
				}
				if len(c.Sources) > 0 && rapid.Bool().Draw(r, "right") {
					objects := m.View().StreamObjects(s)
					c.Start, c.End = objects[0].Start, objects[len(objects)-1].End
				}
				_ = m.CompactStream(ctx, n, c)
			},
		})
	})
}
