package memfs

import (
	"io/fs"
	"sync"
	"syscall"

	"github.com/tidemark-io/tidemark/vfs"
)

// volume is the whole file system: there is one.
type volume struct {
	fs   *FS
	dir  string
	mu   sync.Mutex
	lost int64 // failures that were reported, or came before it was opened
}

// OpenVolume implements [vfs.VolumeOpener].
func (f *FS) OpenVolume(dir string) (vfs.Volume, error) {
	v := &volume{fs: f, dir: dir}
	err := f.rlocked("open volume", dir, func() error {
		v.lost = f.lost.Load()
		_, err := f.dir(dir)
		return err
	})
	if err != nil {
		return nil, err
	}
	return v, nil
}

func (v *volume) Holds(name string) (bool, error) {
	_, err := v.fs.Stat(name)
	return err == nil, err
}

// Sync makes everything durable. It fails once after a file was synced with DropUnsynced.
func (v *volume) Sync() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.fs.locked("syncfs", v.dir, func() error {
		for _, c := range v.fs.mu.pending {
			v.fs.commit(c)
		}
		v.fs.settleBelow(v.fs.mu.root)
		if lost := v.fs.lost.Load(); lost > v.lost {
			v.lost = lost
			return &fs.PathError{Op: "syncfs", Path: v.dir, Err: syscall.EIO}
		}
		return nil
	})
}

// settleBelow syncs the directory, and all that is below it.
func (f *FS) settleBelow(d *dir) {
	f.settle(d)
	for _, n := range d.entries {
		switch n := n.(type) {
		case *dir:
			f.settleBelow(n)
		case *file:
			n.sync()
		}
	}
}

func (v *volume) Close() error { return nil }
