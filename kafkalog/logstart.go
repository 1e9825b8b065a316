package kafkalog

import (
	"errors"
	"fmt"

	"github.com/tidemark-io/tidemark/vfs"
)

// SetLogStart moves the log start up. An offset at or below the present start changes nothing. The new start is durable
// on return and survives a crash, and the call blocks on the device. No file is deleted: [Log.Tick] does that. Leader
// epochs that end below the start are forgotten, and a finished transaction that ended below it no longer holds back
// [Log.LastStable].
//
// A negative offset and one above the log end are an [*ArgumentError]. If the start cannot be written it does not move;
// if only the epochs cannot, the start has moved and the error is returned.
func (l *Log) SetLogStart(offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.changeable(); err != nil {
		return err
	}
	return l.setStartLocked(offset)
}

// changeable returns why the files may not be touched, or nil. A log that accepts no appends after a failure may still
// be truncated and trimmed.
func (l *Log) changeable() error {
	if err := l.open(); err != nil {
		return err
	}
	if l.fenced.Load() {
		return ErrFenced
	}
	return nil
}

// open returns ErrClosed once the log is closed.
func (l *Log) open() error {
	if l.closed.Load() {
		return ErrClosed
	}
	return nil
}

func (l *Log) setStartLocked(offset int64) error {
	if offset < 0 {
		return &ArgumentError{Argument: "log start", Value: offset, Reason: "is negative"}
	}
	if offset <= l.view.Load().start {
		return nil
	}
	if offset > l.end.Load() {
		return &ArgumentError{Argument: "log start", Value: offset, Reason: "is above the log end"}
	}
	if err := writeLogStart(l.env.fs, l.dir, offset); err != nil {
		l.mu.lowerOwed = l.mu.lowerOwed || mayHaveReplaced(err)
		return err
	}
	l.mu.startOwed, l.mu.lowerOwed = -1, false
	return l.raiseStartLocked(offset)
}

// raiseStartLocked raises the start in memory, with what depends on it. The start is then established, even if the leader
// epochs below it could not be removed, which is the error.
func (l *Log) raiseStartLocked(offset int64) error {
	l.publish(l.view.Load().segments, offset, true)
	newest, found := l.snapshots.newest()
	l.producers.Lock()
	taken := l.producers.state.lastSnap // perhaps by a roll whose flush has not written it yet
	l.producers.state.raiseStart(offset, newest, found)
	l.producers.state.lastSnap = max(l.producers.state.lastSnap, taken)
	l.producers.Unlock()
	return l.epochs.truncateFromStart(offset, true)
}

// TrimTo deletes the records below an offset and returns the resulting log start. It is [Log.SetLogStart], clamped to
// the log end, and then drops the sealed segments that lie below the start as a whole. A negative offset is an
// [*ArgumentError].
//
// On a full disk it makes the room that it needs: it immediately unlinks files that wait for deletion, and whole
// segments below the offset before the start is written. If that is not enough it fails, with the log start at or
// above where it was.
func (l *Log) TrimTo(offset int64) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.changeable(); err != nil {
		return 0, err
	}
	return l.trimLocked(offset)
}

func (l *Log) trimLocked(offset int64) (int64, error) {
	if offset >= 0 {
		offset = min(offset, l.end.Load())
	}
	err := l.setStartLocked(offset)
	for vfs.IsNoSpace(err) && l.view.Load().start < offset {
		if roomErr := l.makeRoom(offset); roomErr != nil {
			return l.view.Load().start, fmt.Errorf("%w: %w", err, roomErr)
		}
		err = l.setStartLocked(offset)
	}
	v := l.view.Load()
	if err != nil && !(vfs.IsNoSpace(err) && v.start >= offset) { // leader epochs that are not cut off go with the next start
		return v.start, err
	}
	drop := 0
	for drop+1 < len(v.segments) && v.segments[drop+1].base <= v.start {
		drop++
	}
	return v.start, l.dropFirst(drop, "start")
}

// errNothingToRemove says why a trim could make no room.
var errNothingToRemove = errors.New("no segment lies below the new log start as a whole, so none could be removed to make room")

