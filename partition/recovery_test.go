package partition

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/vfs"
)

// TestF04_F36_AFlippedBitBelowTheHighWatermarkCutsNothing kills a process whose recovery point was not written since the
// records were, only its high watermark, and flips a bit in an old record.
func TestF04_F36_AFlippedBitBelowTheHighWatermarkCutsNothing(t *testing.T) {
	for _, mode := range []string{"group", "every", "os"} {
		t.Run(mode, func(t *testing.T) {
			d := newDisk(t)
			d.settings = flushOf(mode)
			l := d.open(0)
			for _, value := range []string{"first", "second", "third", "fourth"} {
				put(t, l, value)
			}
			seen := l.Checkpoint().HighWatermark
			require.Equal(t, int64(4), seen)
			left := d.mem
			require.NoError(t, d.stop())
			const name = "data/orders-0/00000000000000000000.log"
			records, err := vfs.ReadFile(left, name)
			require.NoError(t, err)
			records[bytes.Index(records, []byte("second"))] ^= 1
			file, err := left.Open(name, vfs.ReadWrite)
			require.NoError(t, err)
			_, err = file.WriteAt(records, 0)
			require.NoError(t, err)
			require.NoError(t, file.Close())

			d.boot()
			defer func() { _ = d.stop() }() // the damage is still there
			var damaged []int64
			var behind []kafkalog.LogEndBehindEvent
			env := kafkalog.NewEnv(kafkalog.EnvOptions{FS: left, Events: kafkalog.Events{
				DamagedBatch: func(e kafkalog.DamagedBatchEvent) { damaged = append(damaged, e.Offset) },
				LogEndBehind: func(e kafkalog.LogEndBehindEvent) { behind = append(behind, e) },
			}})
			defer env.Close()
			l, err = Open(Options{
				Env: env, Flusher: d.flusher, Maintainer: d.maintainer, Dir: "data/orders-0", Topic: "orders",
				Config: newSettingsOf(t, d.settings), LeaderEpoch: 1, RecoveryPoint: -1, HighWatermark: seen, LogStart: -1,
			})
			require.NoError(t, err)
			defer l.Close()
			if mode == "os" {
				require.Equal(t, int64(1), l.Offsets().HighWatermark, "what a power cut may have taken")
				require.Equal(t, []kafkalog.LogEndBehindEvent{{
					Dir: "data/orders-0", LogEnd: 1, RecoveryPoint: -1, HighWatermark: 4,
				}}, behind, "and that is told")
				return
			}
			require.Equal(t, Offsets{HighWatermark: 4, LastStable: 4, LogEnd: 4, LeaderEpoch: 1}, l.Offsets())
			require.Equal(t, []int64{1}, damaged)
			require.Equal(t, int64(4), put(t, l, "fifth").BaseOffset, "no offset is given out again")
			read, err := l.Read(2, ReadUncommitted, 1<<20, true)
			require.NoError(t, err)
			defer read.Records.Release()
			rest, err := read.Records.AppendTo(nil)
			require.NoError(t, err)
			require.Contains(t, string(rest), "third")
			require.Contains(t, string(rest), "fifth")
		})
	}
}
