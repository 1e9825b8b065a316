package partition

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	errDevice = errors.New("input/output error")
	flushOf   = func(mode string) map[string]string { return map[string]string{"tidemark.flush": mode} }
)

// appendOne appends one record, which must be taken.
func appendOne(t *testing.T, l *Log) *Append {
	t.Helper()
	a, err := l.Append(t.Context(), records(t, 1), AppendOptions{Acks: -1})
	require.NoError(t, err)
	return a
}

func TestF01_AnAppendIsNeitherAnsweredNorVisibleBeforeItsSyncReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		f := newFakeStore()
		f.held = make(chan error)
		l := b.log(f, nil)

		a := appendOne(t, l)
		synctest.Wait() // the sync hangs
		require.False(t, isDone(a))
		require.Equal(t, Offsets{LogEnd: 1}, l.Offsets())

		f.held <- nil
		require.NoError(t, a.Wait(t.Context()))
		require.Equal(t, Offsets{LastStable: 1, HighWatermark: 1, LogEnd: 1}, l.Offsets())
		close(f.held)
	})
}

func TestAppendsThatArriveDuringASyncRideOnTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		f := newFakeStore()
		f.held = make(chan error)
		l := b.log(f, nil)

		first := appendOne(t, l)
		synctest.Wait()
		second, third := appendOne(t, l), appendOne(t, l)
		require.Equal(t, second.Done(), third.Done(), "one channel for all appends of a round")

		f.held <- nil
		require.NoError(t, first.Wait(t.Context()))
		synctest.Wait()
		require.False(t, isDone(second))

		f.held <- nil
		require.NoError(t, second.Wait(t.Context()))
		require.NoError(t, third.Wait(t.Context()))
		require.Equal(t, []int64{1, 3}, f.synced())
		close(f.held)
	})
}

func TestASlowLogDoesNotHoldUpAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{Workers: 2})
		defer b.close()
		slow, quick := newFakeStore(), newFakeStore()
		slow.held = make(chan error)
		stuck := appendOne(t, b.log(slow, nil))
		synctest.Wait()

		require.NoError(t, appendOne(t, b.log(quick, nil)).Wait(t.Context()))
		require.False(t, isDone(stuck))
		close(slow.held)
	})
}

func TestNoMoreLogsAreSyncedAtOnceThanThereAreWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{Workers: 3})
		defer b.close()
		gauge, held := &syncGauge{}, make(chan error)
		var waiting []*Append
		for range 10 {
			f := newFakeStore()
			f.pool, f.held = gauge, held
			waiting = append(waiting, appendOne(t, b.log(f, nil)))
		}
		synctest.Wait()
		require.Equal(t, FlusherStats{DirtyLogs: 7, BusyWorkers: 3, UnsyncedBytes: b.flusher.Stats().UnsyncedBytes},
			b.flusher.Stats())
		close(held)
		for _, a := range waiting {
			require.NoError(t, a.Wait(t.Context()))
		}
		require.Equal(t, 3, gauge.most)
		require.Zero(t, b.flusher.Stats().UnsyncedBytes)
	})
}

func TestALogIsNeverSyncedTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		f := newFakeStore()
		l := b.log(f, nil)
		for range 200 {
			go func() { _ = appendOne(t, l).Wait(t.Context()) }()
		}
		synctest.Wait()
		require.Equal(t, 1, f.most)
		require.Equal(t, int64(200), l.Offsets().HighWatermark)
	})
}

// requireUnanswered checks that whoever waits for an append was told nothing yet.
func requireUnanswered(t *testing.T, a *Append) {
	t.Helper()
	select {
	case <-a.Done():
		t.Error("the server's log says why after its client knows it")
	default:
	}
}

func TestF10_AFailedSyncIsFinalForItsLogAndOnlyForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		var failed []Failed
		var lost *Append
		b.events.Failed = func(e Failed) {
			requireUnanswered(t, lost)
			failed = append(failed, e)
		}
		broken, sound := newFakeStore(), newFakeStore()
		broken.held = make(chan error)
		l, other := b.log(broken, nil), b.log(sound, nil)

		kept := appendOne(t, l)
		broken.held <- nil
		require.NoError(t, kept.Wait(t.Context()))

		lost = appendOne(t, l)
		synctest.Wait()
		behind := appendOne(t, l) // rides on a sync that will never be
		broken.held <- errDevice

		for _, a := range []*Append{lost, behind} {
			err := a.Wait(t.Context())
			require.ErrorIs(t, err, ErrStorage)
			require.ErrorIs(t, err, errDevice)
		}
		_, err := l.Append(t.Context(), records(t, 1), AppendOptions{})
		require.ErrorIs(t, err, ErrStorage, "the device works again, but who knows what it kept")
		require.ErrorIs(t, l.Failed(), ErrStorage)
		require.Equal(t, int64(1), l.Offsets().HighWatermark, "readers keep what they could see")
		require.NoError(t, l.unreadable())

		require.NoError(t, appendOne(t, other).Wait(t.Context()))
		require.ErrorIs(t, l.Close(), ErrStorage)
		require.Len(t, failed, 1)
		require.Equal(t, int32(0), failed[0].Partition)
		require.Zero(t, b.flusher.Stats().UnsyncedBytes)
	})
}

