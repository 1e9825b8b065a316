package stream

import (
	"errors"
	"fmt"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// Errors that calls of an [Engine] and its streams return, besides those of the stores and of the catalog.
var (
	// ErrWALFailed is a log that acknowledges nothing any more (WAL-11). The outcome of unacknowledged appends is
	// unknown: recovery may find them, and their offsets are not reused. The engine must be closed and reopened under a
	// new epoch.
	ErrWALFailed = errors.New("write-ahead log has failed")
	// ErrFenced is an engine whose node runs under a newer epoch elsewhere (UP-5). The engine's error matches
	// [ErrWALFailed] too, since nothing more is acknowledged.
	ErrFenced = errors.New("node has been taken over")
	// ErrEngineFailed is an engine that found a broken invariant, or whose metadata refused a request that must be
	// valid (UP-6). It acknowledges nothing any more; the log keeps what was acknowledged.
	ErrEngineFailed = errors.New("stream engine has failed")
	// ErrClosed is an engine or a stream that has been closed, or is being closed.
	ErrClosed = errors.New("stream is closed")
	// ErrOverCapacity is an append that would have to wait for room although its caller asked not to wait (WAL-9).
	// Nothing was changed.
	ErrOverCapacity = errors.New("write-ahead log is over its capacity")
	// ErrOffsetOutOfRange is an offset outside the stream: see [*OffsetRangeError].
	ErrOffsetOutOfRange = errors.New("offset is out of range")
)

// WALFencedError is a log that found another writer's object in its next window: a newer epoch of the node has taken
// over. It matches [ErrWALFailed] and [ErrFenced].
type WALFencedError struct {
	// Key is the object's key.
	Key string
	// ByEpoch is the node epoch in the object's header, or -1 if it has none that can be read.
	ByEpoch int64
}

func (e *WALFencedError) Error() string {
	return fmt.Sprintf("write-ahead log was fenced at %q by node epoch %d", e.Key, e.ByEpoch)
}

// Is matches [ErrWALFailed] and [ErrFenced].
func (e *WALFencedError) Is(target error) bool { return target == ErrWALFailed || target == ErrFenced }

// OffsetRangeError is an offset that is not in [Low, High]. It matches [ErrOffsetOutOfRange].
type OffsetRangeError struct {
	Stream    catalog.StreamID
	Want      int64
	Low, High int64
}

func (e *OffsetRangeError) Error() string {
	return fmt.Sprintf("offset %d of stream %d is out of range, it has %d to %d", e.Want, e.Stream, e.Low, e.High)
}

// Is matches [ErrOffsetOutOfRange].
func (e *OffsetRangeError) Is(target error) bool { return target == ErrOffsetOutOfRange }

// EpochTakenError is an epoch that metadata assigned although objects of it, or of a later one, exist: metadata went
// back in time, as after a restore from an old backup. [Open] refuses it and changes nothing (3.6 step 1).
type EpochTakenError struct {
	// Key is an object of that epoch or a later one.
	Key string
	// Epoch is the one that was assigned.
	Epoch int64
}

func (e *EpochTakenError) Error() string {
	return fmt.Sprintf("node epoch %d is taken: object %q exists; the metadata is older than the write-ahead log", e.Epoch, e.Key)
}

// WALGapError is a log that lacks an object which must have existed: one so far behind a later one that its PUT cannot
// have been in flight (WAL-16). [Open] refuses such a log; it writes nothing and deletes nothing.
type WALGapError struct {
	// Want is the key of the missing object, Next that of the next one that exists.
	Want, Next string
}

func (e *WALGapError) Error() string {
	return fmt.Sprintf("write-ahead log has a gap: object %q is missing, but %q exists", e.Want, e.Next)
}

// RecoverError is a record of a log that does not continue the previous one of its stream (WAL-29). [Open] refuses
// the log.
type RecoverError struct {
	// Key and Position are the WAL object and the logical offset of the record's frame.
	Key      string
	Position int64
	Stream   catalog.StreamID
	// Want is the offset where the record must begin; Base and End are its own.
	Want, Base, End int64
}

func (e *RecoverError) Error() string {
	what := "a gap"
	if e.Base < e.Want {
		what = "an overlap"
	}
	return fmt.Sprintf("write-ahead log has %s: record [%d, %d) of stream %d in %q at %d, want it to begin at %d",
		what, e.Base, e.End, e.Stream, e.Key, e.Position, e.Want)
}
