package broker

import (
	"bytes"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs"
)

// heldDisk is a file system whose syncs a test can hold, and fail.
type heldDisk struct {
	vfs.FS
	mu      sync.Mutex
	gate    chan struct{} // closed: open
	failing error         // of every sync of a file, if not nil
}

func newHeldDisk(under vfs.FS) *heldDisk {
	d := &heldDisk{FS: under, gate: make(chan struct{})}
	close(d.gate)
	return d
}

// hold makes every sync of a file wait for release.
func (d *heldDisk) hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gate = make(chan struct{})
}

// fail makes every sync of a file fail from now on; nil ends that.
func (d *heldDisk) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failing = err
}

func (d *heldDisk) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.gate:
	default:
		close(d.gate)
	}
}

func (d *heldDisk) Open(name string, mode vfs.Mode) (vfs.File, error) {
	f, err := d.FS.Open(name, mode)
	if err != nil {
		return nil, err
	}
	return &heldFile{f, d}, nil
}

type heldFile struct {
	vfs.File
	disk *heldDisk
}

func (f *heldFile) Sync() error {
	f.disk.mu.Lock()
	gate, failing := f.disk.gate, f.disk.failing
	f.disk.mu.Unlock()
	<-gate
	if failing != nil {
		return failing
	}
	return f.File.Sync()
}

// flipLastByte changes the last byte of the records of a log on disk.
func flipLastByte(t testing.TB, disk vfs.FS, dir string) {
	t.Helper()
	f, err := disk.Open(dir+"/00000000000000000000.log", vfs.ReadWrite)
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	b := make([]byte, info.Size())
	_, err = f.ReadAt(b, 0)
	require.NoError(t, err)
	end := len(bytes.TrimRight(b, "\x00")) // the file may be preallocated
	_, err = f.WriteAt([]byte{b[end-2] ^ 1}, int64(end-2))
	require.NoError(t, err)
}

// verifyFirst checks the checksum of the first batch, as a client does.
func verifyFirst(b []byte) error {
	one, _, err := batch.Next(b)
	if err != nil {
		return err
	}
	return one.VerifyCRC()
}
