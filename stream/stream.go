package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// Stream is an open stream of an [Engine], for appends and reads. Its offsets are always in this order:
//
//	Start  <=  end in the catalog  <=  Confirm  <=  Next
//	trimmed    objects hold it         durable      given out
//
// It is safe for concurrent use. Once the engine has failed, appends and reads fail with the engine's error.
type Stream struct {
	engine *Engine
	id     catalog.StreamID
	epoch  int64
	opened time.Time

	// fetches ends those reads that are still running when the stream is closed.
	fetches    context.Context
	endFetches context.CancelFunc
	// closing is held by the call that closes the stream.
	closing chan struct{}

	mu struct {
		sync.Mutex
		refused              error // why nothing is appended any more; nil while the stream is open
		closed               bool  // released in the catalog
		start, confirm, next int64
		pending              []*Ack        // submitted and not acknowledged, in order
		reads                int           // running ones
		changed              chan struct{} // closed and replaced when pending or reads become empty
		watchers             []*watcher    // never changed in place
	}
}

type watcher struct{ wake func() }

func newStream(e *Engine, row catalog.Stream) *Stream {
	s := &Stream{engine: e, id: row.ID, epoch: row.Epoch, opened: time.Now(), closing: make(chan struct{}, 1)}
	s.fetches, s.endFetches = context.WithCancel(e.ctx)
	s.mu.start, s.mu.confirm, s.mu.next = row.Start, row.End, row.End
	s.mu.changed = make(chan struct{})
	return s
}

// ID returns the stream's number.
func (s *Stream) ID() catalog.StreamID { return s.id }

// Epoch returns the epoch under which the stream is open.
func (s *Stream) Epoch() int64 { return s.epoch }

// Start is the first offset that may be read.
func (s *Stream) Start() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.start
}

// Confirm is the offset behind the last row that is durable: the high watermark.
func (s *Stream) Confirm() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.confirm
}

// Next is the offset that the next append gets: the log end. It does not move while the caller is the only one
// submitting.
func (s *Stream) Next() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.next
}

// Watch arranges for wake to be called after every move of [Stream.Confirm] and when the stream accepts no more
// appends, until unwatch is called. wake must not block and must not call methods that change the stream. To miss no
// move, watch first and compare afterwards.
func (s *Stream) Watch(wake func()) (unwatch func()) {
	w := &watcher{wake}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.watchers = append(slices.Clone(s.mu.watchers), w)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.watchers = slices.DeleteFunc(slices.Clone(s.mu.watchers), func(other *watcher) bool { return other == w })
	}
}

// Err returns why the stream accepts no appends, nil while it does.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.refused
}

// notifyAndUnlock wakes the watchers.
func (s *Stream) notifyAndUnlock() {
	watchers := s.mu.watchers
	s.mu.Unlock()
	for _, w := range watchers {
		w.wake()
	}
}

// refuse ends appends. The first reason stays, but a failure replaces having been closed.
func (s *Stream) refuse(err error) {
	s.mu.Lock()
	if s.mu.refused == nil || errors.Is(s.mu.refused, ErrClosed) && !s.mu.closed {
		s.mu.refused = err
	}
	s.notifyAndUnlock()
}

