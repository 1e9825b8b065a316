package partition

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAClockThatIsSetBackDelaysNoPeriodicWork starts a machine in the wrong year and then sets its clock right.
func TestAClockThatIsSetBackDelaysNoPeriodicWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		ahead.Store(int64(10 * 365 * 24 * time.Hour))
		now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())).Round(0) }
		b := &bench{t: t, flusher: NewFlusher(FlusherOptions{}), maintainer: NewMaintainer(MaintainerOptions{Now: now})}
		defer b.close()
		f := newFakeStore()
		f.producers = 1
		o := Options{Flusher: b.flusher, Maintainer: b.maintainer, Now: now, Topic: "orders", Dir: "orders-0"}
		l := newLog(o, f, newSettings(newSettingsOf(t, flushOf("os"))))
		require.NoError(t, l.start(0, true))
		b.logs = append(b.logs, l)
		appendOne(t, l)
		other := make(chan time.Time, 1)
		task := b.maintainer.NewTask(func(now time.Time) time.Time { other <- now; return time.Time{} })
		task.Due(now().Add(time.Minute))
		<-time.After(time.Second)

		ahead.Store(0)
		<-time.After(10 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"tick", "maintain", "tick", "expire", "maintain"}, f.noted())
		require.WithinDuration(t, time.Now(), <-other, 10*time.Minute, "by the clock as it is now")
	})
}
