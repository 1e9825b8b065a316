package partition

import (
	"container/heap"
	"sync"
	"time"
)

// MaintainerOptions are the clock and the intervals of a [Maintainer]. Zero values take Kafka's defaults.
type MaintainerOptions struct {
	// Now is the clock; nil is time.Now.
	Now func() time.Time

	// InitialDelay [log.initial.task.delay.ms] is how long after its start the maintainer has retention and the expiry of
	// producers look at logs for the first time; 0 or less is not before the first multiple of their intervals.
	InitialDelay time.Duration

	// RetentionInterval [log.retention.check.interval.ms] is how often retention looks at a log that holds records;
	// 0 is five minutes. All logs are looked at in the same wake-up.
	RetentionInterval time.Duration

	// ProducerExpiry [producer.id.expiration.ms] is the silence after which a producer is forgotten; 0 is a day.
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

// Maintainer runs what has to be done at some time: retention, expiry of producers, flush.ms, deletion of retired files,
// checkpoints. It is one heap of deadlines and one goroutine that sleeps until the first of them; a log that needs nothing
// is not in the heap. It is safe for concurrent use.
type Maintainer struct {
	options MaintainerOptions
	begins  time.Time // when periodic work may run first

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
	m.begins = m.options.Now().Add(o.InitialDelay)
	m.mu.finished = sync.NewCond(&m.mu)
	m.ended.Go(m.loop)
	return m
}

// Close stops the goroutine after the task that runs, and returns when it ended. Tasks that are due later do not run. A
// second Close does nothing.
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

// Task is work that a [Maintainer] does at a time. It never runs twice at once.
type Task struct {
	maintainer *Maintainer
	run        func(now time.Time) (next time.Time)

	// Guarded by the maintainer's mutex.
	at      time.Time
	index   int // in the heap, -1 when not in it
	stopped bool
}

// NewTask returns a task that waits for [Task.Due]. run gets the time and returns when it wants to run again, or the zero
// time for not until it is told. It may do I/O, and delays other tasks while it does.
func (m *Maintainer) NewTask(run func(now time.Time) (next time.Time)) *Task {
	return &Task{maintainer: m, run: run, index: -1}
}

// Due makes the task run at the given time, or earlier if it was due earlier. It never waits for a task.
func (t *Task) Due(at time.Time) {
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

// Stop ends the task for good. It waits for the task if it is running; a task must not stop itself.
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
		now := m.options.Now()
		t := m.mu.tasks[0]
		if t.at.After(now) {
			return t.at.Sub(now), true, false
		}
		heap.Pop(&m.mu.tasks)
		m.runLocked(t, now)
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

// periodic is when work that is done once in an interval is next due.
func (m *Maintainer) periodic(now time.Time, interval time.Duration) time.Time {
	if now.Before(m.begins) {
		return m.begins
	}
	return aligned(now, interval)
}

// aligned is the first multiple of the interval after now, so that tasks of many logs share a wake-up.
func aligned(now time.Time, interval time.Duration) time.Time {
	return now.Truncate(interval).Add(interval)
}
