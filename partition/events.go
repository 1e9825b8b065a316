package partition

import (
	"errors"
	"time"

	"github.com/tidemark-io/tidemark/batch"
)

// Events are callbacks that report what happens in the logs of a process. Any func may be nil. They run on the
// goroutine that did the work: they must be quick, must not call into the log, and must not do I/O that can block.
// Nothing here depends on them.
type Events struct {
	// Appended is called for each batch that was written, or recognised as a duplicate.
	Appended func(Appended)

	// Refused is called for each batch that was refused.
	Refused func(Refused)

	// Removed is called when a log has been deleted with its topic.
	Removed func(Removed)

	// Synced is called after each sync by the flusher, successful or not.
	Synced func(Synced)

	// Failed is called once when a log stops accepting appends because its disk failed.
	Failed func(Failed)

	// ReadFailed is called for each read that failed on the disk, even while its records were being sent.
	ReadFailed func(ReadFailed)

	// MaintenanceFailed is called after retention or other maintenance failed; it will be retried.
	MaintenanceFailed func(MaintenanceFailed)
}

// Appended describes a batch in the log.
type Appended struct {
	Topic     string
	Partition int32
	Records   int32
	Bytes     int
	Duplicate bool
}

// Refused describes a batch that was refused.
type Refused struct {
	Topic     string
	Partition int32
	Bytes     int
	Reason    string // one of a few, such as "storage" or "corrupt batch"
	Err       error
}

// Removed describes a log that was deleted.
type Removed struct {
	Topic     string
	Partition int32
	Dir       string // where its files wait to be deleted
}

// Synced describes one sync of one log.
type Synced struct {
	Topic     string
	Partition int32
	Appends   int   // released by it
	Bytes     int64 // of these appends
	End       int64 // durable after it; 0 when it failed
	Took      time.Duration
	Err       error
}

// Failed describes a log that accepts no more appends.
type Failed struct {
	Topic     string
	Partition int32
	Err       error
}

// ReadFailed describes a read that failed. Appends and other reads continue.
type ReadFailed struct {
	Topic     string
	Partition int32
	Offset    int64 // at which the read began; -1 for a search by timestamp
	Err       error // names the file, and the position in it
}

// MaintenanceFailed describes maintenance of one log that failed and will be retried.
type MaintenanceFailed struct {
	Topic     string
	Partition int32
	Doing     string
	Err       error
}

// withDefaults returns events whose funcs can be called without a check.
func (e Events) withDefaults() *Events {
	if e.Appended == nil {
		e.Appended = func(Appended) {}
	}
	if e.Refused == nil {
		e.Refused = func(Refused) {}
	}
	if e.Removed == nil {
		e.Removed = func(Removed) {}
	}
	if e.Synced == nil {
		e.Synced = func(Synced) {}
	}
	if e.Failed == nil {
		e.Failed = func(Failed) {}
	}
	if e.ReadFailed == nil {
		e.ReadFailed = func(ReadFailed) {}
	}
	if e.MaintenanceFailed == nil {
		e.MaintenanceFailed = func(MaintenanceFailed) {}
	}
	return &e
}

// refusalReason is a short word for why a batch was not taken.
func refusalReason(err error) string {
	var invalid *batch.ValidationError
	switch {
	case errors.As(err, &invalid):
		return invalid.Kind.String()
	case errors.Is(err, ErrOutOfOrderSequence):
		return "out of order sequence"
	case errors.Is(err, ErrInvalidProducerEpoch):
		return "invalid producer epoch"
	case errors.Is(err, ErrInvalidTxnState):
		return "invalid transaction state"
	case errors.Is(err, ErrNotLeader), errors.Is(err, ErrClosed), errors.Is(err, ErrDeleted):
		return "not served here"
	}
	if errors.Is(err, ErrLowDisk) {
		return "low disk"
	}
	return "storage"
}
