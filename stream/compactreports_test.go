package stream

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
	"github.com/tidemark-io/tidemark/stream/catalog/catalogtest"
)

// In this file F29 and F30 are rows of the failure matrix; all others are field reports.

// crashAt runs every job and crashes before its n-th change of metadata, counted from 0.
func (d *depot) crashAt(n int, job func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(d.Context())
	defer cancel()
	d.catalog.inject(func(i int) (error, bool) {
		if i < n {
			return nil, false
		}
		cancel()
		return context.Canceled, false
	})
	require.ErrorIs(d, job(ctx), context.Canceled)
	d.catalog.inject(nil)
}

func TestF29_ACrashBetweenWriteAndCommitLeavesTheOldObjects(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.set(run{0, 2, 50})
		d.set(run{0, 2, 50})
		sets := d.sets()
		d.crashAt(1, func(ctx context.Context) error { _, err := d.compactor().setRound(ctx); return err })
		require.Equal(d, sets, d.sets())
		require.Len(d, d.keys(), 3, "what was written is still there")
		d.verify()
		d.cleanAll()
		require.Len(d, d.keys(), 2)

		d.object(run{0, 2, 50})
		d.object(run{0, 2, 50})
		for _, major := range []bool{false, true} {
			d.crashAt(1, func(ctx context.Context) error { return d.compactor().objectRound(ctx, d.streams[0], major) })
			require.Len(d, d.objects(0), 2)
			d.verify()
		}
		d.cleanAll()
		require.Len(d, d.keys(), 4)
	})
}

func TestF30_ACrashBetweenCommitAndCleaningLeavesBoth(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.set(run{0, 2, 50})
		d.set(run{0, 2, 50})
		d.setRound(d.compactor())
		d.register() // nothing was cleaned when the process died
		require.Len(d, d.keys(), 3)
		d.wait(9 * time.Minute)
		d.cleanRound(d.cleaner())
		require.Len(d, d.keys(), 3, "not before the grace is over")
		d.wait(time.Minute)
		d.cleanRound(d.cleaner())
		require.Len(d, d.keys(), 1)
		d.verify()
	})
}

// TestF06_OffsetsFarApartSurviveEveryCompaction: distances around the largest that an index entry can hold.
func TestF06_OffsetsFarApartSurviveEveryCompaction(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		bounds := []int64{
			0, 1<<31 - 2, 1<<31 - 1, 1 << 31, 1<<32 - 2, 1 << 32, 1<<32 + 5, 3<<31 - 7, 3<<31 + 1, 1<<33 - 8, 1 << 33,
		}
		for i := range bounds[1:] {
			count := bounds[i+1] - bounds[i]
			require.LessOrEqual(d, count, int64(math.MaxInt32))
			records := []Record{{
				Stream: d.streams[0], Epoch: 1, Base: bounds[i], Count: int32(count), Payload: []byte{byte(i), 1, 2, 3},
			}}
			id, size, ranges := d.write(records)
			commit := catalog.Commit{Object: id, Size: size, Ranges: ranges}
			if i >= 5 {
				commit = catalog.Commit{Object: catalog.NoObject, StreamObjects: []catalog.StreamObject{{
					Object: id, Size: size, Stream: d.streams[0], Epoch: 1, Start: bounds[i], End: bounds[i+1],
				}}}
			}
			require.NoError(d, d.metadata.Commit(d.Context(), d.node, commit))
			d.remember(records)
		}
		d.setRound(d.compactor(func(c *compactConfig) { c.plans.splitBytes = 0 }))
		for _, major := range []bool{false, true} {
			d.objectRound(d.compactor(), 0, major)
		}
		require.Empty(d, d.sets())
		require.NotEmpty(d, d.done)
		d.trim(0, 1<<32+2)
		d.objectRound(d.compactor(), 0, true)
		d.cleanAll()
		d.verify()
	})
}

