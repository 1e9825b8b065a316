package node

import (
	"cmp"
	"iter"
	"sync/atomic"
	"time"

	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/partition"
)

// Kafka's intervals for the checkpoints of a data directory, where [Config] says nothing.
const (
	recoveryPointInterval = time.Minute
	logStartInterval      = time.Minute
	watermarkInterval     = 5 * time.Second
)

// checkpoints writes the checkpoint files, each at most once in its interval and only after something has moved. No
// acknowledgement depends on them: they make starts quick, and Kafka's tools expect them.
type checkpoints struct {
	all []*checkpoint
}

// checkpoint is one of the files.
type checkpoint struct {
	interval time.Duration
	now      func() time.Time
	write    func() error
	task     *partition.Task
	due      atomic.Bool
}

// newCheckpoints returns the three checkpoints of a data directory, none of them due.
func (n *Node) newCheckpoints() *checkpoints {
	c := &checkpoints{}
	for _, file := range []struct {
		interval time.Duration
		write    func() error
	}{
		{cmp.Or(n.config.RecoveryPointCheckpoint, recoveryPointInterval), n.writeRecoveryPoints},
		{cmp.Or(n.config.LogStartCheckpoint, logStartInterval), n.writeLogStarts},
		{cmp.Or(n.config.HighWatermarkCheckpoint, watermarkInterval), n.writeWatermarks},
	} {
		c.all = append(c.all, n.newCheckpoint(file.interval, file.write))
	}
	return c
}

func (n *Node) writeRecoveryPoints() error {
	n.data.checkpointing.Lock()
	defer n.data.checkpointing.Unlock()
	points := offsetsByPartition{}
	for p, c := range n.checkpointed() {
		points[p] = c.RecoveryPoint
	}
	return n.writeCheckpoint(n.data.dir.RecoveryPoints(), points)
}

func (n *Node) writeLogStarts() error {
	n.data.checkpointing.Lock()
	defer n.data.checkpointing.Unlock()
	starts := offsetsByPartition{}
	for p, c := range n.checkpointed() {
		if c.Trimmed {
			starts[p] = c.LogStart
		}
	}
	return n.writeCheckpoint(n.data.dir.LogStarts(), starts)
}

// writeWatermarks writes high watermarks, and marks those that prove nothing because their logs follow the page cache, which
// may be configured otherwise at the next start. At any moment all such watermarks must be marked, so marks are added before
// the watermarks are written, and removed after.
func (n *Node) writeWatermarks() error {
	n.data.checkpointing.Lock()
	defer n.data.checkpointing.Unlock()
	watermarks, cached := offsetsByPartition{}, offsetsByPartition{}
	for p, c := range n.checkpointed() {
		watermarks[p] = c.HighWatermark
		if c.PageCached {
			cached[p] = 0
		}
	}
	if err := n.data.dir.PageCached().Update(cached); err != nil {
		return err
	}
	if err := n.writeCheckpoint(n.data.dir.HighWatermarks(), watermarks); err != nil {
		return err
	}
	return n.writeCheckpoint(n.data.dir.PageCached(), cached)
}

func (n *Node) newCheckpoint(interval time.Duration, write func() error) *checkpoint {
	c := &checkpoint{interval: interval, now: n.config.Now, write: write}
	c.task = n.maintainer.NewTask(func(now time.Time) time.Time {
		c.due.Store(false)
		if n.checkStillThere() != nil {
			return time.Time{}
		}
		if err := write(); err != nil {
			n.metrics.CheckpointFailures.Inc()
			n.log.Warn("a checkpoint could not be written and will be retried", "error", err)
			c.due.Store(true)
			return now.Add(interval)
		}
		return time.Time{}
	})
	return c
}

// moved reports that the offsets of some log have moved. It costs three loads when the files are already due.
func (c *checkpoints) moved() {
	for _, file := range c.all {
		if !file.due.Load() && !file.due.Swap(true) {
			file.task.Due(file.now().Add(file.interval))
		}
	}
}

// stop ends the tasks and waits for the one that is running.
func (c *checkpoints) stop() {
	for _, file := range c.all {
		file.task.Stop()
	}
}

// offsetsByPartition is the content of one of the files.
type offsetsByPartition = map[logdir.Partition]int64

// checkpointed yields the values to checkpoint of the open logs.
func (n *Node) checkpointed() iter.Seq2[logdir.Partition, partition.Checkpoint] {
	return func(yield func(logdir.Partition, partition.Checkpoint) bool) {
		for l := range n.partitions.all() {
			if !yield(logdir.Partition{Topic: l.Topic(), Index: l.Index()}, l.Checkpoint()) {
				return
			}
		}
	}
}

// writeCheckpoint brings one file up to date: open logs get their current values, logs that could not be opened keep the
// file's values, and everything else is dropped. The caller holds checkpointing.
func (n *Node) writeCheckpoint(offsets *logdir.Offsets, set offsetsByPartition) error {
	written, err := offsets.Load()
	if err != nil {
		return err
	}
	unopened := n.partitions.unopened()
	var gone []logdir.Partition
	for p := range written {
		if _, here := set[p]; !here && !unopened[p] {
			gone = append(gone, p)
		}
	}
	return offsets.Update(set, gone...)
}

// forget durably removes a topic's partitions from the checkpoint files, so that a new topic of the same name never
// inherits a deleted topic's offsets.
func (d *dataDir) forget(topic string, partitions int32) error {
	return d.forgetFrom(topic, 0, partitions)
}

// forgetFrom is forget for the partitions from first to end-1.
func (d *dataDir) forgetFrom(topic string, first, end int32) error {
	d.checkpointing.Lock()
	defer d.checkpointing.Unlock()
	var gone []logdir.Partition
	for i := first; i < end; i++ {
		gone = append(gone, logdir.Partition{Topic: topic, Index: i})
	}
	for _, offsets := range []*logdir.Offsets{d.dir.RecoveryPoints(), d.dir.HighWatermarks(), d.dir.LogStarts(), d.dir.PageCached()} {
		if err := offsets.Update(nil, gone...); err != nil {
			return err
		}
	}
	return nil
}

// forgetWatermarks durably removes the high watermarks of some partitions from the checkpoint.
func (d *dataDir) forgetWatermarks(of []logdir.Partition) error {
	if len(of) == 0 {
		return nil
	}
	d.checkpointing.Lock()
	defer d.checkpointing.Unlock()
	return d.dir.HighWatermarks().Update(nil, of...)
}

// checkpointed returns what the files said about a partition at start, with -1 for values that they did not have.
func (d *dataDir) checkpointed(topic string, index int32) (recovered, watermark, start int64) {
	p := logdir.Partition{Topic: topic, Index: index}
	of := func(entries map[logdir.Partition]int64) int64 {
		if offset, ok := entries[p]; ok {
			return offset
		}
		return -1
	}
	return of(d.recovered), of(d.watermarks), of(d.starts)
}

// pageCached reports whether the checkpointed high watermark of a partition may be above what was flushed.
func (d *dataDir) pageCached(topic string, index int32) bool {
	_, cached := d.cached[logdir.Partition{Topic: topic, Index: index}]
	return cached
}
