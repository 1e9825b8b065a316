package kafkalog

import (
	"errors"
	"io/fs"
	"slices"
)

// rebuildOptions says what rebuildProducers has to know of the log.
type rebuildOptions struct {
	end      int64   // the state is wanted up to here: the log end, or where a truncation or a recovery stands
	logStart int64   // nothing below counts
	bases    []int64 // base offsets of the segments, rising

	nowMs        int64
	expirationMs int64 // producer.id.expiration.ms

	// replay calls the state's replay for the batches of the segment with the given base, from the batch that holds or
	// follows the offset from, up to end.
	replay func(base, from int64) error

	// beforeSnapshot, if set, is called before a snapshot is written at the offset. It makes durable what lies below,
	// which the snapshot proves to be.
	beforeSnapshot func(offset int64) error
}

// rebuildProducers brings the state to an offset: from the newest snapshot that can be read, and from the records
// behind it. It deletes the snapshots that are damaged, or outside of (log start, end], and writes one at the end, and at
// the bases of the last two segments when it passes them. The state must not be read by others meanwhile.
//
// A log without any snapshot is replayed as a whole, also after a clean stop: a missing file is not a proof that there
// were no producers.
func rebuildProducers(p *producerState, files *snapshotFiles, o rebuildOptions) error {
	wasEmpty := len(p.producers) == 0 && len(p.held) == 0 && p.mapEnd >= o.end
	err := files.removeIf(func(offset int64) bool { return offset > o.end || offset <= o.logStart })
	if err != nil {
		return err
	}
	if err := p.reload(files, o); err != nil {
		return err
	}
	if o.end > p.mapEnd && !wasEmpty {
		if err := p.replaySegments(files, o); err != nil {
			return err
		}
	}
	p.setEnd(o.end)
	return p.take(files, o)
}

// reload makes the state one that holds for its mapEnd, at or below the end that is wanted.
func (p *producerState) reload(files *snapshotFiles, o rebuildOptions) error {
	if o.end == p.mapEnd {
		newest, found := files.newest()
		p.raiseStart(o.logStart, newest, found)
		return nil
	}
	p.reset(o.logStart)
	for {
		newest, found := files.newest()
		if !found {
			return nil
		}
		entries, err := files.read(newest)
		if err == nil {
			p.load(entries, o.nowMs, o.expirationMs)
			p.mapEnd, p.lastSnap = newest, newest
			return nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			files.forget(newest) // somebody took it
			continue
		}
		if !damaged(err) {
			return err
		}
		if err := files.removeDamaged(newest, err); err != nil {
			return err
		}
	}
}

// replaySegments replays the records from mapEnd on.
func (p *producerState) replaySegments(files *snapshotFiles, o rebuildOptions) error {
	from := p.mapEnd
	for i, base := range o.bases {
		if base >= o.end || i+1 < len(o.bases) && o.bases[i+1] <= from {
			continue
		}
		start := max(base, from, o.logStart)
		p.mapEnd = start
		if i >= len(o.bases)-2 {
			if err := p.take(files, o); err != nil {
				return err
			}
		}
		if err := o.replay(base, start); err != nil {
			return err
		}
	}
	return nil
}

// take writes a snapshot of the state as it is, if there is something new since the last one.
func (p *producerState) take(files *snapshotFiles, o rebuildOptions) error {
	offset, data, due := p.capture()
	if !due {
		return nil
	}
	if o.beforeSnapshot != nil && !slices.Contains(files.all(), offset) {
		if err := o.beforeSnapshot(offset); err != nil {
			return err
		}
	}
	return files.publish(offset, data)
}
