package kafkalog

import (
	"errors"
	"math"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

func TestRetentionBySizeNeverGoesBelowTheBudget(t *testing.T) {
	b := newBench(t)
	c := smallSegments()
	l := b.open(Options{Config: c})
	fill(t, l, 15) // three batches of two records in each of five segments
	bases := l.view.Load().bases()
	segment := l.view.Load().segments[0].size.Load()
	for _, step := range []struct {
		keep int64
		hw   int64
		gone int
	}{
		{l.Size(), 30, 0},
		{l.Size() - segment + 1, 30, 0},
		{l.Size() - segment, bases[1] - 1, 0},
		{l.Size() - segment, 30, 1},
		{l.Size() - 3*segment, 30, 3},
		{0, 29, 4},
		{0, 30, 5},
	} {
		c.RetentionBytes = step.keep
		l.SetConfig(c)
		require.NoError(t, l.Tick(b.now(), step.hw))
		want := int64(30)
		if step.gone < len(bases) {
			want = bases[step.gone]
		}
		require.Equal(t, want, l.LogStart(), "keep %d", step.keep)
	}
	require.Equal(t, int64(0), l.Size(), "all went, a fresh segment stays")
	require.Equal(t, int64(30), mustAppend(t, l, data{}))
}

func TestRetentionByTimeUsesRecordTimeThenFileTime(t *testing.T) {
	b := newBench(t)
	c := smallSegments()
	c.RetentionMs = 60_000
	l := b.open(Options{Config: c})
	fill(t, l, 6)
	require.NoError(t, l.Tick(b.advance(time.Minute), l.LogEnd()))
	require.Equal(t, int64(0), l.LogStart(), "exactly as old as allowed")
	require.NoError(t, l.Tick(b.advance(time.Second), l.LogEnd()))
	require.Equal(t, int64(12), l.LogStart())
	l = b.reopen(l, Options{Config: c})
	require.Equal(t, int64(12), l.LogStart())
	require.Equal(t, int64(12), l.LogEnd())
}

func TestF44_AFutureTimestampIsToldAndSizeStillApplies(t *testing.T) {
	b := newBench(t)
	c := smallSegments()
	c.RetentionMs = 60_000
	l := b.open(Options{Config: c})
	micros := b.now().UnixMicro()
	mustAppend(t, l, data{ts: micros, size: 200})
	fill(t, l, 12)
	require.NoError(t, l.Tick(b.advance(24*time.Hour), l.LogEnd()))
	require.Equal(t, int64(0), l.LogStart())
	require.Equal(t, []FutureTimestampEvent{
		{Dir: testDir, Base: 0, Timestamp: micros, Now: b.now().UnixMilli()},
	}, eventsOf[FutureTimestampEvent](b))
	c.RetentionBytes = 700
	l.SetConfig(c)
	require.NoError(t, l.Tick(b.now(), l.LogEnd()))
	require.Equal(t, l.LogEnd(), l.LogStart(), "by size past it, and then the rest by time")
}

func TestARecordThatCameAfterTheTimeOfALookIsNotOfTheFuture(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{Config: smallSegments()})
	c := smallSegments()
	c.RetentionMs = 60_000
	l.SetConfig(c)
	looked := b.now()
	mustAppend(t, l, data{ts: b.advance(5 * time.Millisecond).UnixMilli()})
	require.NoError(t, l.Tick(looked, l.LogEnd()))
	require.Empty(t, eventsOf[FutureTimestampEvent](b))
	require.Zero(t, l.LogStart())
}

func TestTheEmptyPolicyOnlyDropsWhatLiesBelowTheStart(t *testing.T) {
	b := newBench(t)
	c := smallSegments()
	c.Policy, c.RetentionBytes, c.RetentionMs = 0, 0, 0
	l := b.open(Options{Config: c})
	fill(t, l, 9)
	bases := l.view.Load().bases()
	require.NoError(t, l.SetLogStart(bases[1]+1))
	require.NoError(t, l.Tick(b.advance(time.Hour), l.LogEnd()))
	require.Equal(t, bases[1:], l.view.Load().bases())
	require.Equal(t, bases[1]+1, l.LogStart())
}

