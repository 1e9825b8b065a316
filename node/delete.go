package node

import (
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-io/tidemark/broker"
	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/partition"
)

// deletingPrefix begins the keys of topics that are deleted but whose directories still exist. They let a start tell the
// remains of a deletion from an unknown directory.
const deletingPrefix = "node/deleting/"

func deletingKey(id meta.TopicID) string { return deletingPrefix + hex.EncodeToString(id[:]) }

// deleteTopic deletes a topic. Once the metadata log has the deletion the topic is gone for good, whenever a crash
// follows. When deleteTopic returns nil, its logs are closed as deleted, and its directories are renamed so that nobody
// opens them; they are removed after the topic's file.delete.delay.ms.
func (n *Node) deleteTopic(id broker.TopicID) error {
	t, ok := n.meta.View().TopicByID(id)
	if !ok {
		return broker.ErrUnknownTopicID
	}
	defer n.names.lock(t.Name)()
	results, err := n.meta.Propose(n.life,
		meta.PutKv{Key: deletingKey(id), Value: []byte(t.Name)},
		meta.DeleteTopic{ID: id},
	)
	if err != nil {
		return err
	}
	if err := results[1].Err(); err != nil {
		return rejected(err)
	}
	delay := time.Duration(n.catalog.topic(n.meta.View(), t).Config.FileDeleteDelayMs) * time.Millisecond
	dirs, err := n.retireLogs(t, n.partitions.take(id))
	n.groups.TopicsDeleted()
	if err != nil {
		// The topic is gone, as requested; the next start resumes with its directories.
		n.log.Error("directories of a deleted topic could not be moved aside", "topic", t.Name, "error", err)
		return nil
	}
	n.removeLater(dirs, []string{deletingKey(id)}, delay)
	return nil
}

// retireLogs closes the logs of a deleted topic and renames their directories for removal.
func (n *Node) retireLogs(t *meta.Topic, h *hosted) (dirs []logdir.DirName, err error) {
	if h == nil {
		return nil, nil
	}
	dirs = make([]logdir.DirName, len(h.logs))
	errs := make([]error, len(h.logs))
	if err := parallel.Each(n.life, len(h.logs), n.config.RecoveryThreads, func(i int) {
		if h.logs[i] != nil {
			dirs[i], errs[i] = n.data.retireLog(h.logs[i])
			return
		}
		dirs[i], errs[i] = n.data.retire(t.Name, int32(i))
	}); err != nil {
		return nil, err
	}
	return dirs, errors.Join(errs...)
}

// removeLater removes the directories of deleted topics after the delay, and then the metadata log's record of the
// deletions. After a stop in between, the next start does it.
func (n *Node) removeLater(dirs []logdir.DirName, keys []string, delay time.Duration) {
	if len(dirs) == 0 && len(keys) == 0 {
		return
	}
	remove := n.maintainer.NewTask(func(time.Time) time.Time {
		n.background.Go(func() { n.removeDirs(dirs, keys) })
		return time.Time{}
	})
	remove.Due(n.config.Now().Add(delay))
}

func (n *Node) removeDirs(dirs []logdir.DirName, keys []string) {
	for _, dir := range dirs {
		if n.life.Err() != nil {
			return
		}
		if err := n.data.dir.RemoveRetired(dir); err != nil {
			n.log.Warn("a deleted partition could not be removed; the next start tries again", "dir", dir, "error", err)
			return
		}
		n.log.Info("deleted partition removed", "dir", dir)
	}
	forget := make([]meta.Command, len(keys))
	for i, key := range keys {
		forget[i] = meta.DeleteKv{Key: key}
	}
	if _, err := n.meta.Propose(n.life, forget...); err != nil && n.life.Err() == nil {
		n.log.Warn("a deletion that is done is still remembered", "error", err)
	}
}

// discard closes a log that no client knows and removes its directory.
func (n *Node) discard(l *partition.Log) error {
	dir, err := n.data.retireLog(l)
	if err != nil {
		return fmt.Errorf("discard %s: %w", l, err)
	}
	return n.data.dir.RemoveRetired(dir)
}
