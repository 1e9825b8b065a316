package kafkalog

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
)

// sealedSegment is a segment that a roll left behind and that is not known to be durable.
type sealedSegment struct {
	segment  *segment
	base     int64  // of the segment after it
	snapshot []byte // the boundary snapshot at base, nil if there is none to write
}

// sealedSegments is what the background flush of a log has to do and could not, because of a failure that may pass: no
// descriptor, no space. The next flush, roll or maintenance tries again.
type sealedSegments struct {
	sync.Mutex
	waiting []*sealedSegment // not durable, oldest first
	owed    *sealedSegment   // durable, and the newest whose snapshot could not be written
	failed  error            // of a flush, and final: another one might say that all is well
	// stalled says that a flush was tried and something is left. It may be read without the lock.
	stalled atomic.Bool
}

// flushSealed makes a sealed segment durable, after those that wait for that already, and writes its boundary snapshot. A
// failure that may pass leaves the segment to retrySealed.
func (l *Log) flushSealed(s *sealedSegment) error {
	w := &l.sealed
	w.Lock()
	defer w.Unlock()
	w.waiting = append(w.waiting, s)
	return l.flushWaiting()
}

// retrySealed does what the background flush could not do. unwritten is the failure to write a snapshot alone, which keeps no
// record from being durable.
func (l *Log) retrySealed() (unwritten, err error) {
	w := &l.sealed
	if !w.stalled.Load() {
		return nil, nil
	}
	w.Lock()
	defer w.Unlock()
	err = l.flushWaiting()
	if err != nil && len(w.waiting) == 0 && passing(err) {
		return err, nil
	}
	return nil, err
}

// forgetSealed drops what waits, since the segments or the offsets that it speaks of are no longer there.
func (l *Log) forgetSealed() {
	w := &l.sealed
	w.Lock()
	defer w.Unlock()
	w.waiting, w.owed = nil, nil
	w.stalled.Store(false)
}

// flushWaiting flushes what waits, oldest first, and writes the snapshots. A segment's snapshot is written only when
// everything below it is on disk: its existence proves that. Of the snapshots that could not be written only the newest is
// kept; recovery can do without the others. The lock of l.sealed is held.
func (l *Log) flushWaiting() (err error) {
	w := &l.sealed
	defer func() {
		if l.fenced.Load() {
			w.waiting, w.owed, err = nil, nil, nil // the directory may be gone, and nobody relies on it any more
		}
		if err != nil && !passing(err) {
			w.failed = err
			l.fail(err)
		}
		w.stalled.Store(len(w.waiting) > 0 || w.owed != nil)
	}()
	if w.failed != nil {
		return w.failed
	}
	for len(w.waiting) > 0 {
		s := w.waiting[0]
		if err := l.syncSealed(s.segment); err != nil {
			return err
		}
		l.advanceFlushed(s.base)
		w.waiting = w.waiting[1:]
		if s.snapshot == nil {
			continue
		}
		w.owed = s
		if err := l.writeOwed(); err != nil && !passing(err) {
			return err
		}
	}
	return l.writeOwed()
}

// writeOwed writes the snapshot that is owed.
func (l *Log) writeOwed() error {
	s := l.sealed.owed
	if s == nil || l.fenced.Load() {
		return nil
	}
	if err := l.snapshots.publish(s.base, s.snapshot); err != nil {
		return err
	}
	l.sealed.owed = nil
	return nil
}

// syncSealed makes a sealed segment and its names durable.
func (l *Log) syncSealed(s *segment) error {
	if err := s.syncRecords(); err != nil {
		return err
	}
	if err := s.syncIndexes(); err != nil {
		return err
	}
	return l.syncDir()
}

// passing reports whether an error is a failure after which nothing is in doubt, so that the same may be retried: a
// file could not be opened, made, written or renamed. A failed fsync is not: what the device did with the bytes is not
// known, and a second one may say that all is well. Nor is a failed close.
func passing(err error) bool {
	switch e := err.(type) {
	case *IOError:
		switch e.Op {
		case opSync, opClose:
			return false
		case opSyncDir:
			return notOpened(e.Err)
		}
		return true
	case *ReadError:
		return true
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if !passing(err) {
				return false
			}
		}
		return true
	case interface{ Unwrap() error }:
		return passing(e.Unwrap())
	}
	return false
}

// Values of [IOError].Op for what must not be retried; opAppend only for another reason than a full disk.
const (
	opAppend  = "append"
	opSync    = "sync"
	opSyncDir = "sync directory"
	opClose   = "close"
)

// notOpened reports whether the sync of a directory failed before there was anything to sync.
func notOpened(err error) bool {
	var at *fs.PathError
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.As(err, &at) && at.Op == "open"
}

// tryAgain marks a failure that may pass.
func tryAgain(err error) error { return fmt.Errorf("%w: %w", ErrTryAgain, err) }
