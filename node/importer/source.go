package importer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/overlay"
)

// source is the log directories of one Kafka node. Only a move changes anything in them: they are read through an
// overlay, and only their locks are real.
type source struct {
	fs    vfs.FS
	view  vfs.FS // changes to it stay in memory
	dirs  []*sourceDir
	meta  logdir.Meta
	image *image
}

// sourceDir is one log directory.
type sourceDir struct {
	path    string
	lock    io.Closer
	dir     *logdir.Dir
	clean   bool
	entries []logdir.Entry

	recovered, watermarks, starts map[logdir.Partition]int64
}

// cleanMarker exists after a clean stop.
const cleanMarker = ".kafka_cleanshutdown"

// NotKafkaError says that a directory is not a log directory of a KRaft node.
type NotKafkaError struct {
	Dir    string
	Reason string
}

func (e *NotKafkaError) Error() string {
	return fmt.Sprintf("%s is not a Kafka log directory that can be read: %s", e.Dir, e.Reason)
}

// openSource locks the directories and reads their metadata.
func openSource(fsys vfs.FS, dirs []string) (s *source, err error) {
	s = &source{fs: fsys, view: overlay.New(fsys)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	for _, dir := range dirs {
		if err := s.openDir(path.Clean(dir)); err != nil {
			return s, err
		}
	}
	return s, s.readMetadata()
}

func (s *source) openDir(dir string) error {
	if _, err := s.fs.Stat(path.Join(dir, "meta.properties")); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return &NotKafkaError{Dir: dir, Reason: "it has no meta.properties"}
		}
		return err
	}
	lock, err := s.fs.Lock(path.Join(dir, ".lock"))
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("a server is using %s: stop it first: %w", dir, err)
	}
	if err != nil {
		return err
	}
	d := &sourceDir{path: dir, lock: lock}
	s.dirs = append(s.dirs, d)
	if d.dir, err = logdir.Open(s.view, dir); err != nil {
		return err
	}
	if err := s.identify(d); err != nil {
		return err
	}
	if d.entries, err = d.dir.Scan(); err != nil {
		return err
	}
	if _, err := s.fs.Stat(path.Join(dir, cleanMarker)); err == nil {
		d.clean = true
	}
	return d.readCheckpoints()
}

// identify makes sure that all directories belong to one node.
func (s *source) identify(d *sourceDir) error {
	m, err := d.dir.Meta()
	if err != nil {
		return err
	}
	if len(s.dirs) > 1 && (m.ClusterID != s.meta.ClusterID || m.NodeID != s.meta.NodeID) {
		return &NotKafkaError{Dir: d.path, Reason: fmt.Sprintf("it belongs to node %d of cluster %s, but %s to node %d of %s",
			m.NodeID, m.ClusterID, s.dirs[0].path, s.meta.NodeID, s.meta.ClusterID)}
	}
	s.meta = m
	return nil
}

// readCheckpoints reads what Kafka recorded about the logs. A damaged file counts as missing, as it does for Kafka.
func (d *sourceDir) readCheckpoints() error {
	for _, file := range []struct {
		offsets *logdir.Offsets
		into    *map[logdir.Partition]int64
	}{
		{d.dir.RecoveryPoints(), &d.recovered}, {d.dir.HighWatermarks(), &d.watermarks}, {d.dir.LogStarts(), &d.starts},
	} {
		entries, err := file.offsets.Load()
		var damaged *logdir.FormatError
		if err != nil && !errors.As(err, &damaged) {
			return err
		}
		*file.into = entries
	}
	return nil
}

// readMetadata finds the metadata log and reads it.
func (s *source) readMetadata() error {
	for _, d := range s.dirs {
		dir := d.dir.PartitionPath(logdir.Partition{Topic: metadataTopic})
		if _, err := s.fs.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		m, err := readImage(s.fs, dir)
		s.image = m
		return err
	}
	return &NotKafkaError{Dir: s.dirs[0].path, Reason: "it has no " + metadataTopic + "-0 (of a node with several log " +
		"directories, name all; clusters that still use ZooKeeper cannot be imported)"}
}

// close unlocks the directories.
func (s *source) close() error {
	var errs []error
	for _, d := range s.dirs {
		if d.dir != nil {
			errs = append(errs, d.dir.Close())
		}
		errs = append(errs, d.lock.Close())
	}
	return errors.Join(errs...)
}

// find returns the log directory that holds a partition.
func (s *source) find(p logdir.Partition) (*sourceDir, bool) {
	for _, d := range s.dirs {
		for _, e := range d.entries {
			if e.Kind == logdir.PartitionEntry && e.Dir.Role == logdir.Current && e.Dir.Partition == p {
				return d, true
			}
		}
	}
	return nil, false
}
