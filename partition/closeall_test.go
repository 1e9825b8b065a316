package partition

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs/faultfs"
)

// TestManyLogsAreClosedInOrderTogether closes logs whose records are in the page cache or in the journal alone, and opens
// what a power cut leaves right after that.
func TestManyLogsAreClosedInOrderTogether(t *testing.T) {
	for _, flush := range []string{"group", "os"} {
		t.Run(flush, func(t *testing.T) {
			d := newDisk(t)
			d.settings = map[string]string{"tidemark.flush": flush}
			const logs = 60
			for i := range int32(logs) {
				l := d.open(i)
				for range []int{0, 10, 100}[i%3] { // nothing, a few records, and so many that there are other files
					_, err := l.Append(t.Context(), records(t, 100), AppendOptions{})
					require.NoError(t, err)
				}
			}
			ends := make([]int64, logs)
			for i, l := range d.logs {
				ends[i] = l.Offsets().LogEnd
			}
			for i, err := range CloseAll(d.env, d.logs, 4) {
				require.NoError(t, err)
				require.NoError(t, d.logs[i].Close(), "it says the same again")
			}
			if flush == "os" { // the flusher may have synced the others before
				require.Equal(t, 1, d.faults.Count(faultfs.OpSyncVolume))
			}
			d.mem = d.mem.CrashClean()
			d.maintainer.Close()
			d.flusher.Close()
			require.NoError(t, d.env.Close())
			d.boot()
			for i := range int32(logs) {
				require.Equal(t, ends[i], d.open(i).Offsets().LogEnd)
			}
			require.NoError(t, d.stop())
		})
	}
}

func TestALogThatCannotBeSyncedIsTheOnlyOneNotClosedInOrder(t *testing.T) {
	d := newDisk(t)
	d.settings = map[string]string{"tidemark.flush": "os"}
	for i := range int32(40) {
		appendOne(t, d.open(i))
	}
	d.faults.SetInjector(faultfs.First(
		faultfs.FailMatching(faultfs.OpSyncVolume, "*", syscall.EIO),
		faultfs.FailMatching(faultfs.OpSync, "data/orders-7/*", syscall.EIO),
	))
	for i, err := range CloseAll(d.env, d.logs, 4) {
		if i != 7 {
			require.NoError(t, err, fmt.Sprint("log ", i))
			continue
		}
		require.ErrorIs(t, err, ErrStorage)
		require.ErrorIs(t, err, syscall.EIO)
		require.Error(t, d.logs[i].Failed())
	}
	require.NoError(t, d.flusher.RemoveJournal())
	d.maintainer.Close()
	d.flusher.Close()
	require.NoError(t, d.env.Close())
}
