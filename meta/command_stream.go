package meta

import (
	"slices"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// CreateStreams makes Count streams, 1 to [catalog.MaxStreams], closed and empty, with consecutive ids (MD-3). Result: the
// first id in ID and Count; rejected as [NodeEpochMismatch] or [InvalidArgument].
type CreateStreams struct {
	Node      int32
	NodeEpoch int64
	Count     uint32
}

// OpenStream makes the node the owner of a stream under an epoch above all earlier ones (MD-4). The same node may open the
// same epoch again. The epoch of a bucket's stream is the bucket's leader epoch (KV-6). Result: the stream in Stream; rejected as
// [NodeEpochMismatch], [StreamNotExist], also when its bucket was dropped, [StreamFenced], [StreamNotClosed], [LeaderFenced]
// below the leader epoch of its bucket, or [InvalidArgument] above it.
type OpenStream struct {
	Node      int32
	NodeEpoch int64
	Stream    catalog.StreamID
	Epoch     int64
}

// TrimStream moves a stream's start up; down is no change (MD-5). Result: nothing; rejected as [NodeEpochMismatch],
// [StreamNotExist], [StreamNotOpened], [ExpiredEpoch], [StreamFenced], or [OffsetOutOfRange] above the end.
type TrimStream struct {
	Node      int32
	NodeEpoch int64
	Stream    catalog.StreamID
	Epoch     int64
	Start     int64
}

// CloseStream releases a stream, so that any node can open it (MD-6). Closing it again at the same epoch is no change.
// Result: nothing; rejected as [NodeEpochMismatch], [StreamNotExist], [StreamNotOpened], [ExpiredEpoch] or
// [StreamFenced].
type CloseStream struct {
	Node      int32
	NodeEpoch int64
	Stream    catalog.StreamID
	Epoch     int64
}

// DeleteStream removes a closed stream and marks the objects destroyed that hold nothing else (MD-7). One that does not
// exist is no change. Result: nothing; rejected as [NodeEpochMismatch], [StreamNotClosed] or [ExpiredEpoch], or as
// [InvalidArgument] when it is a bucket of a table that was not dropped.
type DeleteStream struct {
	Node      int32
	NodeEpoch int64
	Stream    catalog.StreamID
	Epoch     int64
}

// Type returns 17.
func (CreateStreams) Type() uint8 { return numCreateStreams }

// Type returns 2.
func (OpenStream) Type() uint8 { return numOpenStream }

// Type returns 3.
func (TrimStream) Type() uint8 { return numTrimStream }

// Type returns 4.
func (CloseStream) Type() uint8 { return numCloseStream }

// Type returns 5.
func (DeleteStream) Type() uint8 { return numDeleteStream }

func (c CreateStreams) encode(w *writer) { w.node(c.Node, c.NodeEpoch); w.u32(c.Count) }

func (c OpenStream) encode(w *writer) {
	w.node(c.Node, c.NodeEpoch)
	w.i64(int64(c.Stream))
	w.i64(c.Epoch)
}

func (c TrimStream) encode(w *writer) {
	w.node(c.Node, c.NodeEpoch)
	w.i64(int64(c.Stream))
	w.i64(c.Epoch)
	w.i64(c.Start)
}

func (c CloseStream) encode(w *writer) {
	w.node(c.Node, c.NodeEpoch)
	w.i64(int64(c.Stream))
	w.i64(c.Epoch)
}

func (c DeleteStream) encode(w *writer) {
	w.node(c.Node, c.NodeEpoch)
	w.i64(int64(c.Stream))
	w.i64(c.Epoch)
}

func decodeOpenStream(r *reader) Command {
	return OpenStream{Node: r.i32(), NodeEpoch: r.i64(), Stream: r.stream(), Epoch: r.i64()}
}

func decodeTrimStream(r *reader) Command {
	return TrimStream{Node: r.i32(), NodeEpoch: r.i64(), Stream: r.stream(), Epoch: r.i64(), Start: r.i64()}
}

func decodeCloseStream(r *reader) Command {
	return CloseStream{Node: r.i32(), NodeEpoch: r.i64(), Stream: r.stream(), Epoch: r.i64()}
}

func decodeDeleteStream(r *reader) Command {
	return DeleteStream{Node: r.i32(), NodeEpoch: r.i64(), Stream: r.stream(), Epoch: r.i64()}
}

func (c CreateStreams) apply(t *transition) Result {
	if r := t.checkNode(c.Node, c.NodeEpoch); r.Code != OK {
		return r
	}
	if c.Count < 1 || c.Count > catalog.MaxStreams {
		return reject(InvalidArgument, "1 to %d streams are created at once, not %d", catalog.MaxStreams, c.Count)
	}
	first := t.next.nextStreamID
	for range c.Count {
		t.newStream()
	}
	return Result{ID: first, Count: uint64(c.Count)}
}

func (c OpenStream) apply(t *transition) Result {
	if r := t.checkNode(c.Node, c.NodeEpoch); r.Code != OK {
		return r
	}
	row, r := t.findStream(c.Stream)
	if row == nil {
		return r
	}
	if r := t.checkDropped(c.Stream); r.Code != OK {
		return r
	}
	switch {
	case row.Epoch == c.Epoch && row.Opened && row.Node == catalog.NodeID(c.Node):
		return Result{Stream: &row.Stream}
	case row.Epoch >= c.Epoch:
		return reject(StreamFenced, "stream %d is at epoch %d of node %d", c.Stream, row.Epoch, row.Node)
	}
	if r := t.checkOpen(c.Stream, c.Epoch); r.Code != OK {
		return r
	}
	if row.Opened {
		return reject(StreamNotClosed, "stream %d is open on node %d", c.Stream, row.Node)
	}
	t.leavePlace(row)
	if pending, is := t.next.transfers.get(c.Stream); is && pending.To == catalog.NodeID(c.Node) {
		t.next.transfers = t.next.transfers.remove(c.Stream)
	}
	opened := *row
	opened.Epoch, opened.Opened, opened.Node = c.Epoch, true, catalog.NodeID(c.Node)
	opened.Epochs = append(slices.Clone(row.Epochs), catalog.EpochStart{Epoch: c.Epoch, Start: row.End})
	t.countOpened(opened.Node, 1)
	t.putStream(&opened)
	return Result{Stream: &opened.Stream}
}

func (c TrimStream) apply(t *transition) Result {
	if r := t.checkNode(c.Node, c.NodeEpoch); r.Code != OK {
		return r
	}
	row, r := t.ownStream(c.Node, c.Stream, c.Epoch)
	switch {
	case row == nil:
		return r
	case c.Start < row.Start:
		return Result{}
	case c.Start > row.End:
		return reject(OffsetOutOfRange, "stream %d ends at %d, the new start is %d", c.Stream, row.End, c.Start)
	}
	trimmed := *row
	trimmed.Start = c.Start
	for len(trimmed.Epochs) > 1 && trimmed.Epochs[1].Start <= c.Start {
		trimmed.Epochs = trimmed.Epochs[1:]
	}
	t.putStream(&trimmed)
	return Result{}
}

func (c CloseStream) apply(t *transition) Result {
	if r := t.checkNode(c.Node, c.NodeEpoch); r.Code != OK {
		return r
	}
	if row, known := t.next.streams.get(c.Stream); known && !row.Opened && row.Epoch == c.Epoch {
		return Result{}
	}
	row, r := t.ownStream(c.Node, c.Stream, c.Epoch)
	if row == nil {
		return r
	}
	closed := *row
	closed.Opened = false
	t.countOpened(row.Node, -1)
	t.putStream(&closed)
	return Result{}
}

func (c DeleteStream) apply(t *transition) Result {
	if r := t.checkNode(c.Node, c.NodeEpoch); r.Code != OK {
		return r
	}
	row, known := t.next.streams.get(c.Stream)
	switch {
	case !known:
		return Result{}
	case row.Opened:
		return reject(StreamNotClosed, "stream %d is open on node %d", c.Stream, row.Node)
	case row.Epoch != c.Epoch:
		return reject(ExpiredEpoch, "stream %d is at epoch %d, not %d", c.Stream, row.Epoch, c.Epoch)
	}
	if id, is := t.next.bucketOf.get(c.Stream); is {
		return reject(InvalidArgument, "stream %d is bucket %s", c.Stream, id)
	}
	t.leavePlace(row)
	t.next.streams = t.next.streams.remove(c.Stream)
	t.next.transfers = t.next.transfers.remove(c.Stream)
	t.destroyObjectsOf(row)
	t.releaseSetsOf(row)
	t.forgetDropped(c.Stream)
	return Result{}
}

// destroyObjectsOf marks the stream objects of a stream that was removed, composites with all that they link (GC-1).
func (t *transition) destroyObjectsOf(row *streamRow) {
	var objects []*catalog.StreamObjectState
	for _, p := range row.parts.all() {
		if p.object != nil {
			objects = append(objects, p.object)
		}
	}
	slices.SortFunc(objects, func(a, b *catalog.StreamObjectState) int { return int(a.Object - b.Object) })
	for _, o := range objects {
		operation := catalog.Delete
		if o.Attributes.IsComposite() {
			operation = catalog.DeepDelete
		}
		t.destroy(o.Object, operation)
	}
}

// releaseSetsOf removes a deleted stream from the stream-set objects that hold it, and marks those that hold no other.
func (t *transition) releaseSetsOf(row *streamRow) {
	var ids []catalog.ObjectID
	for _, p := range row.parts.all() {
		if p.set != nil {
			ids = append(ids, p.set.Object)
		}
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		set, _ := t.next.sets.get(id)
		if set.streams--; set.streams == 0 {
			t.destroy(id, catalog.Delete)
			continue
		}
		t.next.sets = t.next.sets.set(id, set)
	}
}
