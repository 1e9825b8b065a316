package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/tidemark-io/tidemark/internal/budget"
)

// readRequests is the reader goroutine: it reads and executes requests until the connection ends, and records why.
func (c *conn) readRequests() {
	for {
		if err := c.awaitRequest(); err != nil {
			return
		}
		size, head, err := c.readHead()
		if err != nil {
			return
		}
		a, err := c.admit(head)
		if err != nil {
			_ = c.refuse(head, a, size, err) // the connection ends in any case
			return
		}
		if err := c.serveRequest(a, size); err != nil {
			return
		}
	}
}

// errEnded says that the connection ends for the reason that c.end recorded.
var errEnded = errors.New("the connection ends")

// endWith records why the connection ends and returns [errEnded].
func (c *conn) endWith(reason CloseReason, cause error) error {
	if c.reading.Err() != nil {
		reason, cause = ClosedShutdown, nil // the read was interrupted on purpose
	}
	c.end(reason, cause)
	return errEnded
}

// awaitRequest waits for the first byte of a request. The connection may be silent while an answer is outstanding, and
// for ConnectionsMaxIdle after that.
func (c *conn) awaitRequest() error {
	if c.in.Buffered() > 0 && c.reading.Err() == nil {
		return nil
	}
	limit := c.server.options.ConnectionsMaxIdle
	quietSince := time.Now()
	for {
		deadline := later(quietSince, c.opened.Add(time.Duration(c.active.Load()))).Add(limit)
		if c.waiting.Load() > 0 {
			deadline = time.Now().Add(limit)
		}
		if !time.Now().Before(deadline) {
			return c.endWith(ClosedIdle, nil)
		}
		if err := c.nc.SetReadDeadline(deadline); err != nil {
			return c.endWith(readFailure(err), err)
		}
		if c.reading.Err() != nil { // after setting the deadline, which may have replaced that of stopReading
			return c.endWith(ClosedShutdown, nil)
		}
		_, err := c.in.Peek(1)
		switch {
		case err == nil:
			return nil
		case !isTimeout(err) || c.reading.Err() != nil:
			return c.endWith(readFailure(err), err)
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// readHead reads the size of a frame and looks at the first eight bytes after it, which stay to be read.
func (c *conn) readHead() (size int, head requestHeader, err error) {
	if err := c.setHeadDeadline(); err != nil {
		return 0, requestHeader{}, err
	}
	prefix, err := c.in.Peek(sizeBytes)
	if err != nil {
		return 0, requestHeader{}, c.endWith(readFailure(err), err)
	}
	declared := int32(binary.BigEndian.Uint32(prefix))
	if declared < smallestHeader || declared > c.server.options.SocketRequestMaxBytes {
		err := fmt.Errorf("a frame of %d bytes, not in [%d, %d]", declared, smallestHeader, c.server.options.SocketRequestMaxBytes)
		return 0, requestHeader{}, c.reportRefused(requestHeader{key: -1, version: -1}, nil, int64(declared), err)
	}
	c.requests++
	both, err := c.in.Peek(sizeBytes + fixedHeader)
	if err != nil {
		return 0, requestHeader{}, c.endWith(readFailure(err), err)
	}
	head = parseFixedHeader(both[sizeBytes:])
	_, _ = c.in.Discard(sizeBytes) // the buffer holds it
	return int(declared), head, nil
}

// requestTime is how long a request of a size may take to arrive.
func (c *conn) requestTime(size int) time.Duration {
	d := c.server.options.RequestReadTimeout
	return d + time.Duration(size>>20)*(d/30)
}

// setHeadDeadline sets the deadline for the head of a request.
func (c *conn) setHeadDeadline() error {
	if err := c.nc.SetReadDeadline(time.Now().Add(c.requestTime(0))); err != nil {
		return c.endWith(readFailure(err), err)
	}
	if c.reading.Err() != nil {
		return c.endWith(ClosedShutdown, nil)
	}
	return nil
}

// admit finds the API of a request and decides whether its body is worth reading. The API is nil if the key is unknown,
// also with an error.
func (c *conn) admit(h requestHeader) (*api, error) {
	a := c.server.apis[h.key]
	switch {
	case a == nil:
		return nil, fmt.Errorf("no API of key %d is served", h.key)
	case !a.supports(h.version) && a.key != apiVersionsKey:
		return a, fmt.Errorf("version %d of %s is not served, only %d to %d are", h.version, a.name, a.served, a.max)
	}
	return a, nil
}

// refuse reports a request whose body is not read and ends the connection. It looks for the client's id in what has
// arrived of the header.
func (c *conn) refuse(h requestHeader, a *api, size int, why error) error {
	head, _ := c.in.Peek(min(size, c.in.Size())) // a truncated header has no client id
	if full, _, err := parseHeader(head, func(int16, int16) bool { return false }); err == nil {
		c.clientID = strings.Clone(full.clientID)
	}
	return c.reportRefused(h, a, int64(size), why)
}

// reportRefused reports a refused request and ends the connection.
func (c *conn) reportRefused(h requestHeader, a *api, size int64, why error) error {
	e := RequestRefused{Connection: c.info, Key: h.key, Version: h.version, ClientID: c.clientID, Bytes: size, Err: why}
	if a != nil {
		e.API = a.name
	}
	c.server.events.RequestRefused(e)
	return c.endWith(ClosedRefused, why)
}

// serveRequest reads the frame of a request, executes it and queues its answer.
func (c *conn) serveRequest(a *api, size int) error {
	out, err := c.readAndExecute(a, size)
	if err != nil {
		return err
	}
	if out.answer == nil {
		out.done.Latency = time.Since(out.arrived)
		out.details.tell(&out.done)
		c.server.events.RequestDone(out.done)
		return nil
	}
	return c.enqueue(out)
}

// readAndExecute reads a frame into a borrowed buffer and runs its handler. The buffer is returned before it returns.
func (c *conn) readAndExecute(a *api, size int) (*outgoing, error) {
	bytes, decoded := c.server.budgetsOf(a, size)
	body := bodyReader{conn: c, share: share{intake: bytes}, size: size}
	defer body.close()
	if err := body.read(); err != nil {
		return nil, err
	}
	arrived := time.Now()
	call, err := c.newCall(a, body.frame)
	if err == nil {
		call.arrived = arrived
		return c.execute(call, size, decoded)
	}
	return nil, c.reportRefused(call.requestHeader, a, int64(size), err)
}

// newCall parses the header of a request. The call's client id is a copy, or that of an earlier request after an error;
// the body aliases the frame.
func (c *conn) newCall(a *api, frame []byte) (*call, error) {
	h, body, err := parseHeader(frame, func(_, version int16) bool { return a.supports(version) && a.isFlexible(version) })
	if err == nil && c.clientID != h.clientID {
		c.clientID = strings.Clone(h.clientID)
	}
	h.clientID = c.clientID
	return &call{requestHeader: h, api: a, server: c.server, conn: c, body: body}, err
}

// execute runs the handler of a request once there is memory for it.
func (c *conn) execute(call *call, size int, decoded *budget.Budget) (*outgoing, error) {
	cost, err := call.cost(decoded.Capacity())
	if err != nil {
		return nil, c.reportRefused(call.requestHeader, call.api, int64(size), err)
	}
	if err := decoded.Acquire(c.reading, cost); err != nil {
		return nil, c.endWith(ClosedShutdown, nil)
	}
	defer decoded.Release(cost)
	if c.server.options.Details {
		call.details = &details{}
	}
	out := &outgoing{arrived: call.arrived, details: call.details, done: RequestDone{
		ConnectionID: c.info.ID, API: call.api.name, Key: call.key, Version: call.version, ClientID: call.clientID, BytesIn: size,
	}}
	err = c.guard(&out.done, func() (err error) {
		out.answer, err = call.api.handle(call)
		return err
	})
	if err != nil {
		return nil, c.failRequest(call, size, err)
	}
	return out, nil
}

// cost returns how much memory the request takes beyond its bytes. A version that is not served is not decoded.
func (c *call) cost(limit int64) (int64, error) {
	if !c.api.supports(c.version) {
		return 0, nil
	}
	return c.api.shape.cost(c.body, c.version, c.api.isFlexible(c.version), limit)
}

// failRequest ends the connection because of a request that has no answer.
func (c *conn) failRequest(call *call, size int, err error) error {
	var hang *hangUp
	if !errors.As(err, &hang) {
		hang = &hangUp{ClosedRefused, err}
	}
	if hang.reason == ClosedRefused {
		return c.reportRefused(call.requestHeader, call.api, int64(size), hang.err)
	}
	return c.endWith(hang.reason, hang.err)
}

// guard runs f. A panic is reported and becomes an error that ends this connection only.
func (c *conn) guard(r *RequestDone, f func() error) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		stack := debug.Stack()
		if carried, ok := v.(*carriedPanic); ok {
			v, stack = carried.value, carried.stack
		}
		c.server.events.Panicked(Panicked{
			Connection: c.info, API: r.API, Key: r.Key, Version: r.Version, ClientID: r.ClientID,
			Value: v, Stack: stack,
		})
		err = &hangUp{ClosedPanic, fmt.Errorf("panic: %v", v)}
	}()
	return f()
}

// carriedPanic is the value of a panic of a goroutine that worked for a connection, with the stack that it had there.
type carriedPanic struct {
	value any
	stack []byte
}

// enqueue hands an answer to the writer, and then waits while too many bytes of answers are queued.
func (c *conn) enqueue(out *outgoing) error {
	c.waiting.Add(1)
	out.weight = int64(out.answer.weight())
	c.weight.Add(out.weight)
	select {
	case c.queue <- out:
	case <-c.ctx.Done():
		return errEnded
	}
	for c.weight.Load() > int64(c.server.options.QueuedMaxResponseBytes) {
		select {
		case <-c.written:
		case <-c.ctx.Done():
			return errEnded
		}
	}
	return nil
}
