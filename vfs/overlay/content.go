package overlay

import (
	"bytes"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/vfs"
)

// pageSize is the unit in which changed bytes are kept.
const pageSize = 4096

// content is the bytes of one file: the base's up to baseSize, with the changed pages over them. Several names and
// handles may share one.
type content struct {
	base     vfs.FS
	baseName string // empty: nothing below

	mu       sync.Mutex
	opened   vfs.File // the base's file, from the first read on
	baseSize int64    // bytes of the base's file that still show through
	size     int64
	mtime    time.Time
	pages    map[int64]*[pageSize]byte
	there    []byte // room to compare with what shows through
}

func (c *content) stat() (size int64, mtime time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size, c.mtime
}

func (c *content) setMtime(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mtime = t
}

func (c *content) readAt(p []byte, off int64) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if off >= c.size {
		if len(p) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), c.size-off))
	for done := 0; done < n; {
		at := off + int64(done)
		within := at % pageSize
		step := int(min(pageSize-within, int64(n-done)))
		if page, changed := c.pages[at/pageSize]; changed {
			copy(p[done:done+step], page[within:])
		} else if err := c.readBase(p[done:done+step], at); err != nil {
			return done, err
		}
		done += step
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// readBase fills p from the base's file as far as that is visible, and with zeros beyond. It needs c.mu.
func (c *content) readBase(p []byte, off int64) error {
	clear(p)
	n := min(int64(len(p)), c.baseSize-off)
	if n <= 0 {
		return nil
	}
	if c.opened == nil {
		f, err := c.base.Open(c.baseName, vfs.ReadOnly)
		if err != nil {
			return err
		}
		c.opened = f
	}
	_, err := c.opened.ReadAt(p[:n], off)
	if err == io.EOF { // a read that ends at the file's end may return it
		err = nil
	}
	return err
}

func (c *content) writeAt(p []byte, off int64) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	for done := 0; done < len(p); {
		at := off + int64(done)
		part := p[done:min(len(p), done+int(pageSize-at%pageSize))]
		if err := c.writePart(part, at); err != nil {
			return done, err
		}
		done += len(part)
	}
	c.size = max(c.size, off+int64(len(p)))
	c.mtime = time.Now()
	return len(p), nil
}

// writePart writes bytes of one page. Bytes that do not change take no memory: recovery rewrites what it has read. It
// needs c.mu.
func (c *content) writePart(p []byte, off int64) error {
	if _, changed := c.pages[off/pageSize]; !changed {
		if c.there == nil {
			c.there = make([]byte, pageSize)
		}
		there := c.there[:len(p)]
		if err := c.readBase(there, off); err != nil {
			return err
		}
		if bytes.Equal(there, p) {
			return nil
		}
	}
	page, err := c.page(off / pageSize)
	if err == nil {
		copy(page[off%pageSize:], p)
	}
	return err
}

// page returns a page to change, filled with its current content. It needs c.mu.
func (c *content) page(number int64) (*[pageSize]byte, error) {
	if page, ok := c.pages[number]; ok {
		return page, nil
	}
	page := new([pageSize]byte)
	if err := c.readBase(page[:], number*pageSize); err != nil {
		return nil, err
	}
	if c.pages == nil {
		c.pages = map[int64]*[pageSize]byte{}
	}
	c.pages[number] = page
	return page, nil
}

// truncate sets the size. What was beyond it reads as zeros if the file grows again.
func (c *content) truncate(size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size, c.baseSize = size, min(c.baseSize, size)
	for number, page := range c.pages {
		if start := number * pageSize; start >= size {
			delete(c.pages, number)
		} else if start+pageSize > size {
			clear(page[size-start:])
		}
	}
	c.mtime = time.Now()
}

// file is an open handle.
type file struct {
	name     string
	content  *content
	readOnly bool

	mu     sync.Mutex
	closed bool
}

func (f *file) usable(op string, write bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return pathError(op, f.name, fs.ErrClosed)
	}
	if write && f.readOnly {
		return pathError(op, f.name, fs.ErrPermission)
	}
	return nil
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if err := f.usable("read", false); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError("read", f.name, fs.ErrInvalid)
	}
	return f.content.readAt(p, off)
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	if err := f.usable("write", true); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError("write", f.name, fs.ErrInvalid)
	}
	return f.content.writeAt(p, off)
}

func (f *file) Stat() (fs.FileInfo, error) {
	if err := f.usable("stat", false); err != nil {
		return nil, err
	}
	return (&node{content: f.content}).info(f.name), nil
}

func (f *file) Truncate(size int64) error {
	if err := f.usable("truncate", true); err != nil {
		return err
	}
	if size < 0 {
		return pathError("truncate", f.name, fs.ErrInvalid)
	}
	f.content.truncate(size)
	return nil
}

func (f *file) Sync() error { return f.usable("sync", false) }

func (f *file) Close() error {
	if err := f.usable("close", false); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}
