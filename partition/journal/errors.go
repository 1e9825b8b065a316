package journal

import (
	"errors"
	"fmt"
)

// ErrFull says that a side is full and what is in the other has not been synced elsewhere yet: the caller syncs the logs
// themselves meanwhile.
var ErrFull = errors.New("both sides of the journal are in use")

// CorruptError says that a journal holds what no crash leaves behind: damage in what was synced, which may be the only
// place that has some acknowledged records. The file is left as it is.
type CorruptError struct {
	File     string
	Position int64 // in bytes
	Reason   string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s: damaged at byte %d: %s", e.File, e.Position, e.Reason)
}

// VersionError says that a journal is of a version that this program does not know. The file is left as it is.
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
