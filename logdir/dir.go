package logdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"

	"github.com/tidemark-io/tidemark/vfs"
)

// Names in a data directory.
const (
	lockFile          = ".lock"
	metaFile          = "meta.properties"
	cleanShutdownFile = ".kafka_cleanshutdown"
	recoveryPointFile = "recovery-point-offset-checkpoint"
	logStartFile      = "log-start-offset-checkpoint"
	highWatermarkFile = "replication-offset-checkpoint"
	cleanerOffsetFile = "cleaner-offset-checkpoint"
	pageCachedFile    = "tidemark.page-cached" // ours: Kafka takes no notice of it
	closedLogsFile    = "tidemark.closed-logs" // ours
	indexCacheDir     = "remote-log-index-cache"
	metadataFile      = "partition.metadata" // in a partition's directory
)

// MetadataFile is the name of the file in a partition's directory that identifies its topic.
const MetadataFile = metadataFile

// Dir is a data directory that this process owns. Its methods are safe for concurrent use.
type Dir struct {
	fs   vfs.FS
	path string

	recoveryPoints Offsets
	logStarts      Offsets
	highWatermarks Offsets
	cleanerOffsets Offsets
	pageCached     Offsets

	// open guards the ownership: held for reading by every method that touches the disk.
	open struct {
		sync.RWMutex
		lock io.Closer // nil once closed
	}
	// end is about clean shutdowns.
	end struct {
		sync.Mutex
		taken  *CleanShutdown
		loaded bool
	}
}

// Open creates the directory durably if it does not exist, takes its lock and removes half-written files left by a
// crash. It fails with an error that matches [vfs.ErrLocked] if another process, or this one, has the directory open.
// The caller closes it.
func Open(fsys vfs.FS, dir string) (*Dir, error) {
	dir = path.Clean(dir)
	if err := vfs.EnsureDir(fsys, dir); err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	d := &Dir{fs: fsys, path: dir}
	lock, err := fsys.Lock(d.file(lockFile))
	if err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	d.open.lock = lock
	for name, o := range d.checkpoints() {
		o.dir, o.path = d, d.file(name)
	}
	if err := d.prepare(); err != nil {
		lock.Close()
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	return d, nil
}

// checkpoints returns the shared files by name.
func (d *Dir) checkpoints() map[string]*Offsets {
	return map[string]*Offsets{
		recoveryPointFile: &d.recoveryPoints,
		logStartFile:      &d.logStarts,
		highWatermarkFile: &d.highWatermarks,
		cleanerOffsetFile: &d.cleanerOffsets,
		pageCachedFile:    &d.pageCached,
	}
}

// prepare removes half-written files and makes the checkpoint files that are missing, empty as Kafka does.
func (d *Dir) prepare() error {
	for _, name := range []string{metaFile, cleanShutdownFile, closedLogsFile} {
		if err := d.removeTemp(name); err != nil {
			return err
		}
	}
	for name := range d.checkpoints() {
		if err := d.removeTemp(name); err != nil {
			return err
		}
		if name == pageCachedFile {
			continue // it does not exist before it has an entry
		}
		f, err := d.fs.Open(d.file(name), vfs.Create)
		if errors.Is(err, fs.ErrPermission) {
			if _, there := d.fs.Stat(d.file(name)); there == nil {
				continue // its error is returned to the caller that reads it
			}
		}
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (d *Dir) removeTemp(name string) error {
	err := d.fs.Remove(d.file(name) + vfs.TempSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Close releases the directory, after the calls in progress. Later calls fail with an error that matches
// [fs.ErrClosed], and so does a second Close.
func (d *Dir) Close() error {
	d.open.Lock()
	defer d.open.Unlock()
	if d.open.lock == nil {
		return d.closedError()
	}
	lock := d.open.lock
	d.open.lock = nil
	return lock.Close()
}

// use runs do while the directory is owned.
func (d *Dir) use(do func() error) error {
	d.open.RLock()
	defer d.open.RUnlock()
	if d.open.lock == nil {
		return d.closedError()
	}
	return do()
}

func (d *Dir) closedError() error {
	return &fs.PathError{Op: "use data directory", Path: d.path, Err: fs.ErrClosed}
}

// Path returns the directory's path.
func (d *Dir) Path() string { return d.path }

// file returns the path of a name in the directory.
func (d *Dir) file(name string) string { return d.path + "/" + name }

// RecoveryPoints is the file recovery-point-offset-checkpoint: below its offset a log is known to be on the device. A
// partition without an entry has recovery point 0.
func (d *Dir) RecoveryPoints() *Offsets { return &d.recoveryPoints }

// LogStarts is the file log-start-offset-checkpoint: the first offset that may be read, for logs where that is above
// their first segment, and for those with tiered storage. A partition without an entry starts with its first segment.
func (d *Dir) LogStarts() *Offsets { return &d.logStarts }

// HighWatermarks is the file replication-offset-checkpoint. A partition without an entry has high watermark 0.
func (d *Dir) HighWatermarks() *Offsets { return &d.highWatermarks }

// CleanerOffsets is the file cleaner-offset-checkpoint: the first offset that compaction has not covered. A partition
// without an entry has not been compacted.
func (d *Dir) CleanerOffsets() *Offsets { return &d.cleanerOffsets }

// PageCached is the file tidemark.page-cached, which Kafka does not have: it lists partitions whose high watermark in
// [Dir.HighWatermarks] may be above what is on the device. All offsets in it are 0. It does not exist before it has an
// entry.
func (d *Dir) PageCached() *Offsets { return &d.pageCached }