// TestF06_OffsetsUpToTwoToTheFortySurviveEveryCompaction: records that cover as many offsets as one can, so that a few hundred
// of them reach that far. A stream has no gaps, metadata refuse what does not continue it; and objects are not merged to more
// than 2^31 offsets.
func TestF06_OffsetsUpToTwoToTheFortySurviveEveryCompaction(t *testing.T) {
	for _, sets := range []bool{true, false} {
		inDepot(t, 1, func(d *depot) {
			const parts, records = 4, 135
			end := int64(0)
			for range parts {
				var all []Record
				for range records {
					all = append(all, Record{
						Stream: d.streams[0], Epoch: 1, Base: end, Count: math.MaxInt32, Payload: []byte(fmt.Sprint(end)),
					})
					end += math.MaxInt32
				}
				id, size, ranges := d.write(all)
				require.Len(d, ranges, 1)
				commit := catalog.Commit{Object: id, Size: size, Ranges: ranges}
				if !sets {
					commit = catalog.Commit{Object: catalog.NoObject, StreamObjects: []catalog.StreamObject{{
						Object: id, Size: size, Stream: d.streams[0], Epoch: 1, Start: ranges[0].Start, End: ranges[0].End,
					}}}
				}
				require.NoError(d, d.metadata.Commit(d.Context(), d.node, commit))
				d.remember(all)
			}
			require.Greater(d, end, int64(1)<<40)
			if sets {
				d.setRound(d.compactor(func(c *compactConfig) { c.plans.splitBytes = 0 }))
				require.Empty(d, d.sets())
			}
			d.verify()
			for _, major := range []bool{false, true} {
				d.objectRound(d.compactor(), 0, major)
				d.verify()
			}
			for _, start := range []int64{1<<31 - 2, 1<<31 + 1, 1<<32 + 5, 1<<40 - 1, 1<<40 + 1} {
				d.trim(0, start)
				d.objectRound(d.compactor(), 0, true)
				d.verify()
			}
			d.cleanAll()
			d.verify()
		})
	}
}

// TestF06_GapsInsideAnObjectAreNeverWrapped: of the formats, which allow gaps, and of what copies them. Blocks and index entries
// are split where a distance does not fit.
func TestF06_GapsInsideAnObjectAreNeverWrapped(t *testing.T) {
	offsets := []int64{0, 1<<31 - 2, 1<<31 - 1, 1 << 31, 1 << 32, 1<<32 + 5, 1 << 33, 1<<40 - 1, 1 << 40, 1<<40 + 1<<31 + 7, 1 << 62}
	inDepot(t, 1, func(d *depot) {
		var records []Record
		for i, offset := range offsets {
			records = append(records, Record{Stream: d.streams[0], Epoch: 1, Base: offset, Count: 1, Payload: []byte{byte(i), 1, 2}})
		}
		id, size, _ := d.write(records)
		layout, err := loadLayout(d.Context(), d.base, DefaultNamespace, id, size, 0)
		require.NoError(d, err)
		blocks := liveBlocks(planObject{id: id, entries: layout.entries}, func(catalog.StreamID) (int64, bool) { return 0, true })
		copied, err := d.metadata.PrepareObjects(d.Context(), d.node, 1, time.Hour)
		require.NoError(d, err)
		_, err = d.compactor().copyBlocks(d.Context(), copied, blocks)
		require.NoError(d, err)
		for _, object := range []catalog.ObjectID{id, copied} {
			key := DataKey(DefaultNamespace, object)
			b, err := d.base.Get(d.Context(), key)
			require.NoError(d, err)
			index, found, err := DecodeObject(key, b)
			require.NoError(d, err)
			require.Equal(d, records, found)
			for _, e := range index {
				require.LessOrEqual(d, e.Start, e.End())
				require.Positive(d, e.Delta)
			}
		}
	})
}

