package kafkalog

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// listed returns the names in the log's directory.
func listed(t *testing.T, fsys vfs.FS) []string {
	entries, err := fsys.List(testDir)
	require.NoError(t, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

const firstRecords = "00000000000000000000.log"

func TestALogHasNoFileBeforeItsFirstRecord(t *testing.T) {
	fsys := memfs.New()
	for _, life := range []string{"made", "opened after a stop", "opened after a crash"} {
		b := makeBench(t, fsys)
		l := b.open(Options{Clean: life == "opened after a stop"})
		require.NoError(t, l.AssignEpoch(3, 0))
		requireNothing(t, l)
		require.NoError(t, l.Tick(b.advance(30*24*time.Hour), 0))
		require.NoError(t, l.Maintain(b.now()))
		_, ok := l.UnsyncedTail()
		require.False(t, ok, "the name of its file is not durable")
		require.NoError(t, l.Sync())
		_, err := l.SyncTo()
		require.NoError(t, err)
		rolled, err := l.Roll()
		require.NoError(t, err)
		require.False(t, rolled)
		require.Empty(t, listed(t, fsys), life)
		if life == "made" {
			require.NoError(t, b.env.Close())
			require.Empty(t, listed(t, fsys), life)
			continue
		}
		fsys.Kill()
		fsys = fsys.Crash(memfs.CrashOptions{KeepUnsynced: 1})
		_ = b.env.Close() // on a disk that is gone
	}
}

func requireNothing(t *testing.T, l *Log) {
	t.Helper()
	require.Zero(t, l.Size())
	require.Zero(t, l.LogStart())
	require.Zero(t, l.LogEnd())
	read, err := l.ReadRaw(0, 0, 1<<20)
	require.NoError(t, err)
	require.Empty(t, read.Bytes)
	_, found, err := l.OffsetForTimestamp(0)
	require.NoError(t, err)
	require.False(t, found)
	before, err := l.LegacyOffsetsBefore(LatestTime, 2)
	require.NoError(t, err)
	require.Equal(t, []int64{0}, before)
	require.Empty(t, l.Check())
}

// What was acknowledged outlives a power cut with its file and the name of it; what was not is there as a whole or not at all.
func TestTheFirstRecordsSurviveAPowerCutOnceSynced(t *testing.T) {
	for seed := range uint64(50) {
		for _, synced := range []bool{false, true} {
			fsys := memfs.New()
			b := makeBench(t, fsys)
			l := b.open(Options{})
			require.NoError(t, vfs.EnsureDir(fsys, testDir)) // as for a topic that is in the metadata log
			mustAppend(t, l, data{records: 3, size: 700})
			if synced {
				_, err := l.SyncTo()
				require.NoError(t, err)
			}
			fsys.Kill()
			_ = b.env.Close() // on a disk that is gone
			b = newBenchOn(t, fsys.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.5, Torn: true, SectorSize: 512}))
			l = b.open(Options{Contiguous: true})
			if synced {
				require.Equal(t, int64(3), l.LogEnd(), "seed %d", seed)
			}
			require.Contains(t, []int64{0, 3}, l.LogEnd(), "seed %d", seed)
			require.Equal(t, l.LogEnd(), mustAppend(t, l, data{}))
		}
	}
}

func TestAFirstAppendThatFailsLeavesALogThatTakesTheNext(t *testing.T) {
	for _, kind := range []faultfs.Kind{faultfs.OpCreate, faultfs.OpFileStat, faultfs.OpWriteAt} {
		disk := faultfs.New(memfs.New(), nil)
		b := newBenchOn(t, disk)
		l := b.open(Options{})
		disk.SetInjector(faultfs.FailMatching(kind, "*.log", syscall.ENOSPC))
		_, err := l.Append(data{}.build(t), AppendOptions{LeaderEpoch: -1})
		require.ErrorIs(t, err, syscall.ENOSPC, "%v", kind)
		requireNothing(t, l)
		require.NoError(t, l.Sync())
		disk.SetInjector(nil)
		require.Zero(t, mustAppend(t, l, data{}))
		l = b.reopen(l, Options{})
		require.Equal(t, int64(1), l.LogEnd())
	}
}

func TestAFileThatSomebodyPutThereIsNotWrittenTo(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{})
	require.NoError(t, vfs.WriteFileAtomic(b.fs, filePath(testDir, 0, logSuffix), []byte("of somebody else")))
	for range 2 {
		_, err := l.Append(data{}.build(t), AppendOptions{LeaderEpoch: -1})
		var corrupt *CorruptionError
		require.ErrorAs(t, err, &corrupt)
	}
	found, err := vfs.ReadFile(b.fs, filePath(testDir, 0, logSuffix))
	require.NoError(t, err)
	require.Equal(t, "of somebody else", string(found))
	require.NoError(t, l.Close())
	require.NoError(t, b.fs.Remove(filePath(testDir, 0, logSuffix)))
	require.Zero(t, mustAppend(t, b.open(Options{}), data{}))
}

// A follower's log may begin with a hole that is too wide for its first segment.
func TestASegmentThatWasLeftWithoutARecordHasItsFile(t *testing.T) {
	const far = int64(1) << 33
	b := newBench(t)
	l := b.open(Options{})
	_, err := l.AppendAt(data{}.build(t), far)
	require.NoError(t, err)
	require.Contains(t, listed(t, b.fs), firstRecords)
	for _, reopen := range []func(){
		func() { l = b.reopen(l, Options{}) },
		func() {
			require.NoError(t, l.Sync())
			b = newBenchOn(t, b.fs.(*memfs.FS).CrashClean())
			l = b.open(Options{})
		},
	} {
		reopen()
		require.Zero(t, l.LogStart())
		require.Equal(t, far+1, l.LogEnd())
	}
}

// A log start that was taken from a leader is written down, and then so is the file.
func TestALogOfWhichSomethingIsWrittenDownHasItsFile(t *testing.T) {
	for i, write := range []func(l *Log) error{
		func(l *Log) error { _, err := l.FollowLeaderLogStart(0); return err },
		func(l *Log) error { return l.ResetTo(0) },
		func(l *Log) error { return l.ResetTo(7) },
	} {
		b := newBench(t)
		c := DefaultConfig()
		c.RemoteStorage = i == 0
		l := b.open(Options{Config: c})
		require.NoError(t, write(l))
		end := l.LogEnd()
		require.NoError(t, l.Sync())
		require.Contains(t, listed(t, b.fs), fmt.Sprintf("%020d.log", end), "%d", i)
		l = b.reopen(l, Options{Config: c})
		require.Equal(t, end, l.LogEnd(), "%d", i)
		require.Equal(t, end, l.LogStart(), "%d", i)
	}
}
