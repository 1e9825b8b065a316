package logdir

import (
	"errors"
	"fmt"
)

// ErrNotLoaded is returned by [Dir.WriteCleanShutdown] if the logs may need recovery: the last shutdown was not clean
// and this process has not finished loading them.
var ErrNotLoaded = errors.New("logs have not all been loaded since an unclean shutdown")

// VersionError says that a file has a format version that this build does not know. The file is left unchanged.
type VersionError struct {
	// File is the path.
	File string
	// Found is the version in the file.
	Found int64
	// Newest is the highest version that this build knows; it knows all from 0.
	Newest int64
}

func (e *VersionError) Error() string {
	known := fmt.Sprintf("versions 0 to %d", e.Newest)
	if e.Newest == 0 {
		known = "version 0"
	}
	return fmt.Sprintf("%s: format version %d is not known here; this build reads %s", e.File, e.Found, known)
}

// FormatError says that a file is damaged, or was never what its name says.
type FormatError struct {
	// File is the path.
	File string
	// Line counts from 1; 0 is the file as a whole.
	Line int
	// Reason says what was expected and what was found.
	Reason string
}

func (e *FormatError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Reason)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
}

// formatError returns a FormatError without a file; a caller that knows the file adds it.
func formatError(line int, format string, args ...any) error {
	return &FormatError{Line: line, Reason: fmt.Sprintf(format, args...)}
}

// inFile adds the path to the errors of a decoder.
func inFile(file string, err error) error {
	switch e := err.(type) {
	case *FormatError:
		e.File = file
	case *VersionError:
		e.File = file
	}
	return err
}
