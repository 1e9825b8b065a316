package broker

import (
	"errors"
	"io"
	"time"

	"github.com/tidemark-io/tidemark/internal/lazymem"
)

// RequestReadTimeout is divided into paceSteps, after each of which the progress of a request is checked. While others
// wait for room, each step must bring its share of the request's bytes; otherwise up to stallSteps in a row may bring
// nothing. For a fraction 1/warmPart of the first step a request may keep memory that its bytes have not reached.
const (
	paceSteps  = 30
	stallSteps = 10
	warmPart   = 10
)

var errTooSlow = errors.New("the bytes of the request did not come in time")

// bodyReader reads the frame of one request, and copies no byte of it more than once. A frame that fits the connection's
// own buffer is used where it is. Of a larger frame, the bytes that came along with its size are moved out of that
// buffer; the rest goes from the socket straight to where the handler finds it and the log writes it from. The frame is
// contiguous from the start, yet takes no memory for bytes that have not arrived, because it is placed in reserved
// address space (see package lazymem). Where that is not available, the buffer grows instead, and each byte is copied
// another third of a time on average.
//
// The frame belongs to the reader until close.
type bodyReader struct {
	conn  *conn
	share share
	size  int
	frame []byte          // as far as it has arrived
	place *lazymem.Buffer // of frame; nil if it is in the connection's own buffer, or in one that grows
	limit time.Time       // for the whole frame
	warm  time.Time       // until then the place keeps the pages of its last use, which no share covers; zero if it has none
}

// inConn reports whether the frame fits the connection's own buffer.
func (b *bodyReader) inConn() bool { return b.size <= b.conn.in.Size() }

// read reads the frame. It takes no share before the connection's own buffer is full or the request is complete. The caller
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
	if b.inConn() {
		b.frame, _ = c.in.Peek(b.size) // it is complete
		return nil
	}
	for len(b.frame) < b.size {
		if err := b.admit(); err != nil {
			return err
		}
		if err := b.fill(); err != nil {
			return err
		}
	}
	return nil
}

// The share of a request runs ahead of its bytes, to save system calls: to firstShare at first, then to bodyGrowth times
// the bytes that have arrived, but by no more than mostAhead.
const (
	firstShare = 32 << 10 // a batch of a client's default size, and its frame
	bodyGrowth = 4
	mostAhead  = 256 << 10
)

// admit takes a share for more of the frame, and makes room for it.
func (b *bodyReader) admit() error {
	next := min(b.size, max(firstShare, bodyGrowth*len(b.frame)))
	if b.place != nil {
		next = min(next, max(firstShare, len(b.frame)+mostAhead))
	}
	began := time.Now()
	if err := b.share.growTo(b.conn.reading, int64(next)); err != nil {
		return b.conn.endWith(ClosedShutdown, nil)
	}
	b.limit = b.limit.Add(time.Since(began)) // the peer is not to blame for the wait
	b.vacate()
	switch {
	case b.place != nil:
	case b.frame == nil && b.settle():
	default:
		b.grow(next)
	}
	return nil
}

// settle reserves a place for the whole frame, if there is address space for it.
func (b *bodyReader) settle() bool {
	if b.place = b.conn.server.bodies.Take(b.size); b.place == nil {
		return false
	}
	b.frame = b.place.Bytes()[:0]
	b.warm = time.Now().Add(b.step() / warmPart)
	return true
}

// grow moves the frame to a buffer of n bytes. As it grows by bodyGrowth each time, a byte is copied a third of a time on
// average.
func (b *bodyReader) grow(n int) {
	buffers := &b.conn.server.buffers
	larger := buffers.take(n)
	came := copy(larger, b.frame)
	if b.frame != nil {
		buffers.give(b.frame)
	}
	b.frame = larger[:came]
}

// fill reads until the share is used up. It reads past the connection's own buffer once that is empty.
func (b *bodyReader) fill() error {
	until := int(b.share.held)
	return b.await(func() (bool, error) {
		from := io.Reader(b.conn.nc)
		if b.conn.in.Buffered() > 0 {
			from = b.conn.in
		}
		n, err := from.Read(b.frame[len(b.frame):until])
		b.frame = b.frame[:len(b.frame)+n]
		if len(b.frame) == until {
			return true, nil
		}
		return false, err
	}, func() int { return len(b.frame) }, until)
}

// await calls more until it is done, and ends the connection when the bytes come too slowly. got returns how many of the
// want bytes have arrived.
func (b *bodyReader) await(more func() (done bool, err error), got func() int, want int) error {
	c := b.conn
	step := b.step()
	stalled, before, next := 0, got(), time.Now().Add(step)
	if before >= want {
		_, err := more() // no waiting needed
		return err
	}
	for {
		until := earlier(next, b.limit)
		if err := c.nc.SetReadDeadline(b.look(until)); err != nil {
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
		b.vacate()
		if time.Now().Before(until) {
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

// step is how often the progress of the request is checked.
func (b *bodyReader) step() time.Duration {
	return b.conn.server.options.RequestReadTimeout / paceSteps
}

// look returns when to wake up next: at then, or earlier to release warm pages.
func (b *bodyReader) look(then time.Time) time.Time {
	if b.warm.IsZero() {
		return then
	}
	return earlier(b.warm, then)
}

// vacate releases, once it is time, memory that a slow peer's bytes have not reached: the pages that the place kept from
// its last use. From then on it holds only pages with bytes.
func (b *bodyReader) vacate() {
	if b.warm.IsZero() || time.Now().Before(b.warm) {
		return
	}
	b.place.Drop(len(b.frame))
	b.warm = time.Time{}
}

// close releases the frame and the share. Nothing may alias the frame any more.
func (b *bodyReader) close() {
	s := b.conn.server
	switch {
	case b.frame == nil: // reading never began
	case b.place != nil:
		s.buffers.spoil(b.frame)
		s.bodies.Give(b.place)
	case b.inConn():
		s.buffers.spoil(b.frame)
		_, _ = b.conn.in.Discard(b.size) // the buffer holds it
	default:
		s.buffers.give(b.frame)
	}
	b.frame, b.place = nil, nil
	b.share.release()
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
