package logdir

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/tidemark-io/tidemark/internal/quarantine"
	"github.com/tidemark-io/tidemark/vfs"
)

// EntryKind says what an [Entry] of a data directory is.
type EntryKind int

const (
	// PartitionEntry is the directory of a partition, in one of the four roles.
	PartitionEntry EntryKind = iota
	// SharedEntry is one of the files of this package, or half of one that is just being written.
	SharedEntry
	// QuarantineEntry is a file that was kept in the quarantine, or one that describes it (package internal/quarantine).
	QuarantineEntry
	// IndexCacheEntry is the directory remote-log-index-cache.
	IndexCacheEntry
	// UnknownFile is a file that this package knows nothing of. Kafka ignores it.
	UnknownFile
	// UnknownDir is a directory whose name is not one of a partition. Kafka refuses to start.
	UnknownDir
)

// Entry is one name in a data directory.
type Entry struct {
	Kind EntryKind
	// Name is the name in the directory.
	Name string
	// Dir is the name in parts, for a PartitionEntry.
	Dir DirName
	// Err says what is wrong with the name of an UnknownDir.
	Err error
}

// Scan returns what is in the directory, in the order of the names.
func (d *Dir) Scan() ([]Entry, error) {
	var entries []Entry
	err := d.use(func() error {
		list, err := d.fs.List(d.path)
		for _, e := range list {
			entries = append(entries, d.classify(e))
		}
		return err
	})
	return entries, err
}

func (d *Dir) classify(e fs.DirEntry) Entry {
	name := e.Name()
	if !e.IsDir() {
		if d.isShared(strings.TrimSuffix(name, vfs.TempSuffix)) {
			return Entry{Kind: SharedEntry, Name: name}
		}
		if strings.HasPrefix(name, quarantine.Prefix) {
			return Entry{Kind: QuarantineEntry, Name: name}
		}
		return Entry{Kind: UnknownFile, Name: name}
	}
	if name == indexCacheDir {
		return Entry{Kind: IndexCacheEntry, Name: name}
	}
	parts, err := ParseDirName(name)
	if err != nil {
		return Entry{Kind: UnknownDir, Name: name, Err: err}
	}
	return Entry{Kind: PartitionEntry, Name: name, Dir: parts}
}

func (d *Dir) isShared(name string) bool {
	switch name {
	case lockFile, metaFile, cleanShutdownFile, closedLogsFile:
		return true
	}
	_, ok := d.checkpoints()[name]
	return ok
}

// PartitionPath returns the path of a partition's current directory, whether it exists or not.
func (d *Dir) PartitionPath(p Partition) string { return d.file(p.String()) }

// SyncNames makes the entries of the data directory durable.
func (d *Dir) SyncNames() error {
	return d.use(func() error { return d.fs.SyncDir(d.path) })
}

// Retire renames a partition's directory from its present role to another one under a new random ID, and returns the
// new name when that is durable; role is Delete, Future or Stray. Files that are open in the directory stay usable, and
// a sync of them still succeeds: a flush that meets the renaming is no failure of the disk.
//
// The error matches [fs.ErrNotExist] if the directory is gone, for example because somebody else retired it.
func (d *Dir) Retire(name DirName, role Role) (DirName, error) {
	retired := DirName{Role: role, Partition: name.Partition, ID: NewUUID().Hex()}
	if role == Current {
		return DirName{}, fmt.Errorf("%s cannot be retired to be current", name)
	}
	if err := retired.check(); err != nil {
		return DirName{}, err
	}
	if err := d.rename(name, retired); err != nil {
		return DirName{}, err
	}
	return retired, nil
}

// Promote renames a Future directory to the partition's current one and returns when that is durable. The error matches
// [fs.ErrExist] if the partition has a current directory, which must be retired first.
func (d *Dir) Promote(name DirName) error { return d.rename(name, DirName{Partition: name.Partition}) }

func (d *Dir) rename(from, to DirName) error {
	return d.use(func() error {
		if err := d.fs.Rename(d.file(from.String()), d.file(to.String())); err != nil {
			return err
		}
		return d.fs.SyncDir(d.path)
	})
}

// RemoveRetired removes a directory in the Delete role with all its contents, durably. It is not an error if it is
// already gone, in whole or in part.
func (d *Dir) RemoveRetired(name DirName) error {
	if name.Role != Delete {
		return fmt.Errorf("%s is not marked for deletion", name)
	}
	return d.use(func() error {
		if err := vfs.RemoveAll(d.fs, d.file(name.String())); err != nil {
			return err
		}
		return d.fs.SyncDir(d.path)
	})
}
