package node

import (
	"cmp"
	"path/filepath"
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

// absoluteDir is where the data directory is, wherever the process was started.
func (n *Node) absoluteDir() string {
	abs, err := filepath.Abs(n.config.DataDir)
	if err != nil {
		return n.config.DataDir // where the process runs cannot be told
	}
	return abs
}

// settings lists the settings of a node, by Kafka's names, with the values in force.
func (c *Config) settings(n *Node) []broker.ServerConfig {
	text := func(name, value, byDefault, doc string) broker.ServerConfig {
		return broker.ServerConfig{Name: name, Value: value, Default: byDefault, Type: topicconfig.String, Doc: doc}
	}
	given := func(name, value, doc string) broker.ServerConfig {
		return broker.ServerConfig{Name: name, Value: value, Type: topicconfig.List, Doc: doc}
	}
	number := func(name string, value, byDefault int, doc string) broker.ServerConfig {
		return broker.ServerConfig{
			Name: name, Value: strconv.Itoa(value), Default: strconv.Itoa(byDefault), Type: topicconfig.Int, Doc: doc,
		}
	}
	millis := func(name string, value, byDefault time.Duration, doc string) broker.ServerConfig {
		value = cmp.Or(value, byDefault)
		return broker.ServerConfig{
			Name: name, Value: strconv.FormatInt(value.Milliseconds(), 10),
			Default: strconv.FormatInt(byDefault.Milliseconds(), 10), Type: topicconfig.Long, Doc: doc,
		}
	}
	id := number("node.id", int(c.NodeID), -1, "The id of this node.")
	brokerID := id
	brokerID.Name = "broker.id"
	addrs := n.Addrs()
	return []broker.ServerConfig{
		id, brokerID,
		given("process.roles", "broker,controller", "What this node does: it serves clients and keeps the metadata."),
		text("broker.rack", c.Rack, "", "Where the node stands."),
		given("listeners", "PLAINTEXT://"+n.kafkaAddr.String(), "Where Kafka clients connect."),
		given("advertised.listeners", "PLAINTEXT://"+addrs.KafkaAdvertised, "The address that Kafka clients are told."),
		given("log.dirs", n.absoluteDir(), "Where the partitions are."),
		given("log.dir", n.absoluteDir(), "Where the partitions are."),
		number("num.recovery.threads.per.data.dir", c.RecoveryThreads, DefaultRecoveryThreads,
			"How many partitions are opened at the same time."),
		millis("log.retention.check.interval.ms", c.RetentionCheck, 5*time.Minute,
			"How often partitions are looked at for records to delete."),
		millis("producer.id.expiration.ms", c.ProducerExpiry, 24*time.Hour,
			"How long a partition remembers a producer that writes nothing."),
		millis("log.flush.offset.checkpoint.interval.ms", c.RecoveryPointCheckpoint, recoveryPointInterval,
			"How often it is written down up to where partitions are on disk."),
		millis("log.flush.start.offset.checkpoint.interval.ms", c.LogStartCheckpoint, logStartInterval,
			"How often the first offsets of partitions are written down."),
		millis("replica.high.watermark.checkpoint.interval.ms", c.HighWatermarkCheckpoint, watermarkInterval,
			"How often high watermarks are written down."),
	}
}
