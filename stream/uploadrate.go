package stream

import (
	"context"
	"sync"
	"time"
)

const (
	// ratePeriod is the least time over which a block is uploaded, unless it was filled in less (UP-9).
	ratePeriod = 20 * time.Second
	// rateMinAge is the age below which a block is not slowed down.
	rateMinAge = 100 * time.Millisecond
	// rateLeast is the least rate, in bytes a second: a few bytes are not worth spreading.
	rateLeast = 16 << 10
)

// uploadRate spreads uploads over the time in which their data came, so that they do not compete with the WAL for
// bandwidth in bursts (UP-9). It is safe for concurrent use. The zero value has no limit yet.
type uploadRate struct {
	mu struct {
		sync.Mutex
		limit  float64 // bytes a second; the largest that any block asked for
		next   time.Time
		lifted int           // how many callers want no limit now
		lift   chan struct{} // closed when the first of them came
	}
}

// need raises the limit to what a block needs: its size within its age, or within ratePeriod.
func (r *uploadRate) need(size int64, age time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.limit = max(r.mu.limit, rateLeast, float64(size)/min(age, ratePeriod).Seconds())
}

// lift removes the limit until restore is called.
func (r *uploadRate) lift() (restore func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.lifted == 0 {
		close(r.liftedLocked())
	}
	r.mu.lifted++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.mu.lifted--; r.mu.lifted == 0 {
			r.mu.lift = nil
		}
	}
}

// liftedLocked returns the channel that closes when the limit is lifted.
func (r *uploadRate) liftedLocked() chan struct{} {
	if r.mu.lift == nil {
		r.mu.lift = make(chan struct{})
	}
	return r.mu.lift
}

// wait returns when n bytes may be sent, at once while the limit is lifted.
func (r *uploadRate) wait(ctx context.Context, n int64) error {
	delay, lifted := r.take(n, time.Now())
	if delay <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-lifted:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take books n bytes and returns how long they have to wait, unless the channel closes before.
func (r *uploadRate) take(n int64, now time.Time) (time.Duration, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.lifted > 0 || r.mu.limit <= 0 {
		r.mu.next = now
		return 0, nil
	}
	if r.mu.next.Before(now) {
		r.mu.next = now
	}
	r.mu.next = r.mu.next.Add(time.Duration(float64(n) / r.mu.limit * float64(time.Second)))
	return r.mu.next.Sub(now), r.liftedLocked()
}