// Trim raises the start to an offset: what lies below can no longer be read, and is removed when its objects hold
// nothing else (STR-7). At or below the start it does nothing. An offset above [Stream.Confirm] is an
// [*OffsetRangeError]. It returns when the catalog has the new start; a read in progress may still return records
// below it.
func (s *Stream) Trim(ctx context.Context, start int64) error {
	s.mu.Lock()
	low, confirm, refused := s.mu.start, s.mu.confirm, s.mu.refused
	s.mu.Unlock()
	switch {
	case refused != nil:
		return refused
	case start <= low:
		return nil
	case start > confirm:
		return &OffsetRangeError{Stream: s.id, Want: start, Low: low, High: confirm}
	}
	if start > s.committedEnd() {
		if err := s.engine.uploader.force(ctx); err != nil {
			return err
		}
	}
	c := s.engine.options.Catalog
	if err := retry(ctx, func() error { return c.TrimStream(ctx, s.engine.node, s.id, s.epoch, start) }); err != nil {
		return s.engine.refusal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.start = max(s.mu.start, start)
	return nil
}

// committedEnd returns the offset behind the last row that objects hold.
func (s *Stream) committedEnd() int64 {
	row, _ := s.engine.options.Catalog.View().Stream(s.id)
	return row.End
}

// fetchGrace is how long Close waits for reads before it cancels them (STR-5).
const fetchGrace = 10 * time.Second

// Close releases the stream, so that any node can open it under a higher epoch (STR-5): it refuses appends, waits for
// those that were submitted and, for at most 10 s, for reads, and uploads what is not in objects yet. After an error
// the stream is not closed in the catalog and accepts no appends; Close may be retried. Closing twice is not an error,
// nor is closing a stream that was deleted.
func (s *Stream) Close(ctx context.Context) error {
	select {
	case s.closing <- struct{}{}:
		defer func() { <-s.closing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return nil
	}
	if err := s.mu.refused; err != nil && !errors.Is(err, ErrClosed) {
		s.mu.Unlock()
		return err
	}
	s.mu.refused = fmt.Errorf("%w: stream %d", ErrClosed, s.id)
	s.notifyAndUnlock()
	if err := s.drain(ctx); err != nil {
		if errors.Is(err, catalog.ErrStreamNotExist) {
			return nil // it was deleted meanwhile
		}
		return err
	}
	if s.committedEnd() < s.Confirm() {
		if err := s.engine.uploader.force(ctx); err != nil {
			return err
		}
	}
	c := s.engine.options.Catalog
	err := retry(ctx, func() error { return c.CloseStream(ctx, s.engine.node, s.id, s.epoch) })
	switch {
	case errors.Is(err, catalog.ErrStreamNotExist):
		s.deleted()
		return nil
	case err != nil:
		return s.engine.refusal(err)
	}
	s.mu.Lock()
	s.mu.closed = true
	s.mu.Unlock()
	s.endFetches()
	s.engine.forget(s)
	return nil
}

// deleted ends a stream that somebody has deleted in the catalog: calls fail with an error that matches
// [catalog.ErrStreamNotExist], and there is nothing left to close.
func (s *Stream) deleted() {
	s.mu.Lock()
	s.mu.closed, s.mu.refused = true, fmt.Errorf("%w: %d was deleted", catalog.ErrStreamNotExist, s.id)
	s.notifyAndUnlock()
	s.endFetches()
	s.engine.forget(s)
}

// drain waits until nothing is in flight and no read is running.
func (s *Stream) drain(ctx context.Context) error {
	s.engine.wal.seal()
	if err := s.await(ctx, func() bool { return len(s.mu.pending) == 0 }); err != nil {
		return err
	}
	if err := s.Err(); !errors.Is(err, ErrClosed) {
		return err // the engine has failed meanwhile
	}
	grace := time.AfterFunc(fetchGrace, s.endFetches)
	defer grace.Stop()
	return s.await(ctx, func() bool { return s.mu.reads == 0 })
}

// await waits for a condition on the locked state.
func (s *Stream) await(ctx context.Context, done func() bool) error {
	for {
		s.mu.Lock()
		ok, changed := done(), s.mu.changed
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// changedLocked wakes callers of await.
func (s *Stream) changedLocked() {
	close(s.mu.changed)
	s.mu.changed = make(chan struct{})
}

// Destroy closes the stream and deletes it: its objects are removed when they hold nothing else (STR-6). It may be
// repeated after an error. To delete a stream that is not open, use [Engine.DeleteStream].
func (s *Stream) Destroy(ctx context.Context) error {
	if err := s.Close(ctx); err != nil {
		return err
	}
	return s.engine.DeleteStream(ctx, s.id, s.epoch)
}
