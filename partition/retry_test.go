package partition

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/kafkalog"
)

// TestF10_ASyncThatCouldNotBeginRefusesWhatWaitedAndIsTriedAgain runs out of descriptors for one sync.
func TestF10_ASyncThatCouldNotBeginRefusesWhatWaitedAndIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		var failed []Failed
		b.events.Failed = func(e Failed) { failed = append(failed, e) }
		f := newFakeStore()
		f.held = make(chan error, 1)
		l := b.log(f, nil)

		f.held <- fmt.Errorf("%w: %w", kafkalog.ErrTryAgain, errDevice)
		err := appendOne(t, l).Wait(t.Context())
		require.ErrorIs(t, err, ErrStorage)
		require.ErrorIs(t, err, errDevice)
		var storage *StorageError
		require.True(t, errors.As(err, &storage))
		require.False(t, storage.Final)
		require.Zero(t, l.Offsets().HighWatermark, "nothing is visible that is not durable")
		require.NoError(t, l.Failed())

		f.held <- nil
		<-time.After(syncRetryDelay)
		synctest.Wait()
		require.Equal(t, int64(1), l.Offsets().HighWatermark, "also without another append")

		f.held <- nil
		require.NoError(t, appendOne(t, l).Wait(t.Context()))
		require.Equal(t, int64(2), l.Offsets().HighWatermark)
		require.Empty(t, failed)
		require.Zero(t, b.flusher.Stats().UnsyncedBytes)
		f.held <- nil // for the sync at close
	})
}

func TestANewConfigurationDoesNotForgetASyncThatIsToBeTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		f := newFakeStore()
		f.held = make(chan error, 1)
		settings := map[string]string{"tidemark.flush": "os", "flush.messages": "1"}
		l := b.log(f, settings)

		f.held <- fmt.Errorf("%w: %w", kafkalog.ErrTryAgain, errDevice)
		require.ErrorIs(t, appendOne(t, l).Wait(t.Context()), ErrStorage)
		l.SetConfig(newSettingsOf(t, settings))
		f.held <- nil
		<-time.After(syncRetryDelay)
		synctest.Wait()
		require.Equal(t, int64(1), l.Offsets().HighWatermark)
		f.held <- nil // for the sync at close
	})
}
