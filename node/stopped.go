package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/overlay"
)

// StoppedDir is the data directory of a stopped server, or of a stopped Kafka broker, that a tool has locked in order to
// read or change its logs. The caller closes it.
type StoppedDir struct {
	data     *dataDir
	damage   error
	journal  error
	journals []Journal
	left     []string // journals that were kept before
	putBack  partition.JournalReplay
	clean    bool
	changed  bool
}

// IsDataDir reports whether a directory has the files that a server keeps beside its partitions.
func IsDataDir(name string) bool {
	for _, file := range []string{".lock", "meta.properties", "recovery-point-offset-checkpoint"} {
		if _, err := vfs.OS().Stat(path.Join(name, file)); err == nil {
			return true
		}
	}
	return false
}

// TakeStopped locks a data directory. Without change, nothing that is done to it reaches the disk. The error matches
// vfs.ErrLocked while a server is using the directory.
//
// The journal of an unclean stop is replayed first, as a start would, so that the logs are complete; leftAlone is called
// for files whose records were not restored. With change, TakeStopped fails and leaves the journal to the next start of a
// server in two cases: when its records cannot be written (for lack of room, the error matches vfs.IsNoSpace), and when it
// has records of partitions without a known directory while there are directories without a topic id, since those records
// may belong there.
func TakeStopped(ctx context.Context, name string, change bool, leftAlone func(file, reason string)) (*StoppedDir, error) {
	return takeStopped(ctx, Config{DataDir: name}.withDefaults(), change, leftAlone)
}

