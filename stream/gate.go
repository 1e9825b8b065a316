package stream

import (
	"context"
	"slices"
	"sync"
)

// gate admits appends in the order in which they come: none overtakes another, however small it is (WAL-10). It bounds
// memory: records that are in flight to the store, and those in the log cache, by their cost there.
//
//	enter --> [ waiters, first come first served ] --> reserved --leave--> in the log cache
type gate struct {
	maxReserved int64 // bytes of records that may be in flight (WAL-9)
	capacity    int64 // bytes that these and the log cache may have together (LC-7)
	// cached returns the cost of the log cache after making room for that much more; it runs under the gate's lock.
	// pressed is called when an append waits for the cache. Neither may block.
	cached  func(coming int64) int64
	pressed func()

	mu struct {
		sync.Mutex
		reserved int64
		waiters  []*waiter
		failed   error
	}
}

type waiter struct {
	bytes int64
	done  chan struct{} // closed when admitted or failed
	err   error
}

func newGate(maxReserved, capacity int64, cached func(coming int64) int64, pressed func()) *gate {
	return &gate{maxReserved: maxReserved, capacity: capacity, cached: cached, pressed: pressed}
}

// enter waits until bytes may be reserved. More than the gate ever has room for is admitted alone (F-42).
func (g *gate) enter(ctx context.Context, bytes int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.mu.Lock()
	if err := g.tryLocked(bytes); err == nil || g.mu.failed != nil {
		g.mu.Unlock()
		return err
	}
	w := &waiter{bytes: bytes, done: make(chan struct{})}
	g.mu.waiters = append(g.mu.waiters, w)
	g.admitAndUnlock()
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return g.giveUp(ctx, w)
	}
}

// tryEnter is enter without waiting: [ErrOverCapacity].
func (g *gate) tryEnter(bytes int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tryLocked(bytes)
}

func (g *gate) tryLocked(bytes int64) error {
	switch {
	case g.mu.failed != nil:
		return g.mu.failed
	case len(g.mu.waiters) > 0 || !g.fitsLocked(bytes):
		return ErrOverCapacity
	}
	g.mu.reserved += bytes
	return nil
}

// giveUp removes a waiter whose caller no longer waits. One that was admitted at the same moment stays admitted.
func (g *gate) giveUp(ctx context.Context, w *waiter) error {
	g.mu.Lock()
	i := slices.Index(g.mu.waiters, w)
	if i < 0 {
		g.mu.Unlock()
		return w.err
	}
	g.mu.waiters = slices.Delete(g.mu.waiters, i, i+1)
	g.admitAndUnlock() // those behind it may fit
	return ctx.Err()
}

// leave releases a reservation.
func (g *gate) leave(bytes int64) {
	g.mu.Lock()
	g.mu.reserved -= bytes
	g.admitAndUnlock()
}

// recheck admits waiters after the log cache has become smaller.
func (g *gate) recheck() {
	g.mu.Lock()
	g.admitAndUnlock()
}

// fail ends the gate: all present and future waiters get the error.
func (g *gate) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.failed != nil {
		return
	}
	g.mu.failed = err
	for _, w := range g.mu.waiters {
		w.err = err
		close(w.done)
	}
	g.mu.waiters = nil
}

func (g *gate) fitsLocked(bytes int64) bool {
	return g.fitsLogLocked(bytes) && g.fitsCacheLocked(bytes)
}

func (g *gate) fitsLogLocked(bytes int64) bool {
	return g.mu.reserved == 0 || g.mu.reserved+bytes <= g.maxReserved
}

func (g *gate) fitsCacheLocked(bytes int64) bool {
	return g.mu.reserved+g.cached(g.mu.reserved+bytes) < g.capacity
}

// admitAndUnlock admits waiters from the head while there is room.
func (g *gate) admitAndUnlock() {
	for len(g.mu.waiters) > 0 && g.fitsLocked(g.mu.waiters[0].bytes) {
		w := g.mu.waiters[0]
		g.mu.waiters = g.mu.waiters[1:]
		g.mu.reserved += w.bytes
		close(w.done)
	}
	pressed := len(g.mu.waiters) > 0 && !g.fitsCacheLocked(g.mu.waiters[0].bytes)
	g.mu.Unlock()
	if pressed {
		g.pressed()
	}
}

// Admission is room for appends that is reserved before their offsets are assigned, so that submitting them does not
// wait (WAL-10). It is for one goroutine at a time.
type Admission struct {
	gate *gate
	left int64
}

// take transfers a part of the admission to a record.
func (a *Admission) take(bytes int64) bool {
	if bytes > a.left {
		return false
	}
	a.left -= bytes
	return true
}

// Release returns the unused room. Calling it again does nothing.
func (a *Admission) Release() {
	if a.left > 0 {
		a.gate.leave(a.left)
	}
	a.left = 0
}
