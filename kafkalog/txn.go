package kafkalog

import (
	"time"

	"github.com/tidemark-io/tidemark/batch"
)

// LastStable returns the offset below which a reader of committed records may read, given the high watermark: no
// transaction below it is open, or ended by a marker that the high watermark has not passed. What the high watermark
// has passed is forgotten, so it must not decrease except by a truncation. It waits for no I/O.
func (l *Log) LastStable(highWatermark int64) int64 {
	highWatermark = min(highWatermark, l.end.Load())
	l.producers.Lock()
	defer l.producers.Unlock()
	return l.producers.state.lastStable(highWatermark, l.LogStart())
}

// FirstUnstable returns the first offset of the earliest transaction that is open or whose marker no high watermark has
// passed yet, the log end if there is none. Readers use [Log.LastStable]. It waits for no I/O.
func (l *Log) FirstUnstable() int64 {
	l.producers.Lock()
	defer l.producers.Unlock()
	if first, found := l.producers.state.firstUnstable(l.LogStart()); found {
		return first
	}
	return l.end.Load()
}

// AbortedInRange returns the aborted transactions that overlap the offsets [start, end), in the order of their markers.
// It does not wait for an append, and blocks on the device. Errors are of class [ErrStorage].
func (l *Log) AbortedInRange(start, end int64) ([]AbortedTxn, error) {
	for {
		if err := l.open(); err != nil {
			return nil, err
		}
		v := l.view.Load()
		all, err := v.aborted(start, end)
		if !l.viewChanged(v, err) {
			return all, err
		}
	}
}

func (v *view) aborted(start, end int64) ([]AbortedTxn, error) {
	var all []AbortedTxn
	for _, s := range v.segments[v.find(start):] {
		var done bool
		var err error
		if all, done, err = s.txns.collect(all, start, end); err != nil || done {
			return all, err
		}
	}
	return all, nil
}

// ActiveProducers returns every producer for which the log holds state, in ascending order of id. It
// waits for no I/O.
func (l *Log) ActiveProducers() []ActiveProducer {
	l.producers.Lock()
	defer l.producers.Unlock()
	return l.producers.state.active()
}

// RemoveExpiredProducers forgets the producers without an open transaction whose last batch or marker is at least
// expiration before now. Such a producer may continue with any sequence.
func (l *Log) RemoveExpiredProducers(now time.Time, expiration time.Duration) {
	l.producers.Lock()
	defer l.producers.Unlock()
	l.producers.state.expire(now.UnixMilli(), expiration.Milliseconds())
}

// ProducerStateEntry returns the state of one producer, as a snapshot would contain it. It waits for no I/O.
func (l *Log) ProducerStateEntry(producerID int64) (ProducerSnapshotEntry, bool) {
	l.producers.Lock()
	defer l.producers.Unlock()
	return l.producers.state.entry(producerID)
}

// ProducerStateSnapshot returns what a snapshot taken now would contain, in ascending order of producer id. It
// waits for no I/O.
func (l *Log) ProducerStateSnapshot() []ProducerSnapshotEntry {
	l.producers.Lock()
	defer l.producers.Unlock()
	return l.producers.state.snapshotEntries()
}

// RecoveredProducers returns the state of every producer, with the batches whose retries the log recognises, in
// ascending order of producer id. After a reopen these are the last batch and those after the snapshot. It waits for no
// I/O.
func (l *Log) RecoveredProducers() []RecoveredProducer {
	l.producers.Lock()
	defer l.producers.Unlock()
	return l.producers.state.recovered()
}

// TakeProducerSnapshot writes the producers' state at the log end, durably, so that a later open replays nothing up to
// here. It does nothing if that snapshot already exists, or at the log start of a log that never took one. It blocks on
// the device. Errors are of class [ErrStorage].
func (l *Log) TakeProducerSnapshot() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.changeable(); err != nil {
		return err
	}
	return l.takeSnapshotLocked(l.snapshots.publish)
}