// makeRoom frees disk space that a log which begins at the offset does not need: the files that wait to be unlinked, or
// else the oldest segment.
//
// The absence of a segment proves a log start at or above the base of the next one. So segments go one by one, the oldest
// first, each durably before the next: a power cut leaves the old start, the new one or a base between them, and never a hole.
func (l *Log) makeRoom(offset int64) error {
	if l.unlinkRetired() {
		return nil
	}
	v := l.view.Load()
	if l.config.Load().RemoteStorage || len(v.segments) < 2 || v.segments[1].base > offset {
		return errNothingToRemove
	}
	// The leader epochs, which it writes as well, find as little room as the start did.
	if err := l.retainFrom(1, "start"); l.view.Load().segments[0] == v.segments[0] {
		return err
	}
	l.unlinkRetired()
	return l.syncDir()
}

// unlinkRetired unlinks the files that left the log now, whatever their time, and reports whether any went.
func (l *Log) unlinkRetired() bool {
	all := DueDeletions{files: l.mu.retired}
	before := all.Len()
	_ = all.Delete() // those that are left are due later
	l.mu.retired = all.files
	return all.Len() < before
}

// DiffersFromLeaderLogStart reports whether [Log.FollowLeaderLogStart] would change anything. It does not wait.
func (l *Log) DiffersFromLeaderLogStart(leader int64) bool {
	v := l.view.Load()
	if l.config.Load().RemoteStorage {
		return leader != v.start || !v.established
	}
	return leader > v.start
}

// FollowLeaderLogStart takes the log start that a follower's leader reports and returns the resulting one. Without
// remote storage the start only rises, as by [Log.TrimTo]. With it the leader's start is taken in either direction and
// is established by that. A start above the log end is clamped to it. It is durable on return. A negative offset is an
// [*ArgumentError].
func (l *Log) FollowLeaderLogStart(leader int64) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.changeable(); err != nil {
		return 0, err
	}
	if leader < 0 {
		return l.view.Load().start, &ArgumentError{Argument: "leader log start", Value: leader, Reason: "is negative"}
	}
	leader = min(leader, l.end.Load())
	if !l.config.Load().RemoteStorage {
		return l.trimLocked(leader)
	}
	v := l.view.Load()
	switch {
	case leader > v.start:
		return leader, l.setStartLocked(leader)
	case leader == v.start && v.established:
		return leader, nil
	}
	if err := writeLogStart(l.env.fs, l.dir, leader); err != nil {
		return v.start, err
	}
	l.mu.startOwed = -1
	l.publish(v.segments, leader, true)
	l.epochs.forgetCut()
	return leader, nil
}

// RestartsAtBatchBase reports whether a follower must call [Log.ResetTo] with the base of its leader's batch before it
// can take the batch: its log holds nothing, and the batch begins below and ends at or above its end. It does not wait.
func (l *Log) RestartsAtBatchBase(base, last int64) bool {
	end := l.end.Load()
	return l.LogStart() == end && base < end && end <= last
}

// LogStartEpoch returns the leader epoch that owns an established log start, and false if the start is not established
// or no epoch is known for it.
func (l *Log) LogStartEpoch() (int32, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.view.Load()
	if !v.established {
		return 0, false
	}
	return l.epochs.logStartEpoch(v.start)
}

// CheckpointLogStartIfDue writes a log start moved by retention once it has waited as long as the configuration
// allows. On failure it remains pending.
func (l *Log) CheckpointLogStartIfDue() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.checkpointIfDue(l.env.nowMs())
}

func (l *Log) checkpointIfDue(now int64) error {
	if l.mu.startOwed < 0 || now < dueMs(l.mu.startOwed, l.config.Load().StartCheckpointMs, now) {
		return nil
	}
	return l.flushStartLocked()
}

// FlushLogStartCheckpoint immediately writes a log start moved by retention. On failure it remains pending. A fenced or
// closed log writes nothing.
func (l *Log) FlushLogStartCheckpoint() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flushStartLocked()
}

func (l *Log) flushStartLocked() error {
	if l.mu.startOwed < 0 || l.fenced.Load() || l.closed.Load() {
		return nil
	}
	if err := writeLogStart(l.env.fs, l.dir, l.view.Load().start); err != nil {
		return err
	}
	l.mu.startOwed = -1
	return nil
}

// addMs adds a duration to a time, both in ms and not negative, without overflow.
func addMs(at, d int64) int64 {
	if d > never-at {
		return never
	}
	return at + d
}
