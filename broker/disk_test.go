package broker

import (
	"sync"

	"github.com/tidemark-io/tidemark/vfs"
)

// heldDisk is a file system whose syncs a test can hold.
type heldDisk struct {
	vfs.FS
	mu   sync.Mutex
	gate chan struct{} // closed: open
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
	gate := f.disk.gate
	f.disk.mu.Unlock()
	<-gate
	return f.File.Sync()
}
