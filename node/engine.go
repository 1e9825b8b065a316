package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/observe"
	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/topicconfig"
	"github.com/tidemark-io/tidemark/vfs"
)

// openPartitions starts the log engine and opens the logs of all topics.
func (n *Node) openPartitions(ctx context.Context) error {
	n.openEngine()
	if err := n.data.settle(n.meta.View(), n.strayed); err != nil {
		return err
	}
	if err := n.dropStaleJournal(); err != nil {
		return err
	}
	if err := n.data.takeMarker(); err != nil {
		return err
	}
	if err := n.settleJournal(ctx); err != nil {
		return err
	}
	if err := n.raiseLeaderEpochs(ctx); err != nil {
		return err
	}
	view := n.meta.View()
	if err := n.openLogs(ctx, n.planLogs(view)); err != nil {
		return err
	}
	n.data.closed = nil
	n.opened = true
	n.resumeDeletions(view)
	return nil
}

// openEngine creates what all logs share. It opens nothing on disk.
func (n *Node) openEngine() {
	c := n.config
	n.topics = observe.NewTopics(n.reg, n.partitions.all)
	n.show(func(s *shown) { s.topics = n.topics })
	n.env = kafkalog.NewEnv(kafkalog.EnvOptions{
		FS: c.FS, Now: c.Now, Events: n.traces.KafkaLogs(n.keepsAside(observe.KafkaLogs(n.reg, n.log, n.topics))),
		MaxOpenFiles: c.MaxOpenFiles, Volume: c.DataDir,
	})
	n.flusher = partition.NewFlusher(partition.FlusherOptions{
		Workers: c.SyncWorkers, MaxUnsyncedBytes: c.MaxUnsyncedBytes, Now: c.Now, Journal: n.journalOptions(),
	})
	n.maintainer = partition.NewMaintainer(partition.MaintainerOptions{
		Now: c.Now, InitialDelay: c.InitialTaskDelay, RetentionInterval: c.RetentionCheck,
		ProducerExpiry: c.ProducerExpiry, ProducerExpiryInterval: c.ProducerCheck,
	})
	n.followProducerExpiry()
	n.checkpoints = n.newCheckpoints()
	n.openSpace()
	n.logEvents = n.traces.Partitions(observe.Partitions(n.reg, n.log, n.topics))
	observe.Hosting(n.reg, n.partitions.hosting)
	observe.Flusher(n.reg, n.flusher.Stats)
	n.undo("the log engine", n.closeEngine)
	n.undo("partitions", n.closePartitions)
	n.undo("work in the background", func(ctx context.Context) error {
		n.end(ErrClosed)
		return n.background.stop(ctx)
	})
}

// raiseLeaderEpochs begins a new term of every partition after an unclean start, and of partitions whose directories are
// missing or were just brought back: the end of the log that clients knew may not have survived.
func (n *Node) raiseLeaderEpochs(ctx context.Context) error {
	topics := n.termsThatEnded(n.meta.View())
	if len(topics) == 0 {
		return nil
	}
	if !n.data.clean {
		n.metrics.UncleanStarts.Inc()
		n.log.Warn("the last stop was not clean: logs are checked before they are served", "topics", len(topics))
	}
	for chunk := range slices.Chunk(topics, raiseAtOnce) {
		raise := meta.RaiseLeaderEpochs{Node: n.config.NodeID, NodeEpoch: n.member.Epoch(), Topics: chunk}
		if _, err := n.meta.Do(ctx, raise); err != nil {
			return err
		}
	}
	return nil
}

// termsThatEnded lists the partitions that must not continue in the term of the last process.
func (n *Node) termsThatEnded(view *meta.State) (topics []meta.TopicPartitions) {
	there := make(map[logdir.Partition]bool, len(n.data.found.partitions))
	for _, found := range n.data.found.partitions {
		there[found.name.Partition] = !n.data.restored[found.name.Partition]
	}
	for t := range view.Topics() {
		ended := meta.TopicPartitions{ID: t.ID}
		for i := range t.Partitions() {
			if !there[logdir.Partition{Topic: t.Name, Index: i}] {
				ended.Partitions = append(ended.Partitions, i)
			}
		}
		switch {
		case !n.data.clean:
			ended.Partitions = nil // all of them
			topics = append(topics, ended)
		case len(ended.Partitions) > 0:
			topics = append(topics, ended)
		}
	}
	return topics
}

