package broker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// intake bounds the memory of the requests of one class that are being read. A request takes its share in steps, as its
// bytes arrive, so that what a peer announces costs nothing and what it has sent is never less than a quarter of what it
// holds.
//
// Taking in steps could lock up: all room held by requests that wait for more. So requests that have begun go before new
// ones, and where none of them finds room, one at a time may take more than there is. The bound is the capacity and one
// request.
type intake struct {
	capacity int64

	mu       sync.Mutex
	held     int64
	overdraw *share          // the one that may take more than there is; nil: nobody
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

// abandon takes a waiter out of the line. What it was granted at the same moment stays with its share.
func (in *intake) abandon(w *intakeWaiter) {
	in.mu.Lock()
	defer in.mu.Unlock()
	is := func(other *intakeWaiter) bool { return other == w }
	in.begun, in.fresh = slices.DeleteFunc(in.begun, is), slices.DeleteFunc(in.fresh, is)
	in.grantLocked()
}

// release gives back all that a share holds.
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
			i++ // the one that may take more is behind it, if it waits at all
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

// awaited says that somebody waits for room.
func (in *intake) awaited() bool {
	_, waiting := in.used()
	return waiting > 0
}

// bodyGrowth is how many times larger the buffer gets that a request is read into, each time that it is full. So a byte of
// a large request is copied a third of a time on average.
const bodyGrowth = 4

// paceSteps divides RequestReadTimeout: a step is how often the pace of a request is looked at. While others wait for
// room, a request must get that part of its bytes in each step; otherwise it may get nothing for stallSteps of them.
const (
	paceSteps  = 30
	stallSteps = 10
)

var errTooSlow = errors.New("the bytes of the request did not come in time")

// bodyReader reads the frame of one request. The buffer belongs to it until close.
type bodyReader struct {
	conn  *conn
	share share
	size  int
	frame []byte    // as far as it has arrived
	limit time.Time // for the whole
}

// read reads the frame. Until the connection's own buffer is full, or the request is there, it takes nothing. The caller
// closes the reader, also after an error.
func (b *bodyReader) read() error {
	c := b.conn
	b.limit = time.Now().Add(c.requestTime(b.size))
	head := min(b.size, c.in.Size())
	if err := b.await(func() (bool, error) {
		_, err := c.in.Peek(head)
		return err == nil, err
	}, c.in.Buffered, head); err != nil {
		return err
	}
	for len(b.frame) < b.size {
		if err := b.grow(); err != nil {
			return err
		}
		if err := b.fill(); err != nil {
			return err
		}
	}
	return nil
}

// grow makes room for more of the frame.
func (b *bodyReader) grow() error {
	next := min(b.size, bodyGrowth*max(len(b.frame), b.conn.in.Size()))
	began := time.Now()
	if err := b.share.growTo(b.conn.reading, int64(next)); err != nil {
		return b.conn.endWith(ClosedShutdown, nil)
	}
	b.limit = b.limit.Add(time.Since(began)) // the peer is not to blame for the wait
	larger := b.conn.server.buffers.take(next)
	n := copy(larger, b.frame)
	b.conn.server.buffers.give(b.frame)
	b.frame = larger[:n]
	return nil
}

// fill reads until the share is used up.
func (b *bodyReader) fill() error {
	until := int(b.share.held)
	return b.await(func() (bool, error) {
		n, err := b.conn.in.Read(b.frame[len(b.frame):until])
		b.frame = b.frame[:len(b.frame)+n]
		if len(b.frame) == until {
			return true, nil
		}
		return false, err
	}, func() int { return len(b.frame) }, until)
}

// await calls more until it is done, and ends the connection when the bytes do not come as they should. got is how many of
// want bytes have come.
func (b *bodyReader) await(more func() (done bool, err error), got func() int, want int) error {
	c := b.conn
	step := c.server.options.RequestReadTimeout / paceSteps
	stalled, before, next := 0, got(), time.Now().Add(step)
	if before >= want {
		_, err := more() // it is there
		return err
	}
	for {
		if err := c.nc.SetReadDeadline(earlier(next, b.limit)); err != nil {
			return c.endWith(readFailure(err), err)
		}
		if c.reading.Err() != nil { // after setting the deadline, which may have replaced that of stopReading
			return c.endWith(ClosedShutdown, nil)
		}
		done, err := more()
		if done {
			return nil
		}
		if err != nil && !isTimeout(err) {
			return c.endWith(readFailure(err), err)
		}
		if err == nil && time.Now().Before(next) {
			continue
		}
		came := got() - before
		before, next = got(), time.Now().Add(step)
		if stalled++; came > 0 {
			stalled = 0
		}
		tooSlow := b.share.held > 0 && came < b.size/paceSteps && b.share.intake.awaited()
		if stalled >= stallSteps || tooSlow || !time.Now().Before(b.limit) {
			return c.endWith(ClosedSlowRequest, errTooSlow)
		}
	}
}

// close gives the buffer and the share back. Nothing may alias the frame any more.
func (b *bodyReader) close() {
	b.conn.server.buffers.give(b.frame)
	b.frame = nil
	b.share.release()
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
