package kafkalog

import (
	"errors"
	"fmt"
)

// Classes of errors. A caller that only needs to choose a response matches these with errors.Is; the types below
// carry the file, the position and the values, and are found with errors.As.
var (
	// ErrStorage is the class of everything that is wrong with the files: [*IOError], [*CorruptionError],
	// [*ChecksumError], [*UnsupportedVersionError] and [*SegmentNameError].
	ErrStorage = errors.New("kafkalog: storage error")

	// ErrTryAgain comes with [ErrStorage] and means that the log is unchanged and still usable: something could not be
	// opened or written, for lack of a descriptor or of space, and the same call may succeed later. A failed fsync
	// never matches it.
	ErrTryAgain = errors.New("kafkalog: try again")

	// ErrOffsetOutOfRange is the class of reads of offsets that this log does not hold: [*OffsetTooLowError] and
	// [*OffsetBelowLocalStartError].
	ErrOffsetOutOfRange = errors.New("kafkalog: offset out of range")

	// ErrOffsetMismatch is the class of [*OffsetMismatchError].
	ErrOffsetMismatch = errors.New("kafkalog: offset mismatch")

	// ErrInvalidArgument is the class of [*ArgumentError].
	ErrInvalidArgument = errors.New("kafkalog: invalid argument")

	// ErrInvalidBatch is the class of [*BatchError]: a batch or a record in it does not encode or decode.
	ErrInvalidBatch = errors.New("kafkalog: invalid batch")

	// ErrFenced is returned by every append after Fence. Reads continue.
	ErrFenced = errors.New("kafkalog: log is fenced")

	// ErrClosed is returned by a log, or an Env, that has been closed.
	ErrClosed = errors.New("kafkalog: closed")

	// ErrOutOfOrderSequence is the class of [*OutOfOrderSequenceError].
	ErrOutOfOrderSequence = errors.New("kafkalog: out of order sequence number")

	// ErrInvalidProducerEpoch is the class of [*ProducerEpochError].
	ErrInvalidProducerEpoch = errors.New("kafkalog: invalid producer epoch")

	// ErrInvalidTransactionState is the class of [*TransactionStateError].
	ErrInvalidTransactionState = errors.New("kafkalog: invalid transaction state")

	// ErrCoordinatorFenced is the class of [*CoordinatorEpochError].
	ErrCoordinatorFenced = errors.New("kafkalog: transaction coordinator fenced")
)

// IOError is a file operation that failed, or an earlier failure because of which the log refuses to work until it is
// reopened. It is of class [ErrStorage] and unwraps to the cause.
type IOError struct {
	Op   string // what was being done, e.g. "write" or "flush rolled segment"
	Path string
	Err  error
}

func (e *IOError) Error() string { return fmt.Sprintf("kafkalog: %s %s: %v", e.Op, e.Path, e.Err) }

// Unwrap returns the cause.
func (e *IOError) Unwrap() error { return e.Err }

// Is reports whether target is the error's class, [ErrStorage].
func (e *IOError) Is(target error) bool { return target == ErrStorage }

// ReadError is a read of a log's file that the device failed. It is of class [ErrStorage] and unwraps to the cause.
type ReadError struct {
	Path     string
	Position int64 // in the file, of the first byte that was not read
	Err      error
}

func (e *ReadError) Error() string {
	return fmt.Sprintf("kafkalog: read %s at position %d: %v", e.Path, e.Position, e.Err)
}

// Unwrap returns the cause.
func (e *ReadError) Unwrap() error { return e.Err }

// Is reports whether target is the error's class, [ErrStorage].
func (e *ReadError) Is(target error) bool { return target == ErrStorage }

// CorruptionError is a file whose content cannot be what this library, or Kafka, wrote. It is of class [ErrStorage].
type CorruptionError struct {
	Path     string
	Position int64  // of the first bad byte in the file; in a text file, of its line
	Want     string // what was expected there; empty when Reason says it all
	Got      string // what was found there
	Reason   string
}

func (e *CorruptionError) Error() string {
	if e.Want == "" && e.Got == "" {
		return fmt.Sprintf("kafkalog: %s is corrupt at position %d: %s", e.Path, e.Position, e.Reason)
	}
	return fmt.Sprintf("kafkalog: %s is corrupt at position %d: %s: want %s, got %s",
		e.Path, e.Position, e.Reason, e.Want, e.Got)
}

