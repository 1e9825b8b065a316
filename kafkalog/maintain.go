package kafkalog

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-io/tidemark/vfs"
)

// retiredFile is a file that left the log and waits to be unlinked.
type retiredFile struct {
	file     *handle
	since    int64 // ms
	deadline int64 // ms
}

// DueDeletions are files of removed segments whose deletion delay has passed. The caller deletes them;
// [Log.RestoreDeletions] returns those that could not be deleted. The zero value is empty.
type DueDeletions struct {
	files []retiredFile
}

// Len returns the number of files.
func (d *DueDeletions) Len() int { return len(d.files) }

// Delete unlinks the files. What could not be unlinked stays in d, and the first failure is returned. A file that no
// longer exists is not an error. Reads that hold a file continue. It takes no lock of the log.
func (d *DueDeletions) Delete() error {
	var first error
	d.files = slices.DeleteFunc(d.files, func(f retiredFile) bool {
		err := f.file.remove()
		if err != nil && first == nil {
			first = err
		}
		return err == nil
	})
	return first
}

// Maintain does what is due: it flushes if the flush policy requires it, writes a log start that has waited long
// enough, and unlinks the files of removed segments. It returns the first failure, and the one after which the log
// accepts no appends. [Log.MaintenanceDelay] says when to call it. It blocks on the device.
func (l *Log) Maintain(now time.Time) error {
	due, err := l.MaintainDeferringDeletions(now)
	if err != nil {
		return err
	}
	err = due.Delete()
	l.RestoreDeletions(due, now)
	return err
}

// MaintainDeferringDeletions is [Log.Maintain], but returns the files that are due instead of unlinking them. After an
// error they stay with the log.
func (l *Log) MaintainDeferringDeletions(now time.Time) (DueDeletions, error) {
	if err := l.open(); err != nil || l.fenced.Load() {
		return DueDeletions{}, err
	}
	if err := l.failure(); err != nil {
		return DueDeletions{}, err
	}
	if err := l.env.roll.failure(&l.rollJobs); err != nil {
		return DueDeletions{}, err
	}
	if unwritten, err := l.retrySealed(); err != nil || unwritten != nil {
		return DueDeletions{}, errors.Join(err, unwritten)
	}
	ms := now.UnixMilli()
	l.mu.Lock()
	flush := l.flushDue(ms) <= ms
	l.mu.Unlock()
	if flush {
		if _, err := l.flush(false); err != nil {
			return DueDeletions{}, err
		}
	}
	l.mu.Lock()
	err := l.checkpointIfDue(ms)
	l.mu.Unlock()
	if err != nil {
		return DueDeletions{}, err
	}
	return l.TakeDueDeletions(now), nil
}

// TakeDueDeletions returns the files that are due and no longer tracks them: a second call at the same
// time returns none.
func (l *Log) TakeDueDeletions(now time.Time) DueDeletions {
	l.mu.Lock()
	defer l.mu.Unlock()
	ms := now.UnixMilli()
	var due DueDeletions
	l.mu.retired = slices.DeleteFunc(l.mu.retired, func(f retiredFile) bool {
		if f.deadline > ms && f.since <= ms {
			return false
		}
		due.files = append(due.files, f)
		return true
	})
	return due
}

// RestoreDeletions returns files that were not deleted to the log. They are due again at notBefore.
func (l *Log) RestoreDeletions(rest DueDeletions, notBefore time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range rest.files {
		f.since, f.deadline = min(l.env.nowMs(), notBefore.UnixMilli()), notBefore.UnixMilli()
		l.mu.retired = append(l.mu.retired, f)
	}
}

// MaintenanceDelay returns how long until [Log.Maintain] has something to do, 0 if it is due, and false if there is
// nothing to do until the log changes.
func (l *Log) MaintenanceDelay(now time.Time) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ms := now.UnixMilli()
	at := l.flushDue(ms)
	if l.mu.startOwed >= 0 && !l.fenced.Load() {
		at = min(at, dueMs(l.mu.startOwed, l.config.Load().StartCheckpointMs, ms))
	}
	for _, f := range l.mu.retired {
		if f.since > ms {
			at = min(at, ms)
		}
		at = min(at, f.deadline)
	}
	if at == never {
		return 0, false
	}
	return untilMs(now, at), true
}

// dueMs returns when something is due that waits for a delay since a moment, all in ms. If the clock was set back to
// before that moment it is due now: doing it too early does no harm here, and it must not wait for the clock to catch up.
func dueMs(since, delay, now int64) int64 {
	if since > now {
		return now
	}
	return addMs(since, delay)
}

// flushDue is when the flush policy wants a flush in ms, or never.
func (l *Log) flushDue(now int64) int64 {
	if l.end.Load() <= l.flushed.Load() || l.fenced.Load() || l.failure() != nil {
		return never
	}
	flushMs := l.config.Load().FlushMs
	if flushMs == never {
		return never
	}
	return dueMs(l.mu.lastFlush, flushMs, now)
}

// dropFirst takes the oldest n segments out of the log and retires their files. If the files of one cannot be renamed,
// that segment and the later ones stay.
func (l *Log) dropFirst(n int, reason string) error {
	for range n {
		v := l.view.Load()
		s := v.segments[0]
		files, err := l.retireFiles(s)
		if err != nil {
			return err
		}
		l.publish(v.segments[1:], v.start, v.established)
		l.queueDeletion(files)
		l.retired(s, reason)
	}
	return nil
}

func (l *Log) retired(s *segment, reason string) {
	l.env.events.Retired(RetiredEvent{Dir: l.dir, Base: s.base, Bytes: s.size.Load(), Reason: reason})
}

// retireFiles gives the files of a segment, and the producer snapshot at its base, names that the next Open deletes, and
// returns them. Readers go on using the segment; once no view shows it, queueDeletion is next. After a failure the files
// that were renamed have their names back.
func (l *Log) retireFiles(s *segment) ([]*handle, error) {
	snapshot := l.env.files.open(filePath(l.dir, s.base, snapshotSuffix), vfs.ReadWrite)
	files := append(s.handles(), snapshot)
	// The records last: while they have their name the segment is complete or is completed by the next Open.
	slices.Reverse(files)
	defer l.names.changed.Add(1) // behind the renames, or a sync that runs beside them would count as one of theirs
	for i, h := range files {
		err := h.rename(h.path() + deletedSuffix)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		for _, undo := range files[:i] {
			if undoErr := restoreName(undo); undoErr != nil && !errors.Is(undoErr, fs.ErrNotExist) {
				err = errors.Join(err, undoErr)
			}
		}
		if _, doubt := l.env.fs.Stat(s.file.path()); doubt != nil {
			l.fail(err) // the records may be where the next Open removes them, and nothing may be added to them
		}
		return nil, err
	}
	s.gone.Store(true)
	l.snapshots.forget(s.base)
	return files, nil
}

// restoreName gives a file that retireFiles renamed its name back.
func restoreName(h *handle) error { return h.rename(strings.TrimSuffix(h.path(), deletedSuffix)) }

// queueDeletion lets files be unlinked when the configured delay is over, or at once.
func (l *Log) queueDeletion(files []*handle) {
	delay := l.config.Load().FileDeleteDelayMs
	since := l.env.nowMs()
	deadline := addMs(since, delay)
	for _, h := range files {
		if delay == 0 && h.remove() == nil {
			continue
		}
		l.mu.retired = append(l.mu.retired, retiredFile{file: h, since: since, deadline: deadline})
	}
}