func takeStopped(ctx context.Context, c Config, change bool, leftAlone func(file, reason string)) (*StoppedDir, error) {
	name := c.DataDir
	if !change {
		c.FS = untouched{overlay.New(c.FS)}
	}
	dir, err := logdir.Open(c.FS, name)
	if err != nil {
		return nil, err
	}
	s := &StoppedDir{data: &dataDir{dir: dir, fs: c.FS, path: name, log: c.Log, now: c.Now}}
	s.left, err = partition.LeftJournals(c.FS, name)
	if err == nil {
		s.clean, err = dir.HasCleanShutdown()
	}
	if err == nil {
		err = s.settle(ctx, c.RecoveryThreads, change, leftAlone)
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	_, err = dir.Meta()
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	s.data.said, s.damage = logdir.ReadCheckpoints(c.FS, name)
	if err != nil {
		s.damage = errors.Join(s.damage, err)
	}
	return s, nil
}

// settle replays the journal. A read-only caller also gets its contents.
func (s *StoppedDir) settle(ctx context.Context, workers int, change bool, leftAlone func(file, reason string)) error {
	d := s.data
	there, err := partition.HasJournal(d.fs, d.path)
	if err != nil || !there {
		return err
	}
	if err := d.scan(ctx, workers); err != nil {
		return err
	}
	if s.clean && change {
		return nil
	}
	view := d.lookAtMeta(ctx)
	if !change {
		if s.journals, err = d.inspectJournals(view); err != nil || s.clean {
			return err
		}
	}
	nameless := d.nameless(view)
	salvage := partition.SalvageJournal
	if len(nameless) > 0 {
		salvage = partition.SalvageKnownJournal
	}
	done, err := salvage(d.fs, d.path, d.journaledDirs(view), leftAlone)
	if err != nil {
		return err
	}
	s.putBack, s.journal = done, journalProblem(done, nameless)
	if change && (len(done.Lacking) > 0 || done.Unknown > 0) {
		return s.journal
	}
	return nil
}

// lookAtMeta returns the state in the directory's metadata file, as far as it can be read. Without a file it is empty.
func (d *dataDir) lookAtMeta(ctx context.Context) *meta.State {
	found, err := InspectMeta(ctx, MetaSource{DataDir: d.path})
	if err != nil {
		return meta.Empty()
	}
	return found.State
}

// nameless returns the directories whose topic is not known.
func (d *dataDir) nameless(view *meta.State) (names []string) {
	for _, found := range slices.Concat(d.found.partitions, d.found.strays) {
		_, known := view.Topic(found.name.Partition.Topic)
		if found.err != nil && (!known || found.name.Role == logdir.Stray) {
			names = append(names, found.name.String())
		}
	}
	return names
}

// journalProblem says what was not restored from a journal, or returns nil.
func journalProblem(done partition.JournalReplay, nameless []string) error {
	var problems []error
	if done.Damaged != nil {
		problems = append(problems, fmt.Errorf("the journal is damaged, and records that were acknowledged just before the stop may be lost: %w", done.Damaged))
	}
	if done.Kept != "" {
		problems = append(problems, fmt.Errorf("part of the journal could not be restored: it is kept as %s, which no start reads", done.Kept))
	}
	for _, l := range done.Lacking {
		what := "records that only the journal has could not be restored: start the server once, which tries again"
		if vfs.IsNoSpace(l.Err) {
			what = "there is no room for records that only the journal has; free some, and start the server once"
		}
		problems = append(problems, fmt.Errorf("%s: %s: %w", what, l.File, l.Err))
	}
	if done.Unknown > 0 {
		problems = append(problems, fmt.Errorf("the journal has records of partitions without a known directory (%d), and partition.metadata is missing or damaged "+
			"in %q: start the server once, which puts the journal back", done.Unknown, nameless))
	}
	return errors.Join(problems...)
}

// JournalProblem says which part of the journal was not restored, and where it is now, or returns nil. That part may hold
// the only copy of acknowledged records.
func (s *StoppedDir) JournalProblem() error { return s.journal }

// MayBeKafkas reports whether a Kafka broker may have been the last writer of the logs: the directory has no metadata log
// of Tidemark's.
func (s *StoppedDir) MayBeKafkas() bool {
	_, err := s.data.fs.Stat(MetaSource{DataDir: s.data.path}.file())
	return err != nil
}

// FS returns the files as they are now.
func (s *StoppedDir) FS() vfs.FS { return s.data.fs }

// Damage says which of the checkpoint files and meta.properties cannot be read, or returns nil. The next start of a server rebuilds
// them, unless a newer version wrote them.
func (s *StoppedDir) Damage() error { return s.damage }

// Checkpointed returns what the checkpoint files say about a partition by the name of its directory: the offset below
// which it was flushed, the one below which readers may have read, and its log start. Values that they do not have are 0.
func (s *StoppedDir) Checkpointed(name string) (flushed, visible, start int64) {
	parsed, err := logdir.ParseDirName(name)
	if err != nil || parsed.Role != logdir.Current {
		return 0, 0, 0
	}
	p := parsed.Partition
	said := s.data.said
	return said.RecoveryPoints[p], said.HighWatermarks[p], said.LogStarts[p]
}

// Proven returns the offset below which a start treats every record of a partition as flushed, by the name of its
// directory: damage below it is never cut off as the torn end of a log. 0 if nothing is known.
func (s *StoppedDir) Proven(name string) int64 {
	parsed, err := logdir.ParseDirName(name)
	if err != nil || parsed.Role != logdir.Current {
		return 0
	}
	return s.data.proven(parsed.Partition)
}

// CutsFrom returns the offset from which on a start would cut a partition at the first batch that is damaged or missing, by the
// name of its directory: what stands behind such a batch was never acknowledged. It is 0 if a start would not, since the last
// stop was clean, and if that is not known: the checkpoints do not name the partition or are damaged, or a Kafka broker may have
// written it.
func (s *StoppedDir) CutsFrom(name string) int64 {
	if s.clean || s.damage != nil || s.MayBeKafkas() {
		return 0
	}
	return s.Proven(name)
}

// proven is [StoppedDir.Proven], by the checkpoints that were read.
func (d *dataDir) proven(p logdir.Partition) int64 {
	if _, cached := d.said.PageCached[p]; cached {
		return d.said.RecoveryPoints[p]
	}
	return max(d.said.RecoveryPoints[p], d.said.HighWatermarks[p])
}

// BeforeChange removes the marker of a clean stop, so that the next start checks what it finds and begins new leader epochs.
// Call it before a log is changed; only the first call does anything.
func (s *StoppedDir) BeforeChange() error {
	if s.changed {
		return nil
	}
	clean, err := s.data.dir.HasCleanShutdown()
	if err != nil {
		return err
	}
	if clean { // a journal is then older than the logs, and is removed before the marker that says so
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

// Close unlocks the directory.
func (s *StoppedDir) Close() error { return s.data.dir.Close() }