// Is reports whether target is the error's class, [ErrStorage].
func (e *CorruptionError) Is(target error) bool { return target == ErrStorage }

// ChecksumError is a stored batch whose bytes do not match the checksum in its header, found outside the tail
// that recovery may cut. It is of class [ErrStorage].
type ChecksumError struct {
	Path     string
	Position int64  // of the batch in the file
	Want     uint32 // CRC-32C in the header
	Got      uint32 // CRC-32C of the bytes
}

func (e *ChecksumError) Error() string {
	return fmt.Sprintf("kafkalog: %s: batch at position %d has checksum %08x, its bytes have %08x",
		e.Path, e.Position, e.Want, e.Got)
}

// Is reports whether target is the error's class, [ErrStorage].
func (e *ChecksumError) Is(target error) bool { return target == ErrStorage }

// UnsupportedVersionError is a versioned file whose version is not the one that this package reads and writes. It
// is of class [ErrStorage].
type UnsupportedVersionError struct {
	Artifact  string // what the file is, e.g. "producer snapshot"
	Path      string
	Position  int64 // of the version in the file
	Found     int64
	Supported int64
}

func (e *UnsupportedVersionError) Error() string {
	return fmt.Sprintf("kafkalog: %s %s has version %d at position %d, this program reads version %d",
		e.Artifact, e.Path, e.Found, e.Position, e.Supported)
}

// Is reports whether target is the error's class, [ErrStorage].
func (e *UnsupportedVersionError) Is(target error) bool { return target == ErrStorage }

// SegmentNameError is a `.log` file whose name is not an offset of 20 digits. It is of class [ErrStorage].
type SegmentNameError struct {
	Name string
}

func (e *SegmentNameError) Error() string {
	return fmt.Sprintf("kafkalog: %q is not the name of a segment, and what is in it may be records: "+
		"move the file out of the directory", e.Name)
}

// Is reports whether target is the error's class, [ErrStorage].
func (e *SegmentNameError) Is(target error) bool { return target == ErrStorage }

// BatchError is a batch, or a record in it, that does not encode or decode. It is of class [ErrInvalidBatch] and
// unwraps to the cause, which package batch describes: a wrong control record is one of its errors, and so is a record
// above the limit for decompression.
type BatchError struct {
	Offset int64 // base offset of the batch, -1 when it has none yet
	Err    error
}

