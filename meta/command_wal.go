package meta

import "github.com/tidemark-io/tidemark/stream/catalog"

// OpenWAL notes that the write-ahead log of the node's present epoch begins at Start, a multiple of [catalog.Window] that is
// not below the recorded one (MD-15). Result: nothing; rejected as [NodeEpochMismatch] or [InvalidArgument].
type OpenWAL struct {
	Node      int32
	NodeEpoch int64
	Start     int64
}

// CloseWAL notes that the node's write-ahead log needs no recovery and that the next one may begin at Start (MD-15).
// Result: nothing; rejected as [NodeEpochMismatch], [StreamNotClosed] while the node has a stream open, or
// [InvalidArgument].
type CloseWAL struct {
	Node      int32
	NodeEpoch int64
	Start     int64
}

// Type returns 22.
func (OpenWAL) Type() uint8 { return numOpenWAL }

// Type returns 23.
func (CloseWAL) Type() uint8 { return numCloseWAL }

func (c OpenWAL) encode(w *writer)  { w.node(c.Node, c.NodeEpoch); w.i64(c.Start) }
func (c CloseWAL) encode(w *writer) { w.node(c.Node, c.NodeEpoch); w.i64(c.Start) }

func (c OpenWAL) apply(t *transition) Result {
	if r := t.checkNode(c.Node, c.NodeEpoch); r.Code != OK {
		return r
	}
	return t.placeWAL(c.Node, c.NodeEpoch, c.Start)
}

func (c CloseWAL) apply(t *transition) Result {
	if r := t.checkNode(c.Node, c.NodeEpoch); r.Code != OK {
		return r
	}
	if n, _ := t.next.opened.get(catalog.NodeID(c.Node)); n > 0 {
		return reject(StreamNotClosed, "node %d has %d streams open", c.Node, n)
	}
	return t.placeWAL(c.Node, cleanWAL, c.Start)
}

// cleanWAL stands in for the epoch of a log that was closed cleanly.
const cleanWAL = -1

// placeWAL records where a node's log begins.
func (t *transition) placeWAL(node int32, epoch, start int64) Result {
	row, _ := t.next.nodes.get(node)
	if start < 0 || uint64(start) < row.WALStart || start%catalog.Window != 0 {
		return reject(InvalidArgument, "the log of node %d begins at %d, not at %d; windows have %d bytes", node, row.WALStart,
			start, catalog.Window)
	}
	row.WALEpoch, row.WALStart = epoch, uint64(start)
	t.next.nodes = t.next.nodes.set(node, row)
	return Result{}
}
