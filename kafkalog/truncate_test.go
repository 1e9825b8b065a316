package kafkalog

import (
	"fmt"
	"math"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// transactions appends batches of three producers, one of them in transactions, over several segments and epochs.
func transactions(t require.TestingT, l *Log) {
	seq := map[int64]int32{}
	put := func(producer int64, txn bool, epoch int32) {
		_, err := l.Append(data{
			records: 2, size: 40, producer: producer, sequence: seq[producer], txn: txn, ts: epochMs + 10*l.LogEnd(),
		}.build(t), AppendOptions{LeaderEpoch: epoch})
		require.NoError(t, err)
		seq[producer] += 2
	}
	end := func(producer int64, commit bool, epoch int32) {
		_, err := l.Append(marker(producer, 0, commit), AppendOptions{LeaderEpoch: epoch, Origin: Coordinator})
		require.NoError(t, err)
	}
	for round := range int32(3) {
		put(1, false, round)
		put(2, true, round)
		put(3, true, round)
		put(1, false, round)
		end(2, round == 1, round)
		put(3, true, round)
		end(3, round != 1, round)
	}
	put(2, true, 3)
}

func TestF50_TruncationToEveryOffsetLeavesOneWholeLog(t *testing.T) {
	source := newBench(t)
	l := source.open(Options{Config: smallSegments()})
	transactions(t, l)
	end := l.LogEnd()
	whole := allBytes(t, l)
	require.NoError(t, l.Sync())
	require.NoError(t, l.Close())
	for x := int64(0); x <= end+1; x++ {
		t.Run(fmt.Sprint(x), func(t *testing.T) {
			b := newBenchOn(t, copyDir(t, source.fs))
			l := b.open(Options{Config: smallSegments(), Clean: true})
			require.NoError(t, l.TruncateTo(x))
			want := min(x, end)
			require.Equal(t, want, l.LogEnd())
			require.LessOrEqual(t, l.RecoveryPoint(), want)
			left := allBytes(t, l)
			require.Equal(t, whole[:len(left)], left)
			for _, o := range baseOffsets(t, left) {
				require.Less(t, o, want)
			}
			for _, e := range l.Epochs() {
				require.Less(t, e.Start, max(want, 1))
			}
			for _, p := range l.ProducerStateSnapshot() {
				require.Less(t, p.LastOffset, want)
				require.Less(t, p.TxnFirstOffset, want)
			}
			aborted, err := l.AbortedInRange(0, math.MaxInt64)
			require.NoError(t, err)
			for _, a := range aborted {
				require.Less(t, a.LastOffset, want)
			}
			require.LessOrEqual(t, l.FirstUnstable(), want)
			if found, ok, err := l.MaxTimestampOffset(); ok || err != nil {
				require.NoError(t, err)
				require.Less(t, found.Offset, want)
			}
			before := logState(t, l)
			reopened := b.reopen(l, Options{Config: smallSegments()})
			if len(left) > 0 {
				after := logState(t, reopened)
				// A hole at the end is not remembered, nor an epoch that began in it.
				before.epochs = slices.DeleteFunc(before.epochs, func(e EpochEntry) bool { return e.Start >= after.end })
				after.end, after.unstable = before.end, before.unstable
				require.Equal(t, before, after)
			}
			a, err := reopened.AppendVerbatimAt(data{size: 40}.build(t), want)
			require.NoError(t, err)
			require.Equal(t, want, a.BaseOffset)
		})
	}
}

func TestF50_ATruncationThatFailsOnceLeavesALogThatGoesOn(t *testing.T) {
	source := newBench(t)
	l := source.open(Options{Config: smallSegments()})
	transactions(t, l)
	end := l.LogEnd()
	require.NoError(t, l.Sync())
	require.NoError(t, l.Close())
	const target = 5
	for n := 0; ; n++ {
		disk := faultfs.New(copyDir(t, source.fs), nil)
		b := makeBench(t, disk)
		l := b.open(Options{Config: smallSegments(), Clean: true})
		before := disk.Calls()
		disk.SetInjector(faultfs.FailNth(n, syscall.EIO))
		err := l.TruncateTo(target)
		calls := disk.Calls() - before
		disk.SetInjector(nil)
		if err == nil {
			require.Equal(t, int64(target), l.LogEnd())
		}
		require.LessOrEqual(t, l.LogEnd(), end)
		for _, o := range baseOffsets(t, allBytes(t, l)) {
			require.Less(t, o, l.LogEnd())
		}
		require.Empty(t, l.Check(), "call %d failed: %v", n, err)
		next := l.LogEnd()
		a, appendErr := l.AppendAt(data{size: 40}.build(t), next)
		require.NoError(t, appendErr, "call %d failed: %v", n, err)
		require.Equal(t, next, a.BaseOffset)
		require.NoError(t, l.TruncateTo(target), "again, after call %d failed", n)
		require.Equal(t, int64(target), l.LogEnd())
		require.Empty(t, l.Check())
		want := logState(t, l)
		l = b.reopen(l, Options{Config: smallSegments()})
		got := logState(t, l)
		want.epochs = slices.DeleteFunc(want.epochs, func(e EpochEntry) bool { return e.Start >= got.end })
		got.end, got.unstable = want.end, want.unstable
		require.Equal(t, want, got)
		require.NoError(t, b.env.Close())
		if calls <= n {
			t.Logf("%d calls", calls)
			break
		}
	}
}

func TestF71_TruncationToTheBaseOfTheActiveSegmentGoesOn(t *testing.T) {
	b := newBench(t)
	c := smallSegments()
	c.SegmentMs = 1000
	l := b.open(Options{Config: c})
	fill(t, l, 6)
	base := l.view.Load().active().base
	require.NoError(t, l.TruncateTo(base))
	b.advance(time.Hour)
	for i := range 3 {
		mustAppend(t, l, data{ts: b.now().UnixMilli() + int64(i)})
	}
	require.Equal(t, base, l.view.Load().active().base, "no endless roll")
	require.Equal(t, base+3, l.LogEnd())
	require.NoError(t, l.TruncateTo(0))
	require.Equal(t, int64(0), l.LogEnd())
	require.Equal(t, int64(0), mustAppend(t, l, data{}))
}

func TestTruncationBelowTheStartMovesItDown(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{Config: smallSegments()})
	fill(t, l, 9)
	require.NoError(t, l.SetLogStart(5))
	require.NoError(t, l.TruncateTo(3))
	start, established := l.EstablishedLogStart()
	require.Equal(t, int64(3), start)
	require.True(t, established)
	l = b.reopen(l, Options{Config: smallSegments()})
	start, established = l.EstablishedLogStart()
	require.Equal(t, int64(3), start)
	require.True(t, established)
	require.ErrorIs(t, l.TruncateTo(-1), ErrInvalidArgument)
}

