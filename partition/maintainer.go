package partition

import (
	"cmp"
	"container/heap"
	"sync"
	"sync/atomic"
	"time"
)

// MaintainerOptions are the clock and the intervals of a [Maintainer]. Zero values select Kafka's defaults.
type MaintainerOptions struct {
	// Now is the clock whose time tasks and [Task.Due] are given; nil is time.Now. How long the maintainer waits does
	// not depend on it: setting the clock moves no deadline.
	Now func() time.Time

	// InitialDelay [log.initial.task.delay.ms] is how long after its start the maintainer first runs retention and the
	// expiry of producers; with 0 or less, not before the first multiple of their intervals.
	InitialDelay time.Duration

	// RetentionInterval [log.retention.check.interval.ms] is how often retention checks a log that holds records; 0
	// is five minutes. All logs are checked in the same wake-up.
	RetentionInterval time.Duration

	// ProducerExpiry [producer.id.expiration.ms] is how long a producer may be silent before it is forgotten; 0
	// is a day.
	ProducerExpiry time.Duration

	// ProducerExpiryInterval [producer.id.expiration.check.interval.ms]; 0 is ten minutes.
	ProducerExpiryInterval time.Duration
}

func (o MaintainerOptions) withDefaults() MaintainerOptions {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.RetentionInterval <= 0 {
		o.RetentionInterval = 5 * time.Minute
	}
	if o.ProducerExpiry <= 0 {
		o.ProducerExpiry = 24 * time.Hour
	}
	if o.ProducerExpiryInterval <= 0 {
		o.ProducerExpiryInterval = 10 * time.Minute
	}
	return o
}

// Maintainer runs scheduled work: retention, expiry of producers, flush.ms, deletion of retired files, checkpoints. It
// is one heap of deadlines and one goroutine that sleeps until the first of them; a log that needs nothing is not in
// the heap. It is safe for concurrent use.
//
// Deadlines are kept on the monotonic clock, as values of type monotonic. The time of day decides what is old, never
// when to run.
type Maintainer struct {
	options MaintainerOptions
	started time.Time    // monotonic
	expiry  atomic.Int64 // of producers, as a duration

	mu struct {
		sync.Mutex
		tasks    taskHeap
		running  *Task
		finished *sync.Cond // running changed
		closed   bool
	}
	wake   chan struct{} // the first deadline changed, or closed
	ended  sync.WaitGroup
	wakeUp func() // counts wake-ups in tests; nil otherwise
}

// NewMaintainer returns a maintainer whose goroutine runs until [Maintainer.Close].
func NewMaintainer(o MaintainerOptions) *Maintainer { return newMaintainer(o, nil) }

func newMaintainer(o MaintainerOptions, wakeUp func()) *Maintainer {
	m := &Maintainer{options: o.withDefaults(), wake: make(chan struct{}, 1), wakeUp: wakeUp}
	m.started = monotonic()
	m.SetProducerExpiry(0)
	m.mu.finished = sync.NewCond(&m.mu)
	m.ended.Go(m.loop)
	return m
}

// SetProducerExpiry changes how long a producer may be silent before it is forgotten, starting with the next check of
// each log. 0 restores the value that the maintainer was created with.
func (m *Maintainer) SetProducerExpiry(d time.Duration) {
	m.expiry.Store(int64(cmp.Or(d, m.options.ProducerExpiry)))
}

func (m *Maintainer) producerExpiry() time.Duration { return time.Duration(m.expiry.Load()) }

// Close stops the goroutine after the task in progress, and returns when it has ended. Tasks that are due later do not
// run. A second Close does nothing.
func (m *Maintainer) Close() {
	m.mu.Lock()
	m.mu.closed = true
	for _, t := range m.mu.tasks {
		t.index = -1
	}
	m.mu.tasks = nil
	m.mu.Unlock()
	m.nudge()
	m.ended.Wait()
}

func (m *Maintainer) nudge() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Task is work that a [Maintainer] runs at a given time. It never runs concurrently with itself.
type Task struct {
	maintainer *Maintainer
	run        func(now time.Time) (next time.Time) // next is monotonic

	// Guarded by the maintainer's mutex.
	at      time.Time // monotonic
	index   int       // in the heap, -1 when not in it
	stopped bool
}

