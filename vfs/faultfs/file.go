package faultfs

import (
	"errors"
	"io/fs"

	"github.com/tidemark-io/tidemark/vfs"
)

// file is an open file whose calls can fail.
type file struct {
	fs   *FS
	name string
	base vfs.File
}

func (f *file) op(kind Kind, off, n int64) Op {
	return Op{Kind: kind, Name: f.name, Off: off, Len: n}
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.fs.transfer(f.op(OpReadAt, off, int64(len(p))), func(n int64) (int64, error) {
		m, err := f.base.ReadAt(p[:n], off)
		return int64(m), err
	})
	return int(n), err
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.fs.transfer(f.op(OpWriteAt, off, int64(len(p))), func(n int64) (int64, error) {
		m, err := f.base.WriteAt(p[:n], off)
		return int64(m), err
	})
	return int(n), err
}

func (f *file) Stat() (info fs.FileInfo, err error) {
	err = f.fs.do(f.op(OpFileStat, 0, 0), func() (err error) {
		info, err = f.base.Stat()
		return err
	})
	return info, err
}

func (f *file) Truncate(size int64) error {
	return f.fs.do(f.op(OpTruncate, size, 0), func() error { return f.base.Truncate(size) })
}

func (f *file) Sync() error {
	op, fault := f.fs.begin(f.op(OpSync, 0, 0))
	if d, ok := f.base.(interface{ DropUnsynced() }); ok && fault.Drop && fault.Err != nil && !fault.After {
		d.DropUnsynced()
	}
	return f.fs.finish(op, fault, f.base.Sync)
}

// Close closes the file even when it is made to fail.
func (f *file) Close() error {
	op, fault := f.fs.begin(f.op(OpClose, 0, 0))
	err := f.base.Close()
	if fault.Err != nil {
		err = errors.Join(injected(op, fault.Err), err)
	}
	f.fs.end(op, err)
	return err
}