func TestResetEmptiesTheLogAtAnyOffset(t *testing.T) {
	for _, to := range []int64{0, 6, 12, 100} {
		t.Run(fmt.Sprint(to), func(t *testing.T) {
			b := newBench(t)
			l := b.open(Options{Config: smallSegments()})
			transactions(t, l)
			require.NoError(t, l.SetLogStart(3))
			require.NoError(t, l.ResetTo(to))
			require.Equal(t, to, l.LogStart())
			require.Equal(t, to, l.LogEnd())
			_, established := l.EstablishedLogStart()
			require.False(t, established)
			require.Empty(t, l.Epochs())
			require.Empty(t, l.ActiveProducers())
			require.Equal(t, to, l.FirstUnstable())
			require.Empty(t, l.snapshots.all())
			require.Equal(t, to, mustAppend(t, l, data{}))
			l = b.reopen(l, Options{Config: smallSegments()})
			require.Equal(t, to, l.LogStart())
			require.Equal(t, to+1, l.LogEnd())
			require.ErrorIs(t, l.ResetTo(-1), ErrInvalidArgument)
		})
	}
}

func TestAFollowerRestartsAtTheBaseOfItsLeadersBatch(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{LogStart: 10})
	require.True(t, l.RestartsAtBatchBase(8, 12))
	require.True(t, l.RestartsAtBatchBase(8, 10))
	require.False(t, l.RestartsAtBatchBase(8, 9))
	require.False(t, l.RestartsAtBatchBase(10, 12))
	_, err := l.AppendAt(data{records: 5}.build(t), 8)
	require.ErrorIs(t, err, ErrOffsetMismatch)
	require.NoError(t, l.ResetTo(8))
	_, err = l.AppendAt(data{records: 5}.build(t), 8)
	require.NoError(t, err)
	require.False(t, l.RestartsAtBatchBase(12, 14))
	start, err := l.FollowLeaderLogStart(10)
	require.NoError(t, err)
	require.Equal(t, int64(10), start)
}

func TestReadsThatRaceWithTruncationNeverReturnForeignBytes(t *testing.T) {
	b := newBenchOn(t, memfs.New())
	l := b.open(Options{Config: smallSegments()})
	fill(t, l, 9)
	plan, err := l.PlanRead(0, math.MaxInt64, 1<<20)
	require.NoError(t, err)
	defer plan.Release()
	regions, err := l.ReadRegions(8, math.MaxInt64, 1<<20)
	require.NoError(t, err)
	defer regions.Release()
	require.NoError(t, l.TruncateTo(9))
	for i := range 4 {
		mustAppend(t, l, data{records: 1, size: 33, seed: 100 + i})
	}
	_, err = plan.Bytes()
	require.ErrorIs(t, err, ErrTruncated)
	_, err = regions.AppendTo(nil)
	require.ErrorIs(t, err, ErrTruncated)
}

func TestF50_ALogThatWasTruncatedToNothingStaysEmptyAfterAPowerCut(t *testing.T) {
	fsys := memfs.New()
	b := makeBench(t, fsys)
	l := b.open(Options{})
	fill(t, l, 3)
	require.NoError(t, l.Sync())
	require.NoError(t, l.TruncateTo(0))
	require.NoError(t, l.Sync())
	left := fsys.Crash(memfs.CrashOptions{})
	require.NoError(t, b.env.Close())
	b = makeBench(t, left)
	l = b.open(Options{})
	require.Zero(t, l.LogEnd())
	require.Empty(t, allBytes(t, l))
	require.NoError(t, b.env.Close())
}
