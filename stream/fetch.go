package stream

import (
	"context"
	"errors"
	"slices"
	"sort"
)

// Bound is how far a [Stream.Fetch] may read.
type Bound uint8

// The bounds.
const (
	Confirmed Bound = 0 // up to [Stream.Confirm]: what is durable
	Appended  Bound = 1 // up to [Stream.Next]: what was appended, durable or not
)

// FetchRequest asks for the records of [Start, End).
type FetchRequest struct {
	// Start is the first offset wanted, End the one behind the last; End is clamped to the bound.
	Start, End int64
	// MaxBytes bounds the payload returned, in bytes, but the first record is always included (STR-3).
	MaxBytes int
	Bound    Bound
	// Fast makes Fetch return [ErrWouldBlock], and start nothing, if the records are not in memory (RD-3).
	Fast bool
}

// Fetched is the result of a [FetchRequest].
type Fetched struct {
	// Records are whole, ascending and without a gap; the first holds the requested offset. Their payloads are shared
	// and must not be changed.
	Records []Record
	// Start, Confirm and Next are the stream's offsets when it was read.
	Start, Confirm, Next int64
}

// Fetch reads records (STR-2 to STR-4). An offset below the start or above the bound is an [*OffsetRangeError]; at the
// bound itself there are no records. It may read objects, and waits for them as long as ctx allows: if a store fails
// temporarily or throttles, what is missing is requested again, for about 20 s. Errors besides that: the context's, the
// store's, [ErrWouldBlock], [ErrCorrupt], [ErrNotContinuous], [ErrClosed] and the engine's failure.
func (s *Stream) Fetch(ctx context.Context, r FetchRequest) (Fetched, error) {
	f, pending, err := s.beginFetch(r)
	if err != nil {
		return f, err
	}
	defer s.endFetch()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.fetches, cancel)()

	end := min(r.End, f.bound(r.Bound))
	at, left := r.Start, r.MaxBytes
	if at < min(end, f.Confirm) {
		f.Records, err = s.engine.reader.read(ctx, s.id, at, min(end, f.Confirm), r.MaxBytes, r.Fast)
		if err != nil {
			return Fetched{}, s.fetchFailed(r, err)
		}
		for _, record := range f.Records {
			at, left = record.End(), left-len(record.Payload)
		}
	}
	if at >= f.Confirm {
		f.Records = appendPending(f.Records, pending, at, end, left)
	}
	return f, nil
}

func (f Fetched) bound(b Bound) int64 {
	if b == Appended {
		return f.Next
	}
	return f.Confirm
}

// beginFetch reads the offsets and, for a read up to the log end, the records in flight.
func (s *Stream) beginFetch(r FetchRequest) (f Fetched, pending []*Ack, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.refused != nil {
		return f, nil, s.mu.refused
	}
	f = Fetched{Start: s.mu.start, Confirm: s.mu.confirm, Next: s.mu.next}
	if r.Start < f.Start || r.Start > f.bound(r.Bound) {
		return f, nil, &OffsetRangeError{Stream: s.id, Want: r.Start, Low: f.Start, High: f.bound(r.Bound)}
	}
	if r.Bound == Appended && r.End > f.Confirm {
		pending = slices.Clone(s.mu.pending)
	}
	s.mu.reads++
	return f, pending, nil
}

func (s *Stream) endFetch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.reads--; s.mu.reads == 0 {
		s.changedLocked()
	}
}

// fetchFailed returns why a read failed: because the stream was trimmed or closed meanwhile, or the read's own error.
func (s *Stream) fetchFailed(r FetchRequest, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Start < s.mu.start:
		return &OffsetRangeError{Stream: s.id, Want: r.Start, Low: s.mu.start, High: s.mu.confirm}
	case s.mu.refused != nil && errors.Is(err, context.Canceled):
		return s.mu.refused
	}
	return err
}

// appendPending appends records that are in flight, from the one that holds an offset to the last one that begins below
// end, while they fit.
func appendPending(records []Record, pending []*Ack, from, end int64, left int) []Record {
	first := sort.Search(len(pending), func(i int) bool { return pending[i].record.End() > from })
	for _, ack := range pending[first:] {
		record := ack.record
		left -= len(record.Payload)
		if record.Base >= end || left < 0 && len(records) > 0 {
			break
		}
		records = append(records, record)
	}
	return records
}
