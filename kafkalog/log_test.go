package kafkalog

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
)

func TestANewLogIsEmptyAtZero(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{})
	require.Equal(t, int64(0), l.LogStart())
	require.Equal(t, int64(0), l.LogEnd())
	require.Equal(t, int64(0), l.Size())
	_, established := l.EstablishedLogStart()
	require.False(t, established)
	r, err := l.Read(0, 1000)
	require.NoError(t, err)
	require.Equal(t, ReadResult{StartOffset: 0}, r)
}

func TestAppendedBatchesAreReadByEveryMethod(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{Config: smallSegments()})
	var want []byte
	for i := range 20 {
		d := data{records: 3, size: 50, ts: epochMs + int64(i), seed: i}.build(t)
		a, err := l.Append(d, AppendOptions{LeaderEpoch: 4})
		require.NoError(t, err)
		require.Equal(t, Appended{BaseOffset: int64(3 * i), LastOffset: int64(3*i + 2), AppendTime: -1}, a)
		want = append(want, d...)
	}
	require.Greater(t, len(l.view.Load().segments), 3)
	require.Equal(t, int64(len(want)), l.Size())

	raw, err := l.ReadRaw(0, l.LogEnd(), 1<<20)
	require.NoError(t, err)
	require.Equal(t, RawRead{StartOffset: 0, LastOffset: 59, Bytes: want}, raw)

	regions, err := l.ReadRegions(0, l.LogEnd(), 1<<20)
	require.NoError(t, err)
	var copied bytes.Buffer
	n, err := regions.WriteTo(&copied)
	require.NoError(t, err)
	require.Equal(t, regions.Len(), n)
	require.Equal(t, want, copied.Bytes())
	regions.Release()
	regions.Release()

	read, err := l.Read(30, 1<<20)
	require.NoError(t, err)
	require.Equal(t, int64(30), read.StartOffset)
	require.Len(t, read.Batches, 10)
}

func TestVerbatimAppendLeavesTheBatchAlone(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{})
	mustAppend(t, l, data{records: 5})
	given := data{records: 2}.build(t)
	before := bytes.Clone(given)
	a, err := l.AppendVerbatim(given, AppendOptions{LeaderEpoch: 7})
	require.NoError(t, err)
	require.Equal(t, Appended{BaseOffset: 5, LastOffset: 6, AppendTime: -1}, a)
	require.Equal(t, before, []byte(given))
	read, err := l.Read(5, 1)
	require.NoError(t, err)
	stored := read.Batches[0]
	require.Equal(t, int64(5), stored.BaseOffset())
	require.Equal(t, int32(7), stored.LeaderEpoch())
	require.Equal(t, given.CRC(), stored.CRC())
	require.Equal(t, []EpochEntry{{Epoch: 7, Start: 5}}, l.Epochs())
}

func TestF25_AppendTimeIsStampedWithItsChecksum(t *testing.T) {
	b := newBench(t)
	c := DefaultConfig()
	c.LogAppendTime = true
	l := b.open(Options{Config: c})
	owned, err := l.Append(data{ts: 5}.build(t), AppendOptions{LeaderEpoch: -1})
	require.NoError(t, err)
	verbatim, err := l.AppendVerbatim(data{ts: 6, codec: batch.Zstd}.build(t), AppendOptions{LeaderEpoch: -1})
	require.NoError(t, err)
	require.Equal(t, epochMs, owned.AppendTime)
	require.Equal(t, epochMs, verbatim.AppendTime)
	// A follower keeps what its leader stamped.
	given, err := l.AppendVerbatimAt(data{ts: 7}.build(t), 2)
	require.NoError(t, err)
	require.Equal(t, int64(-1), given.AppendTime)
	l = b.reopen(l, Options{Config: c})
	read, err := l.Read(0, 1<<20)
	require.NoError(t, err, "every stored checksum is right")
	require.Len(t, read.Batches, 3)
	for _, stored := range read.Batches[:2] {
		require.True(t, stored.Attributes().LogAppendTime())
		require.Equal(t, epochMs, stored.MaxTimestamp())
	}
	require.False(t, read.Batches[2].Attributes().LogAppendTime())
}

