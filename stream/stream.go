package stream

import (
	"context"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// Stream is an open stream of an [Engine]: the one writer of its epoch, and readers of it.
type Stream struct {
	engine *Engine
	id     catalog.StreamID
	epoch  int64
}

// Bound is how far a [Stream.Fetch] may read.
type Bound uint8

// The bounds.
const (
	Confirmed Bound = iota // up to what is durable
	Appended               // up to the last append, durable or not
)

// FetchRequest asks for the records of [Start, End).
type FetchRequest struct {
	// Start is the first offset wanted, End the one behind the last; End is clamped to the bound.
	Start, End int64
	// MaxBytes bounds the payload of the answer, but the first record is always in it (STR-3).
	MaxBytes int
	Bound    Bound
	// Fast answers [ErrWouldBlock] when the answer is not in memory (RD-3).
	Fast bool
}

// Fetched is the answer to a [FetchRequest].
type Fetched struct {
	// Records are whole, ascending and contiguous, the first holds Start. Their payloads are shared: do not change them.
	Records []Record
	// Start, Confirm and Next are the stream's offsets when it was read.
	Start, Confirm, Next int64
}

// Append appends a record of count rows and waits until it is durable.
func (s *Stream) Append(ctx context.Context, count int32, payload []byte) (base int64, err error) {
	panic("not yet")
}

// Fetch reads records.
func (s *Stream) Fetch(ctx context.Context, r FetchRequest) (Fetched, error) { panic("not yet") }

// Start, Confirm, Next are the offsets.
func (s *Stream) Start() int64   { panic("not yet") }
func (s *Stream) Confirm() int64 { panic("not yet") }
func (s *Stream) Next() int64    { panic("not yet") }

// Trim moves the start.
func (s *Stream) Trim(ctx context.Context, start int64) error { panic("not yet") }

// Close closes.
func (s *Stream) Close(ctx context.Context) error { panic("not yet") }

// Destroy destroys.
func (s *Stream) Destroy(ctx context.Context) error { panic("not yet") }
