//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd || windows)

package vfs

import (
	"errors"
	"io"
	"io/fs"
)

// Lock is refused: without a lock that ends with its process, two servers could write the same directory.
func (osFS) Lock(name string) (io.Closer, error) {
	return nil, &fs.PathError{Op: "lock", Path: name, Err: errors.ErrUnsupported}
}
