package stream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// CheckOptions say what [Check] verifies.
type CheckOptions struct {
	// Catalog is the metadata: a [catalog.Catalog], or anything else that has a view.
	Catalog interface{ View() catalog.View }
	// WAL and Data are the stores of the write-ahead logs and of the data objects; they may be the same.
	WAL, Data objstore.Store
	// Cluster is the cluster's name in the keys of the WAL; Namespace is that of data objects, "DEFAULT" if empty.
	Cluster, Namespace string
	// Deep reads every record, of data objects and of the write-ahead logs, where otherwise only headers and indexes are
	// read.
	Deep bool
	// Verify, if set, is called by a deep check for every record of the data objects: its payload may have a checksum
	// of its own. The payload is valid during the call. Calls may be concurrent.
	Verify func(Record) error
	// Overdue is how old the mark of a destroyed object may be; the default is an hour more than the default grace.
	Overdue time.Duration
}

// Severity says how bad a finding is.
type Severity string

// The severities.
const (
	// Damage is records that cannot be read or recovered, or metadata that contradicts itself.
	Damage Severity = "damage"
	// Waste is bytes that nothing needs and that will not be removed automatically any time soon.
	Waste Severity = "waste"
)

// FindingKind names a rule that is violated.
type FindingKind string

// What [Check] finds. All are [Damage] unless stated otherwise.
const (
	// FoundBadStream is an inconsistent row of a stream: its start above its end, or its epochs out of order.
	FoundBadStream FindingKind = "bad stream"
	// FoundBadNode is a stream that is open on a node that metadata does not know, or a log that does not begin at a window.
	FoundBadNode FindingKind = "bad node"
	// FoundHole is offsets of a stream that no object holds, FoundOverlap such that two hold (M-INV).
	FoundHole    FindingKind = "hole"
	FoundOverlap FindingKind = "overlap"
	// FoundNotCommitted is an object in use whose id is only reserved, or was never assigned.
	FoundNotCommitted FindingKind = "object not committed"
	// FoundBadMark is an inconsistent mark of a destroyed object: the object is in use or reserved, is marked twice,
	// was never assigned, or its bytes are to be kept.
	FoundBadMark FindingKind = "bad mark"
	// FoundOverdue is a destroyed object that should have been deleted: [Waste].
	FoundOverdue FindingKind = "deletion overdue"

	// FoundMissingObject is an object in use, or a component of a composite in use, that the store does not have.
	FoundMissingObject FindingKind = "missing object"
	// FoundBadSize is an object whose size is not that of metadata, FoundBadObject one whose footer, index or blocks are not
	// what was written, FoundUnknownVersion one of a version that this program does not know.
	FoundBadSize        FindingKind = "bad size"
	FoundBadObject      FindingKind = "bad object"
	FoundUnknownVersion FindingKind = "unknown version"
	// FoundBadIndex is an object that holds other ranges than metadata says.
	FoundBadIndex FindingKind = "bad index"
	// FoundBadRecord is records that do not follow each other, or that Verify refuses. Deep checks find it.
	FoundBadRecord FindingKind = "bad record"
	// FoundOrphan is an object that nothing refers to (GC-6): [Waste].
	FoundOrphan FindingKind = "orphan"
	// FoundFutureObject is an object whose id was never assigned: metadata went back in time.
	FoundFutureObject FindingKind = "object of the future"

	// FoundUnknownKey is a key of a log that has none of the known forms (KEY-1).
	FoundUnknownKey FindingKind = "unknown key"
	// FoundForeignLog is a log of a node that metadata does not know.
	FoundForeignLog FindingKind = "log of an unknown node"
	// FoundFutureEpoch is an object of an epoch that was never assigned: metadata went back in time.
	FoundFutureEpoch FindingKind = "epoch of the future"
	// FoundLeftover is an object of an epoch that ended and is committed: [Waste].
	FoundLeftover FindingKind = "leftover of an old epoch"
	// FoundSalvaged is an object that a recovery kept of a damaged log: [Waste], see [SalvagedLogs].
	FoundSalvaged FindingKind = "kept of a damaged log"
	// FoundBadWAL is an object of a log whose header or frames are not what was written (WOB-1 to WOB-3, FRM-2).
	FoundBadWAL FindingKind = "bad WAL object"
	// FoundBadTrim is a trim offset that is lower than an earlier one (WOB-3).
	FoundBadTrim FindingKind = "bad trim offset"
	// FoundWALGap is a window without an object, whose PUT can no longer be in flight (WAL-16).
	FoundWALGap FindingKind = "gap in the WAL"
	// FoundBadRecovery is records of a log that do not continue their stream: recovery would fail (WAL-29). Deep checks find
	// it.
	FoundBadRecovery FindingKind = "records that cannot be recovered"
)

