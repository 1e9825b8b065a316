package kafkalog

import (
	"errors"
	"slices"
)

// TruncateTo removes every record at or above the offset, and the batch that holds it. The log end is then the offset,
// or stays if it was lower. It is never refused for lying below the log start: the start moves down with it, and if no
// local segment reaches that low the log is emptied as by [Log.ResetTo]. Leader epochs, producers and transactions are
// then those of the remaining records. It waits for the background flush, and blocks on the device.
//
// The removed records are gone for readers on return, also with an error, but may be back after a crash until
// [Log.Sync]. A negative offset is an [*ArgumentError]; other errors are of class [ErrStorage].
func (l *Log) TruncateTo(offset int64) error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.changeable(); err != nil {
		return err
	}
	if offset < 0 {
		return &ArgumentError{Argument: "offset", Value: offset, Reason: "is negative"}
	}
	if offset >= l.end.Load() {
		return l.epochs.truncateFromEnd(l.end.Load())
	}
	if err := l.env.roll.drain(&l.rollJobs); err != nil {
		return err
	}
	if _, err := l.retrySealed(); err != nil {
		return err
	}
	if err := l.settleStart(); err != nil {
		return err
	}
	l.forgetSealed() // a snapshot may speak of what is truncated
	if offset < l.view.Load().segments[0].base {
		return l.resetLocked(offset)
	}
	return l.truncateLocked(offset)
}

func (l *Log) truncateLocked(offset int64) error {
	var err error
	for err == nil && l.view.Load().active().base > offset {
		// Each is gone permanently before the one in front of it is touched: a power cut leaves no hole.
		if err = l.dropActive(); err == nil {
			err = l.syncDir()
		}
	}
	if err == nil {
		err = l.cutActive(offset)
	}
	// Whatever failed, what is left is one whole log, and everything follows its end.
	end := l.end.Load()
	l.flushed.Store(min(l.flushed.Load(), end, l.mu.hole))
	err = errors.Join(err, l.cutEpochs(end))
	err = errors.Join(err, l.rebuildProducers())
	// Before the next append no crash may bring back a segment, or a snapshot that proves what is no longer true.
	return errors.Join(err, l.syncDir())
}

// cutEpochs drops the epochs that start at or above the end, in memory also if the file cannot be written. It is then
// written before the next append.
func (l *Log) cutEpochs(end int64) error {
	err := l.epochs.truncateFromEnd(end)
	if err != nil {
		kept := slices.Clone(cutEpochsFrom(l.epochs.entries(), end))
		l.epochs.list.Store(&kept)
		l.epochs.unwritten, l.epochs.deferred = true, false
	}
	return err
}

// dropActive takes the active segment out of the log and lets the one before it take the appends. If that fails nothing
// has changed.
func (l *Log) dropActive() error {
	v := l.view.Load()
	last := len(v.segments) - 1
	active, next := v.segments[last], v.segments[last-1]
	if err := next.reactivate(); err != nil {
		return err
	}
	files, err := l.retireFiles(active)
	if err != nil {
		return err
	}
	l.mu.tail.letGo()
	l.mu.trimOwed = false
	l.mu.hole = next.base // at least so far reach its records
	l.publish(v.segments[:last], min(v.start, active.base), v.established)
	l.end.Store(active.base)
	l.queueDeletion(files)
	l.retired(active, "truncate")
	if active.base < v.start {
		return l.persistLoweredStart(active.base, v.established)
	}
	return nil
}

// reactivate lets the indexes of a sealed segment take entries again.
func (s *segment) reactivate() error {
	err := s.index.activate()
	if unusableIndex(err) {
		err = s.index.reset()
	}
	timesErr := s.times.activate()
	if unusableIndex(timesErr) {
		timesErr = s.times.reset()
	}
	return errors.Join(err, timesErr)
}

// cutActive removes the batches of the active segment that hold or follow the offset. For readers they are gone even if
// it fails later on. The segment is replaced by a new one over the same files, so that readers of the old one notice.
func (l *Log) cutActive(offset int64) error {
	v := l.view.Load()
	old := v.active()
	cut, kept, err := old.cutPosition(offset)
	if err != nil {
		return err
	}
	next := l.env.newSegment(old.base, l.config.Load())
	next.file, next.index, next.times, next.txns = old.file, old.index, old.times, old.txns
	next.size.Store(cut)
	next.openedAt = min(old.openedAt, cut)
	next.dirty = true
	if cut > 0 {
		next.created, next.firstStamp = old.created, old.firstStamp
	}
	err = next.cutIndexes(offset)
	l.mu.indexesOwed = err != nil
	if err == nil {
		err = next.findMax()
	}
	segments := append(v.segments[:len(v.segments)-1:len(v.segments)-1], next)
	l.publish(segments, min(v.start, offset), v.established)
	l.end.Store(offset)
	// Inside a batch the offset lies above what is left, and recovery would miss the records between the two.
	l.mu.hole = kept
	l.flushed.Store(min(l.flushed.Load(), kept))
	old.cutTo(cut)
	next.older = old
	l.mu.trimOwed = true
	err = errors.Join(err, l.trimActive())
	if offset < v.start {
		err = errors.Join(err, l.persistLoweredStart(offset, v.established))
	}
	return err
}

