package partition

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/topicconfig"
	"github.com/tidemark-io/tidemark/vfs"
)

// BenchmarkAck measures the time from an append to its answer on the real disk: one 16 KiB batch at a time on each of so
// many logs, all of which are dirty at once.
func BenchmarkAck(b *testing.B) {
	for _, mode := range []string{"group", "os", "every"} {
		for _, logs := range []int{1, 12, 100} {
			b.Run(fmt.Sprintf("flush=%s/logs=%d", mode, logs), func(b *testing.B) { benchmarkAck(b, mode, logs, logs) })
		}
	}
}

// BenchmarkSharedAck is 64 producers on one log: how much one sync carries.
func BenchmarkSharedAck(b *testing.B) {
	for _, mode := range []string{"group", "os", "every"} {
		b.Run(fmt.Sprintf("flush=%s/producers=64", mode), func(b *testing.B) { benchmarkAck(b, mode, 1, 64) })
	}
}

// BenchmarkBurst is what a request does that has a record of 1 KiB for each of a thousand partitions: it appends them one after
// the other and waits for all.
func BenchmarkBurst(b *testing.B) {
	for _, mode := range []string{"group", "os"} {
		b.Run("flush="+mode, func(b *testing.B) {
			const logs = 1000
			opened, closeAll := benchLogs(b, mode, logs)
			original := benchBatch(b, 1024)
			records := bytes.Clone(original)
			appends := make([]*Append, logs)
			waits := make([]time.Duration, 0, b.N)
			b.ReportAllocs()
			for b.Loop() {
				began := time.Now()
				for i, l := range opened {
					copy(records, original)
					var err error
					if appends[i], err = l.Append(b.Context(), records, AppendOptions{Acks: -1}); err != nil {
						b.Fatal(err)
					}
				}
				for _, a := range appends {
					if err := a.Wait(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
				waits = append(waits, time.Since(began))
			}
			slices.Sort(waits)
			b.ReportMetric(float64(waits[len(waits)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds()), "p99-µs")
			closeAll()
		})
	}
}

const benchBatchBytes = 16 << 10

func benchmarkAck(b *testing.B, mode string, logs, producers int) {
	opened, closeAll := benchLogs(b, mode, logs)
	original := benchBatch(b, benchBatchBytes)
	waits := make([]time.Duration, b.N)
	var next atomic.Int64
	var running sync.WaitGroup
	b.SetBytes(int64(len(original)))
	b.ReportAllocs()
	b.ResetTimer()
	for p := range producers {
		running.Go(func() {
			records := bytes.Clone(original)
			for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
				copy(records, original)
				began := time.Now()
				a, err := opened[p%logs].Append(context.Background(), records, AppendOptions{Acks: -1})
				if err == nil {
					err = a.Wait(context.Background())
				}
				waits[i] = time.Since(began)
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	b.StopTimer()

	slices.Sort(waits)
	b.ReportMetric(float64(waits[len(waits)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds()), "p99-µs")
	closeAll()
}

// benchLogs opens logs on the real disk, with the journal that a server has.
func benchLogs(b *testing.B, mode string, n int) (opened []*Log, closeAll func()) {
	dir := b.TempDir()
	config, err := topicconfig.Parse(map[string]string{"tidemark.flush": mode})
	require.NoError(b, err)
	env := kafkalog.NewEnv(kafkalog.EnvOptions{})
	flusher := NewFlusher(FlusherOptions{Journal: JournalOptions{FS: vfs.OS(), Dir: dir}})
	maintainer := NewMaintainer(MaintainerOptions{})
	opened = make([]*Log, n)
	for i := range opened {
		opened[i], err = Open(Options{
			Env: env, Flusher: flusher, Maintainer: maintainer, Dir: filepath.Join(dir, fmt.Sprintf("orders-%d", i)),
			Topic: "orders", Index: int32(i), Config: config, RecoveryPoint: -1, HighWatermark: -1, LogStart: -1,
		})
		require.NoError(b, err)
	}
	return opened, func() {
		for _, err := range CloseAll(env, opened, DefaultSyncWorkers) {
			require.NoError(b, err)
		}
		maintainer.Close()
		flusher.Close()
		require.NoError(b, env.Close())
	}
}

// benchBatch is a batch of one record, of about so many bytes.
func benchBatch(b *testing.B, size int) batch.Batch {
	builder := batch.NewBuilder(batch.BuilderOptions{})
	builder.Add(time.Now().UnixMilli(), nil, make([]byte, size-batch.HeaderSize))
	built, err := builder.Build()
	require.NoError(b, err)
	return built
}
