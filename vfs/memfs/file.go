package memfs

import (
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// file is a file, whatever its names.
type file struct {
	locked bool // guarded by the tree's lock

	mu struct {
		sync.RWMutex
		content
		mtime       time.Time
		syncedMtime time.Time
	}
}

func newFile(now time.Time) *file {
	n := &file{}
	n.mu.content = newContent()
	n.mu.mtime, n.mu.syncedMtime = now, now
	return n
}

func (n *file) info(name string) fs.FileInfo {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return &fileInfo{name: name, size: n.mu.live.size, mode: 0o640, mtime: n.mu.mtime}
}

func (n *file) touch(mtime time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.mtime = mtime
}

func (n *file) truncate(size int64, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.content.truncate(size)
	n.mu.mtime = now
}

// handle is an open file.
type handle struct {
	fs       *FS
	name     string
	file     *file
	writable bool
	closed   atomic.Bool
}

// use runs do unless the handle or the file system is no longer usable.
func (h *handle) use(op string, do func() error) error {
	return h.fs.rlocked(op, h.name, func() error {
		if h.closed.Load() {
			return fs.ErrClosed
		}
		return do()
	})
}

// modify is use for what a read-only handle may not do, with the file locked.
func (h *handle) modify(op string, do func(n *file) error) error {
	return h.use(op, func() error {
		if !h.writable {
			return syscall.EBADF
		}
		h.file.mu.Lock()
		defer h.file.mu.Unlock()
		if err := do(h.file); err != nil {
			return err
		}
		h.file.mu.mtime = h.fs.now()
		return nil
	})
}

func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	err := h.use("read", func() error {
		if off < 0 {
			return fs.ErrInvalid
		}
		h.file.mu.RLock()
		defer h.file.mu.RUnlock()
		n = h.file.mu.live.read(p, off)
		return nil
	})
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (h *handle) WriteAt(p []byte, off int64) (int, error) {
	n, err := h.WriteVectorAt([][]byte{p}, off)
	return int(n), err
}

// WriteVectorAt implements [vfs.VectorWriter]. Other readers see all of the buffers or none.
func (h *handle) WriteVectorAt(bufs [][]byte, off int64) (int64, error) {
	total := int64(0)
	for _, b := range bufs {
		total += int64(len(b))
	}
	err := h.modify("write", func(n *file) error {
		if err := checkRange(off, total); err != nil {
			return err
		}
		at := off
		for _, b := range bufs {
			n.mu.write(b, at)
			at += int64(len(b))
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return total, nil
}

func (h *handle) Truncate(size int64) error {
	return h.modify("truncate", func(n *file) error {
		if err := checkRange(size, 0); err != nil {
			return err
		}
		n.mu.content.truncate(size)
		return nil
	})
}

func checkRange(off, n int64) error {
	if off < 0 {
		return fs.ErrInvalid
	}
	if off > maxSize-n {
		return syscall.EFBIG
	}
	return nil
}

func (h *handle) Sync() error {
	return h.use("sync", func() error {
		h.file.sync()
		return nil
	})
}

// sync makes the file's bytes durable.
func (f *file) sync() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.sync()
	f.mu.syncedMtime = f.mu.mtime
}

// DropUnsynced does what Linux does when a sync fails: what it should have written stays readable and counts as written,
// so that the next sync succeeds without it, and a power cut takes it. Only what is written again after that is synced.
// Package faultfs calls it for a Sync that it fails with Drop.
func (h *handle) DropUnsynced() {
	h.file.mu.Lock()
	defer h.file.mu.Unlock()
	h.file.mu.drop()
	h.fs.lost.Add(1)
}

func (h *handle) Stat() (fs.FileInfo, error) {
	var info fs.FileInfo
	err := h.use("stat", func() error {
		info = h.file.info(base(h.name))
		return nil
	})
	return info, err
}

func (h *handle) Close() error {
	if h.closed.Swap(true) {
		return &fs.PathError{Op: "close", Path: h.name, Err: fs.ErrClosed}
	}
	return nil
}
