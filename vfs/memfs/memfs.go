package memfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidemark-io/tidemark/vfs"
)

// ErrKilled is what every call fails with after [FS.Kill].
var ErrKilled = errors.New("file system was killed")

// FS is a file system in memory: a [vfs.FS] whose root directory exists. Relative names count from the root. Its files
// are also [vfs.VectorWriter]s, and it is a [vfs.VolumeOpener].
type FS struct {
	now  func() time.Time
	lost atomic.Int64 // calls of DropUnsynced

	// mu guards the tree. File operations hold it for reading, so that a crash sees one moment of all files.
	mu struct {
		sync.RWMutex
		killed bool
		root   *dir
		// pending are the changes of names that are not durable, in the order in which they were made.
		pending []*change
		settled int // how many of pending have become durable since they were last swept
	}
}

// Option adjusts a new file system.
type Option func(*FS)

// WithClock takes modification times from now instead of time.Now.
func WithClock(now func() time.Time) Option {
	return func(f *FS) { f.now = now }
}

// New returns an empty file system.
func New(options ...Option) *FS {
	f := &FS{now: time.Now}
	for _, o := range options {
		o(f)
	}
	f.mu.root = newDir(nil, f.now())
	return f
}

// Kill makes every later call fail with an error that matches [ErrKilled], on open files too, and returns when the last
// running one has ended. Only Close still succeeds, and [FS.Crash] still works: kill, then crash, and a server that
// runs on cannot have been answered anything that the copy does not know.
func (f *FS) Kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.killed = true
}

// locked runs do with the tree locked, and names the path in its error.
func (f *FS) locked(op, name string, do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.named(op, name, do)
}

// rlocked is locked, shared with other readers, for what leaves the tree as it is.
func (f *FS) rlocked(op, name string, do func() error) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.named(op, name, do)
}

