//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package vfs

import (
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Lock takes a flock and a record lock over the whole file. The first belongs to the open file, so that a second Lock in
// the same process is refused as well; the second is what a JVM takes, so that Apache Kafka and this process keep each
// other out of a directory. The kernel drops both when the process ends.
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
		err = l.control("fcntl", func(fd int) error {
			whole := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
			return syscall.FcntlFlock(uintptr(fd), setRecordLock, &whole)
		})
	}
	if err == nil {
		return f, nil
	}
	f.Close()
	switch err.(*fs.PathError).Err {
	case syscall.EWOULDBLOCK, syscall.EACCES:
		return nil, &fs.PathError{Op: "lock", Path: name, Err: ErrLocked}
	}
	return nil, err
}
