package broker

import (
	"context"
	"errors"
	"iter"
	"net"

	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/topicconfig"
)

// Backend is what the broker asks of the node it runs in. All methods are safe for concurrent use. None may block
// unless it takes a context.
type Backend interface {
	// ClusterID is the identity of the cluster: a stable text that is never empty (in Kafka 22 characters of base64url).
	ClusterID() string

	// NodeID is this node's id, at least 0.
	NodeID() int32

	// Nodes returns the live nodes, including this one, with the address by which a client that came in that way can
	// reach each. The slice is read-only for the caller, who may keep it.
	Nodes(via Via) []Node

	// Topics returns the topics as they are now. The view never changes; the broker asks again for each request.
	Topics() Topics

	// Partition returns the log of a partition that this node leads. The node owns the log and may close it at any time;
	// the log's methods then fail with partition.ErrClosed or partition.ErrDeleted. Errors match [ErrUnknownTopicID],
	// [ErrUnknownPartition], [ErrNotLeader] or partition.ErrStorage.
	Partition(topic TopicID, index int32) (*partition.Log, error)

	// ResolveConfig returns the settings that a topic of this name would have with the given overrides: Kafka's defaults,
	// then the server's defaults for topics of that name, then the overrides. Overrides of the result are the given ones
	// only. The error is a *topicconfig.InvalidError.
	ResolveConfig(name string, overrides map[string]string) (topicconfig.Config, error)

	// CreateTopics creates the topics, each independently of the others, and returns one error (or nil) for each, in order. The
	// broker has checked names, counts and settings; the backend checks again what may have changed since. When it
	// returns, a created topic is durable, is in Topics, and its partitions can be written to. Errors match
	// [ErrTopicExists], [ErrTopicCollides], [ErrTooManyPartitions], partition.ErrStorage or the context's error.
	CreateTopics(ctx context.Context, topics []CreateTopic) []error

	// DeleteTopics deletes the topics and returns one error (or nil) for each, in order. When it returns, a deleted
	// topic is durably gone from Topics, and its logs are closed as deleted. Errors match [ErrUnknownTopicID] or the
	// context's error.
	DeleteTopics(ctx context.Context, topics []TopicID) []error

	// NextProducerID returns a producer id that was never assigned before, across restarts and nodes. It is at least 0.
	NextProducerID(ctx context.Context) (int64, error)

	Administration
}

// Via is the way by which a client came in.
type Via struct {
	// Listener is the address that the accepting net.Listener reports; it identifies the listener.
	Listener net.Addr

	// Local is this end of the client's connection: one address of the machine, even if the listener is bound to all of
	// them.
	Local net.Addr
}

// TopicID is the 16 bytes of a topic's UUID (version 4). The zero value means "no id" and is never assigned.
type TopicID = [16]byte

// Node is a live node and its advertised address.
type Node struct {
	ID   int32
	Host string
	Port int32
	Rack string // empty if it has none
}

// Topics is an immutable view of the topics of a cluster. It may be kept and used from many goroutines.
type Topics interface {
	ByName(name string) (*Topic, bool)
	ByID(id TopicID) (*Topic, bool)

	// ByCollision finds the topic whose name equals the given one when every '.' is read as '_'; Kafka does not allow
	// both. It finds the topic of exactly that name too.
	ByCollision(name string) (*Topic, bool)

	// All yields every topic once, sorted by name.
	All() iter.Seq[*Topic]

	// Len is the number of topics.
	Len() int
}

// Topic describes one topic. Readers of a [Topics] view share it and must not change it.
type Topic struct {
	Name     string
	ID       TopicID
	Internal bool // reserved for the server: clients may not produce to it
	Config   topicconfig.Config
	// ConfigVersion increases with each change of the topic's own settings.
	ConfigVersion uint64
	Partitions    []Partition // by index, without gaps
}

// Partition is what the metadata says about one partition.
type Partition struct {
	Leader      int32 // id of the leading node, -1 if there is none
	LeaderEpoch int32 // term of the leader; never decreases under one topic id
	Replicas    []int32
	InSync      []int32
}

// CreateTopic asks for one topic.
type CreateTopic struct {
	Name       string
	ID         TopicID // chosen by the broker, at random
	Partitions int32   // at least 1
	// Replicas is the requested number, at least 1. It may be larger than the number of nodes, and then does not say how
	// many copies there are.
	Replicas  int16
	Overrides map[string]string // settings that differ from the defaults; valid
}

// Errors that a Backend returns, possibly wrapped; match them with errors.Is.
var (
	ErrTopicExists       = errors.New("a topic of this name exists")
	ErrTopicCollides     = errors.New("the topic's name differs from that of another topic only in '.' and '_'")
	ErrTooManyPartitions = errors.New("the node would have too many partitions")
	ErrUnknownTopic      = errors.New("no topic has this name")
	ErrUnknownTopicID    = errors.New("no topic has this id")
	ErrUnknownPartition  = errors.New("the topic has no such partition")
	ErrNotLeader         = errors.New("this node does not lead the partition")
)
