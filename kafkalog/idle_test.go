package kafkalog

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// BenchmarkIdleLogMemory reports the heap that an open log holds while nobody uses it: just opened, and after a group of
// appends.
func BenchmarkIdleLogMemory(b *testing.B) {
	for _, appended := range []bool{false, true} {
		b.Run(fmt.Sprintf("appended=%t", appended), func(b *testing.B) {
			const logs = 200
			dir := b.TempDir()
			for range b.N {
				env := NewEnv(EnvOptions{FS: vfs.OS()})
				all := make([]*Log, logs)
				before := heapBytes()
				for i := range all {
					l, err := Open(env, fmt.Sprintf("%s/idle-%d", dir, i), Options{Clean: true})
					require.NoError(b, err)
					all[i] = l
					if appended {
						appendManyAtOnce(b, l)
					}
				}
				b.ReportMetric(float64(heapBytes()-before)/logs, "heap-B/log")
				runtime.KeepAlive(all)
				require.NoError(b, env.Close())
			}
		})
	}
}

// heapBytes is what is in use after a collection.
func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// appendManyAtOnce appends the largest group that is written in one go.
func appendManyAtOnce(t require.TestingT, l *Log) {
	items := make([]GroupItem, stageBatches)
	for i := range items {
		items[i] = GroupItem{Batch: data{seed: i}.build(t), Options: AppendOptions{LeaderEpoch: -1}, At: NextOffset, Verbatim: i%2 == 0}
	}
	l.AppendGroup(items)
}

func TestALogAtRestKeepsNoMemoryOfItsAppends(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{})
	appendManyAtOnce(t, l)
	require.Equal(t, int64(stageBatches), l.LogEnd())
	require.True(t, l.mu.stage == nil)
	mustAppend(t, l, data{})
	require.True(t, l.mu.stage == nil)
	require.False(t, l.AppendMayBlock(100, epochMs))
	require.True(t, l.mu.stage == nil)
}

// TestAYoungLogIsOneFile keeps what many new partitions cost small: a file each once there are records, and no fsync but those of
// the records.
func TestAYoungLogIsOneFile(t *testing.T) {
	fsys := faultfs.New(memfs.New(), nil)
	b := newBenchOn(t, fsys)
	require.NoError(t, vfs.EnsureDir(fsys, testDir))
	syncs := func() int { return fsys.Count(faultfs.OpSync, faultfs.OpSyncDir) }
	before := syncs()
	for _, clean := range []bool{true, false} {
		l := b.open(Options{Clean: clean})
		require.NoError(t, l.AssignEpoch(3, 0))
		require.Equal(t, []EpochEntry{{Epoch: 3, Start: 0}}, l.Epochs())
		require.NoError(t, l.Sync())
		require.NoError(t, l.Close())
		require.Empty(t, fileNames(t, fsys))
	}
	require.Equal(t, before, syncs())

	l := b.open(Options{Clean: true})
	put := func(d data) {
		_, err := l.Append(d.build(t), AppendOptions{LeaderEpoch: 3})
		require.NoError(t, err)
	}
	for i := range 3 {
		before = syncs()
		require.NoError(t, l.AssignEpoch(3, l.LogEnd()))
		put(data{records: 3, producer: 7, sequence: int32(3 * i), seed: i})
		require.NoError(t, l.Sync())
		require.NoError(t, l.Sync())
		was := logState(t, l)
		require.NoError(t, l.Close())
		require.Equal(t, []string{fileName(0, logSuffix)}, fileNames(t, fsys))
		l = b.open(Options{Clean: i != 1})
		require.Equal(t, was, logState(t, l))
	}
	require.LessOrEqual(t, syncs(), before+2)

	put(data{size: youngBytes, producer: 7, sequence: 9})
	was := logState(t, l)
	require.NoError(t, l.Close())
	require.Equal(t, []string{
		fileName(0, indexSuffix), fileName(0, logSuffix), fileName(0, timeIndexSuffix), fileName(10, snapshotSuffix), epochFileName,
	}, fileNames(t, fsys))
	l = b.open(Options{Clean: true})
	require.Equal(t, was, logState(t, l))
	before = syncs()
	require.NoError(t, l.Close())
	require.Equal(t, before, syncs(), "what was not written to is not synced")
}

// A log whose first records are gone is not young, however few are left: its producers stand nowhere else.
func TestALogThatLostItsFirstRecordsKeepsItsProducers(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{})
	mustAppend(t, l, data{records: 3, producer: 7})
	mustAppend(t, l, data{records: 2, producer: 8})
	require.NoError(t, l.SetLogStart(3))
	was := logState(t, l)
	l = b.reopen(l, Options{})
	require.Equal(t, was, logState(t, l))
	_, err := l.Append(data{producer: 7, sequence: 4}.build(t), AppendOptions{LeaderEpoch: -1})
	require.ErrorIs(t, err, ErrOutOfOrderSequence)
}

// A log that was closed before it held records has a file whose name nobody made durable.
func TestTheFirstRecordsOfALogThatWasOpenedAgainSurviveAPowerCut(t *testing.T) {
	fsys := memfs.New()
	b := newBenchOn(t, fsys)
	require.NoError(t, b.open(Options{}).Close())
	l := b.open(Options{Clean: true})
	mustAppend(t, l, data{})
	_, err := l.SyncTo()
	require.NoError(t, err)
	after := newBenchOn(t, fsys.CrashClean())
	require.Equal(t, int64(1), after.open(Options{}).LogEnd())
}
