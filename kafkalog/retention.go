package kafkalog

import (
	"errors"
	"time"
)

// Tick applies retention. First it removes the segments that lie below the log start, under every policy. Then, if the
// policy includes delete and the log has no remote storage, it removes the oldest segments that are not needed to keep
// retention.bytes, and those whose largest timestamp is older than retention.ms. A segment is removed only if
// highWatermark has passed all of it and every older one is removed; if all are removed the active one is rolled
// first. The log start moves to the first remaining segment; that is written later, see [Log.CheckpointLogStartIfDue].
//
// Errors are of class [ErrStorage]. Segments whose files could not be retired stay and are retried. A failure to write
// the log start, as on a full disk, does not keep any segment: the absence of the files proves the log start.
func (l *Log) Tick(now time.Time, highWatermark int64) error {
	before := l.view.Load().segments[0]
	err := l.tick(now, highWatermark)
	if l.view.Load().segments[0] != before && !l.fenced.Load() {
		err = errors.Join(err, l.syncDir())
	}
	return err
}

func (l *Log) tick(now time.Time, highWatermark int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.open(); err != nil {
		return err
	}
	if l.fenced.Load() {
		return nil
	}
	c := l.config.Load()
	failed := l.retain(highWatermark, "start", l.belowStart)
	if !c.Policy.Has(PolicyDelete) || c.RemoteStorage {
		return failed
	}
	failed = errors.Join(failed, l.retain(highWatermark, "size", l.overSize(c.RetentionBytes)))
	return errors.Join(failed, l.retain(highWatermark, "time", l.overAge(c.RetentionMs, now.UnixMilli())))
}

// expired says whether the segment at i may go, as far as one rule is concerned.
type expired func(v *view, i int) (bool, error)

func (l *Log) belowStart(v *view, i int) (bool, error) {
	return i+1 < len(v.segments) && v.segments[i+1].base <= v.start, nil
}

func (l *Log) overSize(keep int64) expired {
	excess := l.Size() - keep
	return func(v *view, i int) (bool, error) {
		size := v.segments[i].size.Load()
		if keep < 0 || excess < size {
			return false, nil
		}
		excess -= size
		return true, nil
	}
}

func (l *Log) overAge(keep, now int64) expired {
	return func(v *view, i int) (bool, error) {
		if keep < 0 {
			return false, nil
		}
		stamp, err := v.segments[i].age()
		if err != nil {
			return false, err
		}
		if stamp > now {
			if stamp <= l.env.nowMs() {
				return false, nil // it came while the caller was on its way
			}
			l.env.events.FutureTimestamp(FutureTimestampEvent{Dir: l.dir, Base: v.segments[i].base, Timestamp: stamp, Now: now})
			return false, nil
		}
		return now-stamp > keep, nil
	}
}

// retain drops the oldest segments for as long as the rule says so.
func (l *Log) retain(highWatermark int64, reason string, rule expired) error {
	v := l.view.Load()
	end := l.end.Load()
	drop := 0
	for ; drop < len(v.segments); drop++ {
		last := drop == len(v.segments)-1
		if highWatermark < v.upperBound(drop, end) || last && v.segments[drop].size.Load() == 0 {
			break
		}
		goes, err := rule(v, drop)
		if err != nil {
			return err
		}
		if !goes {
			break
		}
	}
	if drop == 0 {
		return nil
	}
	if drop == len(v.segments) {
		if err := l.rollForRetention(end); err != nil {
			return errors.Join(err, l.retainFrom(drop-1, reason)) // all but the active one can go all the same
		}
	}
	return l.retainFrom(drop, reason)
}

// rollForRetention rolls the active segment, so that it can go.
func (l *Log) rollForRetention(end int64) error {
	if err := l.writable(); err != nil {
		return err
	}
	return l.rollLocked(end)
}

// retainFrom moves the log start to the base of the segment at drop, if it is lower, and drops what lies before. The
// leader epochs below the start that could not be cut off go when it moves again.
func (l *Log) retainFrom(drop int, reason string) error {
	if drop == 0 {
		return nil
	}
	v := l.view.Load()
	var epochs error
	if base := v.segments[drop].base; base > v.start {
		if l.mu.startOwed < 0 {
			l.mu.startOwed = l.env.nowMs()
		}
		epochs = l.raiseStartLocked(base)
	}
	// Of several segments that go a power cut may bring any back, and must not leave a hole above the log start. So either the start
	// is written first, which one sync does for many, or each is gone permanently before the next one goes.
	if drop <= syncEach || l.flushStartLocked() != nil {
		return errors.Join(epochs, l.dropOneByOne(drop, reason))
	}
	return errors.Join(epochs, l.dropFirst(drop, reason))
}

// syncEach is how many segments are dropped with a sync of each.
const syncEach = 8

// dropOneByOne is dropFirst that makes what was dropped before durable, each time.
func (l *Log) dropOneByOne(n int, reason string) error {
	for range n {
		if err := l.syncNames(); err != nil {
			return err
		}
		if err := l.dropFirst(1, reason); err != nil {
			return err
		}
	}
	return nil
}