func TestAppendAtLeavesHolesAndRefusesOverlap(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{})
	mustAppend(t, l, data{records: 3})
	_, err := l.AppendAt(data{}.build(t), 2)
	require.Equal(t, &OffsetMismatchError{Expected: 3, Actual: 2}, err)
	require.ErrorIs(t, err, ErrOffsetMismatch)
	a, err := l.AppendVerbatimAt(data{records: 2}.build(t), 10)
	require.NoError(t, err)
	require.Equal(t, Appended{BaseOffset: 10, LastOffset: 11, AppendTime: -1}, a)
	require.Equal(t, int64(12), l.LogEnd())
	raw, err := l.ReadRaw(5, 12, 100)
	require.NoError(t, err)
	require.Equal(t, int64(10), raw.StartOffset)
	require.Equal(t, int64(11), raw.LastOffset)
}

func TestReadsStopWhereTheyShould(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{Config: smallSegments()})
	fill(t, l, 10) // offsets 0..19, two in each batch
	size := len(allBytes(t, l)) / 10

	for _, c := range []struct {
		name         string
		fetch, limit int64
		max          int
		want         []int64
	}{
		{"inside a batch", 5, 20, size, []int64{4}},
		{"budget of two batches", 0, 20, 2*size + 10, []int64{0, 2}},
		{"budget below one batch still gives one", 6, 20, 1, []int64{6}},
		{"no budget still gives one", 6, 20, 0, []int64{6}},
		{"limit inside a batch includes it", 0, 3, 1 << 20, []int64{0, 2}},
		{"limit at a batch", 0, 4, 1 << 20, []int64{0, 2}},
		{"limit at the fetch offset", 4, 4, 1 << 20, []int64{}},
		{"at the end", 20, math.MaxInt64, 1 << 20, []int64{}},
		{"above the end", 25, math.MaxInt64, 1 << 20, []int64{}},
		{"last offset", 19, math.MaxInt64, 1 << 20, []int64{18}},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw, err := l.ReadRaw(c.fetch, c.limit, c.max)
			require.NoError(t, err)
			got := baseOffsets(t, raw.Bytes)
			require.Equal(t, c.want, got)
			if len(got) == 0 {
				require.Equal(t, RawRead{StartOffset: c.fetch, LastOffset: c.fetch - 1, Bytes: []byte{}}, raw)
			}
		})
	}
	require.NoError(t, l.SetLogStart(3))
	_, err := l.ReadRaw(2, 20, 100)
	require.Equal(t, &OffsetTooLowError{Requested: 2, LogStart: 3}, err)
	require.ErrorIs(t, err, ErrOffsetOutOfRange)
}

func TestLargeReadsSkipByIndexAndStillFillTheBudget(t *testing.T) {
	b := newBench(t)
	c := DefaultConfig()
	c.IndexIntervalBytes = 500
	l := b.open(Options{Config: c})
	for i := range 2000 {
		mustAppend(t, l, data{records: 2, size: 40 + i%30, seed: i})
	}
	all := allBytes(t, l)
	offsets := baseOffsets(t, all)
	require.Len(t, offsets, 2000)
	for _, max := range []int{20_000, 65_536, 100_001} {
		for _, limit := range []int64{4000, 1001, 70} {
			raw, err := l.ReadRaw(31, limit, max)
			require.NoError(t, err)
			// The same selection, batch by batch.
			var want []byte
			last := int64(-1)
			for rest := all; len(rest) > 0; {
				next, tail, err := batch.Next(rest)
				require.NoError(t, err)
				rest = tail
				if next.LastOffset() < 31 {
					continue
				}
				if next.BaseOffset() >= limit || len(want)+len(next) > max {
					break
				}
				want = append(want, next...)
				last = next.LastOffset()
			}
			require.Equal(t, want, raw.Bytes)
			require.Equal(t, last, raw.LastOffset)
		}
	}
}

