//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package vfs

import (
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Lock takes a flock. It belongs to the open file, so a second Lock in the same process is refused as well, and the
// kernel drops it when the process ends.
func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, filePerm)
	if err != nil {
		return nil, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	l := &osFile{f: f, raw: raw}
	err = l.control("flock", func(fd int) error { return syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) })
	if err == nil {
		return f, nil
	}
	f.Close()
	if pathErr := err.(*fs.PathError); pathErr.Err == syscall.EWOULDBLOCK {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: ErrLocked}
	}
	return nil, err
}
