package kafkalog

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// closedLog returns the files of a log of several segments that was closed in order, with its bases and its end.
func closedLog(t *testing.T) (fsys *memfs.FS, bases []int64, end int64) {
	source := makeBench(t, memfs.New())
	l := source.open(Options{Config: smallSegments()})
	fill(t, l, 18)
	require.NoError(t, l.Sync())
	end = l.LogEnd()
	require.NoError(t, source.env.Close())
	bases = segmentBases(t, source.fs)
	require.Greater(t, len(bases), 4)
	return copyDir(t, source.fs), bases, end
}

// removeSnapshots takes the snapshots at and above an offset away, so that an unclean open reads the segments below it.
func removeSnapshots(t *testing.T, fsys vfs.FS, from int64) {
	s, err := loadSnapshotFiles(fsys, testDir)
	require.NoError(t, err)
	require.NoError(t, s.removeIf(func(offset int64) bool { return offset >= from }))
	require.NoError(t, fsys.SyncDir(testDir))
}

func TestF04_AFlushedSegmentThatEndsInABatchDoesNotCostTheOnesBehindIt(t *testing.T) {
	fsys, bases, end := closedLog(t)
	removeSnapshots(t, fsys, bases[1])
	edit(t, fsys, logPath(bases[1]), func(b []byte) []byte { return b[:len(b)-10] })
	b := makeBench(t, fsys)
	_, err := Open(b.env, testDir, Options{Config: smallSegments(), RecoveryPoint: end, Contiguous: true})
	var damage *CorruptionError
	require.ErrorAs(t, err, &damage)
	require.Equal(t, logPath(bases[1]), damage.Path)
	require.NoError(t, b.env.Close())
	require.Equal(t, bases, segmentBases(t, fsys), "nothing was removed")
}

func TestF04_AFlushedBatchBehindADamagedOneOfAnySizeIsFound(t *testing.T) {
	b := makeBench(t, memfs.New())
	l := b.open(Options{})
	mustAppend(t, l, data{size: 100})
	mustAppend(t, l, data{size: 65 << 20})
	mustAppend(t, l, data{size: 100})
	require.NoError(t, l.Sync())
	require.NoError(t, l.Close())
	first := len(data{size: 100}.build(t))
	edit(t, b.fs, logPath(0), func(b []byte) []byte {
		binary.BigEndian.PutUint32(b[first+8:], 100<<20) // as if the batch reached behind the end of the file
		return b
	})
	_, err := Open(b.env, testDir, Options{RecoveryPoint: 3})
	var damage *CorruptionError
	require.ErrorAs(t, err, &damage)
	require.NoError(t, b.env.Close())
}

// TestF04_ASealedSegmentThatLostItsEndIsNotReadPast shortens a sealed segment to whole batches, as a copy that was cut short, or
// a file system check, may leave it.
func TestF04_ASealedSegmentThatLostItsEndIsNotReadPast(t *testing.T) {
	for _, c := range []struct {
		name string
		keep int // batches
	}{{"to nothing", 0}, {"to its first batch", 1}} {
		for _, o := range []Options{{Clean: true}, {}} {
			t.Run(c.name, func(t *testing.T) {
				fsys, bases, end := closedLog(t)
				var size int
				edit(t, fsys, logPath(bases[1]), func(b []byte) []byte {
					for range c.keep {
						size += 12 + int(binary.BigEndian.Uint32(b[size+8:]))
					}
					return b[:size]
				})
				b := makeBench(t, fsys)
				o.Config, o.RecoveryPoint, o.Contiguous = smallSegments(), end, true
				l := b.open(o)
				require.Equal(t, end, l.LogEnd())
				lost := bases[1] + 2*int64(c.keep)

				raw, err := l.ReadRaw(bases[0], end, 1<<20)
				require.NoError(t, err, "what is there is read")
				require.Equal(t, lost-1, raw.LastOffset, "and nothing behind what is lost")
				_, err = l.ReadRaw(lost, end, 1<<20)
				var damage *CorruptionError
				require.ErrorAs(t, err, &damage)
				require.ErrorIs(t, err, ErrStorage)
				require.Equal(t, logPath(bases[1]), damage.Path)
				_, err = l.Read(lost, 1<<20)
				require.ErrorAs(t, err, &damage)
				raw, err = l.ReadRaw(bases[2], end, 1<<20)
				require.NoError(t, err)
				require.Equal(t, end-1, raw.LastOffset)
				require.NotEmpty(t, l.Check())
				require.NoError(t, b.env.Close())

				r, err := PlanRepair(fsys, testDir, RepairOptions{Flushed: end, Visible: end})
				require.NoError(t, err)
				require.Len(t, r.Steps, 1)
				require.Equal(t, FillEnd, r.Steps[0].Action)
				require.Equal(t, [2]int64{lost, bases[2]}, [2]int64{r.Steps[0].First, r.Steps[0].Next})
				_, err = r.Apply()
				require.NoError(t, err)
				b = makeBench(t, fsys)
				l = b.open(Options{Config: smallSegments(), RecoveryPoint: end, Contiguous: true})
				raw, err = l.ReadRaw(lost, end, 1<<20)
				require.NoError(t, err)
				require.Equal(t, end-1, raw.LastOffset)
				require.Empty(t, l.Check())
				require.NoError(t, b.env.Close())
			})
		}
	}
}

func TestAHoleThatAFollowerMayHaveIsReadPast(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{Config: smallSegments()})
	for offset := int64(0); offset < 200; offset += 10 {
		_, err := l.AppendAt(data{size: 90, seed: int(offset)}.build(t), offset)
		require.NoError(t, err)
	}
	require.Greater(t, len(l.view.Load().segments), 3)
	raw, err := l.ReadRaw(0, math.MaxInt64, 1<<20)
	require.NoError(t, err)
	require.Equal(t, int64(190), raw.LastOffset)
	l = b.reopen(l, Options{Config: smallSegments()})
	for offset := range int64(191) {
		raw, err := l.ReadRaw(offset, math.MaxInt64, 1)
		require.NoError(t, err)
		require.Equal(t, (offset+9)/10*10, raw.StartOffset)
	}
}
