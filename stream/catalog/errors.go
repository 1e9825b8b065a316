package catalog

import "errors"

// The refusals. Implementations wrap them with details, so match them with errors.Is.
var (
	// ErrStreamNotExist is a stream that was never created, or was deleted.
	ErrStreamNotExist = errors.New("stream does not exist")
	// ErrStreamNotClosed is a stream that is open and must not be.
	ErrStreamNotClosed = errors.New("stream is not closed")
	// ErrStreamFenced is a stream that has another owner or a newer epoch.
	ErrStreamFenced = errors.New("stream is fenced")
	// ErrExpiredEpoch is a stream epoch that is not the present one.
	ErrExpiredEpoch = errors.New("stream epoch has expired")
	// ErrNodeEpochMismatch is a node that is unknown or runs under another epoch: the caller is no longer the node.
	ErrNodeEpochMismatch = errors.New("node epoch does not match")
	// ErrRedundant is a change that was already made. Callers treat it as success.
	ErrRedundant = errors.New("change was made before")
	// ErrNotContiguous is a commit that does not begin where the stream ends.
	ErrNotContiguous = errors.New("commit does not begin at the end of the stream")
	// ErrObjectNotPrepared is an object id that was not reserved, or no longer is.
	ErrObjectNotPrepared = errors.New("object is not prepared")
	// ErrObjectIDInUse is an object id that is used twice.
	ErrObjectIDInUse = errors.New("object id is in use")
	// ErrCompactionLosesData is a compaction whose outputs lack records of its sources.
	ErrCompactionLosesData = errors.New("compaction loses data")
	// ErrStreamNotOpened is a stream that is closed and must be open.
	ErrStreamNotOpened = errors.New("stream is not opened")
	// ErrOffsetOutOfRange is an offset outside the stream.
	ErrOffsetOutOfRange = errors.New("offset is out of range")
	// ErrInvalidArgument is an invalid call.
	ErrInvalidArgument = errors.New("invalid argument")
)

// ErrUnavailable is metadata that cannot be reached. The request may have been applied, or may be applied later.
var ErrUnavailable = errors.New("metadata is not available")

// ErrTooLarge is a call that does not fit into one change of the metadata. Nothing was done; a smaller one may succeed.
var ErrTooLarge = errors.New("too large for one change of the metadata")
