package kafkalog

import (
	"fmt"
	"math"
	"sort"
	"sync"
	"sync/atomic"
)

// Log is the log of one topic partition: a list of sealed segments and one active segment that receives the appends. It
// is opened by [Open] and closed by [Log.Close]. All methods are safe for concurrent use and atomic by themselves.
type Log struct {
	env *Env
	dir string

	// Read by anyone without a lock. Writers store under mu.
	config    atomic.Pointer[Config]
	view      atomic.Pointer[view]
	end       atomic.Int64 // log end offset
	flushed   atomic.Int64 // recovery point: everything below it is durable
	sticky    atomic.Pointer[stickyError]
	fenced    atomic.Bool
	closed    atomic.Bool
	epochs    *epochCache    // readers need no lock; see there
	snapshots *snapshotFiles // has its own lock
	names     dirNames       // of the files on disk
	rollJobs  rollQueue      // guarded by the roll flusher's own lock
	sealed    sealedSegments // has its own lock, taken after mu and held over fsyncs

	// syncMu serialises what must not overlap an fsync that runs without mu: syncs, truncation, reset and close. It is
	// taken before mu.
	syncMu sync.Mutex

	// mu is the writer's lock. It guards what follows, and every change of the log.
	mu struct {
		sync.Mutex
		tail    tail
		stage   *stage // nil while nobody appends
		fresh   bool   // there was no record when the log was opened, and none was appended
		whole   bool   // it was closed, and all of it is on disk
		retired []retiredFile
		// What a failed truncation left undone, and settle does before the next append.
		trimOwed    bool // the active file is longer than the log says
		indexesOwed bool // the indexes of the active segment name what was cut off
		rebuildOwed bool // the producers are not those of the records
		lowerOwed   bool // the log start file says a higher start than there is, or may do
		// hole is where the records end if a truncation inside a batch left the log end above them, else never.
		hole      int64
		lastFlush int64 // ms: when everything was durable last
		startOwed int64 // ms: since when a log start waits to be written, -1 if none does
	}

	// producers is guarded by its own lock, which is taken after mu and held over no I/O, so that readers of producer
	// and transaction state do not wait for an append.
	producers struct {
		sync.Mutex
		state *producerState
	}
}

// view is what readers see of the log at one moment. It is never changed.
type view struct {
	segments []*segment // rising bases, never empty; the last one is active
	start    int64      // log start
	// established says that the start was moved by someone, not only derived from the first segment.
	established bool
}

func (v *view) active() *segment { return v.segments[len(v.segments)-1] }

// find returns the index of the segment with the greatest base at or below the offset, or 0.
func (v *view) find(offset int64) int {
	i := sort.Search(len(v.segments), func(i int) bool { return v.segments[i].base > offset })
	return max(i-1, 0)
}

// upperBound returns the base of the segment after i, or the log end for the last one.
func (v *view) upperBound(i int, end int64) int64 {
	if i+1 < len(v.segments) {
		return v.segments[i+1].base
	}
	return end
}

// localStart is the first offset that is on disk and may be read.
func (v *view) localStart() int64 { return max(v.segments[0].base, v.start) }

// stickyError is the failure after which the log refuses appends.
type stickyError struct{ err error }

// fail makes the log refuse appends with err from now on. The first failure stays.
func (l *Log) fail(err error) {
	if l.sticky.CompareAndSwap(nil, &stickyError{err}) {
		l.env.events.Failed(FailedEvent{Dir: l.dir, Err: err})
	}
}

// Failed returns why the log accepts no appends until it is reopened, or nil: a failed fsync, a write that the device
// failed, or an append that could not be taken back. It is of class [ErrStorage].
func (l *Log) Failed() error { return l.failure() }

// writable returns why the log accepts no appends, or nil.
func (l *Log) writable() error {
	switch {
	case l.closed.Load():
		return ErrClosed
	case l.fenced.Load():
		return ErrFenced
	}
	return l.failure()
}

// failure returns the sticky failure of the log or of its background flush.
func (l *Log) failure() error {
	if failed := l.sticky.Load(); failed != nil {
		return failed.err
	}
	return nil
}

// advanceFlushed raises the recovery point.
func (l *Log) advanceFlushed(offset int64) {
	for {
		old := l.flushed.Load()
		if old >= offset || l.flushed.CompareAndSwap(old, offset) {
			return
		}
	}
}

// Dir returns the directory as it was given to [Open].
func (l *Log) Dir() string { return l.dir }

// LogEnd returns the next offset that an append will assign. It does not wait.
func (l *Log) LogEnd() int64 { return l.end.Load() }

