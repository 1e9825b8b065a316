package config

import (
	"fmt"
)

// UnknownKeyError says that there is no key of this name.
type UnknownKeyError struct {
	// Key is the name as given: of a flag, of an environment variable, or in the file.
	Key string
	// Nearest is the name most like it in the same place, or "" when none is close.
	Nearest string
	// Source says where it was given.
	Source Source
}

// Error names the key, the nearest one and the source.
func (e *UnknownKeyError) Error() string {
	msg := fmt.Sprintf("%s: unknown key %s", e.Source, e.Key)
	if e.Nearest != "" {
		msg += fmt.Sprintf(" (did you mean %s?)", e.Nearest)
	}
	return msg
}

// ValueError says that a key's value is not valid.
type ValueError struct {
	Key string
	// Value is the value as given, with secrets hidden.
	Value string
	// Source says where it was given.
	Source Source
	// Reason says what a value must be.
	Reason string
}

// Error names the source, the key, the value and the reason.
func (e *ValueError) Error() string {
	return fmt.Sprintf("%s: %s is %q: %s", e.Source, e.Key, e.Value, e.Reason)
}