func TestRetiredFilesWaitAndAreReportedUntilTheyAreGone(t *testing.T) {
	disk := faultfs.New(newBench(t).fs, nil)
	b := newBenchOn(t, disk)
	c := smallSegments()
	c.RetentionBytes = 0
	l := b.open(Options{Config: c})
	fill(t, l, 9)
	require.NoError(t, l.Sync())
	_, due := l.MaintenanceDelay(b.now())
	require.False(t, due, "nothing to do")
	require.NoError(t, l.Tick(b.now(), l.LogEnd()))
	deleted := func() (n int) {
		for _, name := range fileNames(t, b.fs) {
			if strings.HasSuffix(name, deletedSuffix) {
				n++
			}
		}
		return n
	}
	require.Equal(t, 11, deleted(), "three segments of three files, two boundary snapshots")
	delay, due := l.MaintenanceDelay(b.now())
	require.True(t, due)
	require.Equal(t, time.Second, delay)
	require.NoError(t, l.Maintain(b.advance(999*time.Millisecond)))
	require.Equal(t, 11, deleted())

	disk.SetInjector(faultfs.FailMatching(faultfs.OpRemove, "*.index.deleted", syscall.EIO))
	require.ErrorIs(t, l.Maintain(b.advance(time.Millisecond)), syscall.EIO)
	require.Equal(t, 3, deleted())
	delay, _ = l.MaintenanceDelay(b.now())
	require.Equal(t, time.Duration(0), delay)
	disk.SetInjector(nil)
	rest := l.TakeDueDeletions(b.now())
	l.RestoreDeletions(rest, b.now().Add(time.Minute))
	again := l.TakeDueDeletions(b.now())
	require.Equal(t, 0, again.Len())
	require.NoError(t, l.Maintain(b.advance(time.Minute)))
	require.Equal(t, 0, deleted())
	_, due = l.MaintenanceDelay(b.now())
	require.False(t, due, "the owed log start was written as well")
	found, ok, err := readLogStart(b.fs, testDir)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, int64(18), found)
}

func TestTheLogStartThatRetentionMovedIsWrittenWhenDue(t *testing.T) {
	b := newBench(t)
	c := smallSegments()
	c.RetentionBytes = 0
	l := b.open(Options{Config: c})
	fill(t, l, 9)
	require.NoError(t, l.Tick(b.now(), 12))
	require.Equal(t, int64(12), l.LogStart())
	require.NoError(t, l.CheckpointLogStartIfDue())
	_, ok, err := readLogStart(b.fs, testDir)
	require.NoError(t, err)
	require.False(t, ok, "not yet")
	b.advance(time.Minute)
	require.NoError(t, l.CheckpointLogStartIfDue())
	found, _, err := readLogStart(b.fs, testDir)
	require.NoError(t, err)
	require.Equal(t, int64(12), found)
}

func TestTheFlushPolicyFlushes(t *testing.T) {
	b := newBench(t)
	c := DefaultConfig()
	l := b.open(Options{Config: c})
	mustAppend(t, l, data{})
	require.Equal(t, int64(0), l.RecoveryPoint())
	c.FlushMessages = 3
	l.SetConfig(c)
	mustAppend(t, l, data{})
	require.Equal(t, int64(0), l.RecoveryPoint())
	mustAppend(t, l, data{})
	require.Equal(t, int64(3), l.RecoveryPoint())
	c.FlushMessages, c.FlushMs = math.MaxInt64, 1000
	l.SetConfig(c)
	mustAppend(t, l, data{})
	delay, due := l.MaintenanceDelay(b.now())
	require.True(t, due)
	require.Equal(t, time.Second, delay)
	require.NoError(t, l.Maintain(b.advance(time.Second)))
	require.Equal(t, int64(4), l.RecoveryPoint())
	c.FlushOnAppend = true
	l.SetConfig(c)
	mustAppend(t, l, data{})
	require.Equal(t, int64(5), l.RecoveryPoint())
}

