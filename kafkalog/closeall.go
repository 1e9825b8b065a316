package kafkalog

import (
	"sync"
	"sync/atomic"

	"github.com/tidemark-io/tidemark/vfs"
)

// A young log is its records alone, so closing it is one fsync, and closing thousands of them is one sync of their file system.
// A log with more writes other files too, and is closed by itself: to make the files of all of them first and to sync the file
// system then was tried, and took longer (docs/performance.md).

// togetherFrom is for how many dirty logs that pays. A sync of the file system writes the dirty pages of everybody.
const togetherFrom = 16

// Closed is the outcome for one log that [Env.CloseAll] closed.
type Closed struct {
	Sync  error // as of Log.Sync: what keeps the log from being durable
	Close error // as of Log.Close
}

// CloseAll calls [Log.Sync] and [Log.Close] on each log, and returns the outcomes in the order of the logs, none of
// which may be listed twice. Where possible, and if there are many, the logs are made durable together: see
// [EnvOptions].Volume. If that fails, each log is synced individually, so the error is reported for the log whose
// bytes the device lost. Up to workers logs are processed concurrently. It blocks on the device.
func (e *Env) CloseAll(logs []*Log, workers int) []Closed {
	return e.closeAll(logs, workers, (*Log).Sync)
}

// closeAll is CloseAll with what is done with a log that is closed by itself before that.
func (e *Env) closeAll(logs []*Log, workers int, before func(*Log) error) []Closed {
	closed := make([]Closed, len(logs))
	jobs := make([]*closeJob, len(logs))
	eachOf(len(logs), workers, func(i int) { jobs[i] = logs[i].beginClose() })
	e.settleTogether(jobs)
	eachOf(len(logs), workers, func(i int) {
		if jobs[i].durable {
			closed[i].Close = jobs[i].finish()
			return
		}
		jobs[i].unlock()
		closed[i] = Closed{Sync: before(logs[i]), Close: logs[i].Close()}
	})
	return closed
}

// eachOf calls f for the numbers below n, up to workers of them at the same time.
func eachOf(n, workers int, f func(i int)) {
	var next atomic.Int64
	var running sync.WaitGroup
	for range max(min(n, workers), min(n, 1)) {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	running.Wait()
}

// settleTogether makes the logs durable that need no more for it than a sync of the volume, and marks them.
func (e *Env) settleTogether(jobs []*closeJob) {
	var together []*closeJob
	for _, job := range jobs {
		if job.together {
			together = append(together, job)
		}
	}
	if len(together) < togetherFrom || e.volume.sync() != nil {
		return
	}
	for _, job := range together {
		job.durable = true
	}
}

// closeJob is the closing of one log together with others. It has the log's locks from its begin until finish or unlock.
type closeJob struct {
	log      *Log
	locked   bool
	together bool // a sync of the volume is all that there is to do
	durable  bool // that has been done
}

// beginClose takes the log's locks and sees what there is to do. What goes wrong leaves the log to be closed by itself, which meets
// the same.
func (l *Log) beginClose() *closeJob {
	job := &closeJob{log: l}
	if l.env.volume == nil {
		return job
	}
	l.syncMu.Lock()
	l.mu.Lock()
	job.locked = true
	if l.closed.Load() || l.fenced.Load() || l.failure() != nil || l.env.roll.drain(&l.rollJobs) != nil {
		return job
	}
	if unwritten, err := l.retrySealed(); err != nil || unwritten != nil || l.neverHeldRecords() || l.settle() != nil {
		return job
	}
	if l.isYoung() && l.hasUnsynced() {
		holds, err := l.env.volume.Holds(l.dir)
		job.together = err == nil && holds
	}
	return job
}

// hasUnsynced reports whether a young log has something that is not durable. What was aborted of it is in an index that does not
// know whether it is.
func (l *Log) hasUnsynced() bool {
	active := l.view.Load().active()
	aborted, err := active.txns.exists()
	return active.dirty || aborted || err != nil || l.names.synced.Load() < l.names.changed.Load()
}

// finish closes the log, which is durable.
func (job *closeJob) finish() error {
	l := job.log
	defer job.unlock()
	l.advanceFlushed(min(l.end.Load(), l.mu.hole))
	l.names.synced.Store(l.names.changed.Load())
	l.mu.whole = true
	return l.letGoLocked()
}

func (job *closeJob) unlock() {
	if job.locked {
		job.locked = false
		job.log.mu.Unlock()
		job.log.syncMu.Unlock()
	}
}

// syncedVolume is a file system that is synced as a whole. After a sync that failed none counts any more, not even one that ran at
// the same time: the system reports to one of them what could not be written.
type syncedVolume struct {
	vfs.Volume

	mu     sync.Mutex
	failed error
}

func (v *syncedVolume) sync() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.failed == nil {
		v.failed = v.Volume.Sync()
	}
	return v.failed
}

// openVolume opens the file system that a directory is on, or returns nil where files are synced one by one.
func openVolume(fsys vfs.FS, dir string) *syncedVolume {
	opener, ok := fsys.(vfs.VolumeOpener)
	if !ok || dir == "" {
		return nil
	}
	v, err := opener.OpenVolume(dir)
	if err != nil {
		return nil
	}
	return &syncedVolume{Volume: v}
}
