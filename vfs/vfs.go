// Package vfs is the file system that Tidemark's logs are written through.
//
// The interfaces are small on purpose: [FS] has ten methods and [File] six, which is what an append-only log needs and
// no more. What only some files can do (reserve blocks, write several buffers at once, send a range to a socket, hint
// write-back) is an optional interface found by type assertion, so that an in-memory file or a wrapper need not pretend.
//
// [OS] is the real file system. Package memfs is one in memory that can be crashed: it forgets what was not synced.
// Package faultfs wraps any FS and fails a chosen call.
package vfs

import (
	"io"
	"io/fs"
	"syscall"
	"time"
)

// Mode says how [FS.Open] opens a file.
type Mode int

const (
	// ReadOnly opens an existing file for reading.
	ReadOnly Mode = iota
	// ReadWrite opens an existing file for reading and writing.
	ReadWrite
	// Create opens the file for reading and writing, and makes an empty one if there is none.
	Create
	// CreateNew makes an empty file and fails with an error that matches [fs.ErrExist] if the name is taken.
	CreateNew
	// CreateTruncate opens the file for reading and writing and empties it, or makes an empty one.
	CreateTruncate
)

// FS is a file system. All methods are safe for concurrent use. Names are paths with forward slashes, as for package
// os. Errors match [fs.ErrNotExist], [fs.ErrExist] and [fs.ErrPermission] with errors.Is where these are the cause.
//
// Nothing is durable when a method returns unless it says so: a created, renamed or removed name survives a power cut
// only after [FS.SyncDir] of its directory, and a file's bytes only after [File.Sync].
type FS interface {
	// Open opens the named file. The caller closes it.
	Open(name string, mode Mode) (File, error)

	// Remove removes the named file or empty directory. Files open under the name stay readable.
	Remove(name string) error

	// Rename gives oldname the name newname and replaces what was there, in one step as seen by every reader and by a
	// crash. Open files stay valid.
	Rename(oldname, newname string) error

	// Link makes newname a second name of the file oldname. It fails with an error that matches [fs.ErrExist] when
	// newname is taken.
	Link(oldname, newname string) error

	// MkdirAll makes the directory and any parents that are missing. An existing directory is no error.
	MkdirAll(name string) error

	// List returns the entries of a directory in the order of their names.
	List(name string) ([]fs.DirEntry, error)

	// Stat describes the named file or directory.
	Stat(name string) (fs.FileInfo, error)

	// Chtimes sets a file's modification time.
	Chtimes(name string, mtime time.Time) error

	// SyncDir makes the names in a directory durable: files created, renamed to or from, and removed before the call.
	SyncDir(name string) error

	// Lock takes an exclusive lock on the named file, which it creates if needed, and holds it until the returned
	// Closer is closed or the process ends. A lock that is held fails at once with an error that matches [ErrLocked].
	Lock(name string) (io.Closer, error)
}

// File is an open file. Reads and writes carry their position, so one handle serves many readers and one writer at the
// same time. A File is not usable after Close.
type File interface {
	io.ReaderAt
	// WriterAt writes all of p or returns an error; short writes are continued inside.
	io.WriterAt
	io.Closer

	// Stat describes the file; its Size includes what was written and not yet synced.
	Stat() (fs.FileInfo, error)

	// Truncate sets the file's length in bytes. Growing it leaves a hole that reads as zeros.
	Truncate(size int64) error

	// Sync makes the file's bytes and length durable. A failed Sync is final: the kernel may have dropped the dirty
	// pages, so a later success says nothing about them.
	Sync() error
}

// Preallocator is a [File] that can reserve disk blocks for [off, off+n) without changing the file's length.
type Preallocator interface {
	Preallocate(off, n int64) error
}

// VectorWriter is a [File] that can write several buffers, one after the other from off, in one call. It writes all of
// them or returns an error, and leaves bufs and what they hold unchanged.
type VectorWriter interface {
	WriteVectorAt(bufs [][]byte, off int64) (int64, error)
}

// SocketSender is a [File] that can send a byte range to a socket without copying it through the process. The file
// position is not used, so any number of senders may share the handle. It returns the bytes sent, which are fewer than
// n only with an error. An error of the file is an [*fs.PathError]: io.ErrUnexpectedEOF in it says that the file is
// shorter than the range. errors.ErrUnsupported says, before anything is sent, that this socket or file system cannot do
// it and the caller must copy. Every other error is the connection's, its write deadline included.
type SocketSender interface {
	SendTo(conn syscall.RawConn, off, n int64) (int64, error)
}

// WriteBacker is a [File] that can ask the kernel to start writing a dirty range to the device, without waiting and
// without any promise of durability.
type WriteBacker interface {
	WriteBack(off, n int64) error
}

// SpaceReporter is an [FS] that knows how many bytes are free, and how many there are in all, on the file system that
// holds the named path.
type SpaceReporter interface {
	Space(name string) (free, total int64, err error)
}

// VolumeOpener is an [FS] that can make durable in one call everything that is on the file system of a directory. The error
// matches [errors.ErrUnsupported] where that is not possible, or is not known to say what went wrong.
type VolumeOpener interface {
	OpenVolume(dir string) (Volume, error)
}

// Volume is the file system that a directory is on, to sync many files of it at once.
type Volume interface {
	// Holds reports whether a file or directory is on it.
	Holds(name string) (bool, error)

	// Sync makes durable all files and names on the file system as they were before the call, whoever wrote them. It also
	// writes everybody else's dirty pages, so it is not for anything that somebody waits for. An error means that
	// something written since the volume was opened, or since the last Sync, may not be durable, but not what: then every
	// file has to be synced individually. Writes that failed before the volume was opened are not reported.
	Sync() error

	io.Closer
}
