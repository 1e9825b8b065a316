package partition

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
)

func TestAMaintainerWithoutDeadlinesNeverWakesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wakeUps atomic.Int64
		b := &bench{t: t, flusher: NewFlusher(FlusherOptions{})}
		b.maintainer = newMaintainer(MaintainerOptions{}, func() { wakeUps.Add(1) })
		defer b.close()
		for range 5000 {
			b.log(newFakeStore(), nil)
		}
		<-time.After(30 * 24 * time.Hour)
		synctest.Wait()
		require.Zero(t, wakeUps.Load())
	})
}

func TestIdleLogsWithRecordsShareTheirWakeUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wakeUps atomic.Int64
		b := &bench{t: t, flusher: NewFlusher(FlusherOptions{})}
		b.maintainer = newMaintainer(MaintainerOptions{}, func() { wakeUps.Add(1) })
		defer b.close()
		var stores []*fakeStore
		for range 1000 {
			f := newFakeStore()
			f.size, f.end = 100, 1
			b.log(f, nil)
			stores = append(stores, f)
		}
		synctest.Wait()
		wakeUps.Store(0) // of arming the first deadline
		<-time.After(time.Hour + time.Second)
		synctest.Wait()
		require.Equal(t, int64(12), wakeUps.Load(), "one in five minutes, whatever the number of logs")
		for _, f := range stores {
			require.Len(t, f.noted(), 24)
		}
	})
}

func TestRetentionBeginsWithTheFirstRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		f := newFakeStore()
		l := b.log(f, nil)
		<-time.After(time.Hour)
		require.Empty(t, f.noted())

		appendOne(t, l)
		<-time.After(5 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"tick", "maintain"}, f.noted())
		<-time.After(5 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"tick", "maintain"}, f.noted())
	})
}

func TestRetentionLeavesALogAloneThatKeepsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		f := newFakeStore()
		l := b.log(f, map[string]string{"retention.ms": "-1"})
		appendOne(t, l)
		<-time.After(24 * time.Hour)
		synctest.Wait()
		require.Empty(t, f.noted())

		l.SetConfig(newSettingsOf(t, map[string]string{"retention.bytes": "1"}))
		<-time.After(5 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"tick", "maintain"}, f.noted(), "a new configuration counts at once")
	})
}

func TestProducersExpireOnlyWhereThereAreSome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		f := newFakeStore()
		f.producers = 1
		keep := map[string]string{"retention.ms": "-1"}
		l := b.log(f, keep)
		<-time.After(10 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"expire", "maintain"}, f.noted())

		f.mu.Lock()
		f.producers = 0
		f.mu.Unlock()
		<-time.After(10 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"expire", "maintain"}, f.noted())
		<-time.After(time.Hour)
		synctest.Wait()
		require.Empty(t, f.noted(), "nobody is left")

		_, err := l.Append(t.Context(), produced(t, 1, 7, 0), AppendOptions{})
		require.NoError(t, err)
		<-time.After(10 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"expire", "maintain"}, f.noted())
	})
}

func TestUpkeepThatFailsIsTriedAgainAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		var failed []MaintenanceFailed
		b.events.MaintenanceFailed = func(e MaintenanceFailed) { failed = append(failed, e) }
		f := newFakeStore()
		f.delay, f.upkeepErr = 0, errDevice // overdue
		b.log(f, nil)
		synctest.Wait()
		require.Equal(t, []string{"maintain"}, f.noted(), "once, and not as fast as the machine can")

		<-time.After(retryDelay)
		synctest.Wait()
		require.Equal(t, []string{"maintain"}, f.noted())
		require.Equal(t, MaintenanceFailed{Topic: "orders", Doing: "delete old files", Err: errDevice}, failed[0])

		f.mu.Lock()
		f.upkeepErr = nil
		f.mu.Unlock()
		<-time.After(retryDelay)
		synctest.Wait()
		require.Equal(t, []string{"maintain"}, f.noted())
		<-time.After(time.Hour)
		synctest.Wait()
		require.Empty(t, f.noted())
	})
}

func TestTasksRunInTheOrderOfTheirDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMaintainer(MaintainerOptions{})
		defer m.Close()
		start := time.Now()
		ran := make(chan string, 10)
		task := func(name string) *Task {
			return m.NewTask(func(time.Time) time.Time { ran <- name; return time.Time{} })
		}
		a, b, c, never := task("a"), task("b"), task("c"), task("never")
		a.Due(start.Add(3 * time.Second))
		b.Due(start.Add(time.Second))
		never.Due(start.Add(2 * time.Second))
		c.Due(start.Add(time.Hour))
		c.Due(start.Add(2 * time.Second)) // earlier counts
		b.Due(start.Add(time.Hour))       // later does not
		never.Stop()

		require.Equal(t, []string{"b", "c", "a"}, []string{<-ran, <-ran, <-ran})
		require.Equal(t, 3*time.Second, time.Since(start))
		never.Due(start)
		<-time.After(2 * time.Hour)
		require.Empty(t, ran)
	})
}

func TestStoppingATaskWaitsForItAndItDoesNotRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMaintainer(MaintainerOptions{})
		runs, entered, leave := 0, make(chan struct{}), make(chan struct{})
		task := m.NewTask(func(now time.Time) time.Time {
			runs++
			entered <- struct{}{}
			<-leave
			return now.Add(time.Second)
		})
		task.Due(time.Now())
		<-entered
		stopped := make(chan struct{})
		go func() {
			task.Stop()
			close(stopped)
		}()
		synctest.Wait()
		require.NotNil(t, stopped)
		select {
		case <-stopped:
			t.Fatal("it still runs")
		default:
		}
		close(leave)
		<-stopped
		<-time.After(time.Hour)
		require.Equal(t, 1, runs)
		m.Close()
		m.Close()
		task.Stop()
		task.Due(time.Now())
	})
}

func TestDeleteRecordsStaysWithinWhatReadersSee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		f := newFakeStore()
		l := b.log(f, nil)
		a, err := l.Append(t.Context(), records(t, 10), AppendOptions{})
		require.NoError(t, err)
		require.NoError(t, a.Wait(t.Context()))

		for _, offset := range []int64{-2, 11} {
			_, err := l.DeleteRecords(offset)
			require.ErrorIs(t, err, ErrOffsetOutOfRange)
			var out *OffsetError
			require.True(t, errors.As(err, &out))
			require.Equal(t, OffsetError{Offset: offset, End: 10}, *out)
		}
		start, err := l.DeleteRecords(4)
		require.NoError(t, err)
		require.Equal(t, int64(4), start)
		start, err = l.DeleteRecords(2)
		require.NoError(t, err)
		require.Equal(t, int64(4), start, "the log start does not move back")
		start, err = l.DeleteRecords(-1)
		require.NoError(t, err)
		require.Equal(t, int64(10), start)
		require.Equal(t, Offsets{LogStart: 10, LastStable: 10, HighWatermark: 10, LogEnd: 10}, l.Offsets())

		l.SetConfig(newSettingsOf(t, map[string]string{"cleanup.policy": "compact"}))
		_, err = l.DeleteRecords(-1)
		require.ErrorIs(t, err, ErrPolicy)
	})
}

func TestWhatAClientMustNotSendIsRefusedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, FlusherOptions{})
		defer b.close()
		var refused []Refused
		var appended []Appended
		b.events.Refused = func(e Refused) { refused = append(refused, e) }
		b.events.Appended = func(e Appended) { appended = append(appended, e) }
		l := b.log(newFakeStore(), map[string]string{"max.message.bytes": "100"})

		bad := records(t, 1)
		bad[len(bad)-1] ^= 1
		_, err := l.Append(t.Context(), bad, AppendOptions{})
		var invalid *batch.ValidationError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, batch.Corrupt, invalid.Kind)

		_, err = l.Append(t.Context(), records(t, 20), AppendOptions{})
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, batch.TooLarge, invalid.Kind)

		good := records(t, 2)
		_, err = l.Append(t.Context(), good, AppendOptions{})
		require.NoError(t, err)
		require.Len(t, refused, 2)
		require.Equal(t, []Appended{{Topic: "orders", Records: 2, Bytes: len(good)}}, appended)
		require.Equal(t, int64(2), l.Offsets().LogEnd)
	})
}

func TestTheFirstLookAtLogsCanBeSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, flusher: NewFlusher(FlusherOptions{})}
		b.maintainer = NewMaintainer(MaintainerOptions{InitialDelay: 30 * time.Second})
		defer b.close()
		f := newFakeStore()
		f.size, f.end = 100, 1
		b.log(f, nil)
		<-time.After(29 * time.Second)
		synctest.Wait()
		require.Empty(t, f.noted())
		<-time.After(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"tick", "maintain"}, f.noted())
		<-time.After(5 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"tick", "maintain"}, f.noted(), "then as often as the interval says")
	})
}
