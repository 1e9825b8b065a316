package kafkalog

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// manualBench has background flushes run in the calls that wait for them.
func manualBench(t *testing.T) (*bench, *faultfs.FS) {
	disk := faultfs.New(memfs.New(), nil)
	b := newBenchOn(t, disk)
	b.env.roll.manual = true
	return b, disk
}

func mustRoll(t *testing.T, l *Log) {
	rolled, err := l.Roll()
	require.NoError(t, err)
	require.True(t, rolled)
}

func TestF10_ASnapshotThatCannotBeWrittenIsWrittenLater(t *testing.T) {
	for _, kind := range []faultfs.Kind{faultfs.OpCreate, faultfs.OpWriteAt, faultfs.OpRename} {
		b, disk := manualBench(t)
		l := b.open(Options{})
		fill(t, l, 2)
		disk.SetInjector(faultfs.FailMatching(kind, "*.snapshot*", syscall.ENOSPC))
		mustRoll(t, l)
		mustAppend(t, l, data{})
		end, err := l.SyncTo()
		require.NoError(t, err, "no record waits for it")
		require.Equal(t, int64(5), end)
		require.False(t, l.snapshots.has(4))
		err = l.Sync()
		require.ErrorIs(t, err, ErrTryAgain)
		require.ErrorIs(t, err, ErrStorage)
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorIs(t, l.Maintain(b.now()), syscall.ENOSPC)

		disk.SetInjector(nil)
		require.Equal(t, int64(5), mustAppend(t, l, data{}), "the log goes on")
		require.NoError(t, l.Sync())
		require.True(t, l.snapshots.has(4))
		require.Equal(t, int64(6), l.RecoveryPoint())
		require.Empty(t, eventsOf[FailedEvent](b))
	}
}

func TestF10_ASealedSegmentThatCannotBeOpenedIsFlushedLater(t *testing.T) {
	b, disk := manualBench(t)
	l := b.open(Options{})
	fill(t, l, 2)
	mustRoll(t, l)
	mustAppend(t, l, data{})
	for b.env.files.evictOldest() {
	}
	disk.SetInjector(faultfs.FailMatching(faultfs.OpOpen, "*0.log", syscall.EMFILE))
	for range 2 {
		_, err := l.SyncTo()
		require.ErrorIs(t, err, ErrTryAgain)
		require.ErrorIs(t, err, syscall.EMFILE)
	}
	require.Zero(t, l.RecoveryPoint(), "nothing is promised")
	require.False(t, l.snapshots.has(4))
	_, err := l.Roll()
	require.ErrorIs(t, err, syscall.EMFILE, "what waits does not become more")
	require.Equal(t, int64(5), mustAppend(t, l, data{}))

	disk.SetInjector(nil)
	mustRoll(t, l)
	end, err := l.SyncTo()
	require.NoError(t, err)
	require.Equal(t, int64(6), end)
	require.Equal(t, int64(6), l.RecoveryPoint())
	require.True(t, l.snapshots.has(4))
	require.True(t, l.snapshots.has(6))
	require.Empty(t, eventsOf[FailedEvent](b))
}

func TestF10_ADirectoryThatCannotBeOpenedRefusesOneRollAndOneSync(t *testing.T) {
	b, disk := manualBench(t)
	l := b.open(Options{})
	fill(t, l, 2)
	mustRoll(t, l)
	mustAppend(t, l, data{})
	disk.SetInjector(faultfs.FailMatching(faultfs.OpSyncDir, "*", syscall.EMFILE))
	_, err := l.Roll()
	require.ErrorIs(t, err, syscall.EMFILE)
	_, err = l.SyncTo()
	require.ErrorIs(t, err, ErrTryAgain)

	disk.SetInjector(nil)
	mustRoll(t, l)
	require.Equal(t, int64(5), mustAppend(t, l, data{}))
	require.NoError(t, l.Sync())
	require.Empty(t, eventsOf[FailedEvent](b))
}

func TestF10_AFailedFsyncOfASnapshotOrADirectoryIsFinal(t *testing.T) {
	for kind, pattern := range map[faultfs.Kind]string{faultfs.OpSync: "*.snapshot.tmp", faultfs.OpSyncDir: "*"} {
		b, disk := manualBench(t)
		l := b.open(Options{})
		fill(t, l, 2)
		mustRoll(t, l)
		disk.SetInjector(faultfs.FailMatching(kind, pattern, syscall.ENOSPC))
		_, err := l.SyncTo()
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.NotErrorIs(t, err, ErrTryAgain)
		disk.SetInjector(nil)
		_, err = l.Append(data{}.build(t), AppendOptions{})
		require.ErrorIs(t, err, syscall.ENOSPC)
		_, err = l.SyncTo()
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.Len(t, eventsOf[FailedEvent](b), 1)
	}
}

func TestF10_ATruncationForgetsTheSnapshotThatCouldNotBeWritten(t *testing.T) {
	b, disk := manualBench(t)
	l := b.open(Options{})
	fill(t, l, 2)
	disk.SetInjector(faultfs.FailMatching(faultfs.OpCreate, "*.snapshot*", syscall.ENOSPC))
	mustRoll(t, l)
	mustAppend(t, l, data{})
	_, err := l.SyncTo()
	require.NoError(t, err)
	disk.SetInjector(nil)
	require.NoError(t, l.TruncateTo(2))
	require.NoError(t, l.Sync())
	require.False(t, l.snapshots.has(4), "it would prove what is not there")
	require.Equal(t, int64(2), mustAppend(t, l, data{}))
}

func TestASyncOfADirectoryClosesIdleFilesWhenDescriptorsRunOut(t *testing.T) {
	b, disk := manualBench(t)
	l := b.open(Options{})
	fill(t, l, 2)
	mustRoll(t, l) // whose sealed files are idle
	disk.SetInjector(faultfs.When(faultfs.Matching(faultfs.OpSyncDir, "*"), faultfs.FailNth(0, syscall.EMFILE)))
	end, err := l.SyncTo()
	require.NoError(t, err)
	require.Equal(t, int64(4), end)
}
