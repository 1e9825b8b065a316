package overlay

import (
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tidemark-io/tidemark/vfs"
)

// FS is a [vfs.FS] over another that is only ever read. All methods are safe for concurrent use. Sync and SyncDir do
// nothing: nothing here is meant to last. Make one with [New].
type FS struct {
	base vfs.FS

	mu    sync.Mutex
	nodes map[string]*node // by clean path; a nil node is a name that was removed
	locks map[string]struct{}
}

// New returns an overlay over base. base's files must not change underneath while they are read; what a running server
// appends meanwhile is not seen.
func New(base vfs.FS) *FS {
	return &FS{base: base, nodes: map[string]*node{}, locks: map[string]struct{}{}}
}

// node is a file or directory that was opened or changed through the overlay.
type node struct {
	dir     bool
	content *content // of a file
}

// find returns the node of a name, copied from the base if that has it and the overlay does not. It needs f.mu.
func (f *FS) find(op, name string) (*node, error) {
	if name == "" {
		return nil, pathError(op, name, fs.ErrNotExist)
	}
	name = path.Clean(name)
	if n, known := f.nodes[name]; known {
		if n == nil {
			return nil, pathError(op, name, fs.ErrNotExist)
		}
		return n, nil
	}
	if f.parentRemoved(name) {
		return nil, pathError(op, name, fs.ErrNotExist)
	}
	info, err := f.base.Stat(name)
	if err != nil {
		return nil, err
	}
	n := &node{dir: info.IsDir()}
	if !n.dir {
		n.content = &content{
			base: f.base, baseName: name, baseSize: info.Size(), size: info.Size(), mtime: info.ModTime(),
		}
	}
	f.nodes[name] = n
	return n, nil
}

// parentRemoved reports whether a directory above the name was removed, so that the base's files are not below it. It
// needs f.mu.
func (f *FS) parentRemoved(name string) bool {
	for dir := path.Dir(name); dir != "/" && dir != "."; dir = path.Dir(dir) {
		if n, known := f.nodes[dir]; known && (n == nil || !n.dir) {
			return true
		}
	}
	return false
}

// parent checks that a name can be created: its directory must exist. It needs f.mu.
func (f *FS) parent(op, name string) error {
	dir := path.Dir(path.Clean(name))
	if dir == "." || dir == "/" {
		return nil
	}
	n, err := f.find(op, dir)
	if err != nil {
		return err
	}
	if !n.dir {
		return pathError(op, name, syscall.ENOTDIR)
	}
	return nil
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// Open opens a file; see [vfs.FS].
func (f *FS) Open(name string, mode vfs.Mode) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if mode < vfs.ReadOnly || mode > vfs.CreateTruncate {
		return nil, pathError("open", name, fs.ErrInvalid)
	}
	n, err := f.find("open", name)
	switch {
	case err == nil && mode == vfs.CreateNew:
		return nil, pathError("open", name, fs.ErrExist)
	case err == nil && n.dir:
		return nil, pathError("open", name, syscall.EISDIR)
	case err == nil && mode == vfs.CreateTruncate:
		n.content.truncate(0)
	case err != nil && (mode == vfs.ReadOnly || mode == vfs.ReadWrite):
		return nil, err
	case err != nil:
		if err := f.parent("open", name); err != nil {
			return nil, err
		}
		n = &node{content: &content{mtime: time.Now()}}
		f.nodes[path.Clean(name)] = n
	}
	return &file{name: name, content: n.content, readOnly: mode == vfs.ReadOnly}, nil
}

// Remove removes a name; see [vfs.FS].
func (f *FS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find("remove", name)
	if err != nil {
		return err
	}
	if n.dir {
		names, err := f.list(name)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			return pathError("remove", name, syscall.ENOTEMPTY)
		}
	}
	f.nodes[path.Clean(name)] = nil
	return nil
}

// Rename gives a file or directory another name; see [vfs.FS].
func (f *FS) Rename(oldname, newname string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find("rename", oldname)
	if err != nil {
		return err
	}
	if err := f.parent("rename", newname); err != nil {
		return err
	}
	oldname, newname = path.Clean(oldname), path.Clean(newname)
	if oldname == newname {
		return nil
	}
	if target, err := f.find("rename", newname); err == nil && (target.dir || n.dir) {
		return pathError("rename", newname, fs.ErrExist)
	}
	if n.dir {
		if strings.HasPrefix(newname, oldname+"/") {
			return pathError("rename", newname, fs.ErrInvalid)
		}
		if err := f.moveBelow(oldname, newname); err != nil {
			return err
		}
	}
	f.nodes[newname], f.nodes[oldname] = n, nil
	return nil
}

