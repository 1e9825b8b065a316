package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/vfs"
)

// BenchmarkManyLogs measures, on the real disk and once each, what 5,000 logs cost: to make, to close after the first
// record of each was synced, to open and close again, and to open after what looks like a crash, with all records known to
// be flushed and with none.
func BenchmarkManyLogs(b *testing.B) {
	for _, size := range []int{100, youngBytes / 2, 2 * youngBytes} {
		for _, closing := range []string{"each", "together"} {
			b.Run(fmt.Sprintf("bytes=%d/closed=%s", size, closing), func(b *testing.B) {
				for b.Loop() {
					manyLogs(b, size, closing == "together")
				}
			})
		}
	}
}

func manyLogs(b *testing.B, size int, together bool) {
	const logs, workers = 5000, 16
	dir := b.TempDir()
	for i := range logs {
		require.NoError(b, vfs.OS().MkdirAll(path.Join(dir, fmt.Sprint("orders-", i))))
	}
	var env *Env
	all := make([]*Log, logs)
	errs := make([]error, logs)
	report := func(unit string, do func(i int) error) {
		began := time.Now()
		require.NoError(b, parallel.Each(context.Background(), logs, workers, func(i int) { errs[i] = do(i) }))
		b.ReportMetric(float64(time.Since(began).Milliseconds()), unit)
		require.NoError(b, errors.Join(errs...))
	}
	epoch := int32(0)
	open := func(unit string, o Options) {
		env = NewEnv(EnvOptions{Volume: dir})
		if !o.Clean {
			epoch++
		}
		report(unit, func(i int) (err error) {
			if all[i], err = Open(env, path.Join(dir, fmt.Sprint("orders-", i)), o); err != nil {
				return err
			}
			return all[i].AssignEpoch(epoch, all[i].LogEnd())
		})
	}
	closeAll := func(unit string) {
		if together {
			began := time.Now()
			for _, closed := range env.CloseAll(all, workers) {
				require.NoError(b, errors.Join(closed.Sync, closed.Close))
			}
			b.ReportMetric(float64(time.Since(began).Milliseconds()), unit)
		} else {
			report(unit, func(i int) error { return errors.Join(all[i].Sync(), all[i].Close()) })
		}
		require.NoError(b, env.Close())
	}
	open("make-ms", Options{})
	report("write-ms", func(i int) error {
		if _, err := all[i].Append(data{size: size}.build(b), AppendOptions{LeaderEpoch: epoch}); err != nil {
			return err
		}
		_, err := all[i].SyncTo()
		return err
	})
	closeAll("close-dirty-ms")
	open("open-clean-ms", Options{Clean: true})
	closeAll("close-idle-ms")
	open("open-unclean-ms", Options{RecoveryPoint: 1})
	closeAll("close-unclean-ms")
	open("open-rewrite-ms", Options{})
	closeAll("close-rewrite-ms")
}
