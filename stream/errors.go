package stream

import (
	"errors"
	"fmt"
)

// ErrCorrupt is returned for bytes that are not what was written.
var ErrCorrupt = errors.New("corrupt object")

// Errors for invalid arguments.
var (
	// ErrLinkRecord is a record with a negative count, which other products write and this one does not support
	// (REC-1).
	ErrLinkRecord = errors.New("link records are not supported")
	// ErrBadCount is a record that covers no rows, or rows beyond the last offset (REC-5).
	ErrBadCount = errors.New("bad record count")
	// ErrRecordTooLarge is a record whose frame would not fit into a window (FRM-4).
	ErrRecordTooLarge = errors.New("record is too large")
	// ErrOrdering is records or blocks that are not in the required order.
	ErrOrdering = errors.New("records are out of order")
)

// CorruptError says where an object is corrupt. It matches [ErrCorrupt].
type CorruptError struct {
	// Object is the object's key or file name.
	Object string
	// Position is where in the object, in bytes.
	Position int64
	// What names the field or check that failed.
	What string
	// Want and Got are the expected and actual values of the field; both may be empty.
	Want, Got string
}

func (e *CorruptError) Error() string {
	text := fmt.Sprintf("corrupt object %q at %d: %s", e.Object, e.Position, e.What)
	if e.Want != "" || e.Got != "" {
		text += fmt.Sprintf(": want %s, got %s", e.Want, e.Got)
	}
	return text
}

// Is matches [ErrCorrupt].
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// VersionError is a format version that this code does not know, or does not accept in this place. The bytes are left
// unchanged.
type VersionError struct {
	// Object is the object's key or file name.
	Object string
	// Position is where in the object, in bytes.
	Position int64
	// Format is what has the version: "record", "WAL object".
	Format string
	// Found is the version in the object, Known what this code accepts.
	Found, Known string
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("object %q at %d: %s of version %s, this program knows %s",
		e.Object, e.Position, e.Format, e.Found, e.Known)
}

// UnknownKeyError is a key below a node's prefix that has none of the known forms (KEY-1).
type UnknownKeyError struct {
	Key string
	// Want is the form that it should have.
	Want string
}

func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("object key %q is unknown, want %s", e.Key, e.Want)
}

// source is where bytes that are being decoded come from. Its methods build errors.
type source struct {
	object   string
	position int64 // of the first byte
}

func (s source) at(n int) source { return source{s.object, s.position + int64(n)} }

func (s source) corrupt(what string) error {
	return &CorruptError{Object: s.object, Position: s.position, What: what}
}

func (s source) differs(what string, want, got any) error {
	return &CorruptError{
		Object: s.object, Position: s.position, What: what, Want: fmt.Sprint(want), Got: fmt.Sprint(got),
	}
}

func (s source) short(what string, want, got int) error {
	return s.differs(what+" is cut off: bytes", want, got)
}

func (s source) version(format string, found, known any) error {
	return &VersionError{
		Object: s.object, Position: s.position, Format: format, Found: fmt.Sprint(found), Known: fmt.Sprint(known),
	}
}

// hexNumber prints a magic as it is written.
type hexNumber uint64

func (h hexNumber) String() string { return fmt.Sprintf("%#x", uint64(h)) }
