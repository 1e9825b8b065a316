package partition

import (
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/internal/budget"
)

// Defaults of [FlusherOptions].
const (
	// DefaultSyncWorkers is how many logs are synced concurrently. On one device the gain levels off near sixteen.
	DefaultSyncWorkers = 16

	// DefaultMaxUnsyncedBytes bounds the unsynced bytes of all logs of a process together.
	DefaultMaxUnsyncedBytes = 256 << 20

	// DefaultMaxUnsyncedBytesPerLog bounds the unsynced bytes of one log.
	DefaultMaxUnsyncedBytesPerLog = 32 << 20
)

// FlusherOptions are the limits of a [Flusher]. Zero values select the defaults.
type FlusherOptions struct {
	Workers                int   // logs synced at the same time, at least 1
	MaxUnsyncedBytes       int64 // of all logs together; an append that would pass it waits
	MaxUnsyncedBytesPerLog int64 // of one log

	// Now is the clock for the times in events; nil is time.Now.
	Now func() time.Time

	// Journal is the shared journal of the logs' data directory. Without an FS there is none.
	Journal JournalOptions
}

func (o FlusherOptions) withDefaults() FlusherOptions {
	if o.Workers <= 0 {
		o.Workers = DefaultSyncWorkers
	}
	if o.MaxUnsyncedBytes <= 0 {
		o.MaxUnsyncedBytes = DefaultMaxUnsyncedBytes
	}
	if o.MaxUnsyncedBytesPerLog <= 0 {
		o.MaxUnsyncedBytesPerLog = DefaultMaxUnsyncedBytesPerLog
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Flusher makes the dirty logs of a process durable: each once for all the appends that wait for it, in the order in
// which they became dirty. A few logs are synced individually and concurrently; many go into the shared journal
// together. It is safe for concurrent use and is shared by all logs.
type Flusher struct {
	options FlusherOptions
	budget  *budget.Budget // unsynced bytes of all logs
	durable chan struct{}  // closed: what an append that is durable already waits on
	stop    chan struct{}  // closed by Close
	journal sharedJournal

	mu struct {
		sync.Mutex
		work    *sync.Cond
		dirty   queue // logs that became dirty
		alone   queue // of those, that the journal does not take
		busy    int   // workers that sync one log
		turn    bool  // a worker puts logs into the journal; no other takes dirty ones meanwhile
		workers int   // started
		idle    int   // of those, waiting for work
		closed  bool
	}
	ended sync.WaitGroup
}

// queue is logs in a row, linked through syncer.next. A log is in one queue at most.
type queue struct {
	first, last *syncer
	length      int
}

func (q *queue) push(s *syncer) {
	s.next = nil
	if q.last == nil {
		q.first = s
	} else {
		q.last.next = s
	}
	q.last = s
	q.length++
}

// pop returns nil when the queue is empty.
func (q *queue) pop() *syncer {
	s := q.first
	if s == nil {
		return nil
	}
	q.first = s.next
	if q.first == nil {
		q.last = nil
	}
	s.next = nil
	q.length--
	return s
}

// NewFlusher returns a flusher. It starts workers as they are needed. The caller closes it after all its logs.
func NewFlusher(o FlusherOptions) *Flusher {
	o = o.withDefaults()
	f := &Flusher{options: o, budget: budget.New(o.MaxUnsyncedBytes), durable: make(chan struct{}), stop: make(chan struct{})}
	close(f.durable)
	f.journal.open(o.Journal)
	f.mu.work = sync.NewCond(&f.mu)
	return f
}

// Close syncs the logs that are dirty, stops the workers and returns when the last one has ended. A log that becomes
// dirty afterwards fails its appends with [ErrClosed]. A second Close does nothing.
func (f *Flusher) Close() {
	f.mu.Lock()
	if !f.mu.closed {
		f.mu.closed = true
		close(f.stop)
	}
	f.mu.work.Broadcast()
	f.mu.Unlock()
	f.ended.Wait()
	f.journal.close()
}

// FlusherStats describes what a [Flusher] is doing.
type FlusherStats struct {
	DirtyLogs     int   // waiting for a worker
	BusyWorkers   int   // syncing
	UnsyncedBytes int64 // written and not synced, of all logs
	Waiting       int   // appends that wait for room

	JournalRounds  int64 // syncs of the shared journal so far
	JournalBytes   int64 // of records in these
	JournalGivenUp bool  // it could not be written, or too much of it would have to be set aside
	JournalAside   int64 // bytes of files with its records of logs that failed, which the next start restores
}

// Stats returns a snapshot.
func (f *Flusher) Stats() FlusherStats {
	held, waiting := f.budget.Used()
	f.mu.Lock()
	defer f.mu.Unlock()
	return FlusherStats{
		DirtyLogs:     f.mu.dirty.length + f.mu.alone.length,
		BusyWorkers:   f.mu.workers - f.mu.idle,
		UnsyncedBytes: held,
		Waiting:       waiting,

		JournalRounds:  f.journal.rounds.Load(),
		JournalBytes:   f.journal.bytes.Load(),
		JournalGivenUp: f.journal.gaveUp.Load(),
		JournalAside:   f.journal.aside.Load(),
	}
}

// enqueue hands a dirty log to the workers. It reports false when the flusher is closed. The caller makes sure that a
// syncer is in the queue once.
func (f *Flusher) enqueue(s *syncer) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.closed {
		return false
	}
	f.mu.dirty.push(s)
	f.wakeLocked()
	return true
}

// syncAlone hands a log to the workers that is not to go into the journal. Its round was taken.
func (f *Flusher) syncAlone(s *syncer, taken *round) {
	s.taken = taken
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.alone.push(s)
	f.wakeLocked()
}

// wakeLocked makes sure that a worker handles what is in the queues.
func (f *Flusher) wakeLocked() {
	ready := f.mu.alone.length
	if !f.mu.turn {
		ready += f.mu.dirty.length
	}
	switch {
	case ready == 0: // who has the turn looks again
	case f.mu.idle >= ready:
		f.mu.work.Signal()
	case f.mu.workers < f.options.Workers:
		f.mu.workers++
		f.ended.Go(f.work)
	}
}

// work is the life of one worker: it makes dirty logs durable until the flusher is closed and the queues are empty.
func (f *Flusher) work() {
	for {
		s, turn, ok := f.dequeue()
		switch {
		case !ok:
			return
		case turn:
			f.journalTurn()
		default:
			s.run()
			f.rest()
		}
	}
}

// rest ends the sync of one log.
func (f *Flusher) rest() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.busy--
}

// dequeue waits for work: one log to sync, or the turn to put dirty logs into the journal. It reports false when the flusher
// is closed and nothing is left.
func (f *Flusher) dequeue() (s *syncer, turn, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if s = f.mu.alone.pop(); s == nil && !f.mu.turn && f.mu.dirty.length > 0 {
			if f.journal.worthwhile(f.mu.dirty.length + f.mu.busy) {
				f.mu.turn = true
				return nil, true, true
			}
			s = f.mu.dirty.pop()
		}
		if s != nil {
			f.mu.busy++
			return s, false, true
		}
		if f.mu.closed && f.mu.dirty.length == 0 {
			f.mu.workers--
			return nil, false, false
		}
		f.mu.idle++
		f.mu.work.Wait()
		f.mu.idle--
	}
}