func (e *BatchError) Error() string {
	return fmt.Sprintf("kafkalog: batch at offset %d: %v", e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *BatchError) Unwrap() error { return e.Err }

// Is reports whether target is the error's class, [ErrInvalidBatch].
func (e *BatchError) Is(target error) bool { return target == ErrInvalidBatch }

// IndexFullError is an entry for an index that is full. A log rolls its segment before that happens, so callers
// never see it. It is of class [ErrStorage].
type IndexFullError struct {
	Path    string
	Entries int
}

func (e *IndexFullError) Error() string {
	return fmt.Sprintf("kafkalog: %s is full with %d entries", e.Path, e.Entries)
}

// Is reports whether target is the error's class, [ErrStorage].
func (e *IndexFullError) Is(target error) bool { return target == ErrStorage }

// OffsetTooLowError is a read below the log start. It is of class [ErrOffsetOutOfRange].
type OffsetTooLowError struct {
	Requested int64
	LogStart  int64
}

func (e *OffsetTooLowError) Error() string {
	return fmt.Sprintf("kafkalog: offset %d is below the log start %d", e.Requested, e.LogStart)
}

// Is reports whether target is the error's class, [ErrOffsetOutOfRange].
func (e *OffsetTooLowError) Is(target error) bool { return target == ErrOffsetOutOfRange }

// OffsetBelowLocalStartError is a read at or above the log start of an offset that only the remote tier holds. It is of
// class [ErrOffsetOutOfRange].
type OffsetBelowLocalStartError struct {
	Requested  int64
	LocalStart int64
}

func (e *OffsetBelowLocalStartError) Error() string {
	return fmt.Sprintf("kafkalog: offset %d is below the local log start %d", e.Requested, e.LocalStart)
}

// Is reports whether target is the error's class, [ErrOffsetOutOfRange].
func (e *OffsetBelowLocalStartError) Is(target error) bool { return target == ErrOffsetOutOfRange }

// OffsetMismatchError is an append at a given offset that is below the log end. Nothing was written. It is of class
// [ErrOffsetMismatch].
type OffsetMismatchError struct {
	Expected int64 // the lowest offset that would have been accepted
	Actual   int64
}

func (e *OffsetMismatchError) Error() string {
	return fmt.Sprintf("kafkalog: append at offset %d, expected %d or above", e.Actual, e.Expected)
}

// Is reports whether target is the error's class, [ErrOffsetMismatch].
func (e *OffsetMismatchError) Is(target error) bool { return target == ErrOffsetMismatch }

// ArgumentError is an argument that is invalid in every state of the log. It is of class [ErrInvalidArgument].
type ArgumentError struct {
	Argument string
	Value    int64
	Reason   string
}

func (e *ArgumentError) Error() string {
	return fmt.Sprintf("kafkalog: %s %d: %s", e.Argument, e.Value, e.Reason)
}

// Is reports whether target is the error's class, [ErrInvalidArgument].
func (e *ArgumentError) Is(target error) bool { return target == ErrInvalidArgument }

// OutOfOrderSequenceError is a client's batch that does not follow its producer's last one. Nothing was written. It is
// of class [ErrOutOfOrderSequence].
type OutOfOrderSequenceError struct {
	ProducerID    int64
	ProducerEpoch int16 // of the refused batch
	FirstSequence int32 // of the refused batch
	CurrentEpoch  int16 // the producer's last one on this log
	LastSequence  int32 // the producer's last one at CurrentEpoch, -1 if none is known
}

func (e *OutOfOrderSequenceError) Error() string {
	return fmt.Sprintf("kafkalog: producer %d: sequence %d of epoch %d does not follow sequence %d of epoch %d",
		e.ProducerID, e.FirstSequence, e.ProducerEpoch, e.LastSequence, e.CurrentEpoch)
}

// Is reports whether target is the error's class, [ErrOutOfOrderSequence].
func (e *OutOfOrderSequenceError) Is(target error) bool { return target == ErrOutOfOrderSequence }

// ProducerEpochError is a batch or marker of a producer whose epoch has been superseded by a newer one. Nothing was
// written. It is of class [ErrInvalidProducerEpoch].
type ProducerEpochError struct {
	ProducerID    int64
	ProducerEpoch int16 // of the refused batch
	CurrentEpoch  int16 // the producer's last one on this log
}

func (e *ProducerEpochError) Error() string {
	return fmt.Sprintf("kafkalog: producer %d: epoch %d is refused, the last one is %d",
		e.ProducerID, e.ProducerEpoch, e.CurrentEpoch)
}

// Is reports whether target is the error's class, [ErrInvalidProducerEpoch].
func (e *ProducerEpochError) Is(target error) bool { return target == ErrInvalidProducerEpoch }

// TransactionStateError is a batch without a transaction from a producer that has one open. Nothing was written. It is
// of class [ErrInvalidTransactionState].
type TransactionStateError struct {
	ProducerID  int64
	FirstOffset int64 // of the open transaction
}

func (e *TransactionStateError) Error() string {
	return fmt.Sprintf("kafkalog: producer %d: batch outside the transaction that is open since offset %d",
		e.ProducerID, e.FirstOffset)
}

// Is reports whether target is the error's class, [ErrInvalidTransactionState].
func (e *TransactionStateError) Is(target error) bool { return target == ErrInvalidTransactionState }

// CoordinatorEpochError is a marker from a transaction coordinator that has been superseded by another. Nothing was
// written. It is of class [ErrCoordinatorFenced].
type CoordinatorEpochError struct {
	ProducerID       int64
	CoordinatorEpoch int32 // of the refused marker
	CurrentEpoch     int32 // the last one seen for this producer
}

func (e *CoordinatorEpochError) Error() string {
	return fmt.Sprintf("kafkalog: producer %d: marker of coordinator epoch %d is refused, the last one is %d",
		e.ProducerID, e.CoordinatorEpoch, e.CurrentEpoch)
}

// Is reports whether target is the error's class, [ErrCoordinatorFenced].
func (e *CoordinatorEpochError) Is(target error) bool { return target == ErrCoordinatorFenced }
