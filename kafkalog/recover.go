package kafkalog

import (
	"errors"
	"math"
	"slices"
	"strings"
)

// findEnd finds the log end, and recovers unless the log is known to be clean. Index files that are missing are made
// from the records.
func (ld *loader) findEnd() error {
	snapshots, err := loadSnapshotFiles(ld.env.fs, ld.dir)
	if err != nil {
		return err
	}
	env, dir := ld.env, ld.dir
	snapshots.aside = func(name string, reason error) error { return env.setAside(dir, name, reason) }
	ld.log.snapshots = snapshots
	if len(ld.segments) == 0 {
		ld.fresh = !ld.startFound && len(snapshots.all()) == 0
		ld.end, ld.flushed = ld.start, ld.start
		return nil
	}
	if known, err := ld.takeSummary(); err != nil || known {
		return err
	}
	if err := ld.findOverflow(); err != nil {
		return err
	}
	if ld.options.Clean {
		clean, err := ld.cleanEnd()
		if err != nil || clean {
			return err
		}
	}
	return ld.recover()
}

// cleanEnd walks the headers behind the last index entry. It is false if the files contradict a clean stop.
func (ld *loader) cleanEnd() (bool, error) {
	last := len(ld.segments) - 1
	active := ld.segments[last]
	if active.needsIndex {
		return false, nil
	}
	if err := ld.completeIndexes(ld.segments[:last]); err != nil {
		return false, err
	}
	end, whole, err := active.endByIndex()
	if err != nil || !whole {
		return false, err
	}
	if active.overflows(end - 1) {
		return false, &overflowError{active}
	}
	ld.end, ld.flushed = end, end
	ld.stopped = true
	return true, nil
}

// endByIndex returns the offset after the last batch, found from the last index entry on. It is false if index and
// records do not agree, or the records do not end with a whole batch.
func (s *segment) endByIndex() (end int64, whole bool, err error) {
	last, found, err := s.index.last()
	if err != nil {
		return 0, false, s.withoutIndex(err)
	}
	if found {
		if r, err := s.reader(); err != nil {
			return 0, false, err
		} else if agrees, err := r.agreesWith(last); err != nil || !agrees {
			return 0, false, ignoreUnusable(err)
		}
	}
	end, err = s.walkEnd(last.position, s.base)
	return end, err == nil, ignoreUnusable(err)
}

// agreesWith reports whether a batch that the index entry may mean stands at its position. It closes the reader.
func (r *segmentReader) agreesWith(e indexEntry) (bool, error) {
	defer r.close()
	walk := r.walk(e.position)
	defer walk.close()
	h, found, err := walk.next()
	return found && h.LastOffset() <= e.offset, err
}

// recover checks every segment that may hold unflushed batches, cuts the log at the first bad one, and makes what is
// left durable.
func (ld *loader) recover() error {
	boundary, err := ld.boundary()
	if err != nil {
		return err
	}
	ld.flushed = max(ld.options.RecoveryPoint, boundary)
	from := ld.find(boundary)
	if err := ld.completeIndexes(ld.segments[:from]); err != nil {
		return err
	}
	if err := ld.rebuildProducers(ld.segments[from].base); err != nil {
		return err
	}
	state := ld.log.producers.state
	for i := from; i < len(ld.segments); i++ {
		s := ld.segments[i]
		scan := &recovery{
			loader: ld, segment: s, limit: math.MaxInt64, proven: ld.flushed, state: state, expect: s.base,
			unproven: -1, modified: -1,
			contiguous: ld.options.Contiguous, discardLater: func() error { return ld.discardFrom(i + 1) }, later: ld.segments[i+1:],
		}
		if i+1 < len(ld.segments) {
			scan.limit = ld.segments[i+1].base
		}
		if err := scan.run(); err != nil {
			return err
		}
		ld.end = scan.expect
		if err := ld.boundarySnapshot(i); err != nil {
			return err
		}
	}
	ld.flushed = ld.end
	return nil // settleProducers makes the names durable
}

// boundary finds the segment base below which everything is on disk, indexes included: the greatest with a snapshot that
// can be read. A recovery point says so of the records alone, except that of a Kafka broker.
func (ld *loader) boundary() (int64, error) {
	if ld.options.Foreign {
		return ld.segments[ld.find(ld.options.RecoveryPoint)].base, nil
	}
	for _, s := range slices.Backward(ld.segments[1:]) {
		if !ld.log.snapshots.has(s.base) {
			continue
		}
		_, err := ld.log.snapshots.read(s.base)
		if err == nil {
			return s.base, nil
		}
		if !damaged(err) {
			return 0, err
		}
	}
	return ld.segments[0].base, nil
}

