package kafkalog

import (
	"errors"
	"io/fs"
	"math"
	"time"
)

// Roll seals the active segment and starts an empty one at the log end. It does nothing and returns false if the active
// segment is empty. The sealed segment becomes durable in the background; [Log.Sync] waits for that. It may block until
// earlier rolls of the process were flushed. Errors are those of an append.
func (l *Log) Roll() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable(); err != nil {
		return false, err
	}
	if l.view.Load().active().size.Load() == 0 {
		return false, nil
	}
	if err := l.rollLocked(l.end.Load()); err != nil {
		return false, err
	}
	return true, nil
}

// rollLocked makes a new active segment whose base is the given offset, which is at or above the log end. If it fails
// the log is as before, or accepts no more appends when a file of the new segment stayed behind: what is appended to
// the old one would reach into it.
func (l *Log) rollLocked(base int64) error {
	v := l.view.Load()
	old := v.active()
	if base == old.base && old.size.Load() == 0 {
		return nil
	}
	if base <= old.base {
		return &ArgumentError{Argument: "segment base", Value: base, Reason: "is not above that of the active segment"}
	}
	if err := errors.Join(l.settle(), l.epochs.write(), l.makeRecords(old)); err != nil {
		return err
	}
	if err := l.dropEarlySnapshot(base); err != nil {
		return err
	}
	// A crash must not lose the active segment's name and keep that of the next one. Mostly the flush of the roll before
	// has seen to that.
	if err := l.syncNames(); err != nil {
		if !passing(err) {
			l.fail(err)
		}
		return err
	}
	// What could not be flushed holds a snapshot in memory, so it does not become more and more.
	if _, err := l.retrySealed(); err != nil {
		return err
	}
	bytes := l.snapshotSize()
	if err := l.env.roll.admit(&l.rollJobs, bytes); err != nil {
		return err
	}
	next, err := l.prepareRoll(old, base)
	if err != nil {
		l.env.roll.giveBack(bytes)
		var left *leftoverError
		if errors.As(err, &left) {
			l.fail(err)
		}
		return err
	}
	l.mu.tail.seal()
	l.publish(append(v.segments[:len(v.segments):len(v.segments)], next), v.start, v.established)
	l.names.changed.Add(1)
	l.env.roll.submit(&l.rollJobs, rollJob{bytes: bytes, run: l.sealedFlush(old, base)})
	l.env.events.Rolled(RolledEvent{Dir: l.dir, Sealed: old.base, Base: base})
	return nil
}

// dropEarlySnapshot removes a snapshot that stands at a new segment's base already, as after TakeProducerSnapshot or a
// truncation at the log end: as a boundary snapshot it would prove that everything below is on disk, which is not so yet.
func (l *Log) dropEarlySnapshot(base int64) error {
	if known := l.snapshots.has(base); !known {
		// One that could not be written may be there all the same.
		if _, err := l.env.fs.Stat(l.snapshots.path(base)); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	if err := l.snapshots.remove(base); err != nil {
		return err
	}
	l.producers.Lock()
	l.producers.state.lastSnap = min(l.producers.state.lastSnap, base-1)
	l.producers.Unlock()
	return l.syncDir()
}

// prepareRoll makes the new segment's files and seals the old one, or leaves everything as it was. A [*leftoverError] says
// that it could not.
func (l *Log) prepareRoll(old *segment, base int64) (*segment, error) {
	next, err := l.env.createSegment(l.dir, base, l.config.Load())
	if err != nil {
		return nil, err
	}
	if err := old.seal(); err != nil {
		return nil, errors.Join(err, old.reactivate(), l.env.unmake(l.dir, next.handles()))
	}
	return next, nil
}

// publish shows readers a new list of segments and a new log start.
func (l *Log) publish(segments []*segment, start int64, established bool) {
	l.view.Store(&view{segments: segments, start: start, established: established})
}

// sealedFlush captures the producers as they are at the end of the sealed segment, and returns the job that makes the
// segment durable and then, and only then, writes them as its boundary snapshot: the snapshot's existence proves that
// everything below it is on disk. The job fails only if that is final.
func (l *Log) sealedFlush(sealed *segment, base int64) func() error {
	s := &sealedSegment{segment: sealed, base: base, snapshot: l.captureSnapshot(base)}
	l.mu.lastFlush = max(l.mu.lastFlush, l.env.nowMs())
	return func() error {
		began := l.env.now()
		err := l.flushSealed(s)
		l.env.events.RollFlushed(RollFlushedEvent{Dir: l.dir, Base: base, Took: l.env.now().Sub(began), Err: err})
		if err != nil && passing(err) {
			return nil
		}
		return err
	}
}

// settle does what a failed truncation left undone, before anything else is written: it cuts the active file and its indexes at
// the log end, writes the leader epochs and a lowered log start, and rebuilds the producers.
func (l *Log) settle() error {
	if !l.epochs.optional && !l.epochs.deferred {
		if err := l.epochs.write(); err != nil {
			return err
		}
	}
	if err := l.trimActive(); err != nil {
		return err
	}
	if l.mu.indexesOwed {
		if err := l.view.Load().active().cutIndexes(l.end.Load()); err != nil {
			return err
		}
		l.mu.indexesOwed = false
	}
	if err := l.settleStart(); err != nil {
		return err
	}
	if l.mu.rebuildOwed {
		return l.rebuildProducers()
	}
	return nil
}

// settleStart makes the log start file say what is so, where it may say a higher start: the next Open would take the log for one
// that has lost everything up to there.
func (l *Log) settleStart() error {
	if !l.mu.lowerOwed {
		return nil
	}
	var err error
	if v := l.view.Load(); v.established {
		err = writeLogStart(l.env.fs, l.dir, v.start)
	} else {
		err = removeLogStart(l.env.fs, l.dir)
	}
	l.mu.lowerOwed = err != nil
	return err
}

func (l *Log) trimActive() error {
	if !l.mu.trimOwed {
		return nil
	}
	s := l.view.Load().active()
	file, err := s.file.acquire()
	if err != nil {
		return err
	}
	defer s.file.release()
	if err := file.Truncate(s.size.Load()); err != nil {
		return &IOError{Op: "truncate", Path: s.file.path(), Err: err}
	}
	l.mu.trimOwed = false
	return nil
}

// untilMs returns the time from now to a moment in ms, not below 0.
func untilMs(now time.Time, ms int64) time.Duration {
	left := ms - now.UnixMilli()
	if left <= 0 {
		return 0
	}
	return time.Duration(min(left, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}
