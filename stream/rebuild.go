package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// RebuildOptions say where [Rebuild] looks, and what it may leave out.
type RebuildOptions struct {
	// WAL and Data are the stores of the write-ahead logs and of the data objects; they may be the same. No server may use
	// them meanwhile.
	WAL, Data objstore.Store
	// Cluster is the cluster's name in the keys of the WAL; if empty, the one found there is used. Namespace is that of
	// data objects, "DEFAULT" if empty.
	Cluster, Namespace string
	// Node gets the streams and stream-set objects whose owner is unknown.
	Node catalog.NodeID
	// LeaveOut continues without what is damaged or unclear: see [RebuildFinding.Stops].
	LeaveOut bool
	// Progress is called with how many of all data objects have been read, by one goroutine at a time. May be nil.
	Progress func(done, total int)
}

// Rebuilt is metadata of streams as derived from the objects of a bucket. It has not been written anywhere.
//
// Every acknowledged record that was not trimmed is in it, or in a log that [Open] and [Engine.Failover] recover from
// it: the streams that continue in such a log are open on its node. What no object shows is not in it, and the choice
// is the one that loses no record:
//
//   - Where a stream was trimmed. It begins where the objects do that reach its end without a gap, so records that were
//     trimmed and not removed yet are there again. What lies below a gap is taken for trimmed, and its objects are left
//     alone. A stream of which nothing is left is not known; one that was trimmed to its end may end earlier than it did.
//   - Which streams were deleted. Those whose objects were not removed yet are there again.
//   - Streams that never held anything. They are not known.
//   - Under which epochs a stream was opened without an append, and where its epochs began: its epoch is the highest that
//     any of its records has, and its list of epochs is empty.
//   - How old records are. An object counts from when it was put into the store.
//   - Node epochs of which the log has no object and no fence.
//
// Ids of streams and objects continue far above all that were seen.
type Rebuilt struct {
	// Cluster is the name in the keys of the WAL, or [RebuildOptions.Cluster] when there are none.
	Cluster string
	// Streams, Nodes, Sets and Objects are in the order of their ids, the last in that of streams and offsets.
	Streams []catalog.Stream
	Nodes   []catalog.NodeState
	Sets    []catalog.StreamSetState
	Objects []catalog.StreamObjectState
	// NextStream and NextObject are the next ids to assign.
	NextStream catalog.StreamID
	NextObject catalog.ObjectID
	// Replaced are objects that are not needed because others hold the same records: sources of a compaction, or
	// objects that were written and never committed.
	Replaced []catalog.ObjectID
	// Copies are objects of which only a part is needed: [Rebuilt.Write] makes the new ones.
	Copies []RebuildCopy
	// LogEnds are the ends of streams whose records continue in a log.
	LogEnds map[catalog.StreamID]int64
	// LoggedRecords, of LoggedBytes of payload, is the number of records to be recovered from write-ahead logs; objects
	// may hold some of them too.
	LoggedRecords, LoggedBytes int64
	// Findings are what the operator should know.
	Findings []RebuildFinding

	salvaged []*salvagedLog
}

// RebuildCopy is a new object that holds a part of another one, so that no record is held twice.
type RebuildCopy struct {
	From, To catalog.ObjectID
	Ranges   []catalog.Range
	// Size is the bytes of the new object.
	Size int64
}

// RebuildFinding is something about a bucket that the operator should know.
type RebuildFinding struct {
	// Stops says that nothing is rebuilt unless [RebuildOptions.LeaveOut] is set: an object that is damaged or of an unknown
	// version, a log that cannot be recovered, or a gap for which it is unclear whether records are missing. A key of
	// no known form in a node's log stops the rebuild either way, since [Open] would refuse it.
	Stops bool
	// Stream, Object and Node are what it is about, -1 if it is not about one. Key is the key in the store, if any.
	Stream catalog.StreamID
	Object catalog.ObjectID
	Node   catalog.NodeID
	Key    string
	// Detail says what it is and what follows.
	Detail string
}

// String is one line.
func (f RebuildFinding) String() string {
	where := ""
	if f.Stream >= 0 {
		where += fmt.Sprintf("stream %d: ", f.Stream)
	}
	if f.Node >= 0 {
		where += fmt.Sprintf("node %d: ", f.Node)
	}
	if f.Key != "" {
		where += fmt.Sprintf("%q: ", f.Key)
	}
	return where + f.Detail
}

// RebuildError says that objects are damaged or cannot be understood, so that streams cannot be rebuilt without leaving
// something out.
type RebuildError struct{ Findings []RebuildFinding }

func (e *RebuildError) Error() string {
	return fmt.Sprintf("streams cannot be rebuilt completely (findings: %d), the first: %s", len(e.Findings), e.Findings[0])
}

// How far above what was seen ids go on: a process that was never heard of again may have been given some.
const (
	skippedStreams = 1 << 16
	skippedObjects = 1 << 20
)

