package stream

import (
	"context"
	"fmt"
)

// Admit waits until there is room for the given number of records with that many bytes of payload in total. Callers are
// served first come, first served (WAL-10). The caller releases the admission once it has submitted. An error is the
// context's or the engine's.
//
// Admission precedes the assignment of offsets, so that a caller may wait for room without holding a lock and then
// submit records under one:
//
//	a, err := engine.Admit(ctx, 1, len(payload))
//	...
//	defer a.Release()
//	mu.Lock()
//	writeBaseOffset(payload, stream.Next())
//	ack, err := stream.Submit(a, count, payload)
//	mu.Unlock()
func (e *Engine) Admit(ctx context.Context, records, bytes int) (*Admission, error) {
	need := admissionBytes(records, bytes)
	if err := e.gate.enter(ctx, need); err != nil {
		return nil, err
	}
	return &Admission{gate: e.gate, left: need}, nil
}

// TryAdmit is [Engine.Admit] without waiting: it returns [ErrOverCapacity] if there is no room now, or if other callers
// are waiting.
func (e *Engine) TryAdmit(records, bytes int) (*Admission, error) {
	need := admissionBytes(records, bytes)
	if err := e.gate.tryEnter(need); err != nil {
		return nil, err
	}
	return &Admission{gate: e.gate, left: need}, nil
}

// admissionBytes is what records cost from their admission on: as much as they will in the log cache, which is more than
// the size of their frames (F-62).
func admissionBytes(records, bytes int) int64 {
	return int64(records)*recordCost(Record{}) + int64(bytes)
}

// Submit appends a record of count rows after all that were submitted before it, and returns immediately. The record is
// durable when the Ack says so; acknowledgements come in the order of the calls (WAL-7). Its offsets are not reused
// whatever happens to it (STR-1).
//
// The payload belongs to the engine from now on and must never change. After an error the record was not submitted,
// and the payload still belongs to the caller. Errors: [ErrBadCount], [ErrRecordTooLarge], [ErrClosed], the engine's
// failure, and [ErrOverCapacity] if the admission is smaller than the record.
func (s *Stream) Submit(a *Admission, count int32, payload []byte) (*Ack, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.refused != nil {
		return nil, s.mu.refused
	}
	record := Record{Stream: s.id, Epoch: s.epoch, Base: s.mu.next, Count: count, Payload: payload}
	if err := record.CheckAppend(); err != nil {
		return nil, err
	}
	cost := recordCost(record)
	if !a.take(cost) {
		return nil, fmt.Errorf("%w: a record that costs %d bytes, at most %d are admitted", ErrOverCapacity, cost, a.left)
	}
	ack := &Ack{stream: s, record: record, done: make(chan struct{})}
	if err := s.engine.wal.submit(record, ack.settle); err != nil {
		a.left += cost
		return nil, err
	}
	s.mu.next = record.End()
	s.mu.pending = append(s.mu.pending, ack)
	return ack, nil
}

// Append appends a record of count rows and waits until it is durable. It returns the offset of the first row.
//
// If ctx ends while it waits for room, nothing was appended. If ctx ends later the error is also the context's, and the
// record becomes durable nevertheless, or its outcome is unknown as after a failure of the engine, an error that
// matches [ErrWALFailed]. payload belongs to the engine unless the error says that nothing was submitted, see
// [Stream.Submit].
func (s *Stream) Append(ctx context.Context, count int32, payload []byte) (base int64, err error) {
	check := Record{Count: count, Payload: payload}
	if err := check.CheckAppend(); err != nil { // before it waits for room
		return 0, err
	}
	a, err := s.engine.Admit(ctx, 1, len(payload))
	if err != nil {
		return 0, err
	}
	ack, err := s.Submit(a, count, payload)
	a.Release()
	if err != nil {
		return 0, err
	}
	return ack.Base(), ack.Wait(ctx)
}

// Ack is the handle of a submitted record.
type Ack struct {
	stream *Stream
	record Record
	done   chan struct{}
	err    error // set before done is closed
}

// Base is the offset of the record's first row, End the one behind its last.
func (a *Ack) Base() int64 { return a.record.Base }

// End is the offset behind the record's last row.
func (a *Ack) End() int64 { return a.record.End() }

// Done is closed when the record is durable, or when the engine has failed and the outcome is unknown.
func (a *Ack) Done() <-chan struct{} { return a.done }

// Err is nil if the record is durable, otherwise an error that matches [ErrWALFailed]. It may be called once Done is
// closed.
func (a *Ack) Err() error { return a.err }

// Wait waits for Done and returns Err, or the context's error if it ends first.
func (a *Ack) Wait(ctx context.Context) error {
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle is called by the WAL, in the order of submission over all streams. The steps are in the order of WAL-7, so that a
// caller that has its answer can read its rows.
func (a *Ack) settle(offset int64, err error) {
	e := a.stream.engine
	if err == nil {
		if broken := e.cache.put(a.record, offset); broken != nil {
			e.fail(fmt.Errorf("%w: %w", ErrEngineFailed, broken))
		}
	} else {
		e.fail(err)
		a.err = e.Err()
	}
	a.stream.settled(a, err == nil)
	close(a.done)
	e.gate.leave(recordCost(a.record))
}

// settled removes the oldest record in flight, moves the confirm offset and wakes the watchers.
func (s *Stream) settled(a *Ack, durable bool) {
	s.mu.Lock()
	s.mu.pending[0] = nil
	s.mu.pending = s.mu.pending[1:]
	if durable {
		s.mu.confirm = a.record.End()
	}
	if len(s.mu.pending) == 0 {
		s.mu.pending = nil
		s.changedLocked()
	}
	s.notifyAndUnlock()
}
