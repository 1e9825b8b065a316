package vfs

import (
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Permissions of what the OS file system creates, before the umask: the owner writes, the group may read, others nothing.
const (
	filePerm fs.FileMode = 0o640
	dirPerm  fs.FileMode = 0o750
)

// OS returns the real file system. Names are passed to the operating system as they are, so a relative one counts from
// the working directory. New files and directories are readable by the group and by nobody else.
//
// Every descriptor is close-on-exec, interrupted calls are tried again, and short writes are continued. On Linux a file
// is also a [Preallocator], [VectorWriter], [SocketSender] and [WriteBacker], and the file system is a [SpaceReporter] and
// a [VolumeOpener]; elsewhere it is not, and callers that ask by type assertion take their portable way.
func OS() FS { return osFS{} }

type osFS struct{}

func (osFS) Open(name string, mode Mode) (File, error) {
	flag, err := openFlag(name, mode)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, flag, filePerm)
	if err != nil {
		return nil, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &osFile{f: f, raw: raw}, nil
}

func openFlag(name string, mode Mode) (int, error) {
	switch mode {
	case ReadOnly:
		return os.O_RDONLY, nil
	case ReadWrite:
		return os.O_RDWR, nil
	case Create:
		return os.O_RDWR | os.O_CREATE, nil
	case CreateNew:
		return os.O_RDWR | os.O_CREATE | os.O_EXCL, nil
	case CreateTruncate:
		return os.O_RDWR | os.O_CREATE | os.O_TRUNC, nil
	}
	return 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
}

func (osFS) Remove(name string) error             { return os.Remove(name) }
func (osFS) Rename(oldname, newname string) error { return os.Rename(oldname, newname) }
func (osFS) Link(oldname, newname string) error   { return os.Link(oldname, newname) }
func (osFS) MkdirAll(name string) error           { return os.MkdirAll(name, dirPerm) }

func (osFS) List(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }
func (osFS) Stat(name string) (fs.FileInfo, error)   { return os.Stat(name) }

// Chtimes leaves the access time as it is.
func (osFS) Chtimes(name string, mtime time.Time) error {
	return os.Chtimes(name, time.Time{}, mtime)
}

func (osFS) SyncDir(name string) error { return syncDir(name) }

// osFile is a regular file. os.File already continues short writes and tries interrupted calls again; raw reaches the
// descriptor for what os.File does not offer, and keeps it open while it is in use.
type osFile struct {
	f   *os.File
	raw syscall.RawConn
}

func (f *osFile) ReadAt(p []byte, off int64) (int, error)  { return f.f.ReadAt(p, off) }
func (f *osFile) WriteAt(p []byte, off int64) (int, error) { return f.f.WriteAt(p, off) }
func (f *osFile) Stat() (fs.FileInfo, error)               { return f.f.Stat() }
func (f *osFile) Truncate(size int64) error                { return f.f.Truncate(size) }
func (f *osFile) Sync() error                              { return f.sync() }
func (f *osFile) Close() error                             { return f.f.Close() }

// control runs call with the file's descriptor, again after an interruption, and names the file in its error.
func (f *osFile) control(op string, call func(fd int) error) error {
	var callErr error
	err := f.raw.Control(func(fd uintptr) {
		callErr = retryInterrupted(func() error { return call(int(fd)) })
	})
	return f.controlError(op, err, callErr)
}

// controlError is the outcome of a call through raw: controlErr says that the descriptor could not be used, which it
// only cannot after Close.
func (f *osFile) controlError(op string, controlErr, callErr error) error {
	if controlErr != nil {
		callErr = fs.ErrClosed
	}
	if callErr != nil {
		return &fs.PathError{Op: op, Path: f.f.Name(), Err: callErr}
	}
	return nil
}

// retryInterrupted runs call until it ends with something else than EINTR.
func retryInterrupted(call func() error) error {
	for {
		if err := call(); err != syscall.EINTR {
			return err
		}
	}
}
