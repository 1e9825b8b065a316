package node

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/partition"
)

// WrongDirectoryError says that the directory in a partition's place belongs to something else. It is left alone.
type WrongDirectoryError struct {
	Dir    string
	Reason string
	Err    error // of reading its topic id, or nil
}

func (e *WrongDirectoryError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Dir, e.Reason, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Dir, e.Reason)
}

// Unwrap returns the error of reading the topic id.
func (e *WrongDirectoryError) Unwrap() error { return e.Err }

// partitionPath returns the directory of a partition.
func (d *dataDir) partitionPath(topic string, index int32) string {
	return d.dir.PartitionPath(logdir.Partition{Topic: topic, Index: index})
}

// checkPartition makes sure that the directory in a partition's place is the topic's. missing says that there is none, or
// an empty one.
func (d *dataDir) checkPartition(topic string, index int32, id meta.TopicID) (missing bool, err error) {
	dir := d.partitionPath(topic, index)
	m, err := logdir.ReadMetadata(d.fs, dir)
	switch {
	case err == nil && meta.TopicID(m.TopicID) == id:
		return false, nil
	case err == nil:
		return false, &WrongDirectoryError{Dir: dir, Reason: fmt.Sprintf("it belongs to topic id %s, not %s", m.TopicID, id)}
	case !errors.Is(err, fs.ErrNotExist):
		return false, &WrongDirectoryError{Dir: dir, Reason: "it does not say whose it is", Err: err}
	}
	empty, listErr := d.isEmpty(dir)
	if listErr != nil {
		return false, listErr
	}
	if !empty {
		return false, &WrongDirectoryError{Dir: dir, Reason: "it does not say whose it is", Err: err}
	}
	return true, nil
}

// makePartition creates the directory of a partition, durably, and returns its path.
func (d *dataDir) makePartition(topic string, index int32, id meta.TopicID) (dir string, err error) {
	err = d.dir.Create(1, func(c *logdir.Creation) error {
		dir, err = d.preparePartition(c, topic, index, id)
		return err
	})
	return dir, err
}

// preparePartition creates the directory of a partition, which may not survive a crash until the creation is done, and
// returns its path. Another directory in its place is moved aside first, or removed if it has no data: a topic is only
// created when no other has its name, so that directory belongs to none.
func (d *dataDir) preparePartition(c *logdir.Creation, topic string, index int32, id meta.TopicID) (string, error) {
	p := logdir.Partition{Topic: topic, Index: index}
	_, err := d.checkPartition(topic, index, id)
	var wrong *WrongDirectoryError
	switch {
	case errors.As(err, &wrong):
		to, err := d.putAway(logdir.DirName{Partition: p})
		if err != nil {
			return "", err
		}
		if to.Role == logdir.Delete { // left by a failed creation
			if err := d.dir.RemoveRetired(to); err != nil {
				return "", err
			}
			break
		}
		d.log.Warn("a directory in the way of a new partition was moved aside", "from", p, "to", to, "reason", wrong)
	case err != nil:
		return "", err
	}
	return c.Partition(p, logdir.UUID(id))
}

// retire renames a partition's directory for removal.
func (d *dataDir) retire(topic string, index int32) (logdir.DirName, error) {
	return d.dir.Retire(logdir.DirName{Partition: logdir.Partition{Topic: topic, Index: index}}, logdir.Delete)
}

// retireLog closes a log for good and renames its directory for removal.
func (d *dataDir) retireLog(l *partition.Log) (name logdir.DirName, err error) {
	err = l.Remove(func() (string, error) {
		var err error
		name, err = d.retire(l.Topic(), l.Index())
		return path.Join(d.path, name.String()), err
	})
	return name, err
}
