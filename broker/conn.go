package broker

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// conn is one client connection. Two goroutines serve it:
//
//	reader   reads a frame, executes it, puts its answer into the queue; one request at a time, in order of arrival
//	writer   takes answers from the queue, completes each (waits for a flush, for records) and writes it; same order
//
// So answers leave in the order of requests; the appends of two Produce requests happen in that order, and the second is
// not held up by the flush of the first; a request sees the effects of the ones before it; and a parked fetch holds up
// only later requests of its own connection. The queue is bounded in requests and in bytes; when it is full the reader
// stops, and with it, through TCP, the client.
//
// A connection always ends in the same way, whatever the cause: the reader stops; parked answers hurry; the writer drains
// the queue, as far as the client still reads; the socket is closed.
type conn struct {
	server *Server
	nc     net.Conn
	info   Connection
	opened time.Time

	ctx    context.Context // ends when the connection is abandoned: nothing can be written any more
	giveUp context.CancelFunc

	in       *bufio.Reader // the reader's
	clientID string        // the reader's: from the last header
	requests int64         // the reader's

	queue   chan *outgoing // closed by the reader
	written chan struct{}  // has a value after the writer has finished an answer
	weight  atomic.Int64   // bytes of answers in the queue
	waiting atomic.Int64   // answers that are not written yet
	active  atomic.Int64   // when the last answer was written, ns since opened
	served  atomic.Bool    // an answer other than to ApiVersions was written

	reading    context.Context // ends when no more requests are read
	endReading context.CancelFunc

	mu struct {
		sync.Mutex
		reason CloseReason // the first cause of the end
		cause  error
	}
}

// outgoing is an answer in the queue.
type outgoing struct {
	answer  answer
	weight  int64       // of the answer before it was written
	done    RequestDone // complete except for what the writer adds
	arrived time.Time
	details *details
}

// readBuffer is what an idle connection keeps for reading. It holds a small request whole; the body of a larger one
// bypasses it.
const readBuffer = 4 << 10

func newConn(s *Server, nc net.Conn, listener net.Addr, id uint64) *conn {
	c := &conn{
		server:  s,
		nc:      nc,
		info:    Connection{ID: id, Via: Via{Listener: listener, Local: nc.LocalAddr()}, Remote: nc.RemoteAddr()},
		opened:  time.Now(),
		in:      bufio.NewReaderSize(nc, readBuffer),
		queue:   make(chan *outgoing, s.options.QueuedMaxRequests),
		written: make(chan struct{}, 1),
	}
	c.ctx, c.giveUp = context.WithCancel(context.Background())
	c.reading, c.endReading = context.WithCancel(c.ctx)
	return c
}

// serve is the life of a connection. It returns when both goroutines have ended and the socket is closed, and says how it
// came.
func (c *conn) serve() ConnectionClosed {
	c.server.events.ConnectionOpened(c.info)
	var writer sync.WaitGroup
	writer.Go(c.writeAnswers)

	c.readRequests()
	c.stopReading()
	close(c.queue)
	writer.Wait()
	c.hangUp()

	c.mu.Lock()
	defer c.mu.Unlock()
	return ConnectionClosed{
		Connection: c.info,
		Reason:     c.mu.reason,
		Err:        c.mu.cause,
		ClientID:   c.clientID,
		Requests:   c.requests,
		Lasted:     time.Since(c.opened),
	}
}

// end records why the connection ends. Only the first cause counts; others follow from it.
func (c *conn) end(reason CloseReason, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.reason == "" {
		c.mu.reason, c.mu.cause = reason, cause
	}
}

// reason is the first cause of the end, or empty.
func (c *conn) reason() CloseReason {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.reason
}

// resetOnClose makes the close of a TCP connection a reset.
func resetOnClose(nc net.Conn) {
	if tcp, ok := nc.(interface{ SetLinger(seconds int) error }); ok {
		_ = tcp.SetLinger(0) // on failure the close is an ordinary one
	}
}

// stopReading stops reading requests and makes parked answers hurry. Answers in progress are still written.
func (c *conn) stopReading() {
	c.endReading()
	// An error means that the socket is closed already, which has the same effect.
	_ = c.nc.SetReadDeadline(time.Unix(1, 0))
}

// hangUp closes the socket and ends every wait of the connection. A client whose connection is closed cleanly before it
// got an answer other than to ApiVersions takes that for a wrong security setting and gives up for good, as franz-go
// does; one whose connection is reset retries. So a shutdown resets connections that were never answered.
func (c *conn) hangUp() {
	c.giveUp()
	if !c.served.Load() && c.reason() == ClosedShutdown {
		resetOnClose(c.nc)
	}
	_ = c.nc.Close() // a failure loses nothing: everything was written, or its write has failed
}

// writeAnswers is the writer goroutine.
func (c *conn) writeAnswers() {
	w := &answerWriter{
		server: c.server,
		ctx:    c.ctx,
		hurry:  c.reading.Done(),
		nc:     c.nc,
		sink:   newSink(c.nc, c.server.options.ResponseWriteTimeout),
	}
	defer w.stopTimer()
	for out := range c.queue {
		c.writeAnswer(w, out)
		c.weight.Add(-out.weight)
		c.active.Store(int64(time.Since(c.opened)))
		c.waiting.Add(-1)
		select {
		case c.written <- struct{}{}:
		default:
		}
	}
}

// writeAnswer completes and writes one answer, or drops it when the connection was abandoned.
func (c *conn) writeAnswer(w *answerWriter, out *outgoing) {
	w.sent = 0
	err := c.ctx.Err()
	if err == nil {
		err = c.guard(&out.done, func() error { return out.answer.write(w) })
	}
	if err != nil {
		c.end(writeFailure(err), err)
		c.hangUp()
	}
	if w.sent > 0 && out.done.Key != apiVersionsKey {
		c.served.Store(true)
	}
	out.done.BytesOut = w.sent
	out.done.Latency = time.Since(out.arrived)
	out.done.Err = err
	out.details.tell(&out.done)
	c.server.events.RequestDone(out.done)
}

// writeFailure is the reason to close a connection after writing an answer failed.
func writeFailure(err error) CloseReason {
	var h *hangUp
	switch {
	case errors.As(err, &h):
		return h.reason
	case isTimeout(err):
		return ClosedSlowResponse
	case isGone(err):
		return ClosedByClient
	}
	return ClosedWriteError
}

// readFailure is the reason to close a connection after reading failed inside a request.
func readFailure(err error) CloseReason {
	switch {
	case isTimeout(err):
		return ClosedSlowRequest
	case isGone(err):
		return ClosedByClient
	}
	return ClosedReadError
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// isGone reports whether the peer, or this side, has closed the connection.
func isGone(err error) bool {
	for _, gone := range []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, context.Canceled, syscall.ECONNRESET, syscall.EPIPE,
	} {
		if errors.Is(err, gone) {
			return true
		}
	}
	return false
}
