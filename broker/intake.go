package broker

import (
	"context"
	"slices"
	"sync"
)

// intake bounds the memory of the requests of one class that are being read. A request takes its share in steps, as its
// bytes arrive (see [bodyReader]), so that what a peer only announces costs nothing.
//
// Growing in steps could deadlock, with all room held by requests that wait for more. So requests that have begun precede
// new ones, and if none of them finds room, one at a time may exceed it. The bound is the capacity plus one request.
type intake struct {
	capacity int64

	mu       sync.Mutex
	held     int64
	overdraw *share          // the one that may exceed the capacity; nil if none does
	begun    []*intakeWaiter // hold something and wait for more, in order
	fresh    []*intakeWaiter // hold nothing yet, in order
}

// share is what one request holds of an intake; one that holds nothing has not begun.
type share struct {
	intake *intake
	held   int64
}

type intakeWaiter struct {
	share   *share
	n       int64
	granted chan struct{} // closed when the share has it
}

func newIntake(capacity int64) *intake { return &intake{capacity: capacity} }

// used returns the units held and the number of requests that wait.
func (in *intake) used() (held int64, waiting int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.held, len(in.begun) + len(in.fresh)
}

// growTo raises a share to n units, and waits until there is room or ctx ends.
func (s *share) growTo(ctx context.Context, n int64) error {
	in := s.intake
	w := &intakeWaiter{share: s, n: n - s.held, granted: make(chan struct{})}
	if w.n <= 0 {
		return nil
	}
	in.mu.Lock()
	if s.held > 0 {
		in.begun = append(in.begun, w)
	} else {
		in.fresh = append(in.fresh, w)
	}
	in.grantLocked()
	in.mu.Unlock()

	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
		in.abandon(w)
		return context.Cause(ctx)
	}
}

// abandon removes a waiter from the queue. What it was granted at the same moment stays with its share.
func (in *intake) abandon(w *intakeWaiter) {
	in.mu.Lock()
	defer in.mu.Unlock()
	is := func(other *intakeWaiter) bool { return other == w }
	in.begun, in.fresh = slices.DeleteFunc(in.begun, is), slices.DeleteFunc(in.fresh, is)
	in.grantLocked()
}

// release frees all that a share holds.
func (s *share) release() {
	in := s.intake
	in.mu.Lock()
	defer in.mu.Unlock()
	in.held -= s.held
	s.held = 0
	if in.overdraw == s {
		in.overdraw = nil
	}
	in.grantLocked()
}

func (in *intake) grantLocked() {
	for i := 0; i < len(in.begun); {
		w := in.begun[i]
		fits := i == 0 && in.held+w.n <= in.capacity
		if !fits && in.overdraw == nil {
			in.overdraw = w.share
		}
		if !fits && in.overdraw != w.share {
			i++ // the one that may exceed the capacity is behind it, if it waits at all
			continue
		}
		in.begun = slices.Delete(in.begun, i, i+1)
		in.giveLocked(w)
		i = 0
	}
	for len(in.begun) == 0 && len(in.fresh) > 0 && in.held+in.fresh[0].n <= in.capacity {
		w := in.fresh[0]
		in.fresh = in.fresh[1:]
		in.giveLocked(w)
	}
}

func (in *intake) giveLocked(w *intakeWaiter) {
	w.share.held += w.n
	in.held += w.n
	close(w.granted)
}

// awaited reports whether a request waits for room.
func (in *intake) awaited() bool {
	_, waiting := in.used()
	return waiting > 0
}
