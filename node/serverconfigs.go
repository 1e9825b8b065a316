package node

import (
	"cmp"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/tidemark-io/tidemark/broker"
	"github.com/tidemark-io/tidemark/topicconfig"
	"github.com/tidemark-io/tidemark/vfs"
)

// logDir describes the data directory to administrators.
func (n *Node) logDir() broker.LogDir {
	d := broker.LogDir{Path: n.absoluteDir(), Holds: n.data.path, Total: -1, Usable: -1}
	if space, ok := n.config.FS.(vfs.SpaceReporter); ok {
		if free, total, err := space.Space(n.data.path); err == nil {
			d.Total, d.Usable = total, free
		}
	}
	return d
}

// absoluteDir returns the absolute path of the data directory.
func (n *Node) absoluteDir() string {
	abs, err := filepath.Abs(n.config.DataDir)
	if err != nil {
		return n.config.DataDir // the working directory is unknown
	}
	return abs
}

// kafkaRecoveryThreads is the number that the server's configuration has by default.
const kafkaRecoveryThreads = 2

// given describes a setting without a default.
func given(name, value, doc string) broker.ServerConfig {
	return broker.ServerConfig{Name: name, Value: value, Type: topicconfig.List, Doc: doc}
}

// number describes a setting whose value 0 stands for its default.
func number(name string, value, byDefault int64, doc string) broker.ServerConfig {
	return broker.ServerConfig{
		Name: name, Value: strconv.FormatInt(cmp.Or(value, byDefault), 10), Default: strconv.FormatInt(byDefault, 10),
		Type: topicconfig.Int, Doc: doc,
	}
}

// millis is number for a time in milliseconds.
func millis(name string, value, byDefault time.Duration, doc string) broker.ServerConfig {
	s := number(name, value.Milliseconds(), byDefault.Milliseconds(), doc)
	s.Type = topicconfig.Long
	return s
}

// settings lists the settings of the node, by Kafka's names, with the values in force.
func (n *Node) settings() []broker.ServerConfig {
	return slices.Concat(n.config.settings(n), n.config.Groups.withDefaults().settings(), n.config.streamSettings())
}

func (c GroupConfig) settings() []broker.ServerConfig {
	delay := millis("group.initial.rebalance.delay.ms", max(c.InitialRebalanceDelay, 0), DefaultInitialRebalanceDelay,
		"How long an empty group waits for more members after its first one joins.")
	if c.InitialRebalanceDelay < 0 {
		delay.Value = "0"
	}
	return []broker.ServerConfig{
		delay,
		number("offsets.topic.num.partitions", int64(c.OffsetsPartitions), DefaultOffsetsPartitions,
			"How many partitions the topic with the state of groups is created with."),
		number("offsets.topic.replication.factor", 1, 1, "How many replicas the topic with the state of groups has."),
		millis("group.min.session.timeout.ms", c.MinSessionTimeout, 6*time.Second, "The shortest session timeout that a member may ask for."),
		millis("group.max.session.timeout.ms", c.MaxSessionTimeout, 30*time.Minute, "The longest session timeout that a member may ask for."),
		number("group.max.size", int64(c.MaxSize), math.MaxInt32, "How many members a group may have."),
		number("offsets.retention.minutes", int64(c.OffsetsRetention/time.Minute), 7*24*60,
			"How long the offsets of a group without members are kept."),
		millis("offsets.retention.check.interval.ms", c.OffsetsRetentionCheck, 10*time.Minute,
			"How often to look for expired offsets."),
		number("offset.metadata.max.bytes", int64(c.OffsetMetadataMax), 4096, "The longest metadata text that a client may commit with an offset."),
	}
}

func (c *Config) settings(n *Node) []broker.ServerConfig {
	id := number("node.id", int64(c.NodeID), -1, "The id of this node.")
	id.Value, id.Default = strconv.Itoa(int(c.NodeID)), ""
	brokerID := id
	brokerID.Name = "broker.id"
	rack := given("broker.rack", c.Rack, "The rack that the node is in.")
	rack.Type = topicconfig.String
	expiry := millis(broker.ProducerIDExpiration, c.ProducerExpiry, 24*time.Hour,
		"How long a partition remembers a producer that writes nothing.")
	expiry.Type = topicconfig.Int
	return []broker.ServerConfig{
		id, brokerID, rack,
		given("process.roles", "broker,controller", "What this node does: it serves clients and keeps the metadata."),
		given("listeners", n.kafka.named(func(l KafkaListener) string { return l.Addr.String() }), "Where Kafka clients connect."),
		given("advertised.listeners", n.kafka.named(KafkaListener.advertisedText),
			"The addresses advertised to Kafka clients, one for each listener. Without a host, a client is given the address that "+
				"it connected to."),
		given("log.dirs", n.absoluteDir(), "Where the partitions are."),
		given("log.dir", n.absoluteDir(), "Where the partitions are."),
		number("num.recovery.threads.per.data.dir", int64(c.RecoveryThreads), kafkaRecoveryThreads,
			"How many partitions are opened at the same time."),
		millis("log.retention.check.interval.ms", c.RetentionCheck, 5*time.Minute,
			"How often to look for segments to delete."),
		expiry,
		millis("log.flush.offset.checkpoint.interval.ms", c.RecoveryPointCheckpoint, recoveryPointInterval,
			"How often to checkpoint how far each log is known to be on disk."),
		millis("log.flush.start.offset.checkpoint.interval.ms", c.LogStartCheckpoint, logStartInterval,
			"How often to checkpoint where each log starts."),
		millis("replica.high.watermark.checkpoint.interval.ms", c.HighWatermarkCheckpoint, watermarkInterval,
			"How often to checkpoint high watermarks."),
	}
}