// cutTo tells the readers of a segment, which another one over the same files has replaced, from where on bytes may be
// foreign. Those who still read what it replaced itself have to look again altogether.
func (s *segment) cutTo(position int64) {
	s.cutAt.Store(position)
	if s.older != nil {
		s.older.cutAt.Store(0)
		s.older = nil
	}
}

// cutPosition returns where the batch that holds or follows the offset begins, or the segment's size, and an offset that
// the batches before it reach at least.
func (s *segment) cutPosition(offset int64) (position, kept int64, err error) {
	r, err := s.reader()
	if err != nil {
		return 0, 0, err
	}
	defer r.close()
	walk, err := r.walkFrom(offset)
	if err != nil {
		return 0, 0, err
	}
	defer walk.close()
	for kept = s.base; ; {
		position = walk.position
		h, found, err := walk.next()
		if err != nil || !found || h.LastOffset() >= offset {
			return position, kept, err
		}
		kept = h.NextOffset()
	}
}

// cutIndexes drops what the indexes say of the offset and what follows. An index that cannot be read is emptied: it is
// only there to save time.
func (s *segment) cutIndexes(offset int64) error {
	err := s.index.truncateTo(offset)
	if unusableIndex(err) {
		err = s.index.reset()
	}
	timesErr := s.times.truncateTo(offset)
	if unusableIndex(timesErr) {
		timesErr = s.times.reset()
	}
	return errors.Join(err, timesErr, s.txns.truncateTo(offset))
}

// persistLoweredStart makes a log start that truncation moved down durable.
func (l *Log) persistLoweredStart(offset int64, established bool) error {
	l.epochs.forgetCut()
	l.mu.startOwed = -1
	if !established {
		return nil
	}
	err := writeLogStart(l.env.fs, l.dir, offset)
	l.mu.lowerOwed = err != nil
	return err
}

// ResetTo empties the log and starts it again at the offset, which becomes log start and log end. Everything known
// about epochs, producers, transactions and an established log start is discarded. A follower calls it when its
// leader no longer has what the follower has. It waits for the background flush, and blocks on the device. A negative
// offset is an [*ArgumentError]; other errors are of class [ErrStorage].
func (l *Log) ResetTo(offset int64) error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.changeable(); err != nil {
		return err
	}
	if offset < 0 {
		return &ArgumentError{Argument: "offset", Value: offset, Reason: "is negative"}
	}
	if err := l.env.roll.drain(&l.rollJobs); err != nil {
		return err
	}
	l.forgetSealed()
	return l.resetLocked(offset)
}

func (l *Log) resetLocked(offset int64) error {
	v := l.view.Load()
	// Newest first, and each for good: a crash in between leaves a log that is shorter, never one with a hole that nobody made.
	var retired []*handle
	for i := len(v.segments) - 1; i >= 0; i-- {
		files, err := l.retireFiles(v.segments[i])
		if err == nil && i > 0 {
			err = l.syncDir()
		}
		if err != nil {
			l.fail(err)
			return err
		}
		retired = append(retired, files...)
		l.retired(v.segments[i], "reset")
	}
	err := l.startOver(offset)
	if err != nil {
		l.fail(err)
		return err
	}
	l.queueDeletion(retired)
	l.mu.trimOwed, l.mu.indexesOwed = false, false
	l.mu.hole = never
	l.mu.startOwed = -1
	l.end.Store(offset)
	l.flushed.Store(min(l.flushed.Load(), offset))
	l.producers.Lock()
	l.producers.state.reset(offset)
	l.producers.Unlock()
	l.mu.rebuildOwed, l.mu.lowerOwed = false, false
	if err := removeLogStart(l.env.fs, l.dir); err != nil {
		l.fail(err) // the next Open would believe the file
		return err
	}
	l.epochs.forgetCut()
	err = errors.Join(l.snapshots.removeAll(), l.cutEpochs(0))
	return errors.Join(err, l.syncDir())
}

// startOver makes the one segment of an emptied log. The old files are gone permanently before the new ones exist.
func (l *Log) startOver(base int64) error {
	if err := l.syncDir(); err != nil {
		return err
	}
	next, err := l.env.createSegment(l.dir, base, l.config.Load())
	if err != nil {
		return err
	}
	l.mu.tail.letGo()
	l.publish([]*segment{next}, base, false)
	return l.syncDir()
}
