package kafkalog

import (
	"math"
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
)

// byTime asks every time look-up and requires that they agree.
func byTime(t *testing.T, l *Log, ts int64) (TimestampOffset, bool) {
	t.Helper()
	found, ok, err := l.OffsetForTimestamp(ts)
	require.NoError(t, err)
	checked, okChecked, err := l.OffsetForTimestampChecked(ts)
	require.NoError(t, err)
	require.Equal(t, ok, okChecked)
	require.Equal(t, found, checked)
	return found, ok
}

func TestF17_TimestampLookupsFindTheFirstRecordAtOrAfter(t *testing.T) {
	for _, codec := range []batch.Codec{batch.None, batch.Gzip, batch.Zstd} {
		b := newBench(t)
		c := smallSegments()
		c.RetentionMs = -1
		l := b.open(Options{Config: c})
		_, ok := byTime(t, l, 5)
		require.False(t, ok, "an empty log")
		for i, ts := range []int64{2, 4, 6, 8} {
			require.Equal(t, int64(i), mustAppend(t, l, data{ts: ts, size: 300, codec: codec}))
		}
		require.Greater(t, len(l.view.Load().segments)+int(codec), 1)
		check := func(l *Log) {
			for ask, want := range map[int64]TimestampOffset{
				0: {0, 2}, 2: {0, 2}, 3: {1, 4}, 5: {2, 6}, 8: {3, 8},
			} {
				found, ok := byTime(t, l, ask)
				require.True(t, ok)
				require.Equal(t, want, found, "asked for %d", ask)
			}
			_, ok := byTime(t, l, 9)
			require.False(t, ok)
			newest, ok, err := l.MaxTimestampOffset()
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, TimestampOffset{3, 8}, newest)
		}
		check(l)
		l = b.reopen(l, Options{Config: c})
		check(l)
		require.NoError(t, l.Close())
		l = b.open(Options{Config: c})
		check(l)
	}
}

func TestTimestampLookupsStartAtTheLogStart(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{Config: smallSegments()})
	mustAppend(t, l, data{ts: 900, size: 200}) // the largest timestamp of its segment
	mustAppend(t, l, data{ts: 100, size: 200})
	mustAppend(t, l, data{ts: 500, size: 200})
	require.Len(t, l.view.Load().segments, 2)
	require.NoError(t, l.SetLogStart(1))
	found, ok, err := l.OffsetForTimestamp(400)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, TimestampOffset{2, 500}, found)
	_, ok, err = l.OffsetForTimestampChecked(400)
	require.NoError(t, err)
	require.False(t, ok, "the first candidate segment decides")
	found, ok, err = l.OffsetForTimestampCheckedFrom(50, 2)
	require.NoError(t, err)
	require.False(t, ok)
	require.Zero(t, found)
	newest, ok, err := l.MaxTimestampOffset()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, TimestampOffset{0, 900}, newest, "records below the start count while their segment is there")
}

func TestACheckedLookupRefusesARecordAboveTheLimitOnlyIfItReadsIt(t *testing.T) {
	b := newBench(t)
	c := DefaultConfig()
	c.MaxDecompressedRecord = 500
	l := b.open(Options{Config: c})
	mustAppend(t, l, data{ts: 10, size: 20, codec: batch.LZ4})
	mustAppend(t, l, data{ts: 20, size: 5000, codec: batch.LZ4})
	found, ok, err := l.OffsetForTimestampChecked(5)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, TimestampOffset{0, 10}, found)
	var tooLarge *batch.RecordTooLargeError
	_, _, err = l.OffsetForTimestampChecked(15)
	require.ErrorAs(t, err, &tooLarge)
	_, _, err = l.MaxTimestampOffset()
	require.ErrorAs(t, err, &tooLarge)
	found, ok, err = l.OffsetForTimestamp(15)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, TimestampOffset{1, 20}, found)
}

func TestLegacyOffsetsAreSegmentBoundaries(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{Config: smallSegments()})
	fill(t, l, 9) // segments at 0, 6 and 12
	require.NoError(t, l.SetLogStart(2))
	for i, base := range []int64{0, 6, 12} {
		require.NoError(t, b.fs.Chtimes(path.Join(testDir, fileName(base, logSuffix)), time.UnixMilli(int64(100*(i+1)))))
	}
	for _, c := range []struct {
		ts   int64
		n    int
		want []int64
	}{
		{LatestTime, 10, []int64{18, 12, 6, 2}}, {LatestTime, 1, []int64{18}}, {EarliestTime, 10, []int64{2}},
		{50, 10, nil}, {100, 10, []int64{2}}, {250, 10, []int64{6, 2}}, {250, 1, []int64{6}}, {LatestTime, 0, nil},
	} {
		got, err := l.LegacyOffsetsBefore(c.ts, c.n)
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%d, at most %d", c.ts, c.n)
	}
}

func TestF06_HugeHolesSplitSegmentsInsteadOfWrapping(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{})
	offsets := []int64{0, 1<<31 - 2, 1<<31 - 1, 1 << 31, 1 << 32, 1<<32 + 5, 1 << 40}
	for i, o := range offsets {
		_, err := l.AppendVerbatimAt(data{ts: int64(100 + i)}.build(t), o)
		require.NoError(t, err)
	}
	check := func(l *Log) {
		require.Equal(t, []int64{0, 1 << 31, 1 << 32, 1 << 40}, l.view.Load().bases())
		for i, o := range offsets {
			raw, err := l.ReadRaw(o, math.MaxInt64, 1)
			require.NoError(t, err)
			require.Equal(t, o, raw.StartOffset)
			found, ok := byTime(t, l, int64(100+i))
			require.True(t, ok)
			require.Equal(t, TimestampOffset{o, int64(100 + i)}, found)
		}
		require.Equal(t, offsets, baseOffsets(t, allBytes(t, l)))
		raw, err := l.ReadRaw(1<<32+100, math.MaxInt64, 1)
		require.NoError(t, err)
		require.Equal(t, int64(1<<40), raw.StartOffset)
		_, err = l.ReadRaw(1<<39, math.MaxInt64, 1)
		require.ErrorIs(t, err, ErrInvalidArgument)
	}
	l = b.reopen(l, Options{})
	require.NoError(t, l.Close())
	check(b.open(Options{}))
}
