package stream

import (
	"context"
	"sync"
	"time"
)

// throttle bounds how many bytes a second pass through it, over all who share it. Time that nobody used is saved up to
// one burst. It is safe for concurrent use.
type throttle struct {
	rate  float64 // bytes a second; 0 or less is no bound
	burst time.Duration

	mu   sync.Mutex
	free time.Time // when everything let in so far has had its time
}

// newThrottle returns a throttle of so many bytes a second; 0 or less lets everything pass.
func newThrottle(bytesPerSecond int64) *throttle {
	return &throttle{rate: float64(bytesPerSecond), burst: time.Second}
}

// wait lets n bytes in and returns when they may pass, or with the context's error when that ends first; their time is
// spent all the same.
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
