package stream

import (
	"context"
	"sync"
	"time"
)

// throttle bounds how many bytes a second pass through it, in total for all users. Unused time is saved up to one burst.
// It is safe for concurrent use.
type throttle struct {
	rate  float64 // bytes a second; 0 or less is no bound
	burst time.Duration

	mu   sync.Mutex
	free time.Time // when everything admitted so far has had its time
}

// newThrottle returns a throttle of that many bytes a second; 0 or less is no bound.
func newThrottle(bytesPerSecond int64) *throttle {
	return &throttle{rate: float64(bytesPerSecond), burst: time.Second}
}

// wait admits n bytes and returns when they may pass, or with the context's error if that ends first; their time is spent
// in either case.
func (t *throttle) wait(ctx context.Context, n int64) error {
	if t.rate <= 0 || n <= 0 {
		return ctx.Err()
	}
	delay := t.take(n, time.Now())
	if delay <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take books n bytes and returns how long they have to wait.
func (t *throttle) take(n int64, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if saved := now.Add(-t.burst); t.free.Before(saved) {
		t.free = saved
	}
	t.free = t.free.Add(time.Duration(float64(n) / t.rate * float64(time.Second)))
	return t.free.Sub(now)
}