func TestF10_AWriteThatTheDeviceFailsIsFinalForItsLogAndOnlyForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		var failed []Failed
		var behind *Append
		b.events.Failed = func(e Failed) {
			requireUnanswered(t, behind)
			failed = append(failed, e)
		}
		broken, sound := newFakeStore(), newFakeStore()
		l, other := b.log(broken, nil), b.log(sound, nil)
		require.NoError(t, appendOne(t, l).Wait(t.Context()))

		broken.held = make(chan error)
		waits := appendOne(t, l) // for a sync that is under way
		synctest.Wait()
		behind = appendOne(t, l)
		broken.failing, broken.final = errDevice, errDevice
		for range 2 {
			_, err := l.Append(t.Context(), records(t, 1), AppendOptions{})
			var e *StorageError
			require.ErrorAs(t, err, &e)
			require.Equal(t, []any{true, errDevice}, []any{e.Final, e.Err})
			broken.failing = nil // the device works again, but who knows what it keeps
		}
		require.ErrorIs(t, behind.Wait(t.Context()), ErrStorage)
		broken.held <- nil
		require.NoError(t, waits.Wait(t.Context()), "its sync succeeded")
		require.ErrorIs(t, l.Failed(), ErrStorage)
		require.Equal(t, int64(2), l.Offsets().HighWatermark)
		require.NoError(t, l.unreadable(), "reads go on")

		require.NoError(t, appendOne(t, other).Wait(t.Context()))
		require.ErrorIs(t, l.Close(), ErrStorage)
		require.Len(t, failed, 1)
		require.Zero(t, b.flusher.Stats().UnsyncedBytes)
	})
}

// The log waits for a worker with an append when the write of the next one fails.
func TestF10_AWriteThatFailsWhileItsLogIsQueuedEndsNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{Workers: 1})
		defer b.close()
		slow, broken := newFakeStore(), newFakeStore()
		slow.held = make(chan error)
		other, l := b.log(slow, nil), b.log(broken, nil)
		first := appendOne(t, other)
		synctest.Wait()
		queued := appendOne(t, l)
		broken.failing, broken.final = errDevice, errDevice
		_, err := l.Append(t.Context(), records(t, 1), AppendOptions{})
		require.ErrorIs(t, err, ErrStorage)
		require.ErrorIs(t, queued.Wait(t.Context()), ErrStorage)

		slow.held <- nil
		require.NoError(t, first.Wait(t.Context()))
		synctest.Wait()
		require.ErrorIs(t, l.Close(), ErrStorage)
		close(slow.held)
		require.NoError(t, appendOne(t, other).Wait(t.Context()))
		require.Zero(t, b.flusher.Stats().UnsyncedBytes)
	})
}

func TestF10_AWriteThatFindsNoRoomRefusesOneAppendAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		f := newFakeStore()
		l := b.log(f, nil)
		f.failing = syscall.ENOSPC
		_, err := l.Append(t.Context(), records(t, 1), AppendOptions{})
		require.ErrorIs(t, err, ErrStorage)
		require.Zero(t, b.flusher.Stats().UnsyncedBytes)

		f.failing = nil
		a := appendOne(t, l)
		require.NoError(t, a.Wait(t.Context()))
		require.Equal(t, int64(0), a.BaseOffset)
	})
}

func TestF12_ADuplicateIsAnsweredWhenTheOriginalIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		f := newFakeStore()
		f.held = make(chan error)
		l := b.log(f, nil)

		original, err := l.Append(t.Context(), produced(t, 2, 7, 0), AppendOptions{})
		require.NoError(t, err)
		synctest.Wait() // the sync of the original hangs
		again, err := l.Append(t.Context(), produced(t, 2, 7, 0), AppendOptions{})
		require.NoError(t, err)
		require.True(t, again.Duplicate)
		require.Equal(t, original.BaseOffset, again.BaseOffset)
		require.False(t, isDone(again))

		close(f.held)
		require.NoError(t, original.Wait(t.Context()))
		require.NoError(t, again.Wait(t.Context()))

		late, err := l.Append(t.Context(), produced(t, 2, 7, 0), AppendOptions{})
		require.NoError(t, err)
		require.True(t, isDone(late), "nothing to wait for")
		require.Equal(t, int64(2), l.Offsets().LogEnd)
	})
}

