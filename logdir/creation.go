package logdir

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync"

	"github.com/tidemark-io/tidemark/vfs"
)

// The directory of a partition costs two syncs, for partition.metadata and for its name. If a topic has very many
// partitions, their directories are created without these and then made durable by one sync of the file system; nobody
// knows of the topic before that. A crash before it may leave partition.metadata empty or in part, in a directory without
// records.

// createTogether is the number of partitions from which on that is done. A sync of the file system also has to write the
// dirty pages of everybody else, which can take longer than some hundred syncs.
const createTogether = 500

// Creation creates the directories of some partitions. See [Dir.Create].
type Creation struct {
	dir    *Dir
	volume vfs.Volume // nil: each directory is synced by itself

	mu   sync.Mutex
	made []string // directories that may not be durable
}

// Create calls makeAll, which makes the directories of about n partitions with [Creation.Partition]. When it returns nil they are
// durable, with their partition.metadata. After an error any of them may be there, whole or in part, and nothing in them but a
// partition.metadata that may be damaged.
func (d *Dir) Create(n int, makeAll func(*Creation) error) error {
	c := &Creation{dir: d}
	if opener, ok := d.fs.(vfs.VolumeOpener); ok && n >= createTogether {
		if v, err := opener.OpenVolume(d.path); err == nil {
			c.volume = v
			defer v.Close() // nothing was written through it
		}
	}
	if err := makeAll(c); err != nil {
		return err
	}
	return c.settle()
}

// CreatePartition creates the directory of a partition with its partition.metadata and returns its path when both
// are durable. It is [Creation.Partition] for one.
func (d *Dir) CreatePartition(p Partition, topicID UUID) (dir string, err error) {
	err = d.Create(1, func(c *Creation) error {
		dir, err = c.Partition(p, topicID)
		return err
	})
	if err != nil {
		return "", err
	}
	return dir, nil
}

// Partition creates the directory of a partition with its partition.metadata and returns its path. An existing directory
// without metadata, as a crash leaves it, is completed; one of the same topic is left unchanged; for one of another topic
// the error matches [fs.ErrExist]. Until [Dir.Create] returns, a crash may undo it. It is safe for concurrent use.
func (c *Creation) Partition(p Partition, topicID UUID) (string, error) {
	if err := (DirName{Partition: p}).check(); err != nil {
		return "", err
	}
	if topicID.IsZero() {
		return "", fmt.Errorf("topic id of %s is zero", p)
	}
	d := c.dir
	dir := d.PartitionPath(p)
	err := d.use(func() error {
		if err := d.fs.MkdirAll(dir); err != nil {
			return err
		}
		found, err := ReadMetadata(d.fs, dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return c.writeMetadata(dir, topicID)
		case err != nil:
			return err
		case found.TopicID != topicID:
			return fmt.Errorf("%s belongs to topic id %s, not %s: %w", dir, found.TopicID, topicID, fs.ErrExist)
		}
		c.owe(dir) // another creation, which failed, may have left it
		return nil
	})
	if err != nil {
		return "", err
	}
	return dir, nil
}

// owe notes that a directory is to be made durable.
func (c *Creation) owe(dir string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made = append(c.made, dir)
}

func (c *Creation) writeMetadata(dir string, topicID UUID) error {
	if c.volume == nil {
		return WriteMetadata(c.dir.fs, dir, topicID)
	}
	if holds, err := c.volume.Holds(dir); err != nil || !holds { // it was made, and is a link to elsewhere
		return errors.Join(err, WriteMetadata(c.dir.fs, dir, topicID))
	}
	c.owe(dir)
	return writeNew(c.dir.fs, path.Join(dir, metadataFile), encodeMetadata(Metadata{TopicID: topicID}))
}

// writeNew writes a file that is not there. Nothing of it is durable.
func writeNew(fsys vfs.FS, name string, data []byte) error {
	f, err := fsys.Open(name, vfs.CreateNew)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	return errors.Join(err, f.Close())
}

// settle makes what was created durable: all at once, or one by one what might otherwise be lost. If the one sync failed the
// files are written again: the system may count as written what it could not write.
func (c *Creation) settle() error {
	d := c.dir
	return d.use(func() error {
		if c.volume != nil && c.volume.Sync() == nil {
			return nil
		}
		for _, dir := range c.made {
			m, err := ReadMetadata(d.fs, dir)
			if err != nil {
				return err
			}
			if err := vfs.WriteFileAtomic(d.fs, path.Join(dir, metadataFile), encodeMetadata(m)); err != nil {
				return err
			}
		}
		return d.fs.SyncDir(d.path)
	})
}
