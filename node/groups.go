package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-io/tidemark/broker"
	"github.com/tidemark-io/tidemark/coordinator"
	"github.com/tidemark-io/tidemark/coordinator/runner"
	"github.com/tidemark-io/tidemark/logdir"
)

// offsetsTopic is where the group coordinator keeps its state, under Kafka's name.
const offsetsTopic = "__consumer_offsets"

// Defaults of [GroupConfig].
const (
	DefaultOffsetsPartitions     = 50
	DefaultInitialRebalanceDelay = 3 * time.Second
)

// GroupConfig configures the group coordinator. Zero values are Kafka's defaults.
type GroupConfig struct {
	OffsetsPartitions     int32         // [offsets.topic.num.partitions, 50] used when the topic is created
	InitialRebalanceDelay time.Duration // [group.initial.rebalance.delay.ms, 3 s]; negative: none
	MinSessionTimeout     time.Duration // [group.min.session.timeout.ms, 6 s]
	MaxSessionTimeout     time.Duration // [group.max.session.timeout.ms, 30 min]
	MaxSize               int           // [group.max.size, no limit]
	OffsetsRetention      time.Duration // [offsets.retention.minutes, 7 days]
	OffsetsRetentionCheck time.Duration // [offsets.retention.check.interval.ms, 10 min]
	OffsetMetadataMax     int           // [offset.metadata.max.bytes, 4096]
}

func (c GroupConfig) withDefaults() GroupConfig {
	if c.OffsetsPartitions <= 0 {
		c.OffsetsPartitions = DefaultOffsetsPartitions
	}
	if c.InitialRebalanceDelay == 0 {
		c.InitialRebalanceDelay = DefaultInitialRebalanceDelay
	}
	return c
}

// openGroups starts the group coordinator. Shards that hold anything begin to load in the background.
func (n *Node) openGroups(context.Context) error {
	c := n.config.Groups.withDefaults()
	n.groups = runner.New(runner.Options{
		Partitions: n.offsetsPartitions,
		Open:       n.openOffsets,
		Groups: coordinator.Config{
			TopicExists:      n.topicExists,
			InitialDelayMs:   int32(max(c.InitialRebalanceDelay, 0).Milliseconds()),
			MinSessionMs:     int32(c.MinSessionTimeout.Milliseconds()),
			MaxSessionMs:     int32(c.MaxSessionTimeout.Milliseconds()),
			MaxSize:          c.MaxSize,
			RetentionMs:      c.OffsetsRetention.Milliseconds(),
			SweepMs:          c.OffsetsRetentionCheck.Milliseconds(),
			MetadataMaxBytes: c.OffsetMetadataMax,
		},
		Now:    n.config.Now,
		Events: n.groupEvents(),
	})
	n.undo("the group coordinator", n.groups.Close)
	n.groups.StartAll()
	n.observeGroups()
	return nil
}

// groupEvents logs what operators should know.
func (n *Node) groupEvents() runner.Events {
	return runner.Events{
		Loaded: func(e runner.Loaded) {
			n.log.Info("group coordinator loaded", "partition", e.Partition, "groups", e.Groups, "records", e.Records,
				"bytes", e.Bytes, "took", e.Took)
		},
		LoadFailed: func(e runner.LoadFailed) {
			n.log.Error("groups are not served: their partition of "+offsetsTopic+" cannot be read",
				"partition", e.Partition, "offset", e.Offset, "error", e.Err)
		},
		Skipped: func(e runner.Skipped) {
			n.log.Warn("records of "+offsetsTopic+" are of types that this version does not know; they are kept",
				"partition", e.Partition, "records", e.Records, "first", e.First)
		},
		Ended: func(e runner.Ended) {
			n.log.Warn("group coordinator stopped", "partition", e.Partition, "error", e.Err)
		},
		Checkpointed: func(e runner.Checkpointed) {
			n.log.Info("group coordinator checkpoint", "partition", e.Partition, "records", e.Records, "from", e.From, "error", e.Err)
		},
	}
}

// offsetsPartitions returns how many partitions the offsets topic has, 0 if there is none.
func (n *Node) offsetsPartitions() int32 {
	t, ok := n.meta.View().Topic(offsetsTopic)
	if !ok {
		return 0
	}
	return t.Partitions()
}

// openOffsets finds the log of a partition of the offsets topic.
func (n *Node) openOffsets(partition int32) (runner.Log, error) {
	t, ok := n.meta.View().Topic(offsetsTopic)
	if !ok {
		return nil, coordinator.ErrNotAvailable
	}
	log, err := n.partitions.find(t.ID, partition)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", coordinator.ErrNotAvailable, err)
	}
	return offsetsLog{log}, nil
}

// topicExists reports whether the topic of a committed offset exists.
func (n *Node) topicExists(name string, id [16]byte) bool {
	t, ok := n.meta.View().Topic(name)
	return ok && (id == [16]byte{} || id == t.ID)
}

// coordinatorOf is the node's group coordinator as the broker sees it.
type coordinatorOf struct{ n *Node }

var _ broker.Groups = coordinatorOf{}

// Find creates the offsets topic if there is none. There is one node, so it coordinates every group.
func (c coordinatorOf) Find(ctx context.Context, group string) (int32, error) {
	n := c.n
	if n.offsetsPartitions() == 0 {
		errs := backend{n}.CreateTopics(ctx, []broker.CreateTopic{{
			Name: offsetsTopic, ID: logdir.NewUUID(), Partitions: n.config.Groups.withDefaults().OffsetsPartitions, Replicas: 1,
			Overrides: offsetsSettings(),
		}})
		if errs[0] != nil && !errors.Is(errs[0], broker.ErrTopicExists) {
			n.log.Error("the topic of the group coordinator could not be created", "topic", offsetsTopic, "error", errs[0])
			return -1, fmt.Errorf("%w: %w", coordinator.ErrNotAvailable, errs[0])
		}
	}
	if err := n.groups.Start(group); err != nil {
		return -1, err
	}
	return n.config.NodeID, nil
}

// offsetsSettings are the settings that the offsets topic is created with.
func offsetsSettings() map[string]string {
	return map[string]string{"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
}

// Submit hands a request to its shard.
func (c coordinatorOf) Submit(req coordinator.Request) broker.GroupCall {
	return c.n.groups.Submit(req)
}

// List asks every shard.
func (c coordinatorOf) List(ctx context.Context) *coordinator.Listing { return c.n.groups.List(ctx) }
