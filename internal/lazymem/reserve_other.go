//go:build !linux

package lazymem

import "errors"

// reservable is nothing: only Linux is known to give pages to anonymous memory no earlier than it is written, and to say
// so of address space that exceeds what memory there is.
func reservable() int64 { return 0 }

func reserve(int) ([]byte, error) { return nil, errors.ErrUnsupported }

func drop([]byte, int) {}

func release([]byte) error { return nil }