// NewTask returns a task that waits for [Task.Due]. run gets the time and returns when it wants to run again, or the
// zero time for not before the next call of Due. It may do I/O, and delays other tasks while it does.
func (m *Maintainer) NewTask(run func(now time.Time) (next time.Time)) *Task {
	return m.newTask(func(now time.Time) time.Time {
		next := run(now)
		if next.IsZero() {
			return next
		}
		return m.monotonicOf(next)
	})
}

// newTask is NewTask of a run that returns a monotonic time.
func (m *Maintainer) newTask(run func(now time.Time) (next time.Time)) *Task {
	return &Task{maintainer: m, run: run, index: -1}
}

// Due makes the task run at the given time, or earlier if it was due earlier. The time is converted to a delay from now
// immediately. It never waits for a task.
func (t *Task) Due(at time.Time) { t.dueAt(t.maintainer.monotonicOf(at)) }

// monotonic reads the clock that nobody sets. Use it for differences and comparisons only; operations that strip the
// monotonic reading, such as Truncate, must not be applied to it.
func monotonic() time.Time { return time.Now() }

// monotonicOf converts a time of day to the monotonic clock, as if nobody sets the clock until then.
func (m *Maintainer) monotonicOf(at time.Time) time.Time {
	return monotonic().Add(at.Sub(m.options.Now()))
}

// dueAt is Due on the monotonic clock.
func (t *Task) dueAt(at time.Time) {
	m := t.maintainer
	m.mu.Lock()
	first := t.dueLocked(at)
	m.mu.Unlock()
	if first {
		m.nudge()
	}
}

// dueLocked reports whether the task became the first one.
func (t *Task) dueLocked(at time.Time) bool {
	m := t.maintainer
	switch {
	case m.mu.closed || t.stopped:
		return false
	case t.index < 0:
		t.at = at
		heap.Push(&m.mu.tasks, t)
	case at.Before(t.at):
		t.at = at
		heap.Fix(&m.mu.tasks, t.index)
	}
	return t.index == 0
}

// Stop ends the task permanently. It waits for the task if it is running; a task must not stop itself.
func (t *Task) Stop() {
	m := t.maintainer
	m.mu.Lock()
	defer m.mu.Unlock()
	t.stopped = true
	if t.index >= 0 {
		heap.Remove(&m.mu.tasks, t.index)
	}
	for m.mu.running == t {
		m.mu.finished.Wait()
	}
}

func (m *Maintainer) loop() {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	for {
		delay, sleeps, closed := m.runDue()
		if closed {
			timer.Stop()
			return
		}
		if sleeps {
			timer.Reset(delay)
		}
		select {
		case <-timer.C:
		case <-m.wake:
			timer.Stop()
		}
		if m.wakeUp != nil {
			m.wakeUp()
		}
	}
}

// runDue runs the tasks that are due, and returns how long to sleep; sleeps is false when there is no deadline.
func (m *Maintainer) runDue() (delay time.Duration, sleeps, closed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for !m.mu.closed && len(m.mu.tasks) > 0 {
		now := monotonic()
		t := m.mu.tasks[0]
		if t.at.After(now) {
			return t.at.Sub(now), true, false
		}
		heap.Pop(&m.mu.tasks)
		m.runLocked(t, m.options.Now())
	}
	return 0, false, m.mu.closed
}

// runLocked runs one task without the mutex.
func (m *Maintainer) runLocked(t *Task, now time.Time) {
	m.mu.running = t
	m.mu.Unlock()
	next := t.run(now)
	m.mu.Lock()
	m.mu.running = nil
	m.mu.finished.Broadcast()
	if !next.IsZero() {
		t.dueLocked(next)
	}
}

// taskHeap orders tasks by deadline, for package heap.
type taskHeap []*Task

func (h taskHeap) Len() int           { return len(h) }
func (h taskHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h taskHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *taskHeap) Push(x any) {
	t := x.(*Task)
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *taskHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = -1
	return t
}

// periodic is when work that is done once in an interval is next due: the first multiple of the interval since the start,
// so that tasks of many logs share a wake-up. Both times are monotonic.
func (m *Maintainer) periodic(now time.Time, interval time.Duration) time.Time {
	if begins := m.started.Add(m.options.InitialDelay); now.Before(begins) {
		return begins
	}
	return m.started.Add(now.Sub(m.started)/interval*interval + interval)
}
