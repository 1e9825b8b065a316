package meta

import "github.com/tidemark-io/tidemark/stream/catalog"

// PrepareObjects reserves Count consecutive object ids, 1 to [catalog.MaxPrepared], for TTLMs (MD-8): those that are
// not committed by then are released. Result: the first id in ID and Count; rejected as [NodeEpochMismatch] or
// [InvalidArgument].
type PrepareObjects struct {
	Node      int32
	NodeEpoch int64
	Count     uint32
	TTLMs     int64 // in ms; below 0 is 0
}

// ExpirePrepared marks the reserved ids destroyed whose time has passed by the log's clock (MD-11). Result: how many in
// Count.
type ExpirePrepared struct{}

// CleanDestroyed forgets destroyed objects whose bytes have been removed (MD-13). Unknown ids are ignored. Result: how
// many were known in Count.
type CleanDestroyed struct{ Objects []catalog.ObjectID }

// Type returns 6.
func (PrepareObjects) Type() uint8 { return numPrepareObjects }

// Type returns 9.
func (ExpirePrepared) Type() uint8 { return numExpirePrepared }

// Type returns 11.
func (CleanDestroyed) Type() uint8 { return numCleanDestroyed }

func (c PrepareObjects) encode(w *writer) {
	w.node(c.Node, c.NodeEpoch)
	w.u32(c.Count)
	w.i64(c.TTLMs)
}

func (ExpirePrepared) encode(*writer) {}

func (c CleanDestroyed) encode(w *writer) { w.objects(c.Objects) }

func decodePrepareObjects(r *reader) Command {
	return PrepareObjects{Node: r.i32(), NodeEpoch: r.i64(), Count: r.u32(), TTLMs: r.i64()}
}

func (c PrepareObjects) apply(t *transition) Result {
	if r := t.checkNode(c.Node, c.NodeEpoch); r.Code != OK {
		return r
	}
	if c.Count < 1 || c.Count > catalog.MaxPrepared {
		return reject(InvalidArgument, "1 to %d objects are prepared at once, not %d", catalog.MaxPrepared, c.Count)
	}
	first := t.next.nextObjectID
	for range c.Count {
		t.next.prepared = t.next.prepared.set(catalog.ObjectID(t.next.nextObjectID), t.next.clockMs+max(0, c.TTLMs))
		t.next.nextObjectID++
	}
	return Result{ID: first, Count: uint64(c.Count)}
}

func (ExpirePrepared) apply(t *transition) Result {
	var expired []catalog.ObjectID
	for id, deadlineMs := range t.next.prepared.all() {
		if deadlineMs <= t.next.clockMs {
			expired = append(expired, id)
		}
	}
	for _, id := range expired {
		t.destroy(id, catalog.Delete)
	}
	return Result{Count: uint64(len(expired))}
}

func (c CleanDestroyed) apply(t *transition) Result {
	cleaned := uint64(0)
	for _, id := range c.Objects {
		seq, marked := t.next.marks.get(id)
		if !marked {
			continue
		}
		t.next.marks = t.next.marks.remove(id)
		t.next.destroyed = t.next.destroyed.remove(seq)
		cleaned++
	}
	return Result{Count: cleaned}
}
