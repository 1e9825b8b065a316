package kafkalog

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// threeBatches leaves the files of a log of three batches of two records, and returns the size of one batch.
func threeBatches(t *testing.T) (*bench, int) {
	source := newBench(t)
	l := source.open(Options{})
	fill(t, l, 3)
	size := len(allBytes(t, l)) / 3
	require.NoError(t, l.Sync())
	require.NoError(t, l.Close())
	return source, size
}

func TestF04_ACutTellsWhichWholeBatchesWentWithIt(t *testing.T) {
	source, size := threeBatches(t)
	for _, c := range []struct {
		name string
		edit func([]byte) []byte
		want PartialBatchEvent
	}{
		{"damage before a whole batch", flip(size + 80),
			PartialBatchEvent{Position: int64(size), Cut: int64(2 * size), Offset: 2, LostBatches: 1, LostBytes: int64(size), LostOffsets: 2}},
		{"a torn end", func(b []byte) []byte { return b[:len(b)-5] },
			PartialBatchEvent{Position: int64(2 * size), Cut: int64(size - 5), Offset: 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := copyDir(t, source.fs)
			edit(t, fsys, logPath(0), c.edit)
			b := newBenchOn(t, fsys)
			l := b.open(Options{Contiguous: true})
			require.Equal(t, c.want.Offset, l.LogEnd())
			cut := eventsOf[PartialBatchEvent](b)
			require.Len(t, cut, 1)
			cut[0].Reason = nil
			c.want.File = logPath(0)
			require.Equal(t, c.want, cut[0])
		})
	}
}

func TestF04_ACutTellsOfTheWholeBatchesOfLaterSegments(t *testing.T) {
	source := makeBench(t, newBench(t).fs)
	source.env.roll.manual = true // nothing is flushed in the background
	l := source.open(Options{})
	fill(t, l, 3)
	size := len(allBytes(t, l)) / 3
	_, err := l.Roll()
	require.NoError(t, err)
	fill(t, l, 2)
	left := copyDir(t, source.fs)
	require.NoError(t, source.env.Close())

	edit(t, left, logPath(0), flip(size+80))
	b := newBenchOn(t, left)
	l = b.open(Options{Contiguous: true})
	require.Equal(t, int64(2), l.LogEnd())
	cut := eventsOf[PartialBatchEvent](b)
	require.Len(t, cut, 1)
	require.Equal(t, 3, cut[0].LostBatches)
	require.Equal(t, int64(3*size), cut[0].LostBytes)
	require.Equal(t, int64(6), cut[0].LostOffsets)
}

// TestF04_AFlippedBaseOffsetIsDamageLikeAnyOther flips the bits of a base offset, which the checksum does not cover, so that
// the offset cannot belong to the segment.
func TestF04_AFlippedBaseOffsetIsDamageLikeAnyOther(t *testing.T) {
	source, size := threeBatches(t)
	for _, contiguous := range []bool{false, true} {
		fsys := copyDir(t, source.fs)
		edit(t, fsys, logPath(0), flip(2*size+2)) // as if it were far above the segment's base
		b := newBenchOn(t, copyDir(t, fsys))
		l := b.open(Options{Contiguous: contiguous})
		require.Equal(t, int64(4), l.LogEnd(), "cut in what may not have been flushed")
		require.Len(t, eventsOf[PartialBatchEvent](b), 1)

		b = newBenchOn(t, fsys)
		_, err := Open(b.env, testDir, Options{Contiguous: contiguous, RecoveryPoint: 6})
		var corrupt *CorruptionError
		require.ErrorAs(t, err, &corrupt, "named in what was")
		require.Equal(t, logPath(0), corrupt.Path)
		require.Equal(t, int64(2*size), corrupt.Position)
	}
}

func TestALogBelowItsHighWatermarkIsTold(t *testing.T) {
	source, _ := threeBatches(t)
	b := newBenchOn(t, source.fs)
	b.open(Options{HighWatermark: 7})
	require.Equal(t, []LogEndBehindEvent{{Dir: testDir, LogEnd: 6, HighWatermark: 7}}, eventsOf[LogEndBehindEvent](b))
}
