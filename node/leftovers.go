package node

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/vfs"
)

// firstSegment is the file of records of a log that begins at 0.
const firstSegment = "00000000000000000000.log"

// besideRecords are the suffixes of files that a log keeps beside its records, and can do without.
var besideRecords = []string{
	".index", ".timeindex", ".txnindex", ".snapshot", vfs.TempSuffix, "leader-epoch-checkpoint", "partition.metadata",
}

// holdsNothing reports whether a directory belongs to a log that never held a record: it has no file but those of a new
// log, and its first segment is empty. An unknown file counts as data.
func (d *dataDir) holdsNothing(dir string) (bool, error) {
	entries, err := d.fs.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		switch {
		case !e.Type().IsRegular():
			return false, nil
		case e.Name() == firstSegment:
			info, err := d.fs.Stat(path.Join(dir, e.Name()))
			if err != nil || info.Size() > 0 {
				return false, err
			}
		case !isBesideRecords(e.Name()):
			return false, nil
		}
	}
	return true, nil
}

func isBesideRecords(name string) bool {
	for _, end := range besideRecords {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// putAway moves a partition's directory out of its place: one without data is marked for deletion, any other is moved
// aside.
func (d *dataDir) putAway(name logdir.DirName) (logdir.DirName, error) {
	role := logdir.Stray
	nothing, err := d.holdsNothing(path.Join(d.path, name.String()))
	if err != nil {
		return logdir.DirName{}, err
	}
	if nothing {
		role = logdir.Delete
	}
	return d.dir.Retire(name, role)
}

// unmake removes the directory of a partition whose creation failed, whether it was made in whole or in part: one with
// the topic's id, or one without data. It is renamed first, in one step.
func (d *dataDir) unmake(p logdir.Partition, id meta.TopicID) error {
	_, err := d.checkPartition(p.Topic, p.Index, id)
	var wrong *WrongDirectoryError
	if errors.As(err, &wrong) {
		if nothing, err := d.holdsNothing(d.dir.PartitionPath(p)); err != nil || !nothing {
			return err
		}
	} else if err != nil {
		return err
	}
	to, err := d.dir.Retire(logdir.DirName{Partition: p}, logdir.Delete)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil: // such as a directory without room for another name
		return errors.Join(vfs.RemoveAll(d.fs, d.dir.PartitionPath(p)), d.dir.SyncNames())
	}
	return d.dir.RemoveRetired(to)
}