// raiseAtOnce is how many topics fit in one entry of the metadata log.
const raiseAtOnce = 10_000

// strayed reports a directory that was moved aside.
func (n *Node) strayed(from, to string) {
	n.metrics.StrayDirectories.Inc()
	n.log.Warn("a directory whose topic the metadata does not know was moved aside; nothing in it was changed",
		"from", from, "to", to)
}

// logPlan is one log to open.
type logPlan struct {
	topic  string
	index  int32
	id     meta.TopicID
	dir    string
	config topicconfig.Config
	epoch  int32
	clean  bool
	cached bool // the watermark is of a log that followed the page cache
	host   *hosted

	summary *kafkalog.Summary // of the log when it was closed, or nil

	recovered, watermark, trimmed int64 // from the checkpoints, or -1
	start                         int64 // where a log that is created begins, or -1 for an existing one
}

// planLogs lists every log in the metadata, and adds each topic to the table.
func (n *Node) planLogs(view *meta.State) []logPlan {
	plans := make([]logPlan, 0, view.PartitionCount())
	for t := range view.Topics() {
		count := t.Partitions()
		h := &hosted{name: t.Name, logs: make([]*partition.Log, count), errs: make([]error, count)}
		config := n.catalog.topic(view, t).Config
		for i := range count {
			p := logPlan{
				topic: t.Name, index: i, id: t.ID, dir: n.data.partitionPath(t.Name, i), config: config,
				epoch: t.LeaderEpoch(i), clean: n.data.clean && !n.data.restored[logdir.Partition{Topic: t.Name, Index: i}],
				host: h, start: -1,
			}
			p.recovered, p.watermark, p.trimmed = n.data.checkpointed(t.Name, i)
			p.cached = n.data.pageCached(t.Name, i)
			p.summary = n.data.closed[closedKey{t.ID, i}]
			plans = append(plans, p)
		}
		n.partitions.add(t.ID, h)
	}
	return plans
}

// openLogs opens logs, several at a time. A log that cannot be opened is not served: its clients get its error, and all
// others are served.
func (n *Node) openLogs(ctx context.Context, plans []logPlan) error {
	n.status.enter("opening partitions", len(plans))
	n.status.watch(n.partitions.failed)
	n.metrics.LogsToOpen.Set(float64(len(plans)))
	report := max(len(plans)/10, 1)
	lacking := make([]bool, len(plans))
	err := parallel.Each(ctx, len(plans), n.config.RecoveryThreads, func(i int) {
		p := plans[i]
		opened := n.status.opening(fmt.Sprintf("%s-%d", p.topic, p.index))
		defer opened()
		recovered := n.recovering(ctx, p)
		l, err := n.openLog(p)
		recovered(err)
		n.partitions.opened(p.host, p.index, l, err)
		lacking[i] = lacksRoom(err)
		n.metrics.LogsOpened.Inc()
		if done := n.status.step(); done%report == 0 && len(plans) > report {
			n.log.Info("opening partitions", "done", done, "total", len(plans))
		}
	})
	var later []logPlan
	for i, p := range plans {
		if lacking[i] {
			later = append(later, p)
		}
	}
	n.reopenLater(later)
	return err
}

// openLog opens a log, or returns why it is not served.
func (n *Node) openLog(p logPlan) (*partition.Log, error) {
	l, err := n.tryLog(p)
	return l, n.unserved(p, err)
}

// tryLog opens a log.
func (n *Node) tryLog(p logPlan) (*partition.Log, error) {
	if err := n.waits.of(p.dir); err != nil {
		return nil, err
	}
	p, err := n.prepare(p)
	if err != nil {
		return nil, err
	}
	return partition.Open(n.logOptions(p))
}