func TestF57_ALogThatIsRemovedWhileItRollsDisturbsNobody(t *testing.T) {
	b := newBench(t)
	keep, err := Open(b.env, "data/kept-0", Options{Config: smallSegments()})
	require.NoError(t, err)
	for range 200 {
		l := b.open(Options{Config: smallSegments()})
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range 12 {
				if _, err := l.Append(data{size: 200, seed: i}.build(t), AppendOptions{LeaderEpoch: -1}); errors.Is(err, ErrFenced) {
					return
				}
			}
		})
		wg.Go(func() {
			_, err := l.SyncTo()
			if err != nil && !errors.Is(err, ErrFenced) {
				t.Error(err)
			}
		})
		l.Fence()
		wg.Wait()
		require.NoError(t, b.fs.Rename(testDir, testDir+"-delete"))
		require.NoError(t, l.Close())
		for _, name := range []string{testDir + "-delete"} {
			entries, err := b.fs.List(name)
			require.NoError(t, err)
			for _, e := range entries {
				require.NoError(t, b.fs.Remove(name+"/"+e.Name()))
			}
			require.NoError(t, b.fs.Remove(name))
		}
		mustAppend(t, keep, data{size: 200})
	}
	require.NoError(t, keep.Sync())
	require.Empty(t, eventsOf[FailedEvent](b))
	require.Empty(t, eventsOf[RollFlushedEvent](b))

}

func TestRetentionRightAfterARollDoesNotDisturbTheFlush(t *testing.T) {
	b := newBench(t)
	c := smallSegments()
	c.RetentionBytes, c.FileDeleteDelayMs = 0, 0
	l := b.open(Options{Config: c})
	for i := range 100 {
		mustAppend(t, l, data{size: 250, seed: i})
		if i%3 == 0 {
			require.NoError(t, l.Tick(b.now(), l.LogEnd()))
		}
	}
	require.NoError(t, l.Sync())
	require.Empty(t, eventsOf[FailedEvent](b))
	l = b.reopen(l, Options{Config: c})
	require.Equal(t, int64(100), l.LogEnd())
}

func TestAClockThatIsSetBackDelaysNoUpkeep(t *testing.T) {
	b := newBench(t)
	b.advance(10 * 24 * time.Hour)
	c := smallSegments()
	c.RetentionBytes, c.FlushMs = 0, 60_000
	l := b.open(Options{Config: c})
	fill(t, l, 14)
	require.NoError(t, l.Tick(b.now(), l.LogEnd()))
	mustAppend(t, l, data{})
	require.NotEmpty(t, l.mu.retired)

	now := b.advance(-10 * 24 * time.Hour)
	delay, due := l.MaintenanceDelay(now)
	require.True(t, due)
	require.Zero(t, delay)
	require.NoError(t, l.Maintain(now))
	require.Empty(t, l.mu.retired)
	require.Equal(t, int64(-1), l.mu.startOwed)
	require.Equal(t, l.LogEnd(), l.RecoveryPoint())
	_, due = l.MaintenanceDelay(now)
	require.False(t, due)
}

// TestAFullDiskDoesNotKeepRetentionFromMakingRoom lets nothing be written while segments are to go.
func TestAFullDiskDoesNotKeepRetentionFromMakingRoom(t *testing.T) {
	for name, keep := range map[string]int64{"all but the newest segment": 1, "every segment": 0} {
		t.Run(name, func(t *testing.T) {
			disk := faultfs.New(memfs.New(), nil)
			b := newBenchOn(t, disk)
			c := smallSegments()
			c.RetentionBytes, c.FileDeleteDelayMs = keep, 0
			l := b.open(Options{Config: c})
			for i := range 14 {
				_, err := l.Append(data{records: 2, size: 40, seed: i}.build(t), AppendOptions{LeaderEpoch: int32(i)})
				require.NoError(t, err)
			}
			require.NoError(t, l.Sync())
			newest := l.view.Load().active().base
			require.Zero(t, l.FirstSegmentBase())

			full := faultfs.First(faultfs.FailMatching(faultfs.OpWriteAt, "*", syscall.ENOSPC),
				faultfs.FailMatching(faultfs.OpCreate, "*", syscall.ENOSPC))
			disk.SetInjector(full)
			require.ErrorIs(t, l.Tick(b.now(), l.LogEnd()), syscall.ENOSPC, "what could not be written is told")
			require.Equal(t, newest, l.FirstSegmentBase(), "but nothing waits for it")
			require.Equal(t, newest, l.LogStart())

			disk.SetInjector(nil)
			require.NoError(t, l.Tick(b.now(), l.LogEnd()))
			mustAppend(t, l, data{})
			start := l.LogStart()
			require.NoError(t, l.Sync())
			require.NoError(t, l.Close())
			l = b.open(Options{Config: c})
			require.Equal(t, start, l.LogStart())
			require.Equal(t, int64(29), l.LogEnd())
		})
	}
}
