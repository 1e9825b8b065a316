package broker

import (
	"fmt"
	"time"
)

// Options are the settings of a [Server]. Zero values take the defaults; where a default is Kafka's, the field names
// Kafka's setting.
type Options struct {
	// Backend is the node. It must be set.
	Backend Backend

	// Groups is the group coordinator. If it is nil, groups have no coordinator.
	Groups Groups

	// Events receives what happens; unset functions are not called.
	Events Events

	// SocketRequestMaxBytes is the largest frame taken, without its size prefix (socket.request.max.bytes). The default
	// is 100 MiB.
	SocketRequestMaxBytes int32

	// QueuedMaxRequestBytes bounds the memory of the requests of all connections that are being read, decoded and
	// executed (queued.max.request.bytes). A request of up to 4 KiB is in the buffer of its connection and does not count. A
	// larger one takes its share as its bytes arrive: 32 KiB at first, then up to four times what has arrived, but at most
	// 256 KiB ahead of it; memory is used only for bytes that have arrived. The share is given back when the handler no
	// longer needs the bytes; a connection has one such request at a time. A request that finds no room waits in line, unread;
	// meanwhile requests whose bytes come too slowly are cut off after a thirtieth of RequestReadTimeout. In each of the parts
	// below one request may exceed the limit, so that those that have begun can end.
	//
	// It is divided so that no kind of request can keep out another: half is for requests above 2 MiB, of any API; an eighth
	// each for smaller Produce requests, smaller requests of all other APIs, decoded Produce requests, and other decoded
	// requests. A request that would take more than its part when decoded is refused. At most a sixteenth is kept in buffers
	// between requests. The default is 256 MiB, or twice SocketRequestMaxBytes if that is larger; Kafka's is no limit.
	QueuedMaxRequestBytes int64

	// QueuedMaxRequests is how many requests of one connection may wait for their answers to be written; at that number
	// the connection is not read. From 16 to 64; the default is 32. (Kafka's queued.max.requests is for all connections.)
	QueuedMaxRequests int

	// QueuedMaxResponseBytes is how many bytes of answers may wait on one connection before it is no longer read. The answer
	// that exceeds the limit is still accepted. The default is 1 MiB.
	QueuedMaxResponseBytes int

	// RequestReadTimeout is how long the rest of a request may take after its first byte; each MiB of the request adds a
	// thirtieth. At most a third of it may pass without any bytes. The default is 30 s. Kafka has no such limit.
	RequestReadTimeout time.Duration

	// ResponseWriteTimeout is how long a client may read nothing of a response that is being written to it. The default
	// is 30 s. Kafka has no such limit.
	ResponseWriteTimeout time.Duration

	// ConnectionsMaxIdle is after how long an idle connection is closed (connections.max.idle.ms). No fetch is parked for
	// longer either. The default is 10 min.
	ConnectionsMaxIdle time.Duration

	// MaxConnections and MaxConnectionsPerIP bound how many connections are open at a time (max.connections,
	// max.connections.per.ip). 0 is no limit, as in Kafka. A connection above a limit is closed at once. Values that
	// administrators set while the server runs ([NodeConfigs]) override these.
	MaxConnections, MaxConnectionsPerIP int

	// NumPartitions is the partition count of topics that are created without one (num.partitions). The default is 1.
	NumPartitions int32

	// DefaultReplicationFactor is the replica count of topics that are created without one (default.replication.factor). The
	// default is 1.
	DefaultReplicationFactor int16

	// DisableAutoCreateTopics refuses to create a topic when a client asks for its metadata (the opposite of
	// auto.create.topics.enable).
	DisableAutoCreateTopics bool

	// DisableDeleteTopics refuses DeleteTopics (the opposite of delete.topic.enable).
	DisableDeleteTopics bool

	// FetchMaxBytes bounds the records of one fetch response (fetch.max.bytes), except for a first batch that is larger. The
	// default is 55 MiB.
	FetchMaxBytes int32

	// MaxIncrementalFetchSessions is how many fetch sessions are kept (max.incremental.fetch.session.cache.slots). The
	// default is 1000; negative is none.
	MaxIncrementalFetchSessions int

	// Details fills in [RequestDone.Topics] and [RequestDone.ErrorCode], which costs a walk through each request and answer.
	Details bool
}

func (o Options) withDefaults() Options {
	setDefault(&o.SocketRequestMaxBytes, 100<<20)
	setDefault(&o.QueuedMaxRequestBytes, max(256<<20, 2*int64(o.SocketRequestMaxBytes)))
	setDefault(&o.QueuedMaxRequests, 32)
	setDefault(&o.QueuedMaxResponseBytes, 1<<20)
	setDefault(&o.RequestReadTimeout, 30*time.Second)
	setDefault(&o.ResponseWriteTimeout, 30*time.Second)
	setDefault(&o.ConnectionsMaxIdle, 10*time.Minute)
	setDefault(&o.NumPartitions, 1)
	setDefault(&o.DefaultReplicationFactor, 1)
	setDefault(&o.FetchMaxBytes, 55<<20)
	setDefault(&o.MaxIncrementalFetchSessions, 1000)
	if o.Groups == nil {
		o.Groups = noGroups{}
	}
	o.Events = o.Events.withDefaults()
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate reports every option that is out of range, after the defaults are set.
func (o Options) validate() error {
	rules := []struct {
		ok   bool
		text string
	}{
		{o.Backend != nil, "Backend is not set"},
		{o.SocketRequestMaxBytes > 0, "SocketRequestMaxBytes is negative"},
		{o.QueuedMaxRequestBytes >= 2*int64(o.SocketRequestMaxBytes), "QueuedMaxRequestBytes is less than twice SocketRequestMaxBytes"},
		{o.QueuedMaxRequests >= 16 && o.QueuedMaxRequests <= 64, "QueuedMaxRequests is not in [16, 64]"},
		{o.QueuedMaxResponseBytes > 0, "QueuedMaxResponseBytes is negative"},
		{o.RequestReadTimeout > 0, "RequestReadTimeout is negative"},
		{o.ResponseWriteTimeout > 0, "ResponseWriteTimeout is negative"},
		{o.ConnectionsMaxIdle > 0, "ConnectionsMaxIdle is negative"},
		{o.MaxConnections >= 0, "MaxConnections is negative"},
		{o.MaxConnectionsPerIP >= 0, "MaxConnectionsPerIP is negative"},
		{o.NumPartitions > 0, "NumPartitions is negative"},
		{o.DefaultReplicationFactor > 0, "DefaultReplicationFactor is negative"},
		{o.FetchMaxBytes >= 0, "FetchMaxBytes is negative"},
	}
	var wrong []string
	for _, r := range rules {
		if !r.ok {
			wrong = append(wrong, r.text)
		}
	}
	if wrong != nil {
		return fmt.Errorf("broker options: %q", wrong)
	}
	return nil
}
