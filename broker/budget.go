package broker

import (
	"context"
	"sync"
)

// budget bounds the memory that the requests of all connections hold. Who asks for more than is free waits, in order of
// arrival, so that one large request cannot be starved by many small ones.
type budget struct {
	capacity int64 // fixed; no one may ask for more

	mu      sync.Mutex
	held    int64
	waiting []*budgetWaiter // in order of arrival
}

type budgetWaiter struct {
	n       int64
	granted chan struct{} // closed when the share is granted
}

func newBudget(capacity int64) *budget { return &budget{capacity: capacity} }

// acquire takes n units, n <= capacity, and waits until they are free or ctx ends.
func (b *budget) acquire(ctx context.Context, n int64) error {
	b.mu.Lock()
	if len(b.waiting) == 0 && b.held+n <= b.capacity {
		b.held += n
		b.mu.Unlock()
		return nil
	}
	w := &budgetWaiter{n: n, granted: make(chan struct{})}
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

// abandon takes a waiter out of the line, or gives its share back when it was granted at the same moment.
func (b *budget) abandon(w *budgetWaiter) {
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

func (b *budget) release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= n
	b.grantLocked()
}

func (b *budget) grantLocked() {
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

// used returns the units held and the number of callers that wait.
func (b *budget) used() (held int64, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held, len(b.waiting)
}
