package meta

// MaxProducerIDBlock is the most ids that one AllocateProducerIDs may take.
const MaxProducerIDBlock = 4096

// maxProducerID bounds producer ids to 48 bits, since a writer id of a tablet keeps the producer epoch above them.
const maxProducerID = 1<<48 - 1

// RegisterNode gives a starting process its node epoch. The same incarnation gets the epoch that it has, so a retry is
// safe, and its address and slots are refreshed. Another incarnation takes the node over and gets the next epoch, the
// first one being 1; with ExpectedEpoch >= 0 only if that is the node's present epoch, so that of two survivors one
// wins. Result: the epoch in ID; rejected as [NodeEpochMismatch].
type RegisterNode struct {
	Node int32
	// ExpectedEpoch is the epoch to take over from, or -1 for a process that starts under its own id and holds the
	// node's liveness key.
	ExpectedEpoch int64
	// Incarnation is random and drawn once per process.
	Incarnation [16]byte
	// Address is where the node can be reached; empty keeps the one recorded.
	Address string
	// Slots is the node's weight when streams are placed.
	Slots uint32
}

// AllocateProducerIDs takes Count consecutive producer ids for a node to hand out from memory. No id is ever assigned
// twice; those that a node did not hand out before it ended are lost. Count is 1 to [MaxProducerIDBlock]. Result: the
// first id, at least 1, in ID and Count; rejected as [NodeEpochMismatch] or [InvalidArgument].
type AllocateProducerIDs struct {
	Node      int32
	NodeEpoch int64
	Count     uint32
}

// Type returns 10.
func (RegisterNode) Type() uint8 { return numRegisterNode }

// Type returns 20.
func (AllocateProducerIDs) Type() uint8 { return numAllocateProducerIDs }

func (c RegisterNode) encode(w *writer) {
	w.i32(c.Node)
	w.i64(c.ExpectedEpoch)
	w.raw(c.Incarnation[:])
	w.str(c.Address)
	w.u32(c.Slots)
}

func decodeRegisterNode(r *reader) Command {
	return RegisterNode{Node: r.i32(), ExpectedEpoch: r.i64(), Incarnation: r.id(), Address: r.str(), Slots: r.u32()}
}

func (c AllocateProducerIDs) encode(w *writer) {
	w.i32(c.Node)
	w.i64(c.NodeEpoch)
	w.u32(c.Count)
}

func (c RegisterNode) apply(t *transition) Result {
	if c.Node < 0 {
		return reject(InvalidArgument, "node id %d is negative", c.Node)
	}
	row, known := t.next.nodes.get(c.Node)
	switch {
	case known && row.Incarnation == c.Incarnation:
	case c.ExpectedEpoch >= 0 && !known:
		return reject(NodeEpochMismatch, "node %d is unknown, expected epoch %d", c.Node, c.ExpectedEpoch)
	case c.ExpectedEpoch >= 0 && row.Epoch != c.ExpectedEpoch:
		return reject(NodeEpochMismatch, "node %d is at epoch %d, expected %d", c.Node, row.Epoch, c.ExpectedEpoch)
	case !known:
		row = Node{ID: c.Node, Epoch: 1, Incarnation: c.Incarnation, WALEpoch: -1}
	default:
		row.Epoch++
		row.Incarnation = c.Incarnation
	}
	if c.Address != "" {
		row.Address = c.Address
	}
	row.Slots = c.Slots
	t.next.nodes = t.next.nodes.set(c.Node, row)
	return Result{ID: uint64(row.Epoch)}
}

func (c AllocateProducerIDs) apply(t *transition) Result {
	if r := t.checkNode(c.Node, c.NodeEpoch); r.Code != OK {
		return r
	}
	if c.Count < 1 || c.Count > MaxProducerIDBlock {
		return reject(InvalidArgument, "a block has 1 to %d ids, not %d", MaxProducerIDBlock, c.Count)
	}
	first := t.next.nextProducerID
	if first+uint64(c.Count)-1 > maxProducerID {
		return reject(InvalidArgument, "no producer ids are left above %d", first)
	}
	t.next.nextProducerID = first + uint64(c.Count)
	return Result{ID: first, Count: uint64(c.Count)}
}

// checkNode rejects a command of a node that is unknown or at another epoch: equal, not "at least".
func (t *transition) checkNode(node int32, epoch int64) Result {
	row, known := t.next.nodes.get(node)
	if !known {
		return reject(NodeEpochMismatch, "node %d is unknown", node)
	}
	if row.Epoch != epoch {
		return reject(NodeEpochMismatch, "node %d is at epoch %d, not %d", node, row.Epoch, epoch)
	}
	return Result{}
}