// moveBelow gives everything in one directory its name in another. It needs f.mu.
func (f *FS) moveBelow(from, to string) error {
	entries, err := f.list(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		old := path.Join(from, e.Name())
		n, err := f.find("rename", old)
		if err != nil {
			return err
		}
		if n.dir {
			if err := f.moveBelow(old, path.Join(to, e.Name())); err != nil {
				return err
			}
		}
		f.nodes[path.Join(to, e.Name())], f.nodes[old] = n, nil
	}
	return nil
}

// Link gives a file a second name; see [vfs.FS].
func (f *FS) Link(oldname, newname string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find("link", oldname)
	if err != nil {
		return err
	}
	if n.dir {
		return pathError("link", oldname, fs.ErrPermission)
	}
	if _, err := f.find("link", newname); err == nil {
		return pathError("link", newname, fs.ErrExist)
	}
	if err := f.parent("link", newname); err != nil {
		return err
	}
	f.nodes[path.Clean(newname)] = n
	return nil
}

// MkdirAll makes a directory and those above it; see [vfs.FS].
func (f *FS) MkdirAll(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mkdirAll(name)
}

func (f *FS) mkdirAll(name string) error {
	name = path.Clean(name)
	if name == "." || name == "/" {
		return nil
	}
	if n, err := f.find("mkdir", name); err == nil {
		if n.dir {
			return nil
		}
		return pathError("mkdir", name, syscall.ENOTDIR)
	}
	if err := f.mkdirAll(path.Dir(name)); err != nil {
		return err
	}
	f.nodes[name] = &node{dir: true}
	return nil
}

// List returns the entries of a directory; see [vfs.FS].
func (f *FS) List(name string) ([]fs.DirEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find("list", name)
	if err != nil {
		return nil, err
	}
	if !n.dir {
		return nil, pathError("list", name, syscall.ENOTDIR)
	}
	return f.list(name)
}

// list merges the base's entries of a directory with the overlay's. It needs f.mu.
func (f *FS) list(name string) ([]fs.DirEntry, error) {
	name = path.Clean(name)
	entries := map[string]fs.DirEntry{}
	if !f.parentRemoved(name) {
		below, err := f.base.List(name)
		if err == nil {
			for _, e := range below {
				entries[e.Name()] = e
			}
		}
	}
	for full, n := range f.nodes {
		if path.Dir(full) != name || full == name {
			continue
		}
		delete(entries, path.Base(full))
		if n != nil {
			entries[path.Base(full)] = fs.FileInfoToDirEntry(n.info(full))
		}
	}
	merged := make([]fs.DirEntry, 0, len(entries))
	for _, e := range entries {
		merged = append(merged, e)
	}
	slices.SortFunc(merged, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return merged, nil
}

// Stat describes a file or directory; see [vfs.FS].
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find("stat", name)
	if err != nil {
		return nil, err
	}
	return n.info(path.Clean(name)), nil
}

// Chtimes sets a modification time; see [vfs.FS].
func (f *FS) Chtimes(name string, mtime time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find("chtimes", name)
	if err != nil {
		return err
	}
	if n.content != nil {
		n.content.setMtime(mtime)
	}
	return nil
}

// SyncDir only checks that the directory exists.
func (f *FS) SyncDir(name string) error {
	info, err := f.Stat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return pathError("sync", name, syscall.ENOTDIR)
	}
	return nil
}

// Lock takes a lock within this overlay. It does not touch the base's: the point of an overlay is to look at what
// another process may be using.
func (f *FS) Lock(name string) (io.Closer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name = path.Clean(name)
	if err := f.parent("lock", name); err != nil {
		return nil, err
	}
	if _, held := f.locks[name]; held {
		return nil, pathError("lock", name, vfs.ErrLocked)
	}
	if _, err := f.find("lock", name); err != nil {
		f.nodes[name] = &node{content: &content{mtime: time.Now()}}
	}
	f.locks[name] = struct{}{}
	return &lock{fs: f, name: name}, nil
}

type lock struct {
	fs       *FS
	name     string
	released bool // under fs.mu
}

func (l *lock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if l.released {
		return pathError("unlock", l.name, fs.ErrClosed)
	}
	l.released = true
	delete(l.fs.locks, l.name)
	return nil
}

func (n *node) info(name string) fs.FileInfo {
	if n.dir {
		return fileInfo{name: path.Base(name), mode: fs.ModeDir | 0o755}
	}
	size, mtime := n.content.stat()
	return fileInfo{name: path.Base(name), size: size, mode: 0o644, mtime: mtime}
}

type fileInfo struct {
	name  string
	size  int64
	mode  fs.FileMode
	mtime time.Time
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return i.size }
func (i fileInfo) Mode() fs.FileMode  { return i.mode }
func (i fileInfo) ModTime() time.Time { return i.mtime }
func (i fileInfo) IsDir() bool        { return i.mode.IsDir() }
func (i fileInfo) Sys() any           { return nil }
