package partition

import (
	"errors"
	"fmt"

	"github.com/tidemark-io/tidemark/kafkalog"
)

// Errors of this package; match them with errors.Is. The only other error that a listener needs is
// *batch.ValidationError.
var (
	// ErrOffsetOutOfRange says that an offset is below the log start or above the end a reader may ask for. The error
	// that carries it is an [*OffsetError].
	ErrOffsetOutOfRange = errors.New("offset out of range")

	// ErrFenced says that a client's leader epoch is older than the log's.
	ErrFenced = errors.New("leader epoch is older than the partition's")

	// ErrUnknownLeaderEpoch says that a client's leader epoch is newer than the log's.
	ErrUnknownLeaderEpoch = errors.New("leader epoch is newer than the partition's")

	// ErrNotLeader says that the log accepts no more appends because this node no longer leads it ([Log.Fence]).
	ErrNotLeader = errors.New("the partition is no longer led here")

	// ErrStorage says that the disk failed. An append that gets it may or may not be in the log after the next start. The
	// error that carries it is a [*StorageError].
	ErrStorage = errors.New("storage failure")

	// ErrLowDisk says that the process reserves the remaining disk space for purposes other than records. It comes with
	// [ErrStorage]; nothing was appended, and a later attempt may succeed.
	ErrLowDisk = errors.New("too little space is left on the disk")

	// ErrClosed says that the log was closed.
	ErrClosed = errors.New("the partition is closed")

	// ErrDeleted says that the log was deleted with its topic.
	ErrDeleted = errors.New("the partition is deleted")

	// ErrPolicy says that the topic's cleanup.policy forbids the operation.
	ErrPolicy = errors.New("the topic's cleanup policy forbids this")

	// ErrInvalidArgument says that an argument is invalid whatever the log holds.
	ErrInvalidArgument = errors.New("invalid argument")
)

// Appends that the producer's state forbids. Nothing was written. The errors that match them name the producer and the
// sequence.
var (
	// ErrOutOfOrderSequence says that a batch does not follow its producer's last one.
	ErrOutOfOrderSequence = kafkalog.ErrOutOfOrderSequence

	// ErrInvalidProducerEpoch says that a newer instance has replaced the producer.
	ErrInvalidProducerEpoch = kafkalog.ErrInvalidProducerEpoch

	// ErrInvalidTxnState says that a batch is outside the transaction that its producer has open.
	ErrInvalidTxnState = kafkalog.ErrInvalidTransactionState
)

// OffsetError carries [ErrOffsetOutOfRange].
type OffsetError struct {
	Offset     int64 // requested
	Start, End int64 // what may be requested, both inclusive
}

func (e *OffsetError) Error() string {
	return fmt.Sprintf("offset %d is outside [%d, %d]", e.Offset, e.Start, e.End)
}

// Is reports that an OffsetError matches [ErrOffsetOutOfRange].
func (e *OffsetError) Is(target error) bool { return target == ErrOffsetOutOfRange }

// StorageError carries [ErrStorage] and names the log, the operation and the cause.
type StorageError struct {
	Topic     string
	Partition int32
	Doing     string // "append", "sync", "read", …
	Final     bool   // the log accepts no more appends until it is reopened
	Err       error
}

func (e *StorageError) Error() string {
	return fmt.Sprintf("%s-%d: %s: %v", e.Topic, e.Partition, e.Doing, e.Err)
}

func (e *StorageError) Unwrap() error { return e.Err }

// Is reports that a StorageError matches [ErrStorage].
func (e *StorageError) Is(target error) bool { return target == ErrStorage }
