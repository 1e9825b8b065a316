package meta

import (
	"slices"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// TransferStream asks for an open stream to go over from one node to another (MD-14). The owner closes it when it sees the
// request; then CompleteTransfer gives it to the target. The same request again is no change. Result: nothing; rejected as
// [StreamNotExist], [InvalidArgument] when it goes elsewhere already or nowhere, [NodeEpochMismatch] when the target is
// unknown or takes no streams, or [StreamNotOpened] when it is not open on From.
type TransferStream struct {
	Stream   catalog.StreamID
	From, To int32
}

// CompleteTransfer places a stream on the target of its transfer, once its owner has closed it at the epoch (MD-14). Result:
// nothing; rejected as [StreamNotExist], [Redundant] when no transfer is pending, [StreamNotClosed] or [ExpiredEpoch].
type CompleteTransfer struct {
	Stream catalog.StreamID
	Epoch  int64
}

// PlaceStream chooses the node that is to open a stream which was never open: the one with the fewest streams for its slots
// (MD-14). Result: the node in ID, the same as before if there is one; rejected as [StreamNotExist], [StreamNotClosed], or
// [InvalidArgument] when no node takes streams or the stream was open before.
type PlaceStream struct{ Stream catalog.StreamID }

// Type returns 15.
func (TransferStream) Type() uint8 { return numTransferStream }

// Type returns 16.
func (CompleteTransfer) Type() uint8 { return numCompleteTransfer }

// Type returns 18.
func (PlaceStream) Type() uint8 { return numPlaceStream }

func (c TransferStream) encode(w *writer) {
	w.i64(int64(c.Stream))
	w.i32(c.From)
	w.i32(c.To)
}

func (c CompleteTransfer) encode(w *writer) { w.i64(int64(c.Stream)); w.i64(c.Epoch) }

func (c PlaceStream) encode(w *writer) { w.i64(int64(c.Stream)) }

// Transfer is a stream that is asked to go over from one node to another.
type Transfer struct{ From, To catalog.NodeID }

func (c TransferStream) apply(t *transition) Result {
	row, r := t.findStream(c.Stream)
	if row == nil {
		return r
	}
	wanted := Transfer{catalog.NodeID(c.From), catalog.NodeID(c.To)}
	pending, is := t.next.transfers.get(c.Stream)
	target, known := t.next.nodes.get(c.To)
	switch {
	case is && pending == wanted:
		return Result{}
	case is:
		return reject(InvalidArgument, "stream %d is being transferred from node %d to node %d", c.Stream, pending.From, pending.To)
	case c.From == c.To:
		return reject(InvalidArgument, "stream %d is on node %d", c.Stream, c.From)
	case !known || target.Slots == 0:
		return reject(NodeEpochMismatch, "node %d accepts no streams", c.To)
	case !row.Opened || row.Node != wanted.From:
		return reject(StreamNotOpened, "stream %d is not open on node %d", c.Stream, c.From)
	}
	t.next.transfers = t.next.transfers.set(c.Stream, wanted)
	return Result{}
}

func (c CompleteTransfer) apply(t *transition) Result {
	row, r := t.findStream(c.Stream)
	if row == nil {
		return r
	}
	pending, is := t.next.transfers.get(c.Stream)
	switch {
	case !is:
		return reject(Redundant, "stream %d is not being transferred", c.Stream)
	case row.Opened:
		return reject(StreamNotClosed, "stream %d is open on node %d", c.Stream, row.Node)
	case row.Epoch != c.Epoch:
		return reject(ExpiredEpoch, "stream %d is at epoch %d, not %d", c.Stream, row.Epoch, c.Epoch)
	}
	moved := *row
	moved.Node = pending.To
	t.putStream(&moved)
	t.next.transfers = t.next.transfers.remove(c.Stream)
	return Result{}
}

func (c PlaceStream) apply(t *transition) Result {
	row, r := t.findStream(c.Stream)
	switch {
	case row == nil:
		return r
	case row.Opened:
		return reject(StreamNotClosed, "stream %d is open on node %d", c.Stream, row.Node)
	case row.Node >= 0 && row.Epoch == neverOpened:
		return Result{ID: uint64(row.Node)}
	case row.Epoch != neverOpened:
		return reject(InvalidArgument, "stream %d was open on node %d", c.Stream, row.Node)
	}
	node, ok := t.leastLoaded()
	if !ok {
		return reject(InvalidArgument, "no node accepts streams")
	}
	placed := *row
	placed.Node = node
	t.putStream(&placed)
	t.countPlaced(node, 1)
	return Result{ID: uint64(node)}
}

// neverOpened stands in for the epoch of a stream that was never open.
const neverOpened = -1

// leastLoaded is the node with the fewest streams for its slots, the lowest of several.
func (t *transition) leastLoaded() (catalog.NodeID, bool) {
	var candidates []Node
	for _, n := range t.next.nodes.all() {
		if n.Slots > 0 {
			candidates = append(candidates, n)
		}
	}
	if len(candidates) == 0 {
		return 0, false
	}
	least := slices.MinFunc(candidates, func(a, b Node) int { return t.load(a) - t.load(b) })
	return catalog.NodeID(least.ID), true
}

// load is the streams that a node has open or was given, in thousandths of its slots.
func (t *transition) load(n Node) int {
	opened, _ := t.next.opened.get(catalog.NodeID(n.ID))
	placed, _ := t.next.placed.get(catalog.NodeID(n.ID))
	return (opened + placed) * 1000 / int(n.Slots)
}

// leavePlace takes a stream out of the count of those that a node was given and has not opened.
func (t *transition) leavePlace(row *streamRow) {
	if row.Epoch == neverOpened && row.Node >= 0 {
		t.countPlaced(row.Node, -1)
	}
}

// countPlaced adds to the number of streams that a node was given and has not opened.
func (t *transition) countPlaced(node catalog.NodeID, change int) {
	t.next.placed = counted(t.next.placed, node, change)
}

// counted returns the counts with one changed; those of zero are left out.
func counted(counts tree[catalog.NodeID, int], node catalog.NodeID, change int) tree[catalog.NodeID, int] {
	n, _ := counts.get(node)
	if n += change; n == 0 {
		return counts.remove(node)
	}
	return counts.set(node, n)
}
