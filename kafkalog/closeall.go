package kafkalog

import (
	"path"
	"sync"
	"sync/atomic"

	"github.com/tidemark-io/tidemark/vfs"
)

// A log that is closed after more than a few records were appended to it writes four files and syncs each of them, its
// records and its directory. With thousands of logs that is most of the time that a stop takes, so many logs are closed
// together: all of them write what they have to, then their file system is synced, then the files that replace others get
// their names, and it is synced again.

// togetherFrom is for how many logs with something to make durable that pays. A sync of the file system writes the dirty
// pages of everybody.
const togetherFrom = 16

// Closed is what became of one log that [Env.CloseAll] closed.
type Closed struct {
	Sync  error // as of Log.Sync: what keeps the log from being durable
	Close error // as of Log.Close
}

// CloseAll calls [Log.Sync] and [Log.Close] of each log, and returns what came of it in the order of the logs, none of which may
// be there twice. Where it can, and where there are many, the logs are made durable together: see [EnvOptions].Volume. If that
// fails, each log is synced by itself, so the failure is that of the log whose bytes the device lost. Up to workers logs are
// worked on at the same time. It blocks on the device.
func (e *Env) CloseAll(logs []*Log, workers int) []Closed {
	return e.closeAll(logs, workers, (*Log).Sync)
}

// closeAll is CloseAll with what is done with a log that is closed by itself before that.
func (e *Env) closeAll(logs []*Log, workers int, before func(*Log) error) []Closed {
	closed := make([]Closed, len(logs))
	jobs := make([]*closeJob, len(logs))
	eachOf(len(logs), workers, func(i int) { jobs[i] = logs[i].beginClose() })
	e.settleTogether(jobs, workers)
	eachOf(len(logs), workers, func(i int) {
		if jobs[i].durable {
			closed[i].Close = jobs[i].finish()
			return
		}
		jobs[i].giveUp()
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

// settleTogether makes durable what the jobs wrote, and marks those of which that is so.
func (e *Env) settleTogether(jobs []*closeJob, workers int) {
	var together []*closeJob
	renames := false
	for _, job := range jobs {
		switch {
		case job.together && job.idle():
			job.durable = true
		case job.together:
			together = append(together, job)
			renames = renames || len(job.files) > 0
		}
	}
	if len(together) < togetherFrom || e.volume.Sync() != nil {
		return
	}
	if renames {
		eachOf(len(together), workers, func(i int) { together[i].rename() })
		if e.volume.Sync() != nil {
			return
		}
	}
	for _, job := range together {
		job.durable = job.together
	}
}

// closeJob is the closing of one log together with others. It has the log's locks from its begin until finish or giveUp.
type closeJob struct {
	log      *Log
	locked   bool
	together bool        // everything that there is to do is done with a sync of the volume
	durable  bool        // that has been done
	files    []laterFile // complete under temporary names
	lastSnap int64       // of the producers, before the snapshot among files was captured
}

// laterFile is a file that was written under a temporary name.
type laterFile struct {
	name    string
	renamed func() // notes that it has its name
}

// beginClose takes the log's locks and writes everything that it has to, without a sync. What goes wrong leaves the log to be
// closed by itself, which meets the same.
func (l *Log) beginClose() *closeJob {
	job := &closeJob{log: l}
	if l.env.volume == nil {
		return job
	}
	l.syncMu.Lock()
	l.mu.Lock()
	job.locked = true
	l.producers.Lock()
	job.lastSnap = l.producers.state.lastSnap
	l.producers.Unlock()
	if l.closed.Load() || l.fenced.Load() || l.failure() != nil || l.env.roll.drain(&l.rollJobs) != nil {
		return job
	}
	if unwritten, err := l.retrySealed(); err != nil || unwritten != nil || l.neverHeldRecords() {
		return job
	}
	holds, err := l.env.volume.Holds(l.dir)
	job.together = err == nil && holds && l.settle() == nil && (l.isYoung() || job.write() == nil)
	return job
}

// idle reports whether there is nothing to make durable.
func (job *closeJob) idle() bool {
	l := job.log
	active := l.view.Load().active()
	txns, err := active.txns.exists()
	return !active.dirty && len(job.files) == 0 && l.names.synced.Load() >= l.names.changed.Load() &&
		!active.index.unsynced.Load() && !active.times.unsynced.Load() && !txns && err == nil
}

// write writes the files beside the records that a log has which is not young.
func (job *closeJob) write() error {
	l := job.log
	active := l.view.Load().active()
	if l.epochs.unwritten {
		if err := job.writeLater(l.epochs.path, formatEpochs(l.epochs.entries()), l.epochs.noteWritten); err != nil {
			return err
		}
	}
	if l.mu.startOwed >= 0 {
		name := path.Join(l.dir, logStartFileName)
		err := job.writeLater(name, formatLogStart(l.view.Load().start), func() { l.mu.startOwed = -1 })
		if err != nil {
			return err
		}
	}
	l.noteIndexNames(active)
	if err := active.seal(); err != nil {
		return err
	}
	return l.takeSnapshotLocked(func(offset int64, data []byte) error {
		if l.snapshots.has(offset) {
			return nil
		}
		return job.writeLater(l.snapshots.path(offset), data, func() { l.snapshots.note(offset) })
	})
}

// writeLater writes a file that gets its name once its bytes are durable.
func (job *closeJob) writeLater(name string, data []byte, renamed func()) error {
	if err := writeUnsynced(job.log.env.fs, name+tempSuffix, data); err != nil {
		return err
	}
	job.files = append(job.files, laterFile{name, renamed})
	return nil
}

// rename gives the files their names.
func (job *closeJob) rename() {
	for i, f := range job.files {
		job.log.names.changed.Add(1)
		if err := job.log.env.fs.Rename(f.name+tempSuffix, f.name); err != nil {
			job.files = job.files[i:]
			job.together = false
			return
		}
		f.renamed()
	}
	job.files = nil
}

// finish closes the log, which is durable.
func (job *closeJob) finish() error {
	l := job.log
	defer job.unlock()
	l.advanceFlushed(min(l.end.Load(), l.mu.hole))
	l.names.synced.Store(l.names.changed.Load())
	return l.letGoLocked()
}

// giveUp leaves the log as it was, but for what may be written again.
func (job *closeJob) giveUp() {
	if len(job.files) > 0 {
		job.log.producers.Lock()
		job.log.producers.state.lastSnap = job.lastSnap
		job.log.producers.Unlock()
	}
	job.unlock()
}

func (job *closeJob) unlock() {
	if job.locked {
		job.locked = false
		job.log.mu.Unlock()
		job.log.syncMu.Unlock()
	}
}

// openVolume opens the file system that a directory is on, or returns nil where files are synced one by one.
func openVolume(fsys vfs.FS, dir string) vfs.Volume {
	opener, ok := fsys.(vfs.VolumeOpener)
	if !ok || dir == "" {
		return nil
	}
	v, err := opener.OpenVolume(dir)
	if err != nil {
		return nil
	}
	return v
}
