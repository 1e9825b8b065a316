package runner

import (
	"context"
	"errors"
)

// Log is a partition of __consumer_offsets as its shard needs it. The shard calls it from one goroutine.
type Log interface {
	// Replay calls visit for every record and transaction marker from the log start to the high watermark, in order, and
	// stops at its first error. An entry is valid until visit returns. It blocks on the disk, until ctx ends.
	Replay(ctx context.Context, visit func(Entry) error) error

	// Append appends one batch of records, all or none, with the given timestamp (ms since 1970). When it returns nil
	// they are in the log but neither durable nor visible: Pending reports that. It may wait for room, until ctx ends.
	// Errors are those of package coordinator for clients, joined with [ErrEnded] when the log accepts no more.
	Append(ctx context.Context, ms int64, records []KeyValue) (Pending, error)

	// Carry is Append of one record that is in the log already, and that may be larger than Append accepts by now. The error
	// is coordinator.ErrRecordTooLarge if the log cannot hold it.
	Carry(ctx context.Context, ms int64, record KeyValue) (Pending, error)

	// MaxBatchBytes is the largest batch that Append accepts, including headers.
	MaxBatchBytes() int

	// Empty reports whether there is nothing to replay.
	Empty() bool

	// End is the offset that the next record gets.
	End() int64

	// Trim deletes the records below an offset that is durable. When it returns they never come back.
	Trim(offset int64) error
}

// ErrEnded says that a log accepts no more records: it was closed, deleted or given away, or its disk has failed. Its
// shard ends; a new one starts with the next request.
var ErrEnded = errors.New("the log has ended")

// Pending is a set of records that are in a log but perhaps not yet durable.
type Pending interface {
	// Done is closed when the records are durable and visible, or when that failed.
	Done() <-chan struct{}

	// Err returns the failure, or nil, once Done is closed.
	Err() error
}

// KeyValue is a record. A nil value is a tombstone.
type KeyValue struct{ Key, Value []byte }

// Entry is the content of a log at an offset: a record, or the end of a transaction.
type Entry struct {
	Offset     int64
	Key, Value []byte
	ProducerID int64 // of the transaction, or -1
	Marker     Marker
}

// Marker is the end of a transaction.
type Marker int8

// The kinds of an [Entry].
const (
	NoMarker     Marker = 0 // a record
	CommitMarker Marker = 1
	AbortMarker  Marker = 2
)
