//go:build !linux

package lazymem

import "errors"

// reservable returns 0: only Linux is known to back anonymous memory with pages no earlier than it is written, and to
// allow more address space than memory.
func reservable() int64 { return 0 }

func reserve(int) ([]byte, error) { return nil, errors.ErrUnsupported }

func drop([]byte, int) {}

func release([]byte) error { return nil }