// severity is that of all findings of a kind.
func (k FindingKind) severity() Severity {
	switch k {
	case FoundOverdue, FoundOrphan, FoundLeftover, FoundSalvaged:
		return Waste
	}
	return Damage
}

// Finding is a violated rule, and where it is violated.
type Finding struct {
	Kind     FindingKind
	Severity Severity
	// Stream, Object and Node are what it is about, -1 if it is not about one.
	Stream catalog.StreamID
	Object catalog.ObjectID
	Node   catalog.NodeID
	// Key is the key in the store, if it is about one.
	Key string
	// Detail says what is wrong.
	Detail string
}

// String is one line: severity, kind, where and what.
func (f Finding) String() string {
	where := ""
	if f.Stream >= 0 {
		where += fmt.Sprintf(", stream %d", f.Stream)
	}
	if f.Object >= 0 {
		where += fmt.Sprintf(", object %d", f.Object)
	}
	if f.Node >= 0 {
		where += fmt.Sprintf(", node %d", f.Node)
	}
	if f.Key != "" {
		where += fmt.Sprintf(", key %q", f.Key)
	}
	return fmt.Sprintf("%s: %s%s: %s", f.Severity, f.Kind, where, f.Detail)
}

// Check verifies metadata, data objects and write-ahead logs against each other and yields what is wrong, as it is
// found. It changes nothing. A healthy store yields nothing, even while nodes write to it.
//
// Its memory use grows with the metadata and with the number of objects in one node's log, not with the data: it holds
// the records of at most 16 index entries or of one WAL object. An error, of a store or the context's, is yielded last:
// the check is then incomplete.
func Check(ctx context.Context, o CheckOptions) iter.Seq2[Finding, error] {
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if o.Overdue == 0 {
		o.Overdue = DefaultConfig().GCGrace + time.Hour
	}
	return func(yield func(Finding, error) bool) {
		c := checker{CheckOptions: o, yield: yield}
		v := o.Catalog.View()
		for _, part := range []func() error{
			func() error { return c.checkMetadata(ctx, v) },
			func() error { return c.checkObjects(ctx, v) },
			func() error { return c.checkBucket(ctx) },
			func() error { return c.checkLogs(ctx, v) },
			func() error { return c.checkSalvaged(ctx) },
		} {
			if err := part(); err != nil {
				if !errors.Is(err, errEnough) {
					yield(about(), err)
				}
				return
			}
		}
	}
}

// errEnough ends a check whose caller wants no more findings.
var errEnough = errors.New("no more findings are wanted")

// checker is a running check.
type checker struct {
	CheckOptions
	yield func(Finding, error) bool
	found int // so far, in the current part
}

// about returns a finding that concerns nothing in particular yet.
func about() Finding { return Finding{Stream: -1, Object: -1, Node: -1} }

func aboutStream(id catalog.StreamID) Finding {
	f := about()
	f.Stream = id
	return f
}

func (c *checker) aboutObject(id catalog.ObjectID) Finding {
	f := about()
	f.Object, f.Key = id, DataKey(c.Namespace, id)
	return f
}

func aboutNode(id catalog.NodeID, key string) Finding {
	f := about()
	f.Node, f.Key = id, key
	return f
}

// report yields a finding. Its error is nil while more are wanted.
func (c *checker) report(f Finding, kind FindingKind, format string, args ...any) error {
	c.found++
	f.Kind, f.Severity, f.Detail = kind, kind.severity(), fmt.Sprintf(format, args...)
	if !c.yield(f, nil) {
		return errEnough
	}
	return nil
}
