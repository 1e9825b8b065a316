package node

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sync"

	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/partition"
)

// After a power cut on a full disk there may be no room for the records that only the journal has, and a disk may fail the
// file of a partition. Such partitions stay offline and the journal is kept until it can be restored; all other partitions
// are served meanwhile.

// JournalWaitsError says that records of a partition exist only in the journal, and that they could not be written to its
// files. If there was no room the partition is served as soon as there is, otherwise by a later start.
type JournalWaitsError struct {
	Dir string
	Err error
}

func (e *JournalWaitsError) Error() string {
	return fmt.Sprintf("%s: records that only the journal has cannot be restored yet: %v", e.Dir, e.Err)
}

// Unwrap returns the failure to write, which matches vfs.IsNoSpace if there was no room.
func (e *JournalWaitsError) Unwrap() error { return e.Err }

// journalWaits are the directories that still have records in a waiting journal.
type journalWaits struct {
	mu      sync.Mutex
	lacking map[string]error
	find    func(topic [16]byte, index int32) (dir string, ok bool) // as it was at start
}

// waitForSpace records what a replay has left.
func (w *journalWaits) waitForSpace(find func(topic [16]byte, index int32) (string, bool), done partition.JournalReplay) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.find, w.lacking = find, map[string]error{}
	for _, l := range done.Lacking {
		w.lacking[path.Dir(l.File)] = l.Err
	}
}

// of returns why a directory cannot be opened, or nil.
func (w *journalWaits) of(dir string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.lacking[dir]; err != nil {
		return &JournalWaitsError{Dir: dir, Err: err}
	}
	return nil
}

// dirs returns the directories, in order.
func (w *journalWaits) dirs() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.lacking))
}

// putBackWaiting restores what there is room for by now, and reports whether nothing is left. Topics with waiting records
// are neither created nor deleted meanwhile: another one of the same name would have the same directories.
func (n *Node) putBackWaiting() bool {
	dirs := n.waits.dirs()
	if len(dirs) == 0 {
		return true
	}
	topics := map[string]bool{}
	for _, dir := range dirs {
		if name, err := logdir.ParseDirName(path.Base(dir)); err == nil {
			topics[name.Partition.Topic] = true
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		defer n.names.lock(topic)()
	}
	find := func(topic [16]byte, index int32) (string, bool) {
		dir, ok := n.waits.find(topic, index)
		return dir, ok && slices.Contains(dirs, dir) && n.data.isStillOf(dir, topic)
	}
	done, err := partition.ReplayWaiting(n.config.FS, n.config.DataDir, find, func(file, reason string) {
		n.log.Error("records in the journal could not be restored to their log", "file", file, "reason", reason)
	})
	if err != nil {
		n.log.Error("the journal that waits for space could not be replayed", "error", err)
		return false
	}
	if len(done.Lacking) < len(dirs) {
		n.log.Info("records that waited for space were restored from the journal", "files", done.Files, "left", len(done.Lacking))
	}
	n.waits.waitForSpace(n.waits.find, done)
	return len(done.Lacking) == 0
}

// isStillOf reports whether a directory may belong to a partition of a topic: it exists, and names no other topic.
func (d *dataDir) isStillOf(dir string, topic meta.TopicID) bool {
	m, err := logdir.ReadMetadata(d.fs, dir)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = d.fs.Stat(dir)
		return err == nil
	}
	return err != nil || meta.TopicID(m.TopicID) == topic
}
