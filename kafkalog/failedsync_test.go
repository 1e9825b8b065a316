package kafkalog

import (
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// A failure to write is reported to one call, and no other. These tests hold that whoever got the report keeps all others
// from being taken for a success.

// hintedFS is a file system whose files know of write-back hints.
type hintedFS struct{ vfs.FS }

type hintedFile struct{ vfs.File }

func (f hintedFS) Open(name string, mode vfs.Mode) (vfs.File, error) {
	file, err := f.FS.Open(name, mode)
	if err != nil {
		return nil, err
	}
	return hintedFile{file}, nil
}

func (hintedFile) WriteBack(off, n int64) error { return nil }

func TestAHintThatTheDeviceFailedFailsTheNextSync(t *testing.T) {
	for name, row := range map[string]struct {
		fault error
		fatal bool
	}{
		"the device failed":       {syscall.EIO, true},
		"there was no room":       {syscall.ENOSPC, true},
		"the call is not known":   {syscall.ENOSYS, false},
		"it is not for such file": {syscall.EINVAL, false},
		"it is not supported":     {errors.ErrUnsupported, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := makeBench(t, faultfs.New(hintedFS{memfs.New()}, faultfs.FailMatching(faultfs.OpWriteBack, "*.log", row.fault)))
			l := b.open(Options{})
			fill(t, l, 2)
			_, err := l.SyncTo()
			require.NoError(t, err)
			fill(t, l, 1)
			durable := l.RecoveryPoint()
			tail, ok := l.UnsyncedTail()
			require.True(t, ok)
			err = tail.WriteBack()
			if !row.fatal {
				require.NoError(t, err)
				_, err = l.SyncTo()
				require.NoError(t, err)
				require.NoError(t, b.env.Close())
				return
			}
			require.ErrorIs(t, err, row.fault)
			_, err = l.SyncTo()
			require.ErrorIs(t, err, row.fault)
			require.NotErrorIs(t, err, ErrTryAgain)
			require.ErrorIs(t, l.Failed(), row.fault)
			require.Equal(t, durable, l.RecoveryPoint())
			require.NoError(t, b.env.Close())
		})
	}
}

// TestASealedSegmentIsSyncedBeforeItsFileIsClosedToMakeRoom has another file want the only descriptor that there is.
func TestASealedSegmentIsSyncedBeforeItsFileIsClosedToMakeRoom(t *testing.T) {
	for _, fails := range []bool{false, true} {
		disk := faultfs.New(memfs.New(), nil)
		b := &bench{t: t, fs: disk}
		b.ms.Store(epochMs)
		b.env = NewEnv(EnvOptions{FS: disk, Now: b.now, Events: b.collector(), MaxOpenFiles: 1})
		b.env.roll.manual = true
		l := b.open(Options{Config: smallSegments()})
		fill(t, l, 2)
		sealed := l.view.Load().active().file
		calls := disk.Trace(func(op faultfs.Op) bool {
			return op.Name == sealed.path() && (op.Kind == faultfs.OpClose || op.Kind == faultfs.OpSync)
		})
		if fails {
			disk.SetInjector(dropNthSync(0))
		}
		rolled, err := l.Roll()
		require.NoError(t, err)
		require.True(t, rolled)
		other := b.env.files.createLater(testDir + "/other")
		_, err = other.acquire()
		require.NoError(t, err)
		other.release()
		require.NoError(t, other.close())
		require.Regexp(t, `^sync .*\nclose .*\n$`, calls.String())
		calls.Reset()
		err = l.Sync()
		if fails {
			require.ErrorIs(t, err, syscall.EIO, "the file that was opened again would say that all is well")
			require.NotContains(t, calls.String(), "sync")
			require.Zero(t, l.RecoveryPoint())
		} else {
			require.NoError(t, err)
			require.Equal(t, l.LogEnd(), l.RecoveryPoint())
		}
		require.NoError(t, b.env.Close())
	}
}

func TestATransactionIndexIsSyncedBeforeItsFileIsClosedToMakeRoom(t *testing.T) {
	disk := faultfs.New(memfs.New(), nil)
	require.NoError(t, disk.MkdirAll(testDir))
	cache := newHandleCache(disk, 1)
	x := newTxnIndex(cache.open(filePath(testDir, 0, txnIndexSuffix), vfs.ReadWrite), 0)
	require.NoError(t, x.append(AbortedTxn{ProducerID: 1, FirstOffset: 0, LastOffset: 1, LastStableOffset: 2}))
	disk.SetInjector(faultfs.When(func(op faultfs.Op) bool { return op.Kind == faultfs.OpSync }, faultfs.Always(faultfs.Fault{Err: syscall.EIO})))
	require.True(t, cache.evictOldest())
	disk.SetInjector(nil)
	require.ErrorIs(t, x.sync(), syscall.EIO, "the file that was opened again would say that all is well")
}

func TestAFileThatWasSyncedIsClosedWithoutAnotherSync(t *testing.T) {
	disk := faultfs.New(memfs.New(), nil)
	b := makeBench(t, disk)
	l := b.open(Options{Config: smallSegments()})
	fill(t, l, 20)
	require.NoError(t, l.Sync())
	syncs := disk.Count(faultfs.OpSync)
	for b.env.files.evictOldest() {
	}
	require.Equal(t, syncs, disk.Count(faultfs.OpSync))
	require.NoError(t, b.env.Close())
}

func TestAVolumeWhoseSyncFailedIsNeverSyncedAgain(t *testing.T) {
	f := newYoungFleet(t, 40)
	f.disk.SetInjector(faultfs.When(func(op faultfs.Op) bool { return op.Kind == faultfs.OpSyncVolume }, faultfs.FailNth(0, syscall.EIO)))
	for _, half := range [][]*Log{f.logs[:20], f.logs[20:]} {
		for _, closed := range f.env.CloseAll(half, 4) {
			require.Equal(t, Closed{}, closed)
		}
	}
	require.Equal(t, 1, f.disk.Count(faultfs.OpSyncVolume), "the second one may say that all is well")
	require.GreaterOrEqual(t, f.disk.Count(faultfs.OpSync), 40, "each log is synced by itself")
	require.NoError(t, f.env.Close())
}
