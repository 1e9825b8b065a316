package kafkalog

import (
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// TestManyLogsShareFewDescriptors holds many logs of several segments over few descriptors: one for the active segment
// of each that was not synced, and those of the cache.
func TestManyLogsShareFewDescriptors(t *testing.T) {
	const logs, cached = 60, 8
	fsys := &probeFS{FS: memfs.New()}
	env := NewEnv(EnvOptions{FS: fsys, MaxOpenFiles: cached})
	var all []*Log
	for i := range logs {
		l, err := Open(env, fmt.Sprintf("data/orders-%d", i), Options{Config: smallSegments()})
		require.NoError(t, err)
		all = append(all, l)
	}
	for range 3 {
		for _, l := range all {
			fill(t, l, 5)
		}
	}
	for _, l := range all {
		require.NoError(t, env.roll.drain(&l.rollJobs)) // what is being flushed is held
	}
	require.LessOrEqual(t, fsys.open.Load(), int64(logs+cached))

	var readers sync.WaitGroup
	for worker := range 4 {
		readers.Go(func() {
			for i, l := range all {
				if (i+worker)%2 == 0 {
					continue
				}
				for offset := int64(0); offset < l.LogEnd(); {
					r, err := l.ReadRaw(offset, l.LogEnd(), 500)
					if err != nil || r.LastOffset < offset {
						t.Errorf("read of %d: %v", offset, err)
						return
					}
					offset = r.LastOffset + 1
				}
			}
		})
	}
	readers.Wait()
	require.NoError(t, env.roll.drain(&all[0].rollJobs))
	require.LessOrEqual(t, fsys.open.Load(), int64(logs+cached))
	for _, l := range all {
		require.NoError(t, l.Sync())
		segments := l.view.Load().segments
		require.Greater(t, len(segments), 3)
		for _, s := range segments[:len(segments)-1] {
			require.Empty(t, s.index.view.Load().recent, "a sealed index is in its file alone")
			require.Empty(t, s.times.view.Load().recent)
		}
	}
	require.LessOrEqual(t, fsys.open.Load(), int64(cached))
	require.NoError(t, env.Close())
	require.Zero(t, fsys.open.Load())
}

// TestALogGoesOnWhenDescriptorsRunOut lets every open fail that would take one descriptor more than there are.
func TestALogGoesOnWhenDescriptorsRunOut(t *testing.T) {
	for limit := int64(4); limit < 12; limit++ {
		fsys := &probeFS{FS: memfs.New()}
		env := NewEnv(EnvOptions{FS: fsys, MaxOpenFiles: 1000})
		l, err := Open(env, testDir, Options{Config: smallSegments()})
		require.NoError(t, err)
		fsys.failWith(func(op, _ string) error {
			if op == "open" && fsys.open.Load() >= limit {
				return syscall.EMFILE
			}
			return nil
		})
		for i := range 40 { // with epoch files and snapshots, which are written beside the cache
			b := data{records: 2, size: 40, producer: 3, sequence: int32(2 * i)}.build(t)
			_, err := l.Append(b, AppendOptions{LeaderEpoch: int32(i)})
			require.NoError(t, err, "%d descriptors", limit)
		}
		require.NoError(t, l.Sync())
		batches := 0
		for offset := int64(0); offset < l.LogEnd(); batches++ {
			r, err := l.ReadRaw(offset, l.LogEnd(), 1)
			require.NoError(t, err)
			offset = r.LastOffset + 1
		}
		require.Equal(t, 40, batches)
		require.Empty(t, l.Check())
		require.NoError(t, env.Close())
		require.Zero(t, fsys.open.Load())
	}
}
