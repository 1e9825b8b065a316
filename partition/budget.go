package partition

import (
	"context"
	"sync"
)

// budget bounds bytes that are written and not yet synced. Who asks for more than is free waits, in order of arrival, so
// that a slow disk shows as waiting appends and never as growing memory.
type budget struct {
	size int64 // what one may hold at most; fixed

	mu      sync.Mutex
	held    int64
	waiting []*budgetWaiter // in order of arrival
}

type budgetWaiter struct {
	n     int64
	ready chan struct{} // closed when the share is granted
}

func newBudget(size int64) *budget { return &budget{size: size} }

// share is what n bytes cost: a batch larger than the whole budget goes alone.
func (b *budget) share(n int64) int64 { return min(n, b.size) }

// acquire takes a share that [budget.share] computed, and waits until it is free or ctx ends.
func (b *budget) acquire(ctx context.Context, share int64) error {
	b.mu.Lock()
	if len(b.waiting) == 0 && b.held+share <= b.size {
		b.held += share
		b.mu.Unlock()
		return nil
	}
	w := &budgetWaiter{n: share, ready: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()

	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		b.abandon(w)
		return context.Cause(ctx)
	}
}

// abandon removes a waiter whose context ended, or gives its share back when it was granted at the same moment.
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

func (b *budget) release(share int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= share
	b.grantLocked()
}

func (b *budget) grantLocked() {
	for len(b.waiting) > 0 {
		w := b.waiting[0]
		if b.held+w.n > b.size {
			return
		}
		b.held += w.n
		b.waiting[0] = nil
		b.waiting = b.waiting[1:]
		close(w.ready)
	}
}

// used returns the bytes held and the number of callers that wait.
func (b *budget) used() (held int64, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held, len(b.waiting)
}
