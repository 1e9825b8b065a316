package kafkalog

import (
	"sync"
	"time"
)

// rollFlusher makes sealed segments durable in the background, for all logs of an Env. Jobs of one log run in the order
// of its rolls, one at a time; different logs run side by side, each getting one job a turn. Workers exist only while
// there is work.
//
// Admission is counted before the producer snapshot is captured and is first come, first served, so a roll waits when
// the disk cannot keep up rather than filling memory.
type rollFlusher struct {
	workers  int
	maxJobs  int
	maxBytes int64
	now      func() time.Time
	// manual starts no workers: jobs run in the calls that wait for them. Tests need it to repeat themselves.
	manual bool

	mu      sync.Mutex
	changed *sync.Cond
	// Guarded by mu:
	running int          // worker goroutines
	jobs    int          // admitted and not yet done
	bytes   int64        // of snapshots of these
	tickets uint64       // handed out to those who wait for admission
	serving uint64       // the ticket that may enter next
	ready   []*rollQueue // logs with a job that no worker runs
}

// rollQueue is one log's part of the flusher. Its fields are guarded by the flusher's mu.
type rollQueue struct {
	jobs   []rollJob
	active bool   // a worker runs a job
	taken  uint64 // jobs submitted so far
	done   uint64 // of these, run or dropped
	err    error  // the first failure; no job runs after it
	ended  bool   // fenced: queued jobs are dropped and new ones are not taken
}

// rollJob is what has to happen after a roll. run is called once, without any lock, unless the job is dropped.
type rollJob struct {
	bytes int64
	run   func() error
}

func newRollFlusher(o EnvOptions) *rollFlusher {
	f := &rollFlusher{workers: o.RollFlushWorkers, maxJobs: o.RollFlushJobs, maxBytes: o.RollFlushBytes, now: o.Now}
	if f.workers <= 0 {
		f.workers = 4
	}
	if f.maxJobs <= 0 {
		f.maxJobs = 256
	}
	if f.maxBytes <= 0 {
		f.maxBytes = 64 << 20
	}
	f.changed = sync.NewCond(&f.mu)
	return f
}

// admit waits until a job with a snapshot of n bytes fits the budget and takes its share. It fails with the queue's
// sticky failure. After success exactly one of submit and giveBack must follow.
func (f *rollFlusher) admit(q *rollQueue, n int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	ticket := f.tickets
	f.tickets++
	for ticket != f.serving || f.jobs >= f.maxJobs || (f.bytes > 0 && f.bytes+n > f.maxBytes) {
		f.changed.Wait()
	}
	f.serving++
	f.changed.Broadcast()
	if q.err != nil {
		return q.err
	}
	f.jobs++
	f.bytes += n
	return nil
}

// giveBack returns an admitted share that is not used.
func (f *rollFlusher) giveBack(n int64) {
	f.mu.Lock()
	f.release(n)
	f.mu.Unlock()
}

func (f *rollFlusher) release(n int64) {
	f.jobs--
	f.bytes -= n
	f.changed.Broadcast()
}

// submit queues an admitted job.
func (f *rollFlusher) submit(q *rollQueue, job rollJob) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.err != nil || q.ended {
		f.release(job.bytes)
		return
	}
	q.taken++
	q.jobs = append(q.jobs, job)
	if len(q.jobs) == 1 && !q.active {
		f.enqueue(q)
	}
}

func (f *rollFlusher) enqueue(q *rollQueue) {
	f.ready = append(f.ready, q)
	if f.running < f.workers && !f.manual {
		f.running++
		go f.work()
	}
}

// work runs jobs until none is ready.
func (f *rollFlusher) work() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.ready) > 0 {
		q := f.ready[0]
		f.ready = f.ready[1:]
		if len(q.jobs) == 0 {
			continue
		}
		job := q.jobs[0]
		q.jobs = q.jobs[1:]
		q.active = true
		f.mu.Unlock()
		err := job.run()
		f.mu.Lock()
		q.active = false
		q.done++
		f.release(job.bytes)
		if err != nil && q.err == nil {
			q.err = err
			f.drop(q)
		}
		if len(q.jobs) > 0 {
			f.enqueue(q)
		}
	}
	f.running--
	f.changed.Broadcast()
}

// drop forgets the queued jobs of q.
func (f *rollFlusher) drop(q *rollQueue) {
	for _, job := range q.jobs {
		q.done++
		f.release(job.bytes)
	}
	q.jobs = nil
}

// drain waits until every job of q that was submitted before the call has ended, and returns the queue's sticky failure.
func (f *rollFlusher) drain(q *rollQueue) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.manual {
		f.running++
		f.mu.Unlock()
		f.work()
		f.mu.Lock()
	}
	for until := q.taken; q.done < until; {
		f.changed.Wait()
	}
	return q.err
}

// failure returns the sticky failure of q without waiting.
func (f *rollFlusher) failure(q *rollQueue) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return q.err
}

// end drops the queued jobs of q and waits for the running one. Nothing of q runs after it.
func (f *rollFlusher) end(q *rollQueue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q.ended = true
	f.drop(q)
	for q.active {
		f.changed.Wait()
	}
}

// wait returns when no worker runs.
func (f *rollFlusher) wait() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.running > 0 {
		f.changed.Wait()
	}
}