// Rebuild makes metadata of streams again that are lost, from the indexes of all data objects and the records of the logs
// that were not drained. It changes nothing. Its memory use grows with the number of objects and of streams in them,
// and not with their records.
//
// Of objects that hold the same records the newest are chosen, in such a way that each stream reaches as far down as any
// choice lets it. The error is a [*RebuildError] for damage, with the Rebuilt as far as it got, or that of a store.
func Rebuild(ctx context.Context, o RebuildOptions) (*Rebuilt, error) {
	o.Namespace = cmp.Or(o.Namespace, DefaultNamespace)
	b := &rebuilder{
		RebuildOptions: o, objects: map[catalog.ObjectID]*foundObject{}, streams: map[catalog.StreamID]*foundStream{},
		made: &Rebuilt{Cluster: o.Cluster, LogEnds: map[catalog.StreamID]int64{}}, highestObject: catalog.NoObject, highestStream: -1,
	}
	for _, step := range []func(context.Context) error{b.readObjects, b.readLogs, b.readEpochs} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	b.choose()
	b.tell()
	return b.made, b.stopped()
}

// rebuilder is a running rebuild.
type rebuilder struct {
	RebuildOptions
	made          *Rebuilt
	objects       map[catalog.ObjectID]*foundObject
	streams       map[catalog.StreamID]*foundStream
	highestObject catalog.ObjectID
	highestStream catalog.StreamID
	refused       []RebuildFinding // those that stop even with LeaveOut
}

// foundObject is a data object as described by its index.
type foundObject struct {
	id         catalog.ObjectID
	size       int64 // as in metadata: of a composite the size of what it links (CMP-4)
	putMs      int64
	composite  bool
	components []catalog.ObjectID
	runs       []*foundRun
	linked     bool // by a composite in use
}

// foundRun is a run of one stream's records in an object.
type foundRun struct {
	object     *foundObject
	stream     catalog.StreamID
	start, end int64
	size       int64
	last       IndexEntry       // the last entry of the run
	holder     catalog.ObjectID // the object that its position refers to
	used       bool
}

// foundStream is what was found of a stream.
type foundStream struct {
	id    catalog.StreamID
	runs  []*foundRun // by start, then by object
	ends  []int64     // of all runs that were found, ascending
	log   *foundLog   // records that are in a log and may not be in an object; nil if there are none
	epoch int64       // of the newest record in an object, -1 if there is none
	// dropped is the epoch of logged records that are left out.
	dropped int64

	// The choice: objects hold the records from start to end.
	start, end int64
}

// stream returns the entry of a stream, creating an empty one if necessary.
func (b *rebuilder) stream(id catalog.StreamID) *foundStream {
	s := b.streams[id]
	if s == nil {
		s = &foundStream{id: id, epoch: -1, dropped: -1}
		b.streams[id] = s
		b.highestStream = max(b.highestStream, id)
	}
	return s
}

func (b *rebuilder) find(f RebuildFinding, format string, args ...any) {
	f.Detail = fmt.Sprintf(format, args...)
	b.made.Findings = append(b.made.Findings, f)
}

func findStream(id catalog.StreamID) RebuildFinding {
	return RebuildFinding{Stream: id, Object: catalog.NoObject, Node: -1}
}

func findObject(id catalog.ObjectID, key string) RebuildFinding {
	return RebuildFinding{Stream: -1, Object: id, Node: -1, Key: key}
}

func findNode(id catalog.NodeID, key string) RebuildFinding {
	return RebuildFinding{Stream: -1, Object: catalog.NoObject, Node: id, Key: key}
}

// damage records an error that describes a fault of an object, which is then left out, and returns any other.
func (b *rebuilder) damage(f RebuildFinding, err error) error {
	var version *VersionError
	var key *UnknownKeyError
	var gap *WALGapError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &version), errors.As(err, &key), errors.As(err, &gap), errors.Is(err, ErrCorrupt), errors.Is(err, objstore.ErrInvalid):
		f.Stops = true
		b.find(f, "%v", err)
		return nil
	case errors.Is(err, objstore.ErrNotFound), errors.Is(err, errVanished):
		return fmt.Errorf("an object is gone since it was listed; does a server still use the bucket? %w", err)
	}
	return err
}

// refuse records a key that [Open] refuses, whatever is rebuilt.
func (b *rebuilder) refuse(f RebuildFinding, err error) {
	f.Stops = true
	b.find(f, "%v; the node does not start while it is there: move it out of the bucket", err)
	b.refused = append(b.refused, b.made.Findings[len(b.made.Findings)-1])
}

// stopped returns the error of everything that makes the rebuild unusable.
func (b *rebuilder) stopped() error {
	e := &RebuildError{Findings: b.refused}
	if !b.LeaveOut {
		e.Findings = slices.DeleteFunc(slices.Clone(b.made.Findings), func(f RebuildFinding) bool { return !f.Stops })
	}
	if len(e.Findings) > 0 {
		return e
	}
	return nil
}

// sortedStreams are the streams in the order of their ids.
func (b *rebuilder) sortedStreams() (all []*foundStream) {
	for _, id := range slices.Sorted(maps.Keys(b.streams)) {
		all = append(all, b.streams[id])
	}
	return all
}

// sortedObjects are the objects in the order of their ids.
func (b *rebuilder) sortedObjects() (all []*foundObject) {
	for _, id := range slices.Sorted(maps.Keys(b.objects)) {
		all = append(all, b.objects[id])
	}
	return all
}
