package broker

import (
	"net"
	"time"
)

// Events receive what happens in a [Server]. Unset functions are not called. They run on the goroutines that serve
// connections: a function must return quickly, must not block on anything a client or a disk can hold up, and must not
// call the server. Nothing in the server depends on whether a function is set.
type Events struct {
	// ConnectionOpened is called before the first byte is read.
	ConnectionOpened func(Connection)

	// ConnectionClosed is called once for each ConnectionOpened, after the socket was closed.
	ConnectionClosed func(ConnectionClosed)

	// ConnectionRefused is called for a connection that was closed at once because of a limit.
	ConnectionRefused func(ConnectionRefused)

	// AcceptFailed is called when a listener failed to accept, before the next try.
	AcceptFailed func(listener net.Addr, err error)

	// RequestDone is called when the answer to a request was written, or when it is certain that there is none.
	RequestDone func(RequestDone)

	// RequestRefused is called for a request that Kafka answers by closing the connection: an unknown API or version,
	// bytes that do not parse, a frame that is too large. ConnectionClosed follows.
	RequestRefused func(RequestRefused)

	// Panicked is called when serving a request panicked. The connection is closed; ConnectionClosed follows.
	Panicked func(Panicked)
}

// Connection identifies a connection in events.
type Connection struct {
	ID uint64 // unique in this process, from 1
	Via
	Remote net.Addr
}

// ConnectionClosed describes how a connection ended.
type ConnectionClosed struct {
	Connection
	Reason   CloseReason
	Err      error // the cause, where there is one
	ClientID string
	Requests int64 // requests read
	Lasted   time.Duration
}

// CloseReason says in a few words why a connection was closed.
type CloseReason string

// The reasons to close a connection.
const (
	ClosedByClient      CloseReason = "closed by the client"
	ClosedIdle          CloseReason = "idle"
	ClosedSlowRequest   CloseReason = "the client sent a request too slowly"
	ClosedSlowResponse  CloseReason = "the client did not take a response"
	ClosedRefused       CloseReason = "request refused"
	ClosedFailedProduce CloseReason = "a produce without acks failed"
	ClosedPanic         CloseReason = "panic"
	ClosedReadError     CloseReason = "read error"
	ClosedWriteError    CloseReason = "write error"
	ClosedShutdown      CloseReason = "shutdown"
)

// ConnectionRefused is a connection above a limit.
type ConnectionRefused struct {
	Local, Remote net.Addr
	Limit         string // "max.connections" or "max.connections.per.ip"
	Open          int    // connections that count towards the limit
}

// RequestDone describes a request that was answered.
type RequestDone struct {
	ConnectionID uint64
	API          string // Kafka's name, such as "Produce"
	Key, Version int16
	ClientID     string
	BytesIn      int           // of the frame, without its size
	BytesOut     int64         // of the response frame with its size; 0 when there is none
	Latency      time.Duration // from the last byte of the request to the last byte of the response
	Err          error         // why the response was not written in full, or nil

	// With [Options.Details] only, 0 otherwise: how many topics the request names, and the first error code of its answer. A
	// long answer is not searched to its end.
	Topics    int
	ErrorCode int16
}

// RequestRefused describes a request that is answered by closing the connection.
type RequestRefused struct {
	Connection
	API          string // "" when the key is unknown
	Key, Version int16
	ClientID     string // "" also when the header does not parse
	Bytes        int64  // the frame's declared size
	Err          error  // what is wrong
}

// Panicked describes a panic while a request was served.
type Panicked struct {
	Connection
	API          string
	Key, Version int16
	ClientID     string
	Value        any
	Stack        []byte
}

func (e Events) withDefaults() Events {
	setHook(&e.ConnectionOpened)
	setHook(&e.ConnectionClosed)
	setHook(&e.ConnectionRefused)
	setHook(&e.RequestDone)
	setHook(&e.RequestRefused)
	setHook(&e.Panicked)
	if e.AcceptFailed == nil {
		e.AcceptFailed = func(net.Addr, error) {}
	}
	return e
}

func setHook[T any](hook *func(T)) {
	if *hook == nil {
		*hook = func(T) {}
	}
}
