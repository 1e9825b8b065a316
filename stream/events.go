package stream

import (
	"time"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// Events receives what happens in an [Engine]. Every field may be nil. A callback may run on the goroutine that
// acknowledges appends: it must return quickly and must not call the engine. Nothing depends on an event being observed.
type Events struct {
	// Opened reports that the engine accepts appends.
	Opened func(OpenedEvent)
	// Recovered reports that the log of an older epoch, of this node or of one that it took over, was ended and
	// committed.
	Recovered func(RecoveredEvent)
	// Acknowledged reports that a WAL object, and all before it, is stored.
	Acknowledged func(AcknowledgedEvent)
	// PutRetried reports that the outcome of a PUT of the WAL is unknown, and that it will be retried.
	PutRetried func(PutRetriedEvent)
	// WALDeleted reports WAL objects that were covered and have been deleted.
	WALDeleted func(WALDeletedEvent)
	// WALDeleteFailed reports that WAL objects could not be deleted; this is retried.
	WALDeleteFailed func(FailedEvent)
	// Uploaded reports that a block of the log cache is committed, UploadRetried that a step of an upload will be
	// retried.
	Uploaded      func(UploadedEvent)
	UploadRetried func(UploadRetriedEvent)
	// ReadRetried reports that the data store failed temporarily during a read, which will be retried.
	ReadRetried func(StoreRetriedEvent)
	// Compacted reports a commit that replaced objects by others. CompactionRetried reports that a call of the data
	// store will be retried, CompactionFailed a round that will be retried, or an object that was found to be damaged
	// and is excluded for a while.
	Compacted         func(CompactedEvent)
	CompactionRetried func(StoreRetriedEvent)
	CompactionFailed  func(FailedEvent)
	// Cleaned reports a round of the cleaner that did something.
	Cleaned func(CleanedEvent)
	// Failed reports, once, that the engine accepts no appends from now on: close it, and reopen it under a new epoch.
	Failed func(FailedEvent)
}

// OpenedEvent describes an engine that was opened.
type OpenedEvent struct {
	Node  catalog.Node
	Start int64 // logical offset where its log begins
	Took  time.Duration
}

// RecoveredEvent describes what recovery found.
type RecoveredEvent struct {
	Node     catalog.Node // whose log it was, and the epoch that ended it
	Epoch    int64        // the epoch that was ended
	From, To int64        // logical offsets of the windows that were read; To is where the fence lies
	Objects  int          // objects that were read
	Records  int          // records that were committed, of Bytes payload
	Bytes    int64
	Dropped  Dropped
	// Dead are the keys of objects above the fence, in the order of their windows: the one that should precede them is
	// missing. A crash leaves such objects when uploads overlap, and then none of their records was acknowledged. But
	// if somebody deleted an object of the log, they are all that is left of what followed it, so the operator should
	// be warned about them. They are deleted when the fence is, after [Config.WALFenceRetention].
	Dead []string
	Took time.Duration
}

// Dropped counts the records that recovery did not commit, by reason (WAL-28, WAL-29).
type Dropped struct {
	Trimmed   int // at or below the trim offset
	Committed int // below the end of their stream
	Foreign   int // their stream is gone, closed, of another node or of another epoch
}

// AcknowledgedEvent describes a WAL object whose records were acknowledged.
type AcknowledgedEvent struct {
	Window  int64 // logical offset of its window
	Records int
	Bytes   int           // of the frames
	Waited  time.Duration // since its first record arrived
}

// PutRetriedEvent describes a PUT that will be retried.
type PutRetriedEvent struct {
	Key   string
	Try   int // from 1
	Delay time.Duration
	Err   error
}

// WALDeletedEvent describes WAL objects that were removed.
type WALDeletedEvent struct {
	Keys []string
	Trim int64 // the persisted trim offset that covers them
}

// FailedEvent describes a failure.
type FailedEvent struct {
	Err error
}
