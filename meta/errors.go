package meta

import (
	"errors"
	"fmt"
)

// Errors that a [Backend] may return. Match them with errors.Is; an error that matches none of these is final and
// stops the log.
var (
	// ErrConflict says that the head is not where the append expected it to be. The entry was not appended by this
	// call.
	ErrConflict = errors.New("meta: the log's head has moved")

	// ErrOutcomeUnknown says that a reply was lost: the entry may be in the log, may not be, and may still arrive.
	// [Log.Propose] returns it if it gave up before the outcome was known.
	ErrOutcomeUnknown = errors.New("meta: outcome unknown")

	// ErrUnavailable says that nothing happened and the same call may succeed later.
	ErrUnavailable = errors.New("meta: backend is unavailable")

	// ErrNoSpace says that there was no space for what was to be stored. Nothing was stored, and the same call may
	// succeed once there is space again; there is no automatic retry.
	ErrNoSpace = errors.New("meta: no space left")

	// ErrTruncated says that the requested entries have been truncated; a snapshot replaces them.
	ErrTruncated = errors.New("meta: entries were truncated")

	// ErrClaimed says that another process holds the expiring key.
	ErrClaimed = errors.New("meta: claimed by another holder")

	// ErrClosed says that the log or backend was closed.
	ErrClosed = errors.New("meta: closed")
)

// ErrTooLarge says that one command does not fit in an entry. It was not proposed.
var ErrTooLarge = errors.New("meta: command is too large for an entry")

// FormatError says that bytes are not a well-formed entry or snapshot: torn, damaged or something else entirely.
type FormatError struct {
	// Offset is the byte at which decoding failed.
	Offset int
	// Reason says what was expected there.
	Reason string
	// Damaged says that the bytes are not those that were written: the checksum, the magic or the length is wrong.
	Damaged bool
}

// Error gives the reason and the byte.
func (e *FormatError) Error() string { return fmt.Sprintf("at byte %d: %s", e.Offset, e.Reason) }

// VersionError says that bytes are well-formed as far as we can tell and were written by a version that we do not know.
type VersionError struct {
	// What is unknown: "entry version", "command codec version", "command type", "snapshot version", or a section.
	What string
	// Got is what the bytes say; Known is the newest that this build reads.
	Got, Known uint64
}

// Error names both versions.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s is %d, and this build knows up to %d: it was written by a newer version", e.What, e.Got, e.Known)
}

// CorruptError says which stored item cannot be used. The log stops at it.
type CorruptError struct {
	// Where is the backend's name for itself, such as the path of its file.
	Where string
	// Item is "log entry", "snapshot", or a part of the backend's own format.
	Item string
	// Index is the entry's index, or the index that the snapshot was taken at; 0 when the item has none.
	Index uint64
	// Err is a [*FormatError], a [*VersionError] or the backend's own finding.
	Err error
}

// Error names the place, the item and the finding.
func (e *CorruptError) Error() string {
	if e.Index == 0 {
		return fmt.Sprintf("meta: %s: %s: %v", e.Where, e.Item, e.Err)
	}
	return fmt.Sprintf("meta: %s: %s %d: %v", e.Where, e.Item, e.Index, e.Err)
}

// Unwrap returns the finding.
func (e *CorruptError) Unwrap() error { return e.Err }

// GapError says that entries are missing: they are neither in the log nor covered by a snapshot.
type GapError struct {
	// Where is the backend's name for itself.
	Where string
	// Want is the first index that is missing, Head the newest that was ever appended.
	Want, Head uint64
}

// Error names the place and the hole.
func (e *GapError) Error() string {
	return fmt.Sprintf("meta: %s: log entry %d is missing and no snapshot covers it (head is %d)", e.Where, e.Want, e.Head)
}

// MissingError says that a file which must exist does not, or is empty.
type MissingError struct {
	Path  string
	Empty bool // it exists, but has no bytes
}

// Error names the file and what to do.
func (e *MissingError) Error() string {
	if e.Empty {
		return fmt.Sprintf("meta: %s is empty: restore it from a copy, or start with an empty data directory", e.Path)
	}
	return fmt.Sprintf("meta: %s is missing, but the data it described exists: restore the file rather than start without it",
		e.Path)
}

// LockedError says that another process, or another Open in this one, holds the backend.
type LockedError struct{ Path string }

// Error names what is locked.
func (e *LockedError) Error() string {
	return fmt.Sprintf("meta: %s is in use by another process", e.Path)
}

// ClusterIDError says that the log belongs to another cluster.
type ClusterIDError struct {
	// Path is the file or URL of the log.
	Path         string
	Stored, Want string
}

// Error names the log and both ids.
func (e *ClusterIDError) Error() string {
	return fmt.Sprintf("meta: %s belongs to cluster %s, not to %s", e.Path, e.Stored, e.Want)
}
