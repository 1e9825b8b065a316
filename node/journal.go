package node

import (
	"context"
	"path"

	"github.com/tidemark-io/tidemark/partition"
)

// journalOptions puts the shared journal of the logs into the data directory.
func (n *Node) journalOptions() partition.JournalOptions {
	return partition.JournalOptions{
		FS: n.config.FS, Dir: n.config.DataDir,
		Failed: func(err error) {
			n.log.Warn("the shared journal is not used any more: every log is synced by itself until the next start", "error", err)
		},
	}
}

// settleJournal puts back what a power cut took from the logs and the journal kept. After a stop in order there is nothing to put
// back, and a journal that is there all the same is older than the logs.
func (n *Node) settleJournal(ctx context.Context) (err error) {
	if n.data.clean {
		return partition.RemoveJournal(n.config.FS, n.config.DataDir)
	}
	_, replayed := n.traces.Work(ctx, "replaying the journal")
	defer func() { replayed(err) }()
	type key struct {
		topic [16]byte
		index int32
	}
	dirs := make(map[key]string, len(n.data.found.partitions))
	for _, found := range n.data.found.partitions {
		if found.err == nil {
			dirs[key{found.topic, found.name.Partition.Index}] = path.Join(n.config.DataDir, found.name.String())
		}
	}
	find := func(topic [16]byte, index int32) (string, bool) {
		dir, ok := dirs[key{topic, index}]
		return dir, ok
	}
	done, err := partition.ReplayJournal(n.config.FS, n.config.DataDir, find, func(file, reason string) {
		n.log.Error("what the journal has of a log was not put back", "file", file, "reason", reason)
	})
	if err == nil && done.Rounds {
		n.log.Info("the journal was put back into the logs", "files", done.Files, "written", done.Written, "bytes", done.Bytes)
	}
	return err
}