func (f *FS) named(op, name string, do func() error) error {
	err := ErrKilled
	if !f.mu.killed {
		err = do()
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

// linked is locked for what concerns two names.
func (f *FS) linked(op, oldname, newname string, do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := ErrKilled
	if !f.mu.killed {
		err = do()
	}
	if err != nil {
		return &os.LinkError{Op: op, Old: oldname, New: newname, Err: err}
	}
	return nil
}

// Open implements [vfs.FS].
func (f *FS) Open(name string, mode vfs.Mode) (vfs.File, error) {
	var opened *handle
	err := f.locked("open", name, func() error {
		n, err := f.openNode(name, mode)
		if err == nil {
			opened = &handle{fs: f, name: name, file: n, writable: mode != vfs.ReadOnly}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return opened, nil
}

func (f *FS) openNode(name string, mode vfs.Mode) (*file, error) {
	if mode < vfs.ReadOnly || mode > vfs.CreateTruncate {
		return nil, fs.ErrInvalid
	}
	at, err := f.place(name)
	if err != nil {
		return nil, err
	}
	switch n := at.node().(type) {
	case *file:
		if mode == vfs.CreateNew {
			return nil, fs.ErrExist
		}
		if mode == vfs.CreateTruncate {
			n.truncate(0, f.now())
		}
		return n, nil
	case *dir:
		return nil, syscall.EISDIR
	}
	if mode == vfs.ReadOnly || mode == vfs.ReadWrite {
		return nil, fs.ErrNotExist
	}
	return f.create(at), nil
}

// create makes an empty file at a place that is free.
func (f *FS) create(at place) *file {
	n := newFile(f.now())
	f.record(&change{slots: []slot{{at.dir, at.name, n}}})
	return n
}

// Remove implements [vfs.FS].
func (f *FS) Remove(name string) error {
	return f.locked("remove", name, func() error {
		at, err := f.place(name)
		if err != nil {
			return err
		}
		gone := &change{slots: []slot{{at.dir, at.name, nil}}}
		switch n := at.node().(type) {
		case nil:
			return fs.ErrNotExist
		case *dir:
			if len(n.entries) > 0 {
				return syscall.ENOTEMPTY
			}
			gone.needs = append(gone.needs, n.pending...) // nothing that left it may be lost with it
		}
		f.record(gone)
		return nil
	})
}

// Rename implements [vfs.FS]. Like os.Rename it never replaces a directory.
func (f *FS) Rename(oldname, newname string) error {
	return f.linked("rename", oldname, newname, func() error {
		from, err := f.existing(oldname)
		if err != nil {
			return err
		}
		to, err := f.place(newname)
		if err != nil {
			return err
		}
		moved, replaced := from.node(), to.node()
		if moved == replaced {
			return nil
		}
		moving, isDir := moved.(*dir)
		if _, ok := replaced.(*dir); ok {
			return fs.ErrExist
		}
		if isDir && replaced != nil {
			return syscall.ENOTDIR
		}
		if isDir && to.dir.isBelow(moving) {
			return fs.ErrInvalid
		}
		f.record(&change{
			slots: []slot{{from.dir, from.name, nil}, {to.dir, to.name, moved}},
			needs: to.dir.unsettledPath(),
		})
		return nil
	})
}

// Link implements [vfs.FS].
func (f *FS) Link(oldname, newname string) error {
	return f.linked("link", oldname, newname, func() error {
		from, err := f.existing(oldname)
		if err != nil {
			return err
		}
		n, ok := from.node().(*file)
		if !ok {
			return fs.ErrPermission
		}
		to, err := f.place(newname)
		if err != nil {
			return err
		}
		if to.node() != nil {
			return fs.ErrExist
		}
		f.record(&change{slots: []slot{{to.dir, to.name, n}}})
		return nil
	})
}

// MkdirAll implements [vfs.FS].
func (f *FS) MkdirAll(name string) error {
	return f.locked("mkdir", name, func() error {
		at := f.mu.root
		for _, part := range split(name) {
			switch n := at.entries[part].(type) {
			case *dir:
				at = n
			case *file:
				return syscall.ENOTDIR
			default:
				made := newDir(at, f.now())
				f.record(&change{slots: []slot{{at, part, made}}})
				at = made
			}
		}
		return nil
	})
}

// List implements [vfs.FS].
func (f *FS) List(name string) ([]fs.DirEntry, error) {
	var list []fs.DirEntry
	err := f.rlocked("readdir", name, func() error {
		d, err := f.dir(name)
		if err != nil {
			return err
		}
		for _, entry := range d.names() {
			list = append(list, fs.FileInfoToDirEntry(d.entries[entry].info(entry)))
		}
		return nil
	})
	return list, err
}

// Stat implements [vfs.FS].
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	var info fs.FileInfo
	err := f.rlocked("stat", name, func() error {
		n, err := f.lookup(name)
		if err == nil {
			info = n.info(base(name))
		}
		return err
	})
	return info, err
}

// Chtimes implements [vfs.FS].
func (f *FS) Chtimes(name string, mtime time.Time) error {
	return f.locked("chtimes", name, func() error {
		n, err := f.lookup(name)
		if err == nil {
			n.touch(mtime)
		}
		return err
	})
}

// SyncDir implements [vfs.FS]. It makes both sides of a rename durable, whichever directory is synced. The name of the
// directory itself is not made durable: that is the parent's.
func (f *FS) SyncDir(name string) error {
	return f.locked("syncdir", name, func() error {
		d, err := f.dir(name)
		if err == nil {
			f.settle(d)
		}
		return err
	})
}

// Lock implements [vfs.FS]. The lock belongs to the file, not to its name, and is not in a copy that [FS.Crash] makes.
func (f *FS) Lock(name string) (io.Closer, error) {
	var held *lock
	err := f.locked("lock", name, func() error {
		n, err := f.openNode(name, vfs.Create)
		if err != nil {
			return err
		}
		if n.locked {
			return vfs.ErrLocked
		}
		n.locked = true
		held = &lock{fs: f, file: n}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return held, nil
}

// lock is a held lock.
type lock struct {
	fs   *FS
	file *file
	done bool // guarded by fs.mu
}

func (l *lock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if l.done {
		return fs.ErrClosed
	}
	l.done, l.file.locked = true, false
	return nil
}

// names returns the names in a directory, sorted.
func (d *dir) names() []string {
	names := make([]string, 0, len(d.entries))
	for name := range d.entries {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
