package kafkalog

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// beforeRoll is a log whose next append begins a new segment.
func beforeRoll(t *testing.T) (b *bench, disk *faultfs.FS, l *Log) {
	disk = faultfs.New(memfs.New(), nil)
	b = newBenchOn(t, disk)
	l = b.open(Options{Config: smallSegments()})
	fill(t, l, 3)
	require.NoError(t, l.Sync())
	require.Equal(t, int64(6), l.LogEnd())
	return b, disk, l
}

// roll appends what does not fit the segment.
func roll(t *testing.T, l *Log) error {
	_, err := l.Append(data{records: 2, size: 300}.build(t), AppendOptions{LeaderEpoch: -1})
	return err
}

// requireStopped requires that a log takes no more appends, and has all that it took when it is opened again.
func requireStopped(t *testing.T, b *bench, l *Log) {
	_, err := l.Append(data{}.build(t), AppendOptions{LeaderEpoch: -1})
	require.ErrorIs(t, err, l.failure())
	require.Len(t, eventsOf[FailedEvent](b), 1)
	require.NoError(t, l.Close())
	l = b.open(Options{Config: smallSegments(), Contiguous: true})
	require.Equal(t, int64(6), l.LogEnd())
	require.Empty(t, l.Check())
	require.NoError(t, roll(t, l))
}

func TestARollWhoseFileCannotBeRemovedAgainStopsTheLog(t *testing.T) {
	b, disk, l := beforeRoll(t)
	disk.SetInjector(func(op faultfs.Op) faultfs.Fault {
		if faultfs.Matching(faultfs.OpWriteAt, "*"+indexSuffix)(op) || faultfs.Matching(faultfs.OpRemove, "*"+logSuffix)(op) {
			return faultfs.Fault{Err: syscall.EIO}
		}
		return faultfs.Fault{}
	})
	require.ErrorContains(t, roll(t, l), "may be left")
	disk.SetInjector(nil)
	requireStopped(t, b, l)
}

// The new segment's file goes with the directory and comes back with it.
func TestARollInADirectoryThatIsMovedAwayMeanwhileStopsTheLog(t *testing.T) {
	b, disk, l := beforeRoll(t)
	moved := false
	disk.SetInjector(func(op faultfs.Op) faultfs.Fault {
		if moved || !faultfs.Matching(faultfs.OpCreate, "*"+indexSuffix)(op) {
			return faultfs.Fault{}
		}
		moved = true
		return faultfs.Fault{Hook: func() { require.NoError(t, disk.Rename(testDir, "data/away")) }}
	})
	require.ErrorIs(t, roll(t, l), fs.ErrNotExist)
	require.True(t, moved)
	require.NoError(t, disk.Rename("data/away", testDir))
	requireStopped(t, b, l)
}

// Nothing was made in a directory that had gone before, so the log goes on when it is back.
func TestALogWhoseDirectoryIsAwayForAWhileGoesOn(t *testing.T) {
	b, disk, l := beforeRoll(t)
	for b.env.files.evictOldest() {
	}
	require.NoError(t, disk.Rename(testDir, "data/away"))
	require.ErrorIs(t, roll(t, l), fs.ErrNotExist)
	_, err := l.Append(data{}.build(t), AppendOptions{LeaderEpoch: -1})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, l.failure())
	require.NoError(t, disk.Rename("data/away", testDir))
	require.NoError(t, roll(t, l))
	require.Equal(t, int64(8), l.LogEnd())
}

func TestAnAppendIsRefusedByAFileThatIsNotTheLogs(t *testing.T) {
	b, disk, l := beforeRoll(t)
	records, err := vfs.ReadFile(disk, logPath(0))
	require.NoError(t, err)
	write := func(content []byte) {
		for b.env.files.evictOldest() {
		}
		require.NoError(t, vfs.WriteFileAtomic(disk, logPath(0), content))
	}
	write(records[:len(records)-1])
	_, err = l.Append(data{}.build(t), AppendOptions{LeaderEpoch: -1})
	var corrupt *CorruptionError
	require.ErrorAs(t, err, &corrupt)
	require.Equal(t, int64(6), l.LogEnd())
	write(records)
	require.Equal(t, int64(6), mustAppend(t, l, data{}))
}