// find returns the index of the segment that holds the offset, or would.
func (ld *loader) find(offset int64) int {
	return (&view{segments: ld.segments}).find(offset)
}

// completeIndexes makes the index files that are missing in segments that are flushed. The records are not checked, and
// damage does not matter here: an index only saves time.
func (ld *loader) completeIndexes(segments []*segment) error {
	for _, s := range segments {
		if !s.needsIndex {
			continue
		}
		if err := s.reindex(ld.config.IndexIntervalBytes); err != nil {
			return err
		}
	}
	return nil
}

// reindex makes both indexes of a sealed segment from its headers.
func (s *segment) reindex(interval int64) error {
	if err := s.clearIndexes(); err != nil {
		return err
	}
	r, err := s.reader()
	if err != nil {
		return err
	}
	defer r.close()
	walk := r.walk(0)
	defer walk.close()
	for {
		at := walk.position
		h, found, err := walk.next()
		if unusableIndex(err) || err == nil && !found {
			break
		}
		if err != nil {
			return err
		}
		if err := s.indexBatch(&h, at, interval); err != nil {
			return err
		}
	}
	if err := s.seal(); err != nil {
		return err
	}
	if err := errors.Join(s.index.sync(), s.times.sync()); err != nil {
		return err
	}
	return s.nameIndexes()
}

// nameIndexes renames index files that were missing and have been rebuilt to their final names. They are durable, unless
// a later recovery rebuilds them anyway.
func (s *segment) nameIndexes() error {
	if !s.needsIndex {
		return nil
	}
	for _, h := range []*handle{s.index.file, s.times.file} {
		if err := h.rename(strings.TrimSuffix(h.path(), tempSuffix)); err != nil {
			return err
		}
	}
	s.needsIndex = false
	return nil
}

// clearIndexes empties the offset and time index. Those without files are empty.
func (s *segment) clearIndexes() error {
	s.max.set(-1, -1)
	s.unindexed = 0
	if s.noIndexes {
		return nil
	}
	return errors.Join(s.index.reset(), s.times.reset())
}

// discardFrom removes the segments from the n-th on, the newest first. They do not come back after a power cut.
func (ld *loader) discardFrom(n int) error {
	if len(ld.segments) <= n {
		return nil
	}
	for len(ld.segments) > n {
		last := len(ld.segments) - 1
		if err := ld.discard(ld.segments[last]); err != nil {
			return err
		}
		ld.segments = ld.segments[:last]
	}
	return ld.log.syncDir()
}

// boundarySnapshot writes the producers' state at the base of the segment after i. Everything below was just synced.
func (ld *loader) boundarySnapshot(i int) error {
	if i+1 >= len(ld.segments) {
		return nil
	}
	base := ld.segments[i+1].base
	state := ld.log.producers.state
	state.setEnd(base)
	offset, data, due := state.capture()
	if !due {
		return nil
	}
	if err := ld.log.syncDir(); err != nil {
		return err
	}
	return ld.log.snapshots.publish(offset, data)
}

// rebuildProducers brings the producers to an offset at the base of a segment or at the log end.
func (ld *loader) rebuildProducers(end int64) error {
	v := &view{segments: ld.segments}
	return rebuildProducers(ld.log.producers.state, ld.log.snapshots, rebuildOptions{
		end: end, logStart: ld.start, bases: v.bases(), nowMs: ld.env.nowMs(),
		expirationMs: ld.config.ProducerExpirationMs,
		replay: func(base, from int64) error {
			return v.segments[v.find(base)].replay(ld.log.producers.state, from, end)
		},
	})
}

// settleProducers brings the producers to the log end, and removes the snapshots that nothing will ask for.
func (ld *loader) settleProducers() error {
	if err := ld.log.snapshots.removeStray((&view{segments: ld.segments}).bases()); err != nil {
		return err
	}
	state := ld.log.producers.state
	if ld.stopped {
		if ld.holdsNothing() {
			ld.log.names.changed.Add(1) // a log that never held records was closed without a sync of its names
		}
		if ld.young {
			return ld.replayYoung()
		}
		return ld.rebuildProducers(ld.end)
	}
	state.setEnd(ld.end)
	if err := ld.log.snapshots.removeIf(func(offset int64) bool { return offset > ld.end }); err != nil {
		return err
	}
	return ld.syncNames()
}
