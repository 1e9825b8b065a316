package kafkalog

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
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
