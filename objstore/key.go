package objstore

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of keys, in bytes. Every store and file system supports them.
const (
	MaxKey        = 1024
	MaxKeyElement = 240
)

// CheckKey accepts the keys that every store supports: elements between single slashes, in valid UTF-8 without control
// characters and backslashes, none empty, none longer than [MaxKeyElement], none beginning with a dot; [MaxKey] bytes
// in all. The error matches [ErrInvalid].
//
// One more rule cannot be checked on a single key: an object's key must not be another's prefix up to a slash, as
// "a" and "a/b". A directory cannot hold both.
func CheckKey(key string) error {
	if key == "" || len(key) > MaxKey {
		return fmt.Errorf("%w: key of %d bytes, want 1 to %d", ErrInvalid, len(key), MaxKey)
	}
	if !utf8.ValidString(key) {
		return fmt.Errorf("%w: key %q is not UTF-8", ErrInvalid, key)
	}
	for element := range strings.SplitSeq(key, "/") {
		if err := checkElement(element); err != nil {
			return fmt.Errorf("%w: key %q: %s", ErrInvalid, key, err)
		}
	}
	return nil
}

func checkElement(element string) error {
	switch {
	case element == "":
		return fmt.Errorf("an element is empty")
	case len(element) > MaxKeyElement:
		return fmt.Errorf("an element has %d bytes, more than %d", len(element), MaxKeyElement)
	case element[0] == '.':
		return fmt.Errorf("element %q begins with a dot", element)
	}
	for _, r := range element {
		if r < ' ' || r == 0x7f || r == '\\' {
			return fmt.Errorf("element %q holds the character %q", element, r)
		}
	}
	return nil
}

// PageSize returns the number of objects that a page may hold, or an error that matches [ErrInvalid] for a Limit that is
// not allowed. It is for drivers.
func (r ListRequest) PageSize() (int, error) {
	switch {
	case r.Limit == 0:
		return MaxPage, nil
	case r.Limit < 0 || r.Limit > MaxPage:
		return 0, fmt.Errorf("%w: page of %d objects, want 1 to %d", ErrInvalid, r.Limit, MaxPage)
	}
	return r.Limit, nil
}

// CheckRange accepts the range [off, off+n) of an object of size bytes. The error matches [ErrInvalid]. It is for
// drivers; those that do not know the size pass the largest int64.
func CheckRange(off int64, n int, size int64) error {
	if n <= 0 || off < 0 || off > size || int64(n) > size-off {
		return fmt.Errorf("%w: range of %d bytes from %d in an object of %d bytes", ErrInvalid, n, off, size)
	}
	return nil
}
