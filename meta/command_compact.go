package meta

import (
	"math"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// CompactStream replaces objects of one stream by one, or by none if all of it lies below the start (MD-10). Result:
// nothing; rejected as [NodeEpochMismatch], [Redundant], [StreamNotExist], [ExpiredEpoch], [StreamFenced],
// [ObjectNotPrepared], [ObjectIDInUse], [OffsetOutOfRange], [CompactionLoses] or [InvalidArgument].
type CompactStream struct {
	Node      int32
	NodeEpoch int64
	catalog.StreamCompaction
}

// Type returns 8.
func (CompactStream) Type() uint8 { return numCompactStream }

func (c CompactStream) encode(w *writer) {
	w.node(c.Node, c.NodeEpoch)
	w.streamObject(c.result())
	w.objects(c.Sources)
	w.count(len(c.Operations))
	for _, o := range c.Operations {
		w.u8(uint8(o))
	}
	w.objects(c.DeadComponents)
}

func decodeCompactStream(r *reader) Command {
	c := CompactStream{Node: r.i32(), NodeEpoch: r.i64()}
	o := r.streamObject()
	c.Object, c.Size, c.Stream, c.Epoch = o.Object, o.Size, o.Stream, o.Epoch
	c.Start, c.End, c.Attributes = o.Start, o.End, o.Attributes
	c.Sources = r.objects()
	for range r.count(1) {
		c.Operations = append(c.Operations, catalog.Operation(r.u8()))
	}
	c.DeadComponents = r.objects()
	return c
}

// result is the new object.
func (c CompactStream) result() catalog.StreamObject {
	return catalog.StreamObject{
		Object: c.Object, Size: c.Size, Stream: c.Stream, Epoch: c.Epoch, Start: c.Start, End: c.End, Attributes: c.Attributes,
	}
}

func (c CompactStream) apply(t *transition) Result {
	if r := t.checkNode(c.Node, c.NodeEpoch); r.Code != OK {
		return r
	}
	if o, live := t.next.objects.get(c.Object); live && o.Stream == c.Stream {
		return reject(Redundant, "object %d is part of stream %d", c.Object, c.Stream)
	}
	row, r := t.findStream(c.Stream)
	switch {
	case row == nil:
		return r
	case row.Epoch != c.Epoch:
		return reject(ExpiredEpoch, "stream %d is at epoch %d, not %d", c.Stream, row.Epoch, c.Epoch)
	case !row.Opened || row.Node != catalog.NodeID(c.Node):
		return reject(StreamFenced, "stream %d is not open on node %d but on %d", c.Stream, c.Node, row.Node)
	}
	sources, r := c.sources(t)
	if r.Code != OK {
		return r
	}
	if r := c.check(t, row, sources); r.Code != OK {
		return r
	}
	c.swap(t, sources)
	return Result{}
}

// sources returns the objects to replace. Dead components must not be anything that is in use: to destroy them would take
// records away.
func (c CompactStream) sources(t *transition) ([]*catalog.StreamObjectState, Result) {
	if len(c.Sources) == 0 || len(c.Operations) != len(c.Sources) {
		return nil, reject(InvalidArgument, "%d sources, %d operations", len(c.Sources), len(c.Operations))
	}
	sources := make([]*catalog.StreamObjectState, 0, len(c.Sources))
	replaced := make(map[catalog.ObjectID]struct{}, len(c.Sources))
	for i, id := range c.Sources {
		o, known := t.next.objects.get(id)
		if _, twice := replaced[id]; twice || !known || o.Stream != c.Stream {
			return nil, reject(InvalidArgument, "object %d does not belong to stream %d", id, c.Stream)
		}
		if c.Operations[i] > catalog.DeepDelete {
			return nil, reject(InvalidArgument, "there is no operation %d", c.Operations[i])
		}
		replaced[id] = struct{}{}
		sources = append(sources, o)
	}
	for _, id := range c.DeadComponents {
		_, source := replaced[id]
		if id < 0 || id >= t.next.NextObject() || !source && (t.next.isLive(id) || t.next.IsPrepared(id)) {
			return nil, reject(InvalidArgument, "component %d is not dead", id)
		}
	}
	return sources, Result{}
}

// check rejects a compaction that would lose records.
func (c CompactStream) check(t *transition, row *streamRow, sources []*catalog.StreamObjectState) Result {
	if c.Object == catalog.NoObject {
		for _, o := range sources {
			if o.End > row.Start {
				return reject(CompactionLoses, "object %d reaches to %d, stream %d begins at %d", o.Object, o.End, c.Stream,
					row.Start)
			}
		}
		return Result{}
	}
	if r := t.checkFresh([]catalog.ObjectID{c.Object}); r.Code != OK {
		return r
	}
	switch {
	case c.End <= c.Start:
		return reject(InvalidArgument, "stream %d from %d to %d", c.Stream, c.Start, c.End)
	case c.End > row.End:
		return reject(OffsetOutOfRange, "stream %d ends at %d, not at %d", c.Stream, row.End, c.End)
	}
	for i := 1; i < len(sources); i++ {
		if sources[i].Start != sources[i-1].End {
			return reject(CompactionLoses, "object %d does not follow object %d", sources[i].Object, sources[i-1].Object)
		}
	}
	first, last := sources[0].Start, sources[len(sources)-1].End
	deadHead := c.Start > first && c.Start <= row.Start
	if c.End != last || c.Start != first && !deadHead {
		return reject(CompactionLoses, "%d to %d of stream %d became %d to %d", first, last, c.Stream, c.Start, c.End)
	}
	return Result{}
}

// swap puts the new object in the place of its sources.
func (c CompactStream) swap(t *transition, sources []*catalog.StreamObjectState) {
	dataMs := int64(math.MaxInt64)
	for i, o := range sources {
		dataMs = min(dataMs, o.DataMs)
		t.destroy(o.Object, c.Operations[i])
	}
	for _, id := range c.DeadComponents {
		t.destroy(id, catalog.Delete)
	}
	if c.Object != catalog.NoObject {
		t.addObject(&catalog.StreamObjectState{StreamObject: c.result(), DataMs: dataMs})
	}
}
