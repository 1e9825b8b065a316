// Package catalog defines what the stream engine requires of metadata: who owns a stream, where it begins and ends,
// which objects hold it, and which objects may be removed. The engine imports this package and no metadata log; package
// catalogtest has the suite that every implementation passes, and an implementation in memory.
//
// Rules are named as in the specification of object streams: MD-4 is the rule for opening a stream.
package catalog

import (
	"context"
	"time"
)

// NodeID is the number of a node. It is not negative.
type NodeID int32

// StreamID is the number of a stream, assigned from 0 and never reused. It is not negative.
type StreamID int64

// ObjectID is the number of an object in the data bucket, assigned from 0 and never reused.
type ObjectID int64

// NoObject stands for no object.
const NoObject ObjectID = -1

// Window is the unit in which a node's write-ahead log is placed, in bytes: the start of a log is a multiple of it.
const Window = 64 << 20

// Limits of single calls.
const (
	MaxStreams  = 4096
	MaxPrepared = 100_000
)

// Catalog is the metadata of streams and objects, shared by all nodes. All methods are safe for concurrent use.
//
// Every method that changes something is atomic, and durable when it returns nil; then [Catalog.View] has it already,
// in this process. A refusal is one of the errors below and changes nothing. [ErrUnavailable] and context errors say
// that the outcome is unknown: the same call may be repeated, and answers [ErrRedundant] or success if the first one
// was applied.
//
// Methods that take a [Node] fail with [ErrNodeEpochMismatch] unless the node is registered with exactly that epoch
// (MD-2). That check comes before all others.
type Catalog interface {
	// View returns the newest state known to this process. It does not block, and what it returns never changes.
	View() View

	// Wait returns a view whose index is at least the given one, and waits for it if needed.
	Wait(ctx context.Context, index uint64) (View, error)

	// RegisterNode begins a new epoch of a node and returns it (MD-1): from then on every call with an older one fails.
	// The same incarnation gets the same epoch again.
	RegisterNode(ctx context.Context, r Registration) (epoch int64, err error)

	// OpenWAL notes that the node's log of this epoch begins at start (MD-15): a multiple of [Window] and not below the
	// one recorded, otherwise [ErrInvalidArgument].
	OpenWAL(ctx context.Context, n Node, start int64) error

	// CloseWAL notes that the node's log was closed cleanly, so that nothing needs recovery and the next one may begin at
	// start (MD-15). [ErrStreamNotClosed] while the node has a stream open.
	CloseWAL(ctx context.Context, n Node, start int64) error

	// CreateStreams makes count streams, 1 to [MaxStreams], closed and empty, with consecutive ids, and returns the first
	// (MD-3).
	CreateStreams(ctx context.Context, n Node, count int) (StreamID, error)

	// OpenStream makes the node the owner of a stream under a stream epoch above all earlier ones, and returns the
	// stream (MD-4). The same node may open the same epoch again. [ErrStreamNotExist], [ErrStreamFenced],
	// [ErrStreamNotClosed].
	OpenStream(ctx context.Context, n Node, s StreamID, epoch int64) (Stream, error)

	// TrimStream moves a stream's start up (MD-5); down is no change and no error. [ErrStreamNotOpened],
	// [ErrExpiredEpoch], [ErrStreamFenced], [ErrOffsetOutOfRange] above the end.
	TrimStream(ctx context.Context, n Node, s StreamID, epoch, start int64) error

	// CloseStream releases a stream (MD-6). Closing one again at the same epoch is not an error.
	// [ErrStreamNotOpened], [ErrExpiredEpoch], [ErrStreamFenced].
	CloseStream(ctx context.Context, n Node, s StreamID, epoch int64) error

	// DeleteStream removes a closed stream, and marks the objects destroyed that hold nothing else (MD-7). One that does
	// not exist is not an error. [ErrStreamNotClosed], [ErrExpiredEpoch].
	DeleteStream(ctx context.Context, n Node, s StreamID, epoch int64) error

	// PrepareObjects reserves count consecutive object ids, 1 to [MaxPrepared], and returns the first (MD-8). Ids that
	// are not committed within ttl are released, and whatever was written under them is removed.
	PrepareObjects(ctx context.Context, n Node, count int, ttl time.Duration) (ObjectID, error)

	// Commit makes written objects part of their streams, or replaces objects by compacted ones (MD-9).
	// [ErrRedundant], [ErrObjectNotPrepared], [ErrObjectIDInUse], [ErrStreamNotExist], [ErrStreamNotOpened],
	// [ErrStreamFenced], [ErrExpiredEpoch], [ErrNotContiguous], [ErrOffsetOutOfRange], [ErrCompactionLosesData],
	// [ErrInvalidArgument], [ErrTooLarge].
	Commit(ctx context.Context, n Node, c Commit) error

	// CompactStream replaces objects of one stream by one, or by none if all of it lies below the start (MD-10). Errors
	// as for Commit.
	CompactStream(ctx context.Context, n Node, c StreamCompaction) error

	// ExpirePrepared marks expired prepared ids as destroyed, and returns how many (MD-11).
	ExpirePrepared(ctx context.Context) (int, error)

	// CleanDestroyed forgets destroyed objects whose bytes have been removed, and returns how many it knew (MD-13).
	CleanDestroyed(ctx context.Context, ids ...ObjectID) (int, error)
}

