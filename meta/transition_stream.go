package meta

import "github.com/tidemark-io/tidemark/stream/catalog"

// findStream returns the stream with the id, or nil and the rejection.
func (t *transition) findStream(id catalog.StreamID) (*streamRow, Result) {
	row, known := t.next.streams.get(id)
	if !known {
		return nil, reject(StreamNotExist, "no stream has the id %d", id)
	}
	return row, Result{}
}

// ownStream returns a stream for a command of its owner, or nil and the rejection: it must be opened, at that epoch, by that
// node.
func (t *transition) ownStream(node int32, id catalog.StreamID, epoch int64) (*streamRow, Result) {
	row, r := t.findStream(id)
	switch {
	case row == nil:
		return nil, r
	case !row.Opened:
		return nil, reject(StreamNotOpened, "stream %d is closed", id)
	case row.Epoch != epoch:
		return nil, reject(ExpiredEpoch, "stream %d is at epoch %d, not %d", id, row.Epoch, epoch)
	case row.Node != catalog.NodeID(node):
		return nil, reject(StreamFenced, "stream %d belongs to node %d", id, row.Node)
	}
	return row, Result{}
}

// putStream puts a new version of a stream's row in place.
func (t *transition) putStream(row *streamRow) { t.next.streams = t.next.streams.set(row.ID, row) }

// countOpened adds to the number of streams that a node has open.
func (t *transition) countOpened(node catalog.NodeID, change int) {
	t.next.opened = counted(t.next.opened, node, change)
}

// addPart makes records known as part of a stream that exists. Those behind its end move the end.
func (t *transition) addPart(id catalog.StreamID, end int64, p part) {
	row, _ := t.next.streams.get(id)
	changed := *row
	changed.End = max(row.End, end)
	changed.parts = row.parts.set(end, p)
	t.putStream(&changed)
}

// removePart forgets the part of a stream that ends at an offset, if the stream is still there.
func (t *transition) removePart(id catalog.StreamID, end int64) {
	row, known := t.next.streams.get(id)
	if !known {
		return
	}
	changed := *row
	changed.parts = row.parts.remove(end)
	t.putStream(&changed)
}

// addSet makes a stream-set object part of its streams. Ranges of streams that do not exist are in the row only.
func (t *transition) addSet(set *catalog.StreamSetState) {
	streams := map[catalog.StreamID]struct{}{}
	for _, r := range set.Ranges {
		if _, known := t.next.streams.get(r.Stream); known {
			t.addPart(r.Stream, r.End, part{set: set, start: r.Start})
			streams[r.Stream] = struct{}{}
		}
	}
	t.next.prepared = t.next.prepared.remove(set.Object)
	t.next.sets = t.next.sets.set(set.Object, setRow{set, len(streams)})
}

// addObject makes a stream object part of its stream, which exists.
func (t *transition) addObject(o *catalog.StreamObjectState) {
	t.addPart(o.Stream, o.End, part{object: o, start: o.Start})
	t.next.prepared = t.next.prepared.remove(o.Object)
	t.next.objects = t.next.objects.set(o.Object, o)
}

// retire takes an object out of use, whatever it is used for.
func (t *transition) retire(id catalog.ObjectID) {
	t.next.prepared = t.next.prepared.remove(id)
	if o, live := t.next.objects.get(id); live {
		t.removePart(o.Stream, o.End)
		t.next.objects = t.next.objects.remove(id)
	}
	if set, live := t.next.sets.get(id); live {
		for _, r := range set.Ranges {
			t.removePart(r.Stream, r.End)
		}
		t.next.sets = t.next.sets.remove(id)
	}
}

// destroy takes an object out of use and marks it for the cleaner, which KeepData never does. Marking one again keeps its
// place and time and takes the stronger operation (MD-12).
func (t *transition) destroy(id catalog.ObjectID, o catalog.Operation) {
	t.retire(id)
	if o == catalog.KeepData {
		return
	}
	if seq, marked := t.next.marks.get(id); marked {
		d, _ := t.next.destroyed.get(seq)
		d.Operation = d.Operation.Stronger(o)
		t.next.destroyed = t.next.destroyed.set(seq, d)
		return
	}
	seq := t.next.nextDestroyedSeq
	t.next.nextDestroyedSeq++
	t.next.marks = t.next.marks.set(id, seq)
	t.next.destroyed = t.next.destroyed.set(seq, catalog.DestroyedObject{Object: id, Operation: o, MarkedMs: t.next.clockMs})
}

// checkFresh rejects ids that are used twice or that nobody reserved (MD-9 step 3).
func (t *transition) checkFresh(ids []catalog.ObjectID) Result {
	seen := make(map[catalog.ObjectID]struct{}, len(ids))
	for _, id := range ids {
		if _, twice := seen[id]; twice || t.next.isLive(id) {
			return reject(ObjectIDInUse, "object %d", id)
		}
		if _, prepared := t.next.prepared.get(id); !prepared {
			return reject(ObjectNotPrepared, "object %d", id)
		}
		seen[id] = struct{}{}
	}
	return Result{}
}