// takeSnapshotLocked lets publish write a snapshot of the producers at the log end, if there is something new to say.
func (l *Log) takeSnapshotLocked(publish func(offset int64, data []byte) error) error {
	if err := l.settle(); err != nil {
		return err
	}
	if base := l.view.Load().active().base; l.end.Load() == base && l.flushed.Load() < base {
		return nil // a boundary snapshot, which only the background flush may write
	}
	l.producers.Lock()
	l.producers.state.setEnd(l.end.Load())
	last := l.producers.state.lastSnap
	offset, data, due := l.producers.state.capture()
	l.producers.Unlock()
	if !due {
		return nil
	}
	if err := publish(offset, data); err != nil {
		l.producers.Lock()
		l.producers.state.lastSnap = last
		l.producers.Unlock()
		return err
	}
	return nil
}

// captureSnapshot returns the bytes of the boundary snapshot of a segment that is about to begin at base; nil if there
// is one already. It counts as taken.
func (l *Log) captureSnapshot(base int64) []byte {
	l.producers.Lock()
	defer l.producers.Unlock()
	l.producers.state.setEnd(base)
	_, data, due := l.producers.state.capture()
	if !due {
		return nil
	}
	return data
}

// snapshotSize bounds the bytes that captureSnapshot returns.
func (l *Log) snapshotSize() int64 {
	l.producers.Lock()
	defer l.producers.Unlock()
	return snapshotHeaderSize + snapshotEntrySize*int64(len(l.producers.state.producers))
}

// rebuildProducers makes the producers what the records below the log end make them. If that fails they stay as they
// are and it is retried before the next append. The writer's lock is held.
func (l *Log) rebuildProducers() error {
	l.mu.rebuildOwed = true
	v, end := l.view.Load(), l.end.Load()
	state := newProducerState()
	err := rebuildProducers(state, l.snapshots, rebuildOptions{
		end: end, logStart: v.start, bases: v.bases(), nowMs: l.env.nowMs(),
		expirationMs: l.config.Load().ProducerExpirationMs,
		replay:       func(base, from int64) error { return v.segments[v.find(base)].replay(state, from, end) },
	})
	if err != nil {
		return err
	}
	l.producers.Lock()
	l.producers.state = state
	l.producers.Unlock()
	l.mu.rebuildOwed = false
	return nil
}

func (v *view) bases() []int64 {
	bases := make([]int64, len(v.segments))
	for i, s := range v.segments {
		bases[i] = s.base
	}
	return bases
}

// replay lets the state take in the batches of the segment from the one that holds or follows from, up to end. Only
// headers are read, and control batches.
func (s *segment) replay(state *producerState, from, end int64) error {
	r, err := s.reader()
	if err != nil {
		return err
	}
	defer r.close()
	walk, err := r.walkFrom(from)
	if err != nil {
		return err
	}
	defer walk.close()
	for {
		at := walk.position
		h, found, err := walk.next()
		if err != nil || !found || h.BaseOffset >= end {
			return err
		}
		if h.LastOffset() < from || h.Magic != batch.Magic {
			continue
		}
		if err := r.replayBatch(state, &h, at); err != nil {
			return err
		}
	}
}

// replayBatch takes in one batch. What the log holds is not refused any more: a batch that contradicts the state, or a
// control record that does not decode, changes nothing.
func (r *segmentReader) replayBatch(state *producerState, h *batch.Header, at int64) error {
	if !h.HasProducer() {
		state.setEnd(h.NextOffset())
		return nil
	}
	size := batch.HeaderSize // all that replay looks at in a data batch
	if h.IsControl() {
		size = h.Size()
	}
	b := make(batch.Batch, size)
	if err := r.readAt(b, at); err != nil {
		return err
	}
	if _, _, err := state.replay(b); err != nil {
		state.setEnd(h.NextOffset())
	}
	return nil
}
