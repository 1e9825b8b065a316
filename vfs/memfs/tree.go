package memfs

import (
	"io/fs"
	"path"
	"strings"
	"syscall"
	"time"
)

// node is a *file or a *dir. Its methods are called with the tree locked, at least for reading.
type node interface {
	info(name string) fs.FileInfo
	touch(mtime time.Time)
}

// dir is a directory: its names as they are, and as a crash would leave them if nothing more were kept.
type dir struct {
	parent *dir
	// placed is the change that put the directory where it is; nil for the root.
	placed  *change
	entries map[string]node
	durable map[string]node
	// pending are the changes of names in this directory since it was synced, those of others' syncs included.
	pending []*change
	// latest is the newest change of each name among them.
	latest map[string]*change
	mtime  time.Time
}

func newDir(parent *dir, mtime time.Time) *dir {
	return &dir{
		parent:  parent,
		entries: map[string]node{},
		durable: map[string]node{},
		latest:  map[string]*change{},
		mtime:   mtime,
	}
}

func (d *dir) touch(mtime time.Time) { d.mtime = mtime }

func (d *dir) info(name string) fs.FileInfo {
	return &fileInfo{name: name, mode: fs.ModeDir | 0o750, mtime: d.mtime}
}

// isBelow reports whether d is top or lies somewhere under it.
func (d *dir) isBelow(top *dir) bool {
	for ; d != nil; d = d.parent {
		if d == top {
			return true
		}
	}
	return false
}

// unsettledPath returns the changes without which a crash would leave no way from the root to d.
func (d *dir) unsettledPath() []*change {
	var path []*change
	for ; d != nil; d = d.parent {
		if d.placed != nil && !d.placed.durable {
			path = append(path, d.placed)
		}
	}
	return path
}

// place is a name in a directory, taken or free.
type place struct {
	dir  *dir
	name string
}

func (p place) node() node { return p.dir.entries[p.name] }

// place finds the directory of a name. The root has no place.
func (f *FS) place(name string) (place, error) {
	parts := split(name)
	if name == "" {
		return place{}, fs.ErrNotExist
	}
	if len(parts) == 0 {
		return place{}, syscall.EISDIR
	}
	last := len(parts) - 1
	d, err := f.descend(parts[:last])
	return place{d, parts[last]}, err
}

// existing is place for a name that must be taken.
func (f *FS) existing(name string) (place, error) {
	at, err := f.place(name)
	if err == nil && at.node() == nil {
		err = fs.ErrNotExist
	}
	return at, err
}

// lookup finds a file or directory, the root included.
func (f *FS) lookup(name string) (node, error) {
	if name != "" && len(split(name)) == 0 {
		return f.mu.root, nil
	}
	at, err := f.existing(name)
	if err != nil {
		return nil, err
	}
	return at.node(), nil
}

// dir finds a directory.
func (f *FS) dir(name string) (*dir, error) {
	n, err := f.lookup(name)
	if err != nil {
		return nil, err
	}
	d, ok := n.(*dir)
	if !ok {
		return nil, syscall.ENOTDIR
	}
	return d, nil
}

func (f *FS) descend(parts []string) (*dir, error) {
	at := f.mu.root
	for _, part := range parts {
		switch n := at.entries[part].(type) {
		case *dir:
			at = n
		case *file:
			return nil, syscall.ENOTDIR
		default:
			return nil, fs.ErrNotExist
		}
	}
	return at, nil
}

// split returns the parts of a name from the root on; none for the root.
func split(name string) []string {
	clean := path.Clean("/" + name)
	if clean == "/" {
		return nil
	}
	return strings.Split(clean[1:], "/")
}

func base(name string) string { return path.Base(path.Clean("/" + name)) }

// fileInfo is what Stat said at one moment.
type fileInfo struct {
	name  string
	size  int64
	mode  fs.FileMode
	mtime time.Time
}

func (i *fileInfo) Name() string       { return i.name }
func (i *fileInfo) Size() int64        { return i.size }
func (i *fileInfo) Mode() fs.FileMode  { return i.mode }
func (i *fileInfo) ModTime() time.Time { return i.mtime }
func (i *fileInfo) IsDir() bool        { return i.mode.IsDir() }
func (i *fileInfo) Sys() any           { return nil }
