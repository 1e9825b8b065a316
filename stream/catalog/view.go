package catalog

import "iter"

// View is the catalog at one moment. It never changes and may be read without locks. Slices that it returns are shared:
// do not change them.
type View interface {
	// Index orders views: a change gives a higher one.
	Index() uint64

	// ClockMs is the time of the newest change, in ms since the Unix epoch. It never goes back.
	ClockMs() int64

	// Node describes a registered node.
	Node(id NodeID) (NodeState, bool)

	// Stream describes a stream that exists.
	Stream(id StreamID) (Stream, bool)

	// Streams yields the streams that exist in the order of their ids.
	Streams() iter.Seq[Stream]

	// Objects returns the objects that hold a stream's records from start to end, at most limit of them, in the order of
	// the offsets; the first one holds start. None if start is not below the stream's end, or if limit is 0.
	Objects(s StreamID, start, end int64, limit int) []ObjectRange

	// StreamObjects returns all stream objects of a stream in the order of the offsets, those below its start included.
	StreamObjects(s StreamID) []StreamObjectState

	// StreamSets yields all stream-set objects in the order of their ids.
	StreamSets() iter.Seq[StreamSetState]

	// Destroyed returns the oldest marks, at most limit.
	Destroyed(limit int) []DestroyedObject

	// IsPrepared reports whether an id is reserved and neither committed nor released.
	IsPrepared(id ObjectID) bool

	// NextObject is the id that the next prepared object gets: ids at or above it were never assigned.
	NextObject() ObjectID
}

// NodeState is a registered node.
type NodeState struct {
	ID          NodeID
	Epoch       int64
	Incarnation [16]byte
	Address     string
	Slots       int
	// WALEpoch is the epoch that opened the node's log last, or -1 if it was closed cleanly or never opened; WALStart is
	// where that log begins, or where the next one may begin.
	WALEpoch int64
	WALStart int64
}

// Stream is a stream.
type Stream struct {
	ID StreamID
	// Epoch is the one of its last opening, -1 before the first.
	Epoch int64
	// Start is the first offset that is kept; End is behind the last one that objects hold.
	Start, End int64
	Opened     bool
	// Node is the owner, or the last one; -1 before the first opening.
	Node NodeID
	// Epochs says where each epoch began, rising; those that lie wholly below Start are gone.
	Epochs []EpochStart
}

// EpochStart is where a stream's epoch began.
type EpochStart struct{ Epoch, Start int64 }

// ObjectRange is a part of a stream and the object that holds it.
type ObjectRange struct {
	Object     ObjectID
	StreamSet  bool
	Start, End int64
	// Size is that of the object.
	Size       int64
	Attributes Attributes
}

// StreamObjectState is a committed stream object.
type StreamObjectState struct {
	StreamObject
	// DataMs is when its oldest records were committed, in ms since the Unix epoch.
	DataMs int64
}

// StreamSetState is a committed stream-set object.
type StreamSetState struct {
	Object     ObjectID
	Node       NodeID
	Size       int64
	Attributes Attributes
	Ranges     []Range
	// CommittedMs is when it was committed; DataMs as in [StreamObjectState].
	CommittedMs, DataMs int64
}

// DestroyedObject is an object whose bytes may be removed once its mark is old enough.
type DestroyedObject struct {
	Object    ObjectID
	Operation Operation
	MarkedMs  int64
}