func TestF12_ADuplicateOfAnOriginalThatNeverBecameDurableFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		f := newFakeStore()
		f.held = make(chan error)
		l := b.log(f, nil)
		original, err := l.Append(t.Context(), produced(t, 1, 7, 0), AppendOptions{})
		require.NoError(t, err)
		synctest.Wait()
		again, err := l.Append(t.Context(), produced(t, 1, 7, 0), AppendOptions{})
		require.NoError(t, err)

		f.held <- errDevice
		require.ErrorIs(t, original.Wait(t.Context()), ErrStorage)
		require.ErrorIs(t, again.Wait(t.Context()), ErrStorage)
	})
}

func TestF36_TheWatermarkNeverMovesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		f := newFakeStore()
		l := b.log(f, flushOf("os"))
		for range 5 {
			appendOne(t, l)
		}
		require.Equal(t, int64(5), l.Offsets().HighWatermark)

		// The topic now wants syncs; the first ones end below what readers saw already.
		f.held = make(chan error)
		grouped := newSettingsOf(t, flushOf("group"))
		l.SetConfig(grouped)
		synctest.Wait()
		require.Equal(t, int64(5), l.Offsets().HighWatermark)
		l.synced(3)
		require.Equal(t, int64(5), l.Offsets().HighWatermark)
		close(f.held)
		synctest.Wait()
		require.Equal(t, []int64{5}, f.synced(), "what was only in the page cache is synced at the change")
	})
}

func TestFlushOSAnswersAtOnceAndNeverSyncsUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		f := newFakeStore()
		l := b.log(f, flushOf("os"))
		for range 10 {
			require.True(t, isDone(appendOne(t, l)))
		}
		synctest.Wait()
		require.Empty(t, f.synced())
		require.Equal(t, int64(10), l.Offsets().HighWatermark)
		require.NoError(t, l.Close())
		require.Equal(t, []int64{10}, f.synced(), "closing syncs")
	})
}

func TestFlushMessagesMakesTheAppendThatFillsItWaitForASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		f := newFakeStore()
		f.held = make(chan error)
		l := b.log(f, map[string]string{"tidemark.flush": "os", "flush.messages": "3"})

		require.True(t, isDone(appendOne(t, l)))
		require.True(t, isDone(appendOne(t, l)))
		third := appendOne(t, l)
		synctest.Wait()
		require.False(t, isDone(third))
		require.Equal(t, int64(2), l.Offsets().HighWatermark)

		close(f.held)
		require.NoError(t, third.Wait(t.Context()))
		require.Equal(t, int64(3), l.Offsets().HighWatermark)
		require.True(t, isDone(appendOne(t, l)))
	})
}

func TestFlushMsSyncsInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		f := newFakeStore()
		l := b.log(f, map[string]string{"tidemark.flush": "os", "flush.ms": "1000"})

		appendOne(t, l)
		<-time.After(999 * time.Millisecond)
		appendOne(t, l)
		synctest.Wait()
		require.Empty(t, f.synced())
		<-time.After(time.Millisecond)
		synctest.Wait()
		require.Equal(t, []int64{2}, f.synced())

		<-time.After(time.Hour)
		synctest.Wait()
		require.Equal(t, []int64{2}, f.synced(), "nothing is dirty")
	})
}

func TestANewFlushMsCountsFromItsChangeOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		f := newFakeStore()
		l := b.log(f, map[string]string{"tidemark.flush": "os", "flush.ms": "3600000"})
		appendOne(t, l)
		l.SetConfig(newSettingsOf(t, map[string]string{"tidemark.flush": "os", "flush.ms": "1000"}))
		<-time.After(999 * time.Millisecond)
		synctest.Wait()
		require.Empty(t, f.synced())
		<-time.After(time.Millisecond)
		synctest.Wait()
		require.Equal(t, []int64{1}, f.synced())

		appendOne(t, l)
		l.SetConfig(newSettingsOf(t, map[string]string{"tidemark.flush": "os"}))
		<-time.After(time.Hour)
		synctest.Wait()
		require.Equal(t, []int64{1}, f.synced(), "it is not asked for any more")
	})
}

func TestFlushEverySyncsEachAppendAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		f := newFakeStore()
		l := b.log(f, flushOf("every"))
		for range 5 {
			go func() { _ = appendOne(t, l).Wait(t.Context()) }()
		}
		synctest.Wait()
		require.Equal(t, []int64{1, 2, 3, 4, 5}, f.synced())
	})
}

func TestASlowDiskShowsAsWaitingAppendsAndHonoursTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := int64(len(records(t, 1)))
		rows := map[string]FlusherOptions{
			"log":     {MaxUnsyncedBytesPerLog: 2 * one},
			"process": {MaxUnsyncedBytes: 2 * one},
		}
		for name, o := range rows {
			b := newBench(t, o)
			f := newFakeStore()
			f.held = make(chan error)
			l := b.log(f, nil)
			appendOne(t, l)
			synctest.Wait()
			appendOne(t, l)

			impatient, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := l.Append(impatient, records(t, 1), AppendOptions{})
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.Equal(t, int64(2), l.Offsets().LogEnd, "nothing was written")

			appended := make(chan *Append)
			go func() { appended <- appendOne(t, l) }()
			synctest.Wait()
			require.Equal(t, int64(2), l.Offsets().LogEnd, name)
			close(f.held)
			require.NoError(t, (<-appended).Wait(t.Context()))
			require.Equal(t, int64(3), l.Offsets().HighWatermark, name)
			b.close()
		}
	})
}

func TestABatchLargerThanTheBudgetGoesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{MaxUnsyncedBytes: 10, MaxUnsyncedBytesPerLog: 10})
		defer b.close()
		l := b.log(newFakeStore(), nil)
		for range 3 {
			require.NoError(t, appendOne(t, l).Wait(t.Context()))
		}
	})
}

func TestCloseSyncsAndAnswersWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		f := newFakeStore()
		f.held = make(chan error)
		l := b.log(f, nil)
		a := appendOne(t, l)
		synctest.Wait()
		late := appendOne(t, l)

		closed := make(chan error, 2)
		go func() { closed <- l.Close() }()
		synctest.Wait()
		_, err := l.Append(t.Context(), records(t, 1), AppendOptions{})
		require.ErrorIs(t, err, ErrClosed)
		go func() { closed <- l.Close() }()

		close(f.held)
		require.NoError(t, <-closed)
		require.NoError(t, <-closed)
		require.NoError(t, a.Wait(t.Context()))
		require.NoError(t, late.Wait(t.Context()))
		require.Equal(t, 1, f.closed)
		_, err = l.Read(0, ReadUncommitted, 1, true)
		require.ErrorIs(t, err, ErrClosed)
	})
}

func TestAnAppendToAClosedFlusherFailsAndDoesNotHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		l := b.log(newFakeStore(), nil)
		b.flusher.Close()
		b.flusher.Close()
		a := appendOne(t, l)
		require.ErrorIs(t, a.Wait(t.Context()), ErrClosed)
		require.Zero(t, b.flusher.Stats().UnsyncedBytes)
	})
}

func TestAFencedLogRefusesAppendsAndGoesOnBeingRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		l := b.log(newFakeStore(), nil)
		a := appendOne(t, l)
		w := NewWaker()
		l.Watch(w)
		l.Fence()
		require.NotEmpty(t, w.C())
		_, err := l.Append(t.Context(), records(t, 1), AppendOptions{})
		require.ErrorIs(t, err, ErrNotLeader)
		require.NoError(t, a.Wait(t.Context()))
		require.NoError(t, l.unreadable())
	})
}

func TestAWakerHearsOfEveryWatchedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		one, two, deaf := b.log(newFakeStore(), nil), b.log(newFakeStore(), flushOf("os")), b.log(newFakeStore(), nil)
		w := NewWaker()
		one.Watch(w)
		two.Watch(w)
		deaf.Watch(w)
		deaf.Unwatch(w)

		heard := func() bool {
			synctest.Wait()
			select {
			case <-w.C():
				return true
			default:
				return false
			}
		}
		require.False(t, heard())
		appendOne(t, one)
		require.True(t, heard(), "the watermark moved with a sync")
		appendOne(t, two)
		require.True(t, heard(), "the watermark moved with the page cache")
		appendOne(t, deaf)
		require.False(t, heard())
		_, err := one.DeleteRecords(1)
		require.NoError(t, err)
		require.True(t, heard(), "the log start moved")
		require.NoError(t, two.Close())
		require.True(t, heard(), "a log was closed")
		two.Unwatch(w)
		two.Watch(w)
		require.True(t, heard(), "it still is")
	})
}
