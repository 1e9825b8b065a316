package node

import (
	"context"
	"errors"
	"path"

	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/overlay"
)

// StoppedDir is the data directory of a stopped server, or of a stopped Kafka broker, that a tool has taken to look at its
// logs or to change them. The caller closes it.
type StoppedDir struct {
	data    *dataDir
	said    logdir.Checkpoints
	damage  error
	changed bool
}

// IsDataDir reports whether a directory has what a server keeps beside its partitions.
func IsDataDir(name string) bool {
	for _, file := range []string{".lock", "meta.properties", "recovery-point-offset-checkpoint"} {
		if _, err := vfs.OS().Stat(path.Join(name, file)); err == nil {
			return true
		}
	}
	return false
}

// TakeStopped takes a data directory. Without change nothing reaches the disk, whatever is done. The error matches
// vfs.ErrLocked while a server has the directory.
//
// What the journal of a stop that was not in order has is put back first, as a start would do it, so that the logs are whole.
// leftAlone is told of files of which it was not.
func TakeStopped(ctx context.Context, name string, change bool, leftAlone func(file, reason string)) (*StoppedDir, error) {
	c := Config{DataDir: name}.withDefaults()
	if !change {
		c.FS = untouched{overlay.New(c.FS)}
	}
	dir, err := logdir.Open(c.FS, name)
	if err != nil {
		return nil, err
	}
	s := &StoppedDir{data: &dataDir{dir: dir, fs: c.FS, path: name, log: c.Log, now: c.Now}}
	if err := s.settle(ctx, c.RecoveryThreads, leftAlone); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	s.said, s.damage = logdir.ReadCheckpoints(c.FS, name)
	return s, nil
}

// settle puts the journal back.
func (s *StoppedDir) settle(ctx context.Context, workers int, leftAlone func(file, reason string)) error {
	d := s.data
	if there, err := partition.HasJournal(d.fs, d.path); err != nil || !there {
		return err
	}
	if err := d.scan(ctx, workers); err != nil {
		return err
	}
	clean, err := d.dir.HasCleanShutdown()
	if err != nil || clean {
		return err
	}
	_, err = partition.SalvageJournal(d.fs, d.path, d.journaledDirs(meta.Empty()), leftAlone)
	return err
}

// FS returns the files as they are now.
func (s *StoppedDir) FS() vfs.FS { return s.data.fs }

// Damage says which of the checkpoint files cannot be read, or is nil. The next start of a server makes them again.
func (s *StoppedDir) Damage() error { return s.damage }

// Checkpointed returns what the checkpoint files say of a partition by the name of its directory: the offset below which it
// was flushed, the one below which readers may have read, and its log start. What they do not say is 0.
func (s *StoppedDir) Checkpointed(name string) (flushed, visible, start int64) {
	parsed, err := logdir.ParseDirName(name)
	if err != nil || parsed.Role != logdir.Current {
		return 0, 0, 0
	}
	p := parsed.Partition
	return s.said.RecoveryPoints[p], s.said.HighWatermarks[p], s.said.LogStarts[p]
}

// BeforeChange takes away what says that the last stop was in order, so that the next start checks what it finds and begins new
// leader epochs. It is called before a log is changed. It does so once.
func (s *StoppedDir) BeforeChange() error {
	if s.changed {
		return nil
	}
	clean, err := s.data.dir.HasCleanShutdown()
	if err != nil {
		return err
	}
	if clean { // a journal is older than the logs then, and goes before the marker that says so
		if err := partition.RemoveJournal(s.data.fs, s.data.path); err != nil {
			return err
		}
		if _, err := s.data.dir.TakeCleanShutdown(); err != nil {
			return err
		}
	}
	s.changed = true
	return nil
}

// Close gives the directory up.
func (s *StoppedDir) Close() error { return s.data.dir.Close() }
