package partition

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-io/tidemark/batch"
)

// upkeep is when a log next needs what, on the monotonic clock: deadlines that are set once must not move with the time of
// day. A zero time means not until something happens: an idle log without records has
// three zeros and is not in the maintainer's heap.
type upkeep struct {
	task *Task

	// scheduled is set while the deadlines follow from what is in the log; the first append after it was cleared sets them.
	scheduled atomic.Bool
	// producers says that the log may know producers that can expire.
	producers atomic.Bool
	// settleEnd is the log end at the last settle. It is the maintainer's.
	settleEnd int64

	mu        sync.Mutex
	flush     time.Time // flush.ms
	retention time.Time
	expiry    time.Time // of producers
	settle    time.Time // of what only the journal has durably
	retry     time.Time // not before, after a failure
}

// settleDelay is how long after an append, and up to twice as long, a log is examined of which the journal holds records:
// one that got no records since the previous look is synced. It holds a descriptor until then, and nothing else may sync
// it for a long time.
const settleDelay = 30 * time.Second

// retryDelay is how long maintenance that failed waits.
const retryDelay = time.Minute

// syncRetryDelay is how long a sync waits that could not begin.
const syncRetryDelay = time.Second

// armFlush starts the clock of flush.ms for records that are visible and not synced.
func (l *Log) armFlush(s *settings) {
	delay, ok := s.flushDelay()
	if !ok {
		return
	}
	l.arm(&l.upkeep.flush, monotonic().Add(delay))
}

// rearmFlush restarts the clock of flush.ms, or stops it.
func (l *Log) rearmFlush(s *settings) {
	l.upkeep.mu.Lock()
	l.upkeep.flush = time.Time{}
	l.upkeep.mu.Unlock()
	l.armFlush(s)
}

// arm sets one of the deadlines of l.upkeep unless it is set.
func (l *Log) arm(deadline *time.Time, at time.Time) {
	l.upkeep.mu.Lock()
	armed := deadline.IsZero()
	if armed {
		*deadline = at
	}
	l.upkeep.mu.Unlock()
	if armed {
		l.upkeep.task.dueAt(at)
	}
}

// take clears a deadline and reports true if it has passed.
func (l *Log) take(deadline *time.Time, now time.Time) bool {
	l.upkeep.mu.Lock()
	defer l.upkeep.mu.Unlock()
	if deadline.IsZero() || deadline.After(now) {
		return false
	}
	*deadline = time.Time{}
	return true
}

// scheduleUpkeep sets the deadlines that follow from what is in the log and from its configuration.
func (l *Log) scheduleUpkeep() {
	now := monotonic()
	if l.store.Size() > 0 && l.settings.Load().retains() {
		l.arm(&l.upkeep.retention, l.maintainer.periodic(now, l.maintainer.options.RetentionInterval))
	}
	if l.upkeep.producers.Load() {
		l.arm(&l.upkeep.expiry, l.maintainer.periodic(now, l.maintainer.options.ProducerExpiryInterval))
	}
	if delay, ok := l.store.MaintenanceDelay(l.now()); ok {
		l.upkeep.task.dueAt(l.notBeforeRetry(now.Add(delay)))
	}
}

// noteAppend makes sure that a log with records is looked after.
func (l *Log) noteAppend(b batch.Batch) {
	news := false
	if b.ProducerID() >= 0 && !l.upkeep.producers.Load() {
		l.upkeep.producers.Store(true)
		news = true
	}
	if !l.upkeep.scheduled.Swap(true) || news {
		l.scheduleUpkeep()
	}
}

// notBeforeRetry moves a deadline behind the pause that follows a failure.
func (l *Log) notBeforeRetry(at time.Time) time.Time {
	l.upkeep.mu.Lock()
	defer l.upkeep.mu.Unlock()
	if at.Before(l.upkeep.retry) {
		return l.upkeep.retry
	}
	return at
}

// maintain does what is due. The maintainer calls it with the time of day, which decides what is old; it returns when the
// log wants to be called again, on the monotonic clock.
func (l *Log) maintain(now time.Time) (next time.Time) {
	at := monotonic()
	if l.take(&l.upkeep.flush, at) && l.syncer.durable.Load() < l.store.LogEnd() {
		l.syncer.kick()
	}
	if l.take(&l.upkeep.settle, at) {
		l.settleIdle(at)
	}
	if l.take(&l.upkeep.retention, at) {
		l.retain(now)
	}
	if l.take(&l.upkeep.expiry, at) {
		l.upkeep.producers.Store(false) // first: an append that the look misses sets it again
		l.store.RemoveExpiredProducers(now, l.maintainer.producerExpiry())
		if len(l.store.ActiveProducers()) > 0 {
			l.upkeep.producers.Store(true)
		}
	}
	if err := l.store.Maintain(now); err != nil {
		l.upkeepFailed("delete old files", err)
		l.pauseUpkeep(at)
	}
	// Last, and before the deadlines are set: an append that this look misses sets them itself. One that came during the look
	// may have found them set and relied on those that were taken since.
	l.upkeep.scheduled.Store(false)
	l.scheduleUpkeep()
	return l.nextUpkeep()
}

// armSettle schedules a look at the log, spread out so that not all logs are due at once.
func (l *Log) armSettle(now time.Time) {
	l.arm(&l.upkeep.settle, now.Add(settleDelay+rand.N(settleDelay)))
}

// settleIdle syncs the log if it took no records since the last time.
func (l *Log) settleIdle(now time.Time) {
	end := l.store.LogEnd()
	if end == l.upkeep.settleEnd {
		l.syncer.kick()
		return
	}
	l.upkeep.settleEnd = end
	l.armSettle(now)
}

// retain deletes old segments.
func (l *Log) retain(now time.Time) {
	before := l.store.LogStart()
	if err := l.store.Tick(now, l.hw.Load()); err != nil {
		l.upkeepFailed("retention", err)
	}
	if l.store.LogStart() != before {
		l.moved()
	}
}

func (l *Log) pauseUpkeep(now time.Time) {
	l.upkeep.mu.Lock()
	defer l.upkeep.mu.Unlock()
	l.upkeep.retry = now.Add(retryDelay)
}

func (l *Log) upkeepFailed(doing string, err error) {
	l.events.MaintenanceFailed(MaintenanceFailed{Topic: l.topic, Partition: l.index, Doing: doing, Err: err})
}

// nextUpkeep is the earliest deadline, or the zero time.
func (l *Log) nextUpkeep() time.Time {
	l.upkeep.mu.Lock()
	defer l.upkeep.mu.Unlock()
	var next time.Time
	for _, at := range [...]time.Time{l.upkeep.flush, l.upkeep.retention, l.upkeep.expiry, l.upkeep.settle} {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}