// unserved returns the error for clients of a log that could not be opened, and logs the full cause.
func (n *Node) unserved(p logPlan, err error) error {
	if err == nil {
		return nil
	}
	n.log.Error("a partition is not served", "topic", p.topic, "partition", p.index, "dir", p.dir, "error", err)
	switch reason := storageReason(err); {
	case isDamage(err):
		err = &DamagedError{Topic: p.topic, Partition: p.index, Err: err}
	case reason != "":
		err = &ChangeFailedError{Reason: reason, Err: err}
	case !errors.Is(err, partition.ErrStorage):
		err = fmt.Errorf("%w: %w", partition.ErrStorage, err)
	}
	return err
}

// prepare makes sure that a log's directory exists and belongs to the topic. A missing one is created, and begins where
// the old one is known to have ended, so that no offset is assigned twice.
func (n *Node) prepare(p logPlan) (logPlan, error) {
	missing, err := n.data.checkPartition(p.topic, p.index, p.id)
	if err != nil || !missing {
		return p, err
	}
	p.start = max(p.recovered, p.watermark, p.trimmed)
	n.log.Error("the directory of a partition is gone: a new one begins where the old one is known to have ended",
		"topic", p.topic, "partition", p.index, "dir", p.dir, "offset", max(p.start, 0))
	_, err = n.data.makePartition(p.topic, p.index, p.id)
	return p, err
}

func (n *Node) logOptions(p logPlan) partition.Options {
	return partition.Options{
		Env: n.env, Flusher: n.flusher, Maintainer: n.maintainer, Now: n.config.Now,
		Dir: p.dir, Topic: p.topic, Index: p.index, TopicID: p.id, Config: p.config, LeaderEpoch: p.epoch,
		Clean: p.clean, Summary: p.summary, RecoveryPoint: p.recovered, HighWatermark: p.watermark, LogStart: p.start,
		PageCached: p.cached,
		Changed:    n.checkpoints.moved, Room: n.roomFor(p.topic), Events: n.logEvents,
	}
}

// resumeDeletions removes the directories of topics whose deletion an earlier process did not finish.
func (n *Node) resumeDeletions(view *meta.State) {
	var keys []string
	for key := range view.List(deletingPrefix) {
		keys = append(keys, key)
	}
	n.removeLater(n.data.found.deleted, keys, 0)
}

// closePartitions syncs and closes every log, several at a time, and writes the checkpoints and, if all went well, the
// marker that lets the next start trust them. On a full disk only the marker is missing.
func (n *Node) closePartitions(context.Context) error {
	err := n.finishPartitions()
	if onlyFull(err) {
		n.log.Warn("the disk is full: the marker of a clean stop could not be written, so the next start checks the logs", "error", err)
		return nil
	}
	return err
}

// onlyFull reports whether an error, or every one of several joined errors, says that the disk is full.
func onlyFull(err error) bool {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return vfs.IsNoSpace(err)
	}
	for _, each := range several.Unwrap() {
		if !onlyFull(each) {
			return false
		}
	}
	return true
}

// finishPartitions is closePartitions for every kind of end. A start that failed early has nothing to write, and nor has
// a node whose data directory vanished: what is in its place is not its own.
func (n *Node) finishPartitions() error {
	n.checkpoints.stop()
	logs := slices.Collect(n.partitions.all())
	errs := partition.CloseAll(n.env, logs, n.flushWorkers())
	if err := errors.Join(append(errs, n.stillThere())...); err != nil {
		return err
	}
	if !n.data.taken {
		return nil
	}
	for _, file := range n.checkpoints.all {
		if err := file.write(); err != nil {
			return err
		}
	}
	if !n.opened || len(n.partitions.unopened()) > 0 || !n.putBackWaiting() {
		return nil // unopened logs were not checked; the next start does that
	}
	if err := n.flusher.RemoveJournal(); err != nil {
		return err
	}
	n.writeClosedLogs(logs)
	n.data.dir.MarkLoaded()
	return n.data.dir.WriteCleanShutdown(n.member.Epoch())
}

func (n *Node) flushWorkers() int {
	if n.config.SyncWorkers > 0 {
		return n.config.SyncWorkers
	}
	return partition.DefaultSyncWorkers
}

// closeEngine stops what all logs share.
func (n *Node) closeEngine(context.Context) error {
	n.maintainer.Close()
	n.flusher.Close()
	return n.env.Close()
}
