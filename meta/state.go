package meta

import (
	"encoding/base64"
	"iter"
	"strings"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// State is the content of the metadata log as of one index. It is immutable: any number of readers may hold it for as
// long as they like without a lock. The next state copies what changes and shares the rest.
type State struct {
	index   uint64
	clockMs int64

	nextStreamID     uint64
	nextObjectID     uint64
	nextProducerID   uint64
	nextDestroyedSeq uint64
	kvVersion        uint64
	nodes            tree[int32, Node]
	kv               tree[string, KV]
	topics           tree[string, *Topic] // by name
	topicIDs         tree[string, *Topic] // by the 16 bytes of the id
	topicNames       tree[string, string] // collisionKey(name) -> name
	partitions       int64                // of all topics

	streams   tree[catalog.StreamID, *streamRow]
	opened    tree[catalog.NodeID, int] // streams that a node has open, if any
	placed    tree[catalog.NodeID, int] // streams that a node was given and has not opened, if any
	transfers tree[catalog.StreamID, Transfer]
	prepared  tree[catalog.ObjectID, int64]
	sets      tree[catalog.ObjectID, setRow]
	objects   tree[catalog.ObjectID, *catalog.StreamObjectState]
	destroyed tree[uint64, catalog.DestroyedObject]
	marks     tree[catalog.ObjectID, uint64] // object -> its key in destroyed

	tables      tree[TableID, *Table]
	tableNames  tree[string, TableID]
	lastTable   TableID                          // the newest id that was ever given, 0 for none
	bucketOf    tree[catalog.StreamID, BucketID] // of the tables that are there
	dropped     tree[catalog.StreamID, DroppedBucket]
	droppedKeys tree[string, catalog.StreamID] // by the key of the writers' snapshot
	coordinator Coordinator

	level  Level
	levels tree[int32, NodeLevel] // what each node announced last
}

// firstProducerID is where the allocator starts: ids are positive.
const firstProducerID = 1

// Empty returns the state before the first entry.
func Empty() *State { return &State{nextProducerID: firstProducerID} }

// Topic is one topic as of one state. It is shared between states: read only.
type Topic struct {
	ID   TopicID
	Name string
	// CreatedMs is the state's clock when the topic was created, in ms since 1970.
	CreatedMs int64
	// ConfigVersion is 1 at creation and goes up with each change of the settings.
	ConfigVersion uint64

	configs      []setConfig // in the order of their names
	leaderEpochs []int32     // one per partition
}

// Node is one node as of one state.
type Node struct {
	ID          int32
	Epoch       int64
	Incarnation [16]byte
	Address     string
	Slots       uint32
	// WALEpoch is the node epoch that the node's write-ahead log was last opened in, or -1 if it was closed
	// cleanly; WALStart is where it starts.
	WALEpoch int64
	WALStart uint64
}

// KV is the value of a key. Value is shared between states: read only. Version 0 means absent.
type KV struct {
	Value   []byte
	Version uint64
}

// Index is the index of the last entry that is applied; 0 is the empty log.
func (s *State) Index() uint64 { return s.index }

// ClockMs is the log's own clock, in ms since 1970: the latest time that any entry carried. It never goes back.
func (s *State) ClockMs() int64 { return s.clockMs }

// NextProducerID is the first producer id that was never assigned to a node.
func (s *State) NextProducerID() uint64 { return s.nextProducerID }

// Topic returns the topic with this name.
func (s *State) Topic(name string) (*Topic, bool) { return s.topics.get(name) }

// TopicByID returns the topic with this id.
func (s *State) TopicByID(id TopicID) (*Topic, bool) { return s.topicIDs.get(string(id[:])) }

// Topics yields every topic in the order of their names.
func (s *State) Topics() iter.Seq[*Topic] {
	return func(yield func(*Topic) bool) {
		for _, t := range s.topics.all() {
			if !yield(t) {
				return
			}
		}
	}
}

// TopicCount is how many topics there are.
func (s *State) TopicCount() int { return s.topics.len() }

// PartitionCount is how many partitions all topics have together.
func (s *State) PartitionCount() int64 { return s.partitions }

// CollidingTopic returns a topic whose name is another and differs only in . and _, which keeps a topic of this name
// from being created.
func (s *State) CollidingTopic(name string) (string, bool) {
	other, ok := s.topicNames.get(collisionKey(name))
	return other, ok && other != name
}

// Node returns the node with this id.
func (s *State) Node(id int32) (Node, bool) { return s.nodes.get(id) }

// Nodes yields every node in the order of their ids.
func (s *State) Nodes() iter.Seq[Node] {
	return func(yield func(Node) bool) {
		for _, n := range s.nodes.all() {
			if !yield(n) {
				return
			}
		}
	}
}

// Get returns the value of a key.
func (s *State) Get(key string) (KV, bool) { return s.kv.get(key) }

// List yields the keys that begin with prefix, and their values, in key order.
func (s *State) List(prefix string) iter.Seq2[string, KV] {
	return func(yield func(string, KV) bool) {
		for key, v := range s.kv.from(prefix) {
			if !strings.HasPrefix(key, prefix) || !yield(key, v) {
				return
			}
		}
	}
}

// Partitions is how many partitions the topic has, numbered from 0.
func (t *Topic) Partitions() int32 { return int32(len(t.leaderEpochs)) }

// LeaderEpoch is the leader epoch of a partition, or -1 if there is no such partition.
func (t *Topic) LeaderEpoch(partition int32) int32 {
	if partition < 0 || partition >= t.Partitions() {
		return -1
	}
	return t.leaderEpochs[partition]
}

// Configs returns what the topic sets itself, as text. The caller owns the map.
func (t *Topic) Configs() map[string]string {
	m := make(map[string]string, len(t.configs))
	for _, c := range t.configs {
		m[c.name] = c.value
	}
	return m
}

// String returns the id as Kafka's tools write it: 22 characters of URL-safe base64.
func (id TopicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }
