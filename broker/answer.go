package broker

import (
	"context"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/partition"
)

// answer is the response to one request, which may be incomplete when the handler returns it. The connection's writer
// completes and writes answers one after the other, in the order of requests.
type answer interface {
	// weight estimates how many bytes of memory the answer holds until it is written.
	weight() int

	// write completes the answer, waiting if it must, and writes its frame. It retains nothing when it returns.
	write(w *answerWriter) error
}

// frameAnswer is a response that was complete and encoded when its handler returned.
type frameAnswer struct {
	frame []byte // from the server's buffers
}

// reply encodes a response that is complete.
func (c *call) reply(resp kmsg.Response) answer {
	resp.SetVersion(c.version)
	c.details.answers(resp)
	frame := frameStart(c.server.buffers.take(0), c.correlation, c.api.taggedResponseHeader(c.version))
	return &frameAnswer{frameEnd(resp.AppendTo(frame), 0)}
}

func (a *frameAnswer) weight() int { return cap(a.frame) }

func (a *frameAnswer) write(w *answerWriter) error {
	err := w.send(a.frame)
	w.server.buffers.give(a.frame)
	a.frame = nil
	return err
}

// answerWriter writes answers to the client. It belongs to the writer goroutine of a connection.
type answerWriter struct {
	server *Server
	ctx    context.Context // ends when the connection is gone
	hurry  <-chan struct{} // closed when the connection stops reading requests: waits for other clients end
	nc     net.Conn
	sink   io.Writer   // nc, with a deadline that moves with progress
	timer  *time.Timer // the one timer of this connection's waits
	waker  *partition.Waker
	buf    []byte // for frames that are encoded here
	sent   int64  // bytes of the current answer
}

// sendChunk is how much is written under one deadline.
const sendChunk = 128 << 10

// keepEncoded is the largest encoding buffer that a connection keeps between answers.
const keepEncoded = 64 << 10

// send writes b to the client.
func (w *answerWriter) send(b []byte) error {
	for len(b) > 0 {
		n, err := w.sink.Write(b[:min(len(b), sendChunk)])
		w.sent += int64(n)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// encoder returns an empty buffer with room for about n bytes, for the frame of an answer; keep takes it back.
func (w *answerWriter) encoder(n int) []byte {
	if n <= cap(w.buf) {
		return w.buf[:0]
	}
	return w.server.buffers.take(n)[:0]
}

// keep takes back what encoder returned, after it has grown.
func (w *answerWriter) keep(buf []byte) {
	switch {
	case cap(buf) > keepEncoded:
		w.server.buffers.give(buf)
	case cap(buf) > cap(w.buf):
		w.buf = buf
	}
	if w.server.buffers.poison {
		clear(w.buf[:cap(w.buf)])
	}
}

// startTimer arms the connection's timer. A deadline that has passed fires at once.
func (w *answerWriter) startTimer(deadline time.Time) <-chan time.Time {
	d := max(time.Until(deadline), 0)
	if w.timer == nil {
		w.timer = time.NewTimer(d)
	} else {
		w.timer.Reset(d)
	}
	return w.timer.C
}

func (w *answerWriter) stopTimer() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// progressWriter restarts the timeout whenever a client takes part of a response, so that a slow link is no fault, but a
// client that takes nothing is.
type progressWriter struct {
	nc      net.Conn
	timeout time.Duration
}

func (p *progressWriter) Write(b []byte) (int, error) {
	if err := p.nc.SetWriteDeadline(time.Now().Add(p.timeout)); err != nil {
		return 0, err
	}
	return p.nc.Write(b)
}

// progressConn is a progressWriter over a socket, which it exposes for sendfile.
type progressConn struct {
	progressWriter
	raw syscall.RawConn
}

// newSink wraps a connection. Only a plain TCP connection exposes its socket: a wrapper such as TLS changes the bytes.
func newSink(nc net.Conn, timeout time.Duration) io.Writer {
	w := progressWriter{nc, timeout}
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return &w
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return &w
	}
	return &progressConn{w, raw}
}

// SyscallConn implements syscall.Conn.
func (p *progressConn) SyscallConn() (syscall.RawConn, error) {
	if err := p.nc.SetWriteDeadline(time.Now().Add(p.timeout)); err != nil {
		return nil, err
	}
	return &progressRawConn{p}, nil
}

// progressRawConn moves the write deadline each time the socket takes something.
type progressRawConn struct {
	*progressConn
}

// Control implements syscall.RawConn.
func (r *progressRawConn) Control(f func(fd uintptr)) error { return r.raw.Control(f) }

// Read implements syscall.RawConn.
func (r *progressRawConn) Read(f func(fd uintptr) bool) error { return r.raw.Read(f) }

// Write implements syscall.RawConn. f is called each time the socket has room, which means that the client took
// something.
func (r *progressRawConn) Write(f func(fd uintptr) bool) error {
	return r.raw.Write(func(fd uintptr) bool {
		if f(fd) {
			return true
		}
		// A failure to move the deadline means that the connection was closed, which the next wait reports.
		_ = r.nc.SetWriteDeadline(time.Now().Add(r.timeout))
		return false
	})
}
