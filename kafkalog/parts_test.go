package kafkalog

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// formatBytes returns the bytes of a golden file under testdata/format: hex digits, with bars and spaces as one likes
// and comments after a #.
func formatBytes(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "format", name+".hex"))
	require.NoError(t, err)
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.NewReplacer(" ", "", "|", "", "\n", "").Replace(line))
	}
	data, err := hex.DecodeString(digits.String())
	require.NoError(t, err)
	return data
}

// partsDir is the partition directory in tests of one part.
const partsDir = "orders-0"

func newPartsFS(t require.TestingT) *memfs.FS {
	fsys := memfs.New()
	require.NoError(t, fsys.MkdirAll(partsDir))
	return fsys
}

// storeFile makes a file with the given content.
func storeFile(t testing.TB, fsys vfs.FS, name string, data []byte) {
	t.Helper()
	file, err := fsys.Open(name, vfs.CreateTruncate)
	require.NoError(t, err)
	_, err = file.WriteAt(data, 0)
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

// storedFile returns the content of a file.
func storedFile(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	data, err := readFile(fsys, name)
	require.NoError(t, err)
	return data
}

var errInjected = errors.New("injected")

// probeFS is a file system that counts descriptors and fails what a test tells it to.
type probeFS struct {
	vfs.FS
	open    atomic.Int64
	maxOpen atomic.Int64
	opens   atomic.Int64

	mu sync.Mutex
	// fail, if set, is asked before each operation and fails it with what it returns.
	fail func(op, name string) error
}

func (p *probeFS) failWith(fail func(op, name string) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = fail
}

// failOnce fails the next operation of one kind.
func (p *probeFS) failOnce(op string) {
	done := false
	p.failWith(func(o, _ string) error {
		if o != op || done {
			return nil
		}
		done = true
		return errInjected
	})
}

func (p *probeFS) ask(op, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail == nil {
		return nil
	}
	return p.fail(op, name)
}

func (p *probeFS) Open(name string, mode vfs.Mode) (vfs.File, error) {
	if err := p.ask("open", name); err != nil {
		return nil, err
	}
	file, err := p.FS.Open(name, mode)
	if err != nil {
		return nil, err
	}
	p.opens.Add(1)
	for now := p.open.Add(1); ; {
		old := p.maxOpen.Load()
		if now <= old || p.maxOpen.CompareAndSwap(old, now) {
			return &probeFile{File: file, fs: p, name: name}, nil
		}
	}
}

func (p *probeFS) Rename(oldname, newname string) error {
	if err := p.ask("rename", oldname); err != nil {
		return err
	}
	return p.FS.Rename(oldname, newname)
}

func (p *probeFS) Remove(name string) error {
	if err := p.ask("remove", name); err != nil {
		return err
	}
	return p.FS.Remove(name)
}

func (p *probeFS) SyncDir(name string) error {
	if err := p.ask("syncdir", name); err != nil {
		return err
	}
	return p.FS.SyncDir(name)
}

type probeFile struct {
	vfs.File
	fs   *probeFS
	name string
}

func (f *probeFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.fs.ask("read", f.name); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, off)
}

func (f *probeFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.fs.ask("write", f.name); err != nil {
		n, _ := f.File.WriteAt(b[:len(b)/2], off)
		return n, err
	}
	return f.File.WriteAt(b, off)
}

func (f *probeFile) Truncate(size int64) error {
	if err := f.fs.ask("truncate", f.name); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *probeFile) Sync() error {
	if err := f.fs.ask("sync", f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *probeFile) Close() error {
	f.fs.open.Add(-1)
	err := f.File.Close()
	if failed := f.fs.ask("close", f.name); failed != nil {
		return failed
	}
	return err
}
