package partition

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/internal/budget"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/partition/journal"
)

// syncer is the flusher's state of one log: who waits for its next sync, and whether a sync failed.
//
// A round is all the appends that ride on one sync. An append joins the open round after its bytes are in the log; a
// worker closes the round for joining and only then calls sync, so the sync covers every append of the round:
//
//	append A joins round 1 ── worker takes round 1 ── sync ──────────── returns: A is released
//	                            append B joins round 2 (opened by B) ── the log is queued again ── sync ── B is released
type syncer struct {
	flusher *Flusher
	next    *syncer        // in the flusher's queue
	budget  *budget.Budget // unsynced bytes of this log

	sync    func() (int64, error)     // makes the log durable and returns the offset below which it now is
	advance func(end int64)           // moves the watermark; runs before the round is released
	failing func(err error)           // tells events that the log accepts no more appends; runs before the round is released
	report  func(r *round, err error) // tells events and waiting fetches; runs after the round is released

	tail   func() (kafkalog.Tail, bool) // what a sync would make durable, if that is bytes of one file
	settle func() error                 // makes durable in the log itself what only the journal holds of it; see Log.settle

	// What follows belongs to the worker that has the log, see journalTurn.
	key   journal.Key
	taken *round        // that the worker before could not put into the journal
	kept  kafkalog.Tail // the last that went into the journal
	since kafkalog.Tail // what went into it that the device was not yet asked to write to the log itself
	sides [2]bool       // of the journal, that hold something of the log

	durable atomic.Int64 // offsets below it survive a power cut; never goes back

	mu struct {
		sync.Mutex
		open   *round        // joinable; nil when nothing waits for the next sync
		active bool          // in the queue or with a worker
		failed error         // sticky: a sync after which the next one proves nothing
		idle   chan struct{} // closed when active ends; nil when nobody waits for that
	}
}

// round is the appends that ride on one sync. err is set before done is closed and not changed after.
type round struct {
	done chan struct{}
	err  error

	appends      int
	bytes        int64
	logShare     int64
	processShare int64
	began, ended time.Time // of the sync
	end          int64     // durable after it
	journaled    bool      // by the journal alone

	copied   *copied // the bytes of the appends, if they are few; for the worker once the round is closed
	uncopied bool    // not all of them were copied
}

// join puts an append into the round that the next sync will release: b was written to the log, nil if nothing was. Appends join in
// the order in which they were written. It returns the sticky failure, if there is one; the shares then stay with the caller.
func (s *syncer) join(b batch.Batch, bytes int64, h shares) (*round, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.failed != nil {
		return nil, s.mu.failed
	}
	if s.mu.open == nil {
		s.mu.open = &round{done: make(chan struct{})}
	}
	r := s.mu.open
	r.appends++
	r.bytes += bytes
	r.logShare += h.log
	r.processShare += h.process
	if s.flusher.journal.inUse() {
		r.copyBatch(b)
	} else {
		r.uncopied = true
		r.dropCopy()
	}
	s.activateLocked()
	return r, nil
}

// kick requests a sync, for which nobody has to wait, and returns its round. If the log has failed for good, its error is
// the round's.
func (s *syncer) kick() *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.mu.open; r != nil {
		return r
	}
	r := &round{done: make(chan struct{})}
	s.mu.open = r
	if s.mu.failed != nil {
		s.failLocked(s.mu.failed) // which releases the round
		return r
	}
	s.activateLocked()
	return r
}

// wait waits for the end of the round's sync, or of ctx, and returns the error of either.
func (r *round) wait(ctx context.Context) error {
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// activateLocked queues the log unless it is queued already or with a worker, which will look again.
func (s *syncer) activateLocked() {
	switch {
	case s.mu.active:
	case s.flusher.enqueue(s):
		s.mu.active = true
	default:
		s.failLocked(ErrClosed) // which releases the round
	}
}

// run syncs the log once. A worker calls it.
func (s *syncer) run() {
	r := s.take()
	end, err := s.sync()
	s.complete(r, end, err)
}

// take closes the open round for joining and returns it, or the one that the worker before took and did not sync.
func (s *syncer) take() *round {
	r := s.taken
	s.taken = nil
	if r == nil {
		r = s.begin()
	}
	return r
}

// complete ends a round: everything below end is durable, or the sync failed.
func (s *syncer) complete(r *round, end int64, err error) {
	r.ended = s.flusher.options.Now()
	if err == nil {
		raise(&s.durable, end)
		r.end = end
		s.advance(end)
	}
	if final(err) {
		s.failing(err)
	}
	s.finish(r, err)
	s.report(r, err)
}

// begin closes the open round for joining. If a failure released the round while the log was queued, begin returns one
// that nobody waits for.
func (s *syncer) begin() *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mu.open
	s.mu.open = nil
	if r == nil {
		r = &round{done: make(chan struct{})}
	}
	r.began = s.flusher.options.Now()
	return r
}

// finish releases a round and, when another one has opened meanwhile, queues the log for it.
func (s *syncer) finish(r *round, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked(r, err)
	if final(err) {
		s.failLocked(err)
	}
	if s.mu.open != nil && !s.flusher.enqueue(s) {
		s.failLocked(ErrClosed)
	}
	if s.mu.open != nil {
		return
	}
	s.mu.active = false
	if s.mu.idle != nil {
		close(s.mu.idle)
		s.mu.idle = nil
	}
}

// failLocked makes err the answer to the open round and to everything later. The first failure stays.
func (s *syncer) failLocked(err error) {
	if s.mu.failed == nil {
		s.mu.failed = err
	}
	if s.mu.open != nil {
		s.releaseLocked(s.mu.open, err)
		s.mu.open = nil
	}
}

func (s *syncer) releaseLocked(r *round, err error) {
	s.release(shares{log: r.logShare, process: r.processShare})
	r.dropCopy()
	r.err = err
	close(r.done)
}

// fail makes err the answer to everything that waits or comes.
func (s *syncer) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(err)
}

// failure returns the sticky failure, or nil.
func (s *syncer) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.failed
}

// drain waits until the log is neither queued nor with a worker. The caller ensures that nobody joins any more.
func (s *syncer) drain() {
	s.mu.Lock()
	if !s.mu.active {
		s.mu.Unlock()
		return
	}
	if s.mu.idle == nil {
		s.mu.idle = make(chan struct{})
	}
	idle := s.mu.idle
	s.mu.Unlock()
	<-idle
}

// final reports whether a sync failed for good. Otherwise it did not begin, and the next one may do.
func final(err error) bool {
	var failed *StorageError
	return err != nil && (!errors.As(err, &failed) || failed.Final)
}

// raise sets v to at least n.
func raise(v *atomic.Int64, n int64) (raised bool) {
	for {
		old := v.Load()
		if n <= old {
			return false
		}
		if v.CompareAndSwap(old, n) {
			return true
		}
	}
}
