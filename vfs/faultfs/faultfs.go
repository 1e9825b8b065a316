package faultfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/vfs"
)

// FS is a file system whose calls can fail. It is a [vfs.FS], and a [vfs.SpaceReporter] and [vfs.VolumeOpener] whose
// methods return an error that matches [errors.ErrUnsupported] if the wrapped file system has no such methods. Its files
// have exactly the optional interfaces of the wrapped files.
type FS struct {
	base vfs.FS

	mu struct {
		sync.Mutex
		inject Injector
		counts [kinds]int
		calls  int
		traces []*Trace
	}
}

// New wraps base. A nil injector lets everything pass.
func New(base vfs.FS, inject Injector) *FS {
	f := &FS{base: base}
	f.mu.inject = inject
	return f
}

// SetInjector replaces the injector, for calls that begin from now on. Nil lets everything pass.
func (f *FS) SetInjector(inject Injector) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.inject = inject
}

// Calls returns how many calls have begun.
func (f *FS) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.calls
}

// Count returns how many calls of the given kinds have begun.
func (f *FS) Count(kinds ...Kind) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, k := range kinds {
		n += f.mu.counts[k]
	}
	return n
}

// begin counts a call, numbers it and asks what happens to it.
func (f *FS) begin(op Op) (Op, Fault) {
	f.mu.Lock()
	op.Index = f.mu.calls
	f.mu.calls++
	f.mu.counts[op.Kind]++
	inject := f.mu.inject
	f.mu.Unlock()

	var fault Fault
	if inject != nil {
		fault = inject(op)
	}
	if fault.Hook != nil {
		fault.Hook()
	}
	return op, fault
}

// end records a call in the traces.
func (f *FS) end(op Op, err error) {
	f.mu.Lock()
	traces := f.mu.traces
	f.mu.Unlock()
	for _, t := range traces {
		t.note(op, err)
	}
}

// do makes a call that happens whole or not at all.
func (f *FS) do(op Op, call func() error) error {
	op, fault := f.begin(op)
	return f.finish(op, fault, call)
}

// finish is do of a call that has begun.
func (f *FS) finish(op Op, fault Fault, call func() error) error {
	err := injected(op, fault.Err)
	if err == nil || fault.After {
		if callErr := call(); err == nil {
			err = callErr
		}
	}
	f.end(op, err)
	return err
}

// transfer makes a call that moves n bytes and can be cut short; move moves the given number of them.
func (f *FS) transfer(op Op, move func(n int64) (int64, error)) (int64, error) {
	op, fault := f.begin(op)
	n, err := op.Len, injected(op, fault.Err)
	if err != nil && !fault.After {
		n = min(n, fault.Short)
	}
	var moved int64
	if err == nil || n > 0 {
		var moveErr error
		if moved, moveErr = move(n); err == nil {
			err = moveErr
		}
	}
	f.end(op, err)
	return moved, err
}

// injected gives an error the form in which a file system returns it. io.EOF stays bare, as readers compare it.
func injected(op Op, err error) error {
	switch {
	case err == nil, err == io.EOF:
		return err
	case op.NewName != "":
		return &os.LinkError{Op: op.Kind.String(), Old: op.Name, New: op.NewName, Err: err}
	}
	return &fs.PathError{Op: op.Kind.String(), Path: op.Name, Err: err}
}

// Open implements [vfs.FS].
func (f *FS) Open(name string, mode vfs.Mode) (vfs.File, error) {
	kind := OpOpen
	if mode != vfs.ReadOnly && mode != vfs.ReadWrite {
		kind = OpCreate
	}
	var base vfs.File
	err := f.do(Op{Kind: kind, Name: name, Mode: mode}, func() (err error) {
		base, err = f.base.Open(name, mode)
		return err
	})
	if err != nil {
		if base != nil {
			base.Close() // opened, and then said to have failed
		}
		return nil, err
	}
	return withOptional(&file{fs: f, name: name, base: base}), nil
}

// Remove implements [vfs.FS].
func (f *FS) Remove(name string) error {
	return f.do(Op{Kind: OpRemove, Name: name}, func() error { return f.base.Remove(name) })
}

// Rename implements [vfs.FS].
func (f *FS) Rename(oldname, newname string) error {
	op := Op{Kind: OpRename, Name: oldname, NewName: newname}
	return f.do(op, func() error { return f.base.Rename(oldname, newname) })
}

// Link implements [vfs.FS].
func (f *FS) Link(oldname, newname string) error {
	op := Op{Kind: OpLink, Name: oldname, NewName: newname}
	return f.do(op, func() error { return f.base.Link(oldname, newname) })
}

// MkdirAll implements [vfs.FS].
func (f *FS) MkdirAll(name string) error {
	return f.do(Op{Kind: OpMkdirAll, Name: name}, func() error { return f.base.MkdirAll(name) })
}

// List implements [vfs.FS].
func (f *FS) List(name string) (entries []fs.DirEntry, err error) {
	err = f.do(Op{Kind: OpList, Name: name}, func() (err error) {
		entries, err = f.base.List(name)
		return err
	})
	return entries, err
}

// Stat implements [vfs.FS].
func (f *FS) Stat(name string) (info fs.FileInfo, err error) {
	err = f.do(Op{Kind: OpStat, Name: name}, func() (err error) {
		info, err = f.base.Stat(name)
		return err
	})
	return info, err
}

// Chtimes implements [vfs.FS].
func (f *FS) Chtimes(name string, mtime time.Time) error {
	return f.do(Op{Kind: OpChtimes, Name: name}, func() error { return f.base.Chtimes(name, mtime) })
}

// SyncDir implements [vfs.FS].
func (f *FS) SyncDir(name string) error {
	return f.do(Op{Kind: OpSyncDir, Name: name}, func() error { return f.base.SyncDir(name) })
}

// Lock implements [vfs.FS].
func (f *FS) Lock(name string) (io.Closer, error) {
	var base io.Closer
	err := f.do(Op{Kind: OpLock, Name: name}, func() (err error) {
		base, err = f.base.Lock(name)
		return err
	})
	if err != nil {
		if base != nil {
			base.Close()
		}
		return nil, err
	}
	return &lock{f, name, base}, nil
}

// Space implements [vfs.SpaceReporter].
func (f *FS) Space(name string) (free, total int64, err error) {
	err = f.do(Op{Kind: OpSpace, Name: name}, func() (err error) {
		r, ok := f.base.(vfs.SpaceReporter)
		if !ok {
			return &fs.PathError{Op: "space", Path: name, Err: errors.ErrUnsupported}
		}
		free, total, err = r.Space(name)
		return err
	})
	return free, total, err
}

type lock struct {
	fs   *FS
	name string
	base io.Closer
}

// Close unlocks even when it is made to fail.
func (l *lock) Close() error {
	op, fault := l.fs.begin(Op{Kind: OpUnlock, Name: l.name})
	err := errors.Join(injected(op, fault.Err), l.base.Close())
	l.fs.end(op, err)
	return err
}
