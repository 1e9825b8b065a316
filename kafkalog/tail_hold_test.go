package kafkalog

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// probedLogs opens logs over a file system that counts descriptors, with a cache that keeps one.
func probedLogs(t *testing.T, fsys *probeFS, n int) []*Log {
	env := NewEnv(EnvOptions{FS: fsys, MaxOpenFiles: 1})
	t.Cleanup(func() {
		require.NoError(t, env.Close())
		require.Zero(t, fsys.open.Load())
	})
	logs := make([]*Log, n)
	for i := range logs {
		l, err := Open(env, fmt.Sprintf("data/orders-%d", i), Options{})
		require.NoError(t, err)
		logs[i] = l
	}
	return logs
}

// A log costs a descriptor from a write to the sync that covers it, and no longer: the cache's one is all that is left.
func TestOnlyALogWithUnsyncedRecordsHoldsADescriptor(t *testing.T) {
	const n = 20
	base := memfs.New()
	for _, life := range []string{"created", "opened after a crash"} {
		fsys := &probeFS{FS: base}
		logs := probedLogs(t, fsys, n)
		idle := func(what string) { require.LessOrEqual(t, fsys.open.Load(), int64(1), "%s, %s", life, what) }
		each := func(do func(l *Log) error) {
			for _, l := range logs {
				require.NoError(t, do(l))
			}
		}
		idle("not written to")
		each((*Log).Sync)
		idle("synced without a record")
		for _, sync := range []func(l *Log) error{(*Log).Sync, func(l *Log) error { _, err := l.SyncTo(); return err }} {
			each(func(l *Log) error { fill(t, l, 2); return nil })
			require.GreaterOrEqual(t, fsys.open.Load(), int64(n), "written to")
			each(sync)
			idle("written and synced")
		}
		each(func(l *Log) error { _, err := l.Roll(); return err })
		each(func(l *Log) error { return l.env.roll.drain(&l.rollJobs) })
		idle("rolled, and not written to since")
		each(func(l *Log) error { return l.ResetTo(l.LogEnd()) })
		idle("reset")
		each(func(l *Log) error { fill(t, l, 1); return l.Sync() })
		base = base.CrashClean()
	}
}

// Whoever makes topics may have fewer descriptors than partitions.
func TestALogWithoutRecordsOpensNoFileForLong(t *testing.T) {
	fsys := &probeFS{FS: memfs.New()}
	for _, life := range []string{"created", "opened again"} {
		env := NewEnv(EnvOptions{FS: fsys, MaxOpenFiles: 1000})
		for i := range 20 {
			l, err := Open(env, fmt.Sprintf("data/orders-%d", i), Options{Clean: true})
			require.NoError(t, err)
			read, err := l.ReadRaw(0, 0, 1<<20)
			require.NoError(t, err)
			require.Empty(t, read.Bytes)
		}
		require.Zero(t, fsys.open.Load(), life)
		require.NoError(t, env.Close())
	}
}

func TestAnAppendThatFindsNoDescriptorChangesNothing(t *testing.T) {
	fsys := &probeFS{FS: memfs.New()}
	b := newBenchOn(t, fsys)
	l := b.open(Options{})
	for end := int64(0); end < 3; end++ {
		fsys.failWith(func(op, _ string) error {
			if op == "open" {
				return syscall.EMFILE
			}
			return nil
		})
		for b.env.files.evictOldest() {
		}
		_, err := l.Append(data{}.build(t), AppendOptions{LeaderEpoch: -1})
		require.ErrorIs(t, err, syscall.EMFILE)
		require.ErrorIs(t, err, ErrStorage)
		require.Equal(t, end, l.LogEnd())
		require.NoError(t, l.failure())

		fsys.failWith(nil)
		require.Equal(t, end, mustAppend(t, l, data{}))
		_, err = l.SyncTo()
		require.NoError(t, err)
	}
}

// A write that the disk has no room for leaves nothing to sync.
func TestAnAppendThatFailsHoldsNoDescriptor(t *testing.T) {
	fsys := &probeFS{FS: memfs.New()}
	l := probedLogs(t, fsys, 1)[0]
	fsys.failWith(func(op, _ string) error {
		if op == "write" {
			return syscall.ENOSPC
		}
		return nil
	})
	_, err := l.Append(data{}.build(t), AppendOptions{LeaderEpoch: -1})
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Nil(t, l.mu.tail.handle)
	fsys.failWith(nil)
	require.Equal(t, int64(0), mustAppend(t, l, data{}))
	require.NotNil(t, l.mu.tail.handle)
}

// What is appended while a sync is under way is not covered by it, so its descriptor stays.
func TestASyncKeepsTheDescriptorOfWhatCameAfterItBegan(t *testing.T) {
	disk := faultfs.New(memfs.New(), nil)
	l := newBenchOn(t, disk).open(Options{})
	mustAppend(t, l, data{})
	disk.SetInjector(faultfs.When(faultfs.Matching(faultfs.OpSync, "*.log"), faultfs.Always(faultfs.Fault{
		Hook: func() { mustAppend(t, l, data{}) },
	})))
	_, err := l.SyncTo()
	require.NoError(t, err)
	require.NotNil(t, l.mu.tail.handle)
	disk.SetInjector(nil)
	_, err = l.SyncTo()
	require.NoError(t, err)
	require.Nil(t, l.mu.tail.handle)
}