// Node identifies the caller: a node under one of its epochs.
type Node struct {
	ID    NodeID
	Epoch int64
}

// Registration is a process that starts under a node's id, or takes the node over.
type Registration struct {
	ID NodeID
	// Expected is the epoch to take over from, so that of two survivors one wins; -1 for a process that starts under its
	// own id.
	Expected int64
	// Incarnation is random and drawn once per process.
	Incarnation [16]byte
	// Address is where the node can be reached; empty keeps the one recorded.
	Address string
	// Slots is the node's weight when streams are placed.
	Slots int
}

// Commit is the outcome of an upload, or of a compaction of stream-set objects if Compacted is not empty.
type Commit struct {
	// Object is the new stream-set object, or [NoObject]; Size and Attributes are its own, Ranges what it holds.
	Object     ObjectID
	Size       int64
	Attributes Attributes
	Ranges     []Range
	// StreamObjects are new objects of one stream each.
	StreamObjects []StreamObject
	// Compacted are the stream-set objects that the new ones replace.
	Compacted []ObjectID
}

// Range is a part of one stream in a stream-set object.
type Range struct {
	Stream StreamID
	// Epoch is the stream's, under which the records were appended; -1 in a compaction.
	Epoch int64
	// Start and End are offsets; End is exclusive.
	Start, End int64
	// Size is the bytes of the object that hold the range.
	Size int64
}

// StreamObject is an object that holds one stream's records from Start to End.
type StreamObject struct {
	Object     ObjectID
	Size       int64
	Stream     StreamID
	Epoch      int64 // as in Range
	Start, End int64
	Attributes Attributes
}

// StreamCompaction replaces objects of one stream.
type StreamCompaction struct {
	// Object is the new object, or [NoObject] if every source lies below the stream's start; then Size, Start, End and
	// Attributes do not matter.
	Object     ObjectID
	Size       int64
	Stream     StreamID
	Epoch      int64
	Start, End int64
	Attributes Attributes
	// Sources are the objects that are replaced, in the order of their offsets; Operations what happens to each.
	Sources    []ObjectID
	Operations []Operation
	// DeadComponents are components of composite sources that the new object does not link.
	DeadComponents []ObjectID
}

// Operation is what the cleaner does with a destroyed object. The numbers are stored.
type Operation uint8

// The operations, see 6.4.
const (
	Delete     Operation = 0 // remove the object's own bytes
	KeepData   Operation = 1 // forget the object, keep its bytes: a composite links them
	DeepDelete Operation = 2 // remove the object's bytes and, of a composite, those of all components
)

// strength orders operations on the same object: the stronger one wins (MD-12).
func (o Operation) strength() int {
	switch o {
	case DeepDelete:
		return 2
	case Delete:
		return 1
	}
	return 0
}

// Stronger returns the operation that is left when an object is marked with both.
func (o Operation) Stronger(other Operation) Operation {
	if other.strength() > o.strength() {
		return other
	}
	return o
}

// Attributes describe an object, see 1.8. The bits are stored:
//
//	bits 0-1    kind: 0 plain, 1 composite
//	bits 2-17   bucket, signed 16 bits
//	bit 18      deep delete
type Attributes uint32

// The bits of [Attributes].
const (
	Composite  Attributes = 1
	deepDelete Attributes = 1 << 18
	kindMask   Attributes = 3
)

// NewAttributes returns the attributes of an object.
func NewAttributes(composite bool, bucket int16, deep bool) Attributes {
	a := Attributes(uint16(bucket)) << 2
	if composite {
		a |= Composite
	}
	if deep {
		a |= deepDelete
	}
	return a
}

// IsComposite reports whether the object links others.
func (a Attributes) IsComposite() bool { return a&kindMask == Composite }

// Bucket returns the index of the bucket that holds the object.
func (a Attributes) Bucket() int16 { return int16(a >> 2) }

// IsDeepDelete reports whether the object was marked for deep deletion.
func (a Attributes) IsDeepDelete() bool { return a&deepDelete != 0 }
