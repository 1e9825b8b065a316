package kafkalog

import (
	"errors"
	"sync/atomic"
)

// Sync makes everything that was appended before the call durable: records, indexes, leader epochs, the producer snapshots of
// rolled segments, directory entries, and a pending log start. [Log.RecoveryPoint] is then at least the log end at the
// time of the call. Appends and reads continue meanwhile. It blocks on the device.
//
// The error is of class [ErrStorage]. After a failed fsync the log refuses appends until it is reopened, and every
// further call returns the same error: it is unknown what the device did with the bytes. An error that matches
// [ErrTryAgain] has changed nothing: something could not be opened or written, the log remains usable, and a later call
// may succeed.
func (l *Log) Sync() error {
	if _, err := l.flush(true); err != nil {
		return err
	}
	return l.FlushLogStartCheckpoint()
}

// SyncTo makes the records that were appended before the call durable and returns the offset below which everything now
// is. It skips what recovery rebuilds, the indexes of the active segment, and costs one fsync if no segment was rolled.
// Otherwise it is [Log.Sync].
func (l *Log) SyncTo() (int64, error) { return l.flush(false) }

// flush makes the log durable up to its present end, which it returns. Syncs of one log do not overlap; the writer's lock
// is held only to see what there is to do.
func (l *Log) flush(indexes bool) (int64, error) {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	job, err := l.planFlush(indexes)
	if err != nil {
		return l.flushed.Load(), err
	}
	if err := job.run(l); err != nil {
		if passing(err) {
			return l.flushed.Load(), l.putBack(&job, err)
		}
		l.fail(err)
		return l.flushed.Load(), err
	}
	l.advanceFlushed(job.flushed)
	l.restTail()
	return job.end, nil
}

// restTail lets go of the active file unless something was written to it that no sync covered.
func (l *Log) restTail() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.view.Load().active().dirty {
		l.mu.tail.letGo()
	}
}

// flushJob is what one flush has to do.
type flushJob struct {
	end     int64 // log end that becomes durable
	flushed int64 // recovery point that results
	active  *segment
	size    int64 // of the active segment
	records bool  // the active segment has unsynced records
	indexes bool  // write and sync its indexes as well
	names   bool  // make new names durable
}

// putBack makes dirty again what a flush took over and did not get to, and returns its failure, which may pass.
func (l *Log) putBack(job *flushJob, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	job.active.dirty = job.active.dirty || job.records
	return tryAgain(err)
}

// planFlush takes over what is dirty.
func (l *Log) planFlush(indexes bool) (flushJob, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable(); err != nil {
		return flushJob{}, err
	}
	active := l.view.Load().active()
	end := l.end.Load()
	job := flushJob{
		end: end, flushed: min(end, l.mu.hole), active: active, size: active.size.Load(),
		records: active.dirty, names: true,
	}
	if l.neverHeldRecords() {
		job.records, job.names = false, false
		return job, nil
	}
	job.indexes = indexes && !l.isYoung()
	if err := l.writeSidecars(active, job.indexes); err != nil {
		if passing(err) {
			err = tryAgain(err)
		}
		return flushJob{}, err
	}
	active.dirty = false
	l.mu.lastFlush = l.env.nowMs()
	return job, nil
}

// writeSidecars writes what a sync makes durable and no append has written: the file of records itself where nothing was appended
// and something else is known of the log, and the indexes and leader epochs if they are wanted.
func (l *Log) writeSidecars(active *segment, indexes bool) error {
	if err := l.makeRecords(active); err != nil || !indexes {
		return err
	}
	err := errors.Join(l.settle(), l.epochs.write(), active.writeIndexes())
	l.noteIndexNames(active)
	return err
}

// run does the job. Sealed segments are made durable by the background flush, which is waited for first.
func (job *flushJob) run(l *Log) error {
	if err := l.env.roll.drain(&l.rollJobs); err != nil {
		return err
	}
	unwritten, err := l.retrySealed()
	if err != nil {
		return err
	}
	if job.records {
		if err := job.active.syncRecords(); err != nil {
			return err
		}
		job.active.noteSynced(job.size)
	}
	if job.indexes {
		if err := job.active.syncIndexes(); err != nil {
			return err
		}
	}
	if job.names {
		if err := l.syncNames(); err != nil {
			return err
		}
	}
	if job.indexes {
		return unwritten
	}
	return nil // a snapshot only makes a start quick
}

// dirNames counts the changes of names in the log's directory, once each was made, and knows up to which one they are durable.
type dirNames struct {
	changed, synced atomic.Int64
}

// syncNames makes the names in the directory durable if any of them changed.
func (l *Log) syncNames() error {
	if l.names.synced.Load() >= l.names.changed.Load() {
		return nil
	}
	return l.syncDir()
}

// syncDir makes the directory entries durable. It may run concurrently with the writer.
func (l *Log) syncDir() error {
	changed := l.names.changed.Load()
	if err := l.env.fs.SyncDir(l.dir); err != nil {
		return &IOError{Op: opSyncDir, Path: l.dir, Err: err}
	}
	for synced := l.names.synced.Load(); synced < changed; synced = l.names.synced.Load() {
		l.names.synced.CompareAndSwap(synced, changed)
	}
	return nil
}

// noteIndexNames counts the names of index files that were made.
func (l *Log) noteIndexNames(s *segment) {
	if s.noIndexes {
		l.names.changed.Add(1)
		s.noIndexes = false
	}
}

// writeIndexes writes the index entries that are in memory alone.
func (s *segment) writeIndexes() error {
	if err := s.index.write(); err != nil {
		return err
	}
	return s.times.write()
}
