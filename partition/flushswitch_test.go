package partition

import (
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs/faultfs"
)

// The power goes right after a log stopped following the page cache, with a checkpoint that was written before: the next
// start takes its high watermark for what is flushed.
func TestTheWatermarkOfTheCheckpointIsFlushedOnceATopicStopsFollowingThePageCache(t *testing.T) {
	for _, mode := range []string{"group", "every"} {
		for seed := range uint64(20) {
			d := newDisk(t)
			d.settings = flushOf("os")
			l := d.open(0)
			var want []string
			for i := range 10 {
				put(t, l, fmt.Sprint(i))
				want = append(want, fmt.Sprintf("%d:%d", i, i))
			}
			d.watermark = l.Checkpoint().HighWatermark
			require.Equal(t, int64(10), d.watermark)
			d.settings = flushOf(mode)
			require.NoError(t, l.PrepareConfig(t.Context(), newSettingsOf(t, d.settings)))
			d.cutPower(seed)

			l = d.open(0)
			require.Equal(t, Offsets{LastStable: 10, HighWatermark: 10, LogEnd: 10, LeaderEpoch: 1}, l.Offsets())
			require.Equal(t, want, values(t, l, ReadUncommitted))
			require.NoError(t, d.stop())
		}
	}
}

func TestALogThatIsPreparedShowsNothingBeforeItsSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		f := newFakeStore()
		l := b.log(f, flushOf("os"))
		appendOne(t, l)
		f.held = make(chan error)
		prepared := make(chan error, 1)
		go func() { prepared <- l.PrepareConfig(t.Context(), newSettingsOf(t, flushOf("group"))) }()
		synctest.Wait()
		require.Empty(t, prepared, "it waits for the sync")
		later := appendOne(t, l)
		require.False(t, isDone(later))
		require.Equal(t, int64(1), l.Checkpoint().HighWatermark)
		close(f.held)
		synctest.Wait()
		require.NoError(t, <-prepared)
		require.True(t, isDone(later))
		require.Equal(t, int64(2), l.Checkpoint().HighWatermark)

		l.SetConfig(l.Config()) // the new configuration did not come to be
		synctest.Wait()
		syncs := len(f.synced())
		require.True(t, isDone(appendOne(t, l)))
		require.Equal(t, int64(3), l.Checkpoint().HighWatermark)
		synctest.Wait()
		require.Len(t, f.synced(), syncs)
	})
}

func TestALogWhoseSyncFailsIsNotReadyForAnotherFlush(t *testing.T) {
	d := newDisk(t)
	d.settings = flushOf("os")
	l := d.open(0)
	put(t, l, "visible")
	require.NoError(t, l.PrepareConfig(t.Context(), newSettingsOf(t, flushOf("os"))), "nothing changes")
	d.faults.SetInjector(faultfs.FailMatching(faultfs.OpSync, "*.log", syscall.EIO))
	for range 2 {
		err := l.PrepareConfig(t.Context(), newSettingsOf(t, flushOf("group")))
		require.ErrorIs(t, err, ErrStorage)
		require.ErrorIs(t, err, syscall.EIO)
		l.SetConfig(l.Config())
	}
	d.faults.SetInjector(nil)
	require.Error(t, d.stop())
}
