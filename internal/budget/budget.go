// Package budget bounds how much of something, mostly memory, is held at once. Requests for more than is free wait in
// order of arrival, so that one large request is not starved by many small ones.
package budget

import (
	"context"
	"sync"
)

// Budget is a number of units that holders share. It is safe for concurrent use. Make one with [New].
type Budget struct {
	capacity int64

	mu      sync.Mutex
	held    int64
	waiting []*waiter // in order of arrival
}

type waiter struct {
	n       int64
	granted chan struct{} // closed when the share is granted
}

// New returns a budget of the given number of units, all free.
func New(capacity int64) *Budget { return &Budget{capacity: capacity} }

// Capacity returns the total number of units. It never changes.
func (b *Budget) Capacity() int64 { return b.capacity }

// Share returns how many units to acquire for a request of n that is to be admitted alone if it exceeds the whole budget.
func (b *Budget) Share(n int64) int64 { return min(n, b.capacity) }

// Acquire takes n units, n being no more than the capacity, and waits until they are free or ctx ends; in the latter case
// it takes nothing and returns the context's cause.
func (b *Budget) Acquire(ctx context.Context, n int64) error {
	b.mu.Lock()
	if len(b.waiting) == 0 && b.held+n <= b.capacity {
		b.held += n
		b.mu.Unlock()
		return nil
	}
	w := &waiter{n: n, granted: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()

	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
		b.abandon(w)
		return context.Cause(ctx)
	}
}

// abandon removes a waiter from the queue, or returns its share if it was granted at the same moment.
func (b *Budget) abandon(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.waiting {
		if other == w {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			b.grantLocked()
			return
		}
	}
	b.held -= w.n
	b.grantLocked()
}

// Release returns n acquired units. It may be called from any goroutine.
func (b *Budget) Release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= n
	b.grantLocked()
}

func (b *Budget) grantLocked() {
	for len(b.waiting) > 0 {
		w := b.waiting[0]
		if b.held+w.n > b.capacity {
			return
		}
		b.held += w.n
		b.waiting[0] = nil
		b.waiting = b.waiting[1:]
		close(w.granted)
	}
}

// Used returns the units held and the number of callers that wait.
func (b *Budget) Used() (held int64, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held, len(b.waiting)
}
