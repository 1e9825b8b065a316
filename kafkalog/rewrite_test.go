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

// dropNthSync fails the n-th sync of a record file as Linux does: the bytes stay readable and count as written.
func dropNthSync(n int) faultfs.Injector {
	seen := faultfs.FailNth(n, syscall.EIO)
	return faultfs.When(faultfs.Matching(faultfs.OpSync, "*.log"), func(op faultfs.Op) faultfs.Fault {
		fault := seen(op)
		fault.Drop = fault.Err != nil
		return fault
	})
}

func TestWhatIsReadAfterAFailedFsyncAndARestartSurvivesAPowerCut(t *testing.T) {
	for n := range 12 {
		for _, restart := range []string{"closed", "killed"} {
			disk := memfs.New()
			faults := faultfs.New(disk, dropNthSync(n))
			b := makeBench(t, faults)
			l, err := Open(b.env, testDir, Options{Config: smallSegments(), Contiguous: true})
			require.NoError(t, err)
			for i := range 12 {
				for j := range 2 + i%4 {
					d := data{records: 2, size: 40, seed: 10*i + j}
					if _, err := l.AppendVerbatim(d.build(t), AppendOptions{LeaderEpoch: int32(i / 5)}); err != nil {
						break
					}
				}
				if i%3 == 2 && l.Sync() != nil {
					break
				}
			}
			flushed := l.RecoveryPoint()
			if restart == "killed" {
				disk = disk.Crash(memfs.CrashOptions{KeepUnsynced: 1})
			}
			require.NoError(t, b.env.Close())

			b = makeBench(t, disk)
			l = b.open(Options{Config: smallSegments(), Contiguous: true, RecoveryPoint: flushed})
			visible := logState(t, l)
			require.GreaterOrEqual(t, visible.end, flushed)
			after := makeBench(t, disk.CrashClean())
			require.Equal(t, visible, logState(t, after.open(Options{Config: smallSegments(), Contiguous: true, RecoveryPoint: flushed})),
				"sync %d failed, and the process was %s", n, restart)
			require.NoError(t, b.env.Close())
			require.NoError(t, after.env.Close())
		}
	}
}

func TestRecoveryWritesAgainOnlyWhatMayNotBeFlushed(t *testing.T) {
	source := newBench(t)
	l := source.open(Options{})
	fill(t, l, 3)
	require.NoError(t, l.Sync())
	fill(t, l, 4)
	require.NoError(t, source.env.Close())
	size := len(allOf(t, source.fs, logPath(0))) / 7
	stamp := time.UnixMilli(epochMs - 60_000)
	require.NoError(t, source.fs.Chtimes(logPath(0), stamp))

	for proven, want := range map[int64]int{0: 7, 1: 7, 5: 5, 6: 4, 13: 1, 14: 0} {
		t.Run(fmt.Sprintf("flushed below %d", proven), func(t *testing.T) {
			left := copyDir(t, source.fs)
			require.NoError(t, left.Chtimes(logPath(0), stamp))
			written := 0
			disk := faultfs.New(left, faultfs.When(faultfs.Matching(faultfs.OpWriteAt, "*.log"), func(op faultfs.Op) faultfs.Fault {
				written += int(op.Len)
				return faultfs.Fault{}
			}))
			b := newBenchOn(t, disk)
			b.open(Options{RecoveryPoint: proven})
			require.Equal(t, want*size, written)
			info, err := left.Stat(logPath(0))
			require.NoError(t, err)
			require.Equal(t, stamp, info.ModTime(), "the age of records without timestamps")
		})
	}
}

// allOf returns the bytes of a file.
func allOf(t require.TestingT, fsys vfs.FS, name string) []byte {
	content, err := vfs.ReadFile(fsys, name)
	require.NoError(t, err)
	return content
}

// BenchmarkUncleanOpen opens a log with 256 MiB above the recovery point, as after a kill -9: what of it is known to be
// flushed need not be written again.
func BenchmarkUncleanOpen(b *testing.B) {
	const bytes = 256 << 20
	dir := b.TempDir()
	env := NewEnv(EnvOptions{})
	l, err := Open(env, dir, Options{})
	require.NoError(b, err)
	for l.Size() < bytes {
		mustAppend(b, l, data{records: 1, size: 64 << 10, seed: int(l.LogEnd())})
	}
	end := l.LogEnd()
	require.NoError(b, env.Close())
	for name, proven := range map[string]int64{"all flushed": end, "nothing flushed": 0} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(bytes)
			for range b.N {
				env := NewEnv(EnvOptions{})
				_, err := Open(env, dir, Options{RecoveryPoint: proven})
				require.NoError(b, err)
				require.NoError(b, env.Close())
			}
		})
	}
}

func TestAFileWhoseSyncFailedIsNeverSyncedAgain(t *testing.T) {
	syncs := 0
	disk := faultfs.New(memfs.New(), faultfs.When(faultfs.Matching(faultfs.OpSync, "*"), func(faultfs.Op) faultfs.Fault {
		syncs++
		return faultfs.Fault{Err: syscall.EIO, Drop: true}
	}))
	c := newHandleCache(disk, 4)
	h := c.createLater("file")
	file, err := h.acquire()
	require.NoError(t, err)
	_, err = file.WriteAt([]byte("bytes"), 0)
	require.NoError(t, err)
	h.release()
	first := h.sync()
	require.ErrorIs(t, first, syscall.EIO)
	require.Equal(t, first, h.sync(), "the device would say that all is well")
	require.Equal(t, 1, syncs)
	require.NoError(t, h.close())
	c.close()
}

func TestARollDoesNotFlushAgainWhatTheBackgroundFailedToFlush(t *testing.T) {
	disk := faultfs.New(memfs.New(), dropNthSync(0))
	b := makeBench(t, disk)
	l := b.open(Options{})
	b.env.roll.manual = true
	fill(t, l, 3)
	rolled, err := l.Roll()
	require.NoError(t, err)
	require.True(t, rolled)
	flushed := l.RecoveryPoint()
	require.ErrorIs(t, l.Sync(), syscall.EIO)
	_, err = l.retrySealed() // as a roll does that was under way
	require.ErrorIs(t, err, syscall.EIO)
	require.Equal(t, flushed, l.RecoveryPoint())
}
