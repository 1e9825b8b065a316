package broker

import (
	"strconv"

	"github.com/tidemark-io/tidemark/topicconfig"
)

// configs lists the options that Kafka has settings for, with the values in force.
func (o *Options) configs() []ServerConfig {
	defaults := Options{}.withDefaults()
	number := func(name string, kind topicconfig.Type, value, byDefault int64, doc string) ServerConfig {
		return ServerConfig{
			Name: name, Value: strconv.FormatInt(value, 10), Default: strconv.FormatInt(byDefault, 10), Type: kind, Doc: doc,
		}
	}
	flag := func(name string, value bool, doc string) ServerConfig {
		return ServerConfig{Name: name, Value: strconv.FormatBool(value), Default: "true", Type: topicconfig.Boolean, Doc: doc}
	}
	return []ServerConfig{
		flag("auto.create.topics.enable", !o.DisableAutoCreateTopics,
			"Whether a topic is created when a client asks for one that does not exist."),
		flag("delete.topic.enable", !o.DisableDeleteTopics, "Whether topics can be deleted."),
		number("num.partitions", topicconfig.Int, int64(o.NumPartitions), int64(defaults.NumPartitions),
			"The partition count of a topic whose creator leaves it open."),
		number("default.replication.factor", topicconfig.Int, int64(o.DefaultReplicationFactor),
			int64(defaults.DefaultReplicationFactor), "The replica count of a topic whose creator leaves it open."),
		number("connections.max.idle.ms", topicconfig.Long, o.ConnectionsMaxIdle.Milliseconds(),
			defaults.ConnectionsMaxIdle.Milliseconds(), "Connections on which nothing happens for so long are closed."),
		number(maxConnections, topicconfig.Int, orUnlimited(o.MaxConnections), orUnlimited(0),
			"How many connections may be open at a time."),
		number(maxConnectionsPerIP, topicconfig.Int, orUnlimited(o.MaxConnectionsPerIP), orUnlimited(0),
			"How many connections of one address may be open at a time."),
		number("socket.request.max.bytes", topicconfig.Int, int64(o.SocketRequestMaxBytes),
			int64(defaults.SocketRequestMaxBytes), "The largest request."),
		number("queued.max.request.bytes", topicconfig.Long, o.QueuedMaxRequestBytes, defaults.QueuedMaxRequestBytes,
			"The memory of the requests of all connections that are being read and executed."),
		number("fetch.max.bytes", topicconfig.Int, int64(o.FetchMaxBytes), int64(defaults.FetchMaxBytes),
			"The most record bytes of one fetch response, but for a first batch that is larger."),
		number("max.incremental.fetch.session.cache.slots", topicconfig.Int, int64(max(o.MaxIncrementalFetchSessions, 0)),
			int64(defaults.MaxIncrementalFetchSessions), "How many fetch sessions are kept."),
		number("max.request.partition.size.limit", topicconfig.Int, maxDescribedPartitions, maxDescribedPartitions,
			"The most partitions of one page of DescribeTopicPartitions."),
	}
}

// orUnlimited is a limit as Kafka writes it: no limit is the largest number.
func orUnlimited(limit int) int64 {
	if limit == 0 {
		return 1<<31 - 1
	}
	return int64(limit)
}