func TestAPlanSeesTheLogAsItWas(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{Config: smallSegments()})
	fill(t, l, 9)
	want := allBytes(t, l)
	plan, err := l.PlanRead(0, math.MaxInt64, 1<<20)
	require.NoError(t, err)
	fill(t, l, 9)
	start, err := l.TrimTo(8)
	require.NoError(t, err)
	require.Equal(t, int64(8), start)
	require.NoError(t, l.Maintain(b.advance(3600e9)), "the dropped files are unlinked")
	got, err := plan.Bytes()
	require.NoError(t, err)
	require.Equal(t, want, got.Bytes)
	plan.Release()
	plan.Release()
}

func TestF19_RegionsAndBuffersAreNotShared(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{Config: smallSegments()})
	fill(t, l, 9)
	one, err := l.ReadRaw(0, 6, 1<<20)
	require.NoError(t, err)
	kept := bytes.Clone(one.Bytes)
	for range 10 {
		two, err := l.ReadRaw(6, 18, 1<<20)
		require.NoError(t, err)
		for i := range two.Bytes {
			two.Bytes[i] = 0xdb
		}
	}
	require.Equal(t, kept, one.Bytes)
	require.Equal(t, int64(18), l.LogEnd())
	_, err = l.Read(0, 1<<20)
	require.NoError(t, err, "every checksum is right")
}

func TestTheGroupAnswersEachItemByItself(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{})
	good := data{records: 2, producer: 5}.build(t)
	items := []GroupItem{
		{Batch: data{records: 3}.build(t), Options: AppendOptions{LeaderEpoch: -1}, At: NextOffset},
		{Batch: good, Options: AppendOptions{LeaderEpoch: -1}, At: NextOffset, Verbatim: true},
		{Batch: good, Options: AppendOptions{LeaderEpoch: -1}, At: NextOffset, Verbatim: true},
		{Batch: data{records: 2, producer: 5, sequence: 9}.build(t), Options: AppendOptions{LeaderEpoch: -1}, At: NextOffset},
		{Batch: batch.Batch("short"), At: NextOffset},
		{Batch: data{records: 1, producer: 5, sequence: 2}.build(t), Options: AppendOptions{LeaderEpoch: 1}, At: NextOffset},
		{Batch: data{}.build(t), Options: AppendOptions{Origin: Replication}, At: 3},
		{Batch: data{}.build(t), Options: AppendOptions{Origin: Replication}, At: 20},
	}
	l.AppendGroup(items)
	require.Equal(t, Appended{BaseOffset: 0, LastOffset: 2, AppendTime: -1}, items[0].Result)
	require.Equal(t, Appended{BaseOffset: 3, LastOffset: 4, AppendTime: -1}, items[1].Result)
	require.Equal(t, Appended{BaseOffset: 3, LastOffset: 4, AppendTime: -1, Duplicate: true}, items[2].Result)
	require.ErrorIs(t, items[3].Err, ErrOutOfOrderSequence)
	require.ErrorIs(t, items[4].Err, ErrInvalidBatch)
	require.Equal(t, Appended{BaseOffset: 5, LastOffset: 5, AppendTime: -1}, items[5].Result)
	require.Equal(t, &OffsetMismatchError{Expected: 6, Actual: 3}, items[6].Err)
	require.Equal(t, Appended{BaseOffset: 20, LastOffset: 20, AppendTime: -1}, items[7].Result)
	require.Equal(t, int64(21), l.LogEnd())
	require.Equal(t, []int64{0, 3, 5, 20}, baseOffsets(t, allBytes(t, l)))
}

func TestFenceAndCloseRefuseAppends(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{})
	fill(t, l, 2)
	l.Fence()
	l.Fence()
	_, err := l.Append(data{}.build(t), AppendOptions{})
	require.ErrorIs(t, err, ErrFenced)
	_, err = l.Roll()
	require.ErrorIs(t, err, ErrFenced)
	require.Len(t, baseOffsets(t, allBytes(t, l)), 2)
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	_, err = l.Append(data{}.build(t), AppendOptions{})
	require.ErrorIs(t, err, ErrClosed)
	_, err = l.Read(0, 10)
	require.ErrorIs(t, err, ErrClosed)
}
