package journal

import (
	"errors"
	"fmt"
)

// ErrFull says that a side is full and that the contents of the other have not been synced elsewhere yet: meanwhile the
// caller syncs the logs themselves.
var ErrFull = errors.New("both sides of the journal are in use")

// ErrTooMuch says that the records of a side that are to be set aside are more than the caller allows.
var ErrTooMuch = errors.New("too many records to set aside")

// CorruptError says that a journal is damaged in a way that no crash explains: in a part that was synced, which may be
// the only copy of some acknowledged records. The file is left unchanged.
type CorruptError struct {
	File     string
	Position int64 // in bytes
	Reason   string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s: damaged at byte %d: %s", e.File, e.Position, e.Reason)
}

// VersionError says that a journal has a version that this program does not know. The file is left unchanged.
type VersionError struct {
	File         string
	Found, Known uint32
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s: byte 8: journal of version %d, this program knows version %d", e.File, e.Found, e.Known)
}

// unknownVersionError is a VersionError that does not know its file yet.
type unknownVersionError struct{ found uint32 }

func (e *unknownVersionError) Error() string { return fmt.Sprintf("version %d", e.found) }