// LogStart returns the first offset that may be read, wherever its record is. It does not wait.
func (l *Log) LogStart() int64 { return l.view.Load().start }

// LocalLogStart returns the first offset that may be read from the local files. It is above [Log.LogStart] only on a
// log with remote storage. It does not wait.
func (l *Log) LocalLogStart() int64 { return l.view.Load().localStart() }

// FirstSegmentBase returns the base offset of the oldest segment. It does not wait.
func (l *Log) FirstSegmentBase() int64 { return l.view.Load().segments[0].base }

// EstablishedLogStart returns the log start if it was moved explicitly, in this process or in an earlier one, and false
// if it is only derived from the segments on disk. Refuse or delete only on the basis of an established start: on a log
// with remote storage a derived one lies above what the archive holds.
func (l *Log) EstablishedLogStart() (int64, bool) {
	v := l.view.Load()
	return v.start, v.established
}

// ReportedLogStart returns the log start as a leader reports it to its followers: [Log.LogStart], but 0 on a log
// with remote storage whose start was never established.
func (l *Log) ReportedLogStart() int64 {
	v := l.view.Load()
	if l.config.Load().RemoteStorage && !v.established {
		return 0
	}
	return v.start
}

// Size returns the size of all segments in bytes, flushed or not. It does not wait.
func (l *Log) Size() int64 {
	var total int64
	for _, s := range l.view.Load().segments {
		total += s.size.Load()
	}
	return total
}

// RecoveryPoint returns the offset below which everything is durable. It does not wait.
func (l *Log) RecoveryPoint() int64 { return l.flushed.Load() }

// ConfigSnapshot returns a copy of the current configuration.
func (l *Log) ConfigSnapshot() Config { return *l.config.Load() }

// SetConfig replaces the whole configuration atomically. An operation in progress completes with the old one.
func (l *Log) SetConfig(c Config) {
	c = c.normalised()
	l.config.Store(&c)
}

// LatestEpoch returns the last leader epoch that wrote to the log, or that was assigned. It does not wait.
func (l *Log) LatestEpoch() (int32, bool) {
	e, found := l.epochs.latest()
	return e.Epoch, found
}

// EpochForOffset returns the leader epoch that wrote the offset, and false if the offset lies before the first known
// epoch. It does not wait.
func (l *Log) EpochForOffset(offset int64) (int32, bool) { return l.epochs.epochFor(offset) }

// EndOffsetForEpoch answers Kafka's OffsetsForLeaderEpoch: the largest known epoch at or below the requested one, and
// the offset at which it ended, the log end for the latest. Both are -1 if there is no answer. It does not wait.
func (l *Log) EndOffsetForEpoch(requested int32) (epoch int32, end int64) {
	return l.epochs.endOffsetFor(requested, l.end.Load())
}

// Epochs returns the leader epochs, lowest first. The slice is the caller's. It does not wait.
func (l *Log) Epochs() []EpochEntry {
	return append([]EpochEntry(nil), l.epochs.entries()...)
}

// EpochsInRange returns the leader epochs of the offsets in [from, to), the first one clipped to begin at from. It
// does not wait.
func (l *Log) EpochsInRange(from, to int64) []EpochEntry { return l.epochs.inRange(from, to) }

// AssignEpoch records that a leader epoch starts at an offset, normally [Log.LogEnd] when a replica becomes leader. It
// does nothing if that epoch is the latest and started at or below the offset; otherwise entries that contradict it are
// removed. It does not wait for the device: the next roll, [Log.Sync] or [Log.Close] makes it durable, and before that
// recovery finds the epoch in the records that carry it. If there are none, nothing that a restart needs depends on it.
// A negative epoch or offset is an [*ArgumentError].
func (l *Log) AssignEpoch(epoch int32, start int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	return l.epochs.assignLater(epoch, start)
}

// neverHeldRecords reports whether the log is as Open creates it, apart from an assigned epoch. The caller holds the
// lock.
func (l *Log) neverHeldRecords() bool {
	v := l.view.Load()
	return l.mu.fresh && l.end.Load() == 0 && len(v.segments) == 1 && v.segments[0].size.Load() == 0 && v.start == 0 && !v.established &&
		!l.mu.trimOwed && !l.mu.indexesOwed && !l.mu.lowerOwed && !l.mu.rebuildOwed && l.mu.startOwed < 0
}

// String describes the log in one line, for messages.
func (l *Log) String() string {
	v := l.view.Load()
	return fmt.Sprintf("log %s: offsets [%d, %d), durable below %d, %d segments, %d bytes",
		l.dir, v.start, l.end.Load(), l.flushed.Load(), len(v.segments), l.Size())
}

// never is a time in ms that is not reached.
const never = math.MaxInt64
