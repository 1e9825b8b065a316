package meta

import (
	"slices"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// CommitObjects makes written objects part of their streams, or replaces stream-set objects by compacted ones (MD-9).
// Result: nothing; rejected as [NodeEpochMismatch], [Redundant], [ObjectNotPrepared], [ObjectIDInUse], [InvalidArgument],
// and an upload as [StreamNotExist], [StreamNotOpened], [StreamFenced], [ExpiredEpoch] or [NotContiguous], a compaction as
// [OffsetOutOfRange] or [CompactionLoses].
type CommitObjects struct {
	Node      int32
	NodeEpoch int64
	catalog.Commit
}

// Type returns 7.
func (CommitObjects) Type() uint8 { return numCommitObjects }

func (c CommitObjects) encode(w *writer) {
	w.node(c.Node, c.NodeEpoch)
	w.i64(int64(c.Object))
	w.i64(c.Size)
	w.u32(uint32(c.Attributes))
	w.ranges(c.Ranges)
	w.count(len(c.StreamObjects))
	for _, o := range c.StreamObjects {
		w.streamObject(o)
	}
	w.objects(c.Compacted)
}

func decodeCommitObjects(r *reader) Command {
	c := CommitObjects{Node: r.i32(), NodeEpoch: r.i64()}
	c.Object, c.Size, c.Attributes = r.object(), r.i64(), catalog.Attributes(r.u32())
	c.Ranges = r.ranges()
	for range r.count(streamObjectSize) {
		c.StreamObjects = append(c.StreamObjects, r.streamObject())
	}
	c.Compacted = r.objects()
	return c
}

func (c CommitObjects) apply(t *transition) Result {
	if r := t.checkNode(c.Node, c.NodeEpoch); r.Code != OK {
		return r
	}
	if r := c.checkIDs(t); r.Code != OK {
		return r
	}
	if len(c.Compacted) > 0 {
		return c.replaceSets(t)
	}
	return c.addUpload(t)
}

// checkIDs is steps 2 and 3 of MD-9.
func (c CommitObjects) checkIDs(t *transition) Result {
	var ids []catalog.ObjectID
	committed := len(c.StreamObjects) > 0
	if c.Object != catalog.NoObject {
		ids = append(ids, c.Object)
		committed = t.next.isLive(c.Object)
	}
	for _, o := range c.StreamObjects {
		ids = append(ids, o.Object)
		committed = committed && (c.Object != catalog.NoObject || t.next.isLive(o.Object))
	}
	switch {
	case committed:
		return reject(Redundant, "object %d is committed", ids[0])
	case len(ids) == 0 && len(c.Compacted) == 0:
		return reject(InvalidArgument, "the commit is empty")
	case c.Object == catalog.NoObject && len(c.Ranges) > 0:
		return reject(InvalidArgument, "%d ranges without an object", len(c.Ranges))
	case c.Object != catalog.NoObject && len(c.Ranges) == 0 && len(c.Compacted) == 0:
		return reject(InvalidArgument, "object %d holds nothing", c.Object)
	}
	return t.checkFresh(ids)
}

// outputs lists all that the commit holds, stream objects as ranges.
func (c CommitObjects) outputs() []catalog.Range {
	all := make([]catalog.Range, 0, len(c.Ranges)+len(c.StreamObjects))
	all = append(all, c.Ranges...)
	for _, o := range c.StreamObjects {
		all = append(all, catalog.Range{Stream: o.Stream, Epoch: o.Epoch, Start: o.Start, End: o.End, Size: o.Size})
	}
	return all
}

// addUpload is step 4 of MD-9.
func (c CommitObjects) addUpload(t *transition) Result {
	outputs := c.outputs()
	seen := make(map[catalog.StreamID]struct{}, len(outputs))
	for _, out := range outputs {
		if _, twice := seen[out.Stream]; twice {
			return reject(InvalidArgument, "stream %d appears twice", out.Stream)
		}
		seen[out.Stream] = struct{}{}
		if r := c.checkUpload(t, out); r.Code != OK {
			return r
		}
	}
	c.add(t, slices.Clone(c.Ranges), c.StreamObjects, t.next.clockMs)
	return Result{}
}

// checkUpload rejects records that do not continue their stream, or that come from a node that does not own it.
func (c CommitObjects) checkUpload(t *transition, out catalog.Range) Result {
	row, r := t.findStream(out.Stream)
	switch {
	case row == nil:
		return r
	case !row.Opened:
		return reject(StreamNotOpened, "stream %d is closed", out.Stream)
	case row.Node != catalog.NodeID(c.Node):
		return reject(StreamFenced, "stream %d belongs to node %d", out.Stream, row.Node)
	case row.Epoch != out.Epoch:
		return reject(ExpiredEpoch, "stream %d is at epoch %d, not %d", out.Stream, row.Epoch, out.Epoch)
	case out.Start != row.End:
		return reject(NotContiguous, "stream %d ends at %d, not at %d", out.Stream, row.End, out.Start)
	case out.End <= out.Start:
		return reject(InvalidArgument, "stream %d from %d to %d", out.Stream, out.Start, out.End)
	}
	return Result{}
}

// add makes the commit's objects known, with these contents.
func (c CommitObjects) add(t *transition, ranges []catalog.Range, objects []catalog.StreamObject, dataMs int64) {
	if len(ranges) > 0 {
		t.addSet(&catalog.StreamSetState{
			Object: c.Object, Node: catalog.NodeID(c.Node), Size: c.Size, Attributes: c.Attributes, Ranges: ranges,
			CommittedMs: t.next.clockMs, DataMs: dataMs,
		})
	}
	for _, o := range objects {
		t.addObject(&catalog.StreamObjectState{StreamObject: o, DataMs: dataMs})
	}
}
