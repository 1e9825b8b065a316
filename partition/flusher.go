package partition

import (
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/internal/budget"
)

// Defaults of [FlusherOptions].
const (
	// DefaultSyncWorkers is how many logs are synced at the same time. On one device the gain flattens near sixteen.
	DefaultSyncWorkers = 16

	// DefaultMaxUnsyncedBytes bounds what all logs of a process have written and not synced.
	DefaultMaxUnsyncedBytes = 256 << 20

	// DefaultMaxUnsyncedBytesPerLog bounds what one log has written and not synced.
	DefaultMaxUnsyncedBytesPerLog = 32 << 20
)

// FlusherOptions are the limits of a [Flusher]. Zero values take the defaults.
type FlusherOptions struct {
	Workers                int   // logs synced at the same time, at least 1
	MaxUnsyncedBytes       int64 // of all logs together; an append that would pass it waits
	MaxUnsyncedBytesPerLog int64 // of one log

	// Now is the clock for the times in events; nil is time.Now.
	Now func() time.Time
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

// Flusher syncs the dirty logs of a process: each once for all the appends that wait for it, several at the same time, in
// the order in which they became dirty. It is safe for concurrent use and is shared by all logs.
type Flusher struct {
	options FlusherOptions
	budget  *budget.Budget // unsynced bytes of all logs
	durable chan struct{}  // closed: what an append that is durable already waits on

	mu struct {
		sync.Mutex
		work        *sync.Cond
		first, last *syncer // queue of dirty logs, linked through syncer.next
		length      int
		workers     int // started
		idle        int // of those, waiting for work
		closed      bool
	}
	ended sync.WaitGroup
}

// NewFlusher returns a flusher. It starts workers as they are needed. The caller closes it after all its logs.
func NewFlusher(o FlusherOptions) *Flusher {
	o = o.withDefaults()
	f := &Flusher{options: o, budget: budget.New(o.MaxUnsyncedBytes), durable: make(chan struct{})}
	close(f.durable)
	f.mu.work = sync.NewCond(&f.mu)
	return f
}

// Close syncs the logs that are dirty, stops the workers and returns when the last one ended. A log that becomes dirty
// afterwards answers its appends with [ErrClosed]. A second Close does nothing.
func (f *Flusher) Close() {
	f.mu.Lock()
	f.mu.closed = true
	f.mu.work.Broadcast()
	f.mu.Unlock()
	f.ended.Wait()
}

// FlusherStats says what a [Flusher] is doing.
type FlusherStats struct {
	DirtyLogs     int   // waiting for a worker
	BusyWorkers   int   // syncing
	UnsyncedBytes int64 // written and not synced, of all logs
	Waiting       int   // appends that wait for room
}

// Stats returns a snapshot.
func (f *Flusher) Stats() FlusherStats {
	held, waiting := f.budget.Used()
	f.mu.Lock()
	defer f.mu.Unlock()
	return FlusherStats{
		DirtyLogs:     f.mu.length,
		BusyWorkers:   f.mu.workers - f.mu.idle,
		UnsyncedBytes: held,
		Waiting:       waiting,
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
	s.next = nil
	if f.mu.last == nil {
		f.mu.first = s
	} else {
		f.mu.last.next = s
	}
	f.mu.last = s
	f.mu.length++

	switch {
	case f.mu.idle >= f.mu.length:
		f.mu.work.Signal()
	case f.mu.workers < f.options.Workers:
		f.mu.workers++
		f.ended.Go(f.work)
	}
	return true
}

// work is the life of one worker: it syncs dirty logs until the flusher is closed and the queue is empty.
func (f *Flusher) work() {
	for {
		s, ok := f.dequeue()
		if !ok {
			return
		}
		s.run()
	}
}

// dequeue waits for a dirty log. It reports false when the flusher is closed and nothing is left.
func (f *Flusher) dequeue() (*syncer, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.mu.first == nil {
		if f.mu.closed {
			f.mu.workers--
			return nil, false
		}
		f.mu.idle++
		f.mu.work.Wait()
		f.mu.idle--
	}
	s := f.mu.first
	f.mu.first = s.next
	if f.mu.first == nil {
		f.mu.last = nil
	}
	s.next = nil
	f.mu.length--
	return s, true
}