// TestF13_MetadataThatWereLostDeleteNothing: every job over a bucket whose metadata are new and empty. The check tells of it,
// and calls nothing an orphan.
func TestF13_MetadataThatWereLostDeleteNothing(t *testing.T) {
	inDepot(t, 5, func(d *depot) {
		aBusyNode(d)
		before := d.keys()
		d.metadata = catalogtest.NewMemory(time.Now)
		d.catalog.Catalog = d.metadata
		d.register()
		require.NoError(d, d.compactor().roundNow(d.Context()))
		d.wait(25 * time.Hour)
		d.cleanRound(d.cleaner())
		require.Equal(d, before, d.keys())
		for f, err := range Check(d.Context(), CheckOptions{Catalog: d.metadata, WAL: d.base, Data: d.base, Cluster: "tm"}) {
			require.NoError(d, err)
			require.Equal(d, FoundFutureObject, f.Kind)
		}
	})
}

// TestF41_AnIndexThatSaysTooMuchIsLeftAlone: stream objects whose index and metadata do not say the same.
func TestF41_AnIndexThatSaysTooMuchIsLeftAlone(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.object(run{0, 2, 50})
		bad := d.object(run{0, 2, 50})
		for range 3 {
			d.object(run{0, 2, 50})
		}
		key := DataKey(DefaultNamespace, bad)
		whole, err := d.base.Get(d.Context(), key)
		require.NoError(d, err)
		c := d.compactor()
		for _, at := range []int{19, 16, 15} { // of its only entry: the end one off, far off, and the start
			wrong := append([]byte(nil), whole...)
			wrong[len(wrong)-FooterSize-indexEntrySize+at] ^= 1
			require.NoError(d, d.base.Put(d.Context(), key, wrong))
			require.NoError(d, c.objectRound(d.Context(), d.streams[0], true))
		}
		require.Len(d, d.failures, 1, "told once")
		require.ErrorIs(d, d.failures[0], ErrCorrupt)
		require.NoError(d, d.base.Put(d.Context(), key, whole))
		require.NoError(d, c.objectRound(d.Context(), d.streams[0], true))
		require.Len(d, d.objects(0), 3, "those behind it were merged")
		d.verify()
		d.objectRound(d.compactor(), 0, true)
		require.Len(d, d.objects(0), 1)
		d.cleanAll()
	})
}

// TestF58_AnUploadThatTheStoreForgetsIsBegunAnew: a multipart upload is gone when its second part comes.
func TestF58_AnUploadThatTheStoreForgetsIsBegunAnew(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.set(run{0, 4, 100})
		d.set(run{0, 4, 100})
		d.store.SetInjector(faultstore.When(
			func(op faultstore.Op) bool { return op.Kind == objstore.OpWrite }, faultstore.FailNth(1, objstore.ErrNotFound)))
		_, err := d.compactor().setRound(d.Context())
		require.ErrorIs(d, err, objstore.ErrNotFound)
		d.verify()
		d.setRound(d.compactor())
		require.Empty(d, d.sets())
		d.cleanAll()
	})
}

// TestF78_NothingIsLeftOfTheOnlyStream: with uploads and compactions that died in between, and changes of the leader.
func TestF78_NothingIsLeftOfTheOnlyStream(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		for epoch := range int64(4) {
			d.set(run{0, 2, 50})
			d.object(run{0, 20, 100})
			d.object(run{0, 20, 100})
			d.write(d.records(run{0, 1, 10})) // an upload that died
			for n := range 6 {
				d.interrupt(&interruption{at: 3 * n, crash: true}, func(ctx context.Context) { _ = d.compactor().roundNow(ctx) })
			}
			require.NoError(d, d.metadata.CloseStream(d.Context(), d.node, d.streams[0], 1+epoch))
			d.register()
			_, err := d.metadata.OpenStream(d.Context(), d.node, d.streams[0], 2+epoch)
			require.NoError(d, err)
		}
		d.verify()
		d.deleteStream(0)
		require.NoError(d, d.compactor().roundNow(d.Context()))
		d.cleanAll()
		require.Empty(d, d.keys())
	})
}
