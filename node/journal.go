package node

import (
	"context"
	"path"
	"slices"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/vfs"
)

// JournalFile is the name of the shared journal in a data directory. It may hold records that are not in their log's files.
const JournalFile = partition.JournalFile

// journalOptions puts the shared journal of the logs into the data directory.
func (n *Node) journalOptions() partition.JournalOptions {
	return partition.JournalOptions{
		FS: n.config.FS, Dir: n.config.DataDir,
		Failed: func(err error) {
			n.log.Warn("the shared journal is no longer used: every log is synced on its own until the next start", "error", err)
		},
		SetAside: func(s partition.JournalSetAside) {
			n.log.Error("records in the journal of logs that failed were moved to a file of their own, which the next start restores",
				"file", s.File, "bytes", s.Bytes, "logs", s.Logs, "error", s.Err)
		},
	}
}

// dropStaleJournal removes a journal that exists after a clean stop: it is older than the logs. It is removed before the
// marker of the clean stop is.
func (n *Node) dropStaleJournal() error {
	clean, err := n.data.dir.HasCleanShutdown()
	if err != nil || !clean {
		return err
	}
	return partition.RemoveJournal(n.config.FS, n.config.DataDir)
}

// settleJournal restores records that a power cut took from the logs and that the journal kept.
func (n *Node) settleJournal(ctx context.Context) (err error) {
	if n.data.clean {
		return nil
	}
	_, replayed := n.traces.Work(ctx, "replaying the journal")
	defer func() { replayed(err) }()
	find := n.data.journaledDirs(n.meta.View())
	done, err := partition.SalvageJournal(n.config.FS, n.config.DataDir, find, func(file, reason string) {
		n.log.Error("records in the journal could not be restored to their log", "file", file, "reason", reason)
	})
	if done.Damaged != nil {
		n.metrics.FilesSetAside.Inc()
		n.aside.add(JournalFile)
		n.log.Error("the journal is damaged: records that were acknowledged just before the stop may be lost", "file", done.Kept,
			"reason", done.Damaged)
	}
	if done.Kept != "" {
		n.log.Warn("the journal is kept, because not all of it could be restored; no start reads it again", "file", done.Kept)
	}
	n.waits.waitForSpace(find, done)
	for _, l := range done.Lacking {
		if vfs.IsNoSpace(l.Err) {
			n.log.Error("there is no room for records that only the journal has: their partition is offline until there is", "file",
				l.File, "error", l.Err)
			continue
		}
		n.log.Error("records that only the journal has could not be restored: their partition is offline until a start can do so",
			"file", l.File, "error", l.Err)
	}
	if err == nil && done.Rounds {
		n.log.Info("the journal was replayed into the logs", "files", done.Files, "written", done.Written, "bytes", done.Bytes)
	}
	return err
}

// journaledDirs returns a function that finds the directory of a partition. The journal is deleted once it was replayed,
// so directories that are not served now but may be later are found too: those that were moved aside, and those in a
// partition's place that do not say which topic they belong to.
func (d *dataDir) journaledDirs(view *meta.State) func(topic [16]byte, index int32) (dir string, ok bool) {
	type key struct {
		topic [16]byte
		index int32
	}
	dirs := make(map[key]string, len(d.found.partitions))
	for _, found := range slices.Concat(d.found.partitions, d.found.strays) {
		k := key{found.topic, found.name.Partition.Index}
		if _, taken := dirs[k]; found.err == nil && !taken {
			dirs[k] = path.Join(d.path, found.name.String())
		}
	}
	for _, found := range d.found.partitions {
		p := found.name.Partition
		topic, known := view.Topic(p.Topic)
		if found.err == nil || !known {
			continue
		}
		if k := (key{topic.ID, p.Index}); dirs[k] == "" {
			dirs[k] = path.Join(d.path, found.name.String())
		}
	}
	return func(topic [16]byte, index int32) (string, bool) {
		dir, ok := dirs[key{topic, index}]
		return dir, ok
	}
}
