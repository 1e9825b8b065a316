package kafkalog

import "errors"

// Fence refuses every append from now on with [ErrFenced]. An append in progress completes first. Once it returns
// nothing writes to the directory any more, so the directory may be renamed or removed; a Sync in progress completes
// first, and later ones are refused as well. Reads continue from the open files. A second call does nothing.
func (l *Log) Fence() {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	l.fenced.Store(true)
	l.mu.Unlock()
	l.env.roll.end(&l.rollJobs)
	l.forgetSealed() // and waits for upkeep that is at it
}

// Close ends the log: it waits for the background flush, makes records and indexes durable, writes a pending log start
// and a snapshot of the producers, and closes the files. For a clean stop call [Log.Sync] first, to learn whether
// everything is durable. Plans and regions still held stay readable. A fenced log is closed without writing. A second
// call does nothing.
//
// A failure here loses no record: the next Open rebuilds indexes and producers from the log. It is reported to
// Events.CloseFailed; only errors of closing a file are returned.
func (l *Log) Close() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return nil
	}
	err := l.writeOnClose()
	l.mu.whole = err == nil && !l.fenced.Load()
	if err != nil {
		l.env.events.CloseFailed(FailedEvent{Dir: l.dir, Err: err})
	}
	return l.letGoLocked()
}

// letGoLocked ends the log and lets go of its files. The locks are held.
func (l *Log) letGoLocked() error {
	l.closed.Store(true)
	l.env.forget(l)
	v := l.view.Load()
	l.mu.tail.letGo()
	var first error
	for _, s := range v.segments {
		if err := s.close(); err != nil && first == nil {
			first = err
		}
	}
	for _, f := range l.mu.retired {
		f.file.close() // the file stays and the next Open removes it
	}
	l.mu.retired = nil
	return first
}

// writeOnClose writes what makes the next Open quick.
func (l *Log) writeOnClose() error {
	if err := l.env.roll.drain(&l.rollJobs); err != nil {
		return err
	}
	if l.fenced.Load() {
		return nil
	}
	if err := l.failure(); err != nil {
		return err
	}
	if unwritten, err := l.retrySealed(); err != nil || unwritten != nil {
		return errors.Join(err, unwritten)
	}
	if l.neverHeldRecords() {
		return nil // and the next Open makes the same of it
	}
	if err := l.settle(); err != nil {
		return err
	}
	active := l.view.Load().active()
	if err := l.makeRecords(active); err != nil {
		return err
	}
	if l.isYoung() {
		return errors.Join(active.syncDirty(), active.txns.sync(), l.syncNames())
	}
	if err := errors.Join(l.epochs.write(), l.flushStartLocked()); err != nil {
		return err
	}
	err := active.seal()
	l.noteIndexNames(active)
	if err != nil {
		return err
	}
	// A snapshot at the log end may come to stand at a segment's base, so it must not say more than what is on disk.
	if err := active.syncDirty(); err != nil {
		return err
	}
	if err := active.syncIndexes(); err != nil {
		return err
	}
	err = l.takeSnapshotLocked(func(offset int64, data []byte) error {
		defer l.names.changed.Add(1)
		return l.snapshots.publishLater(offset, data)
	})
	return errors.Join(err, l.syncNames())
}
