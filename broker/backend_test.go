package broker

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/topicconfig"
	"github.com/tidemark-io/tidemark/vfs"
)

const (
	testNode    = 7
	testCluster = "AAAAAAAAAAAAAAAAAAAAAQ"
)

// testBackend is a node without metadata log: topics in a map, their partitions real logs on a file system in memory.
type testBackend struct {
	t          testing.TB
	disk       vfs.FS
	env        *kafkalog.Env
	flusher    *partition.Flusher
	maintainer *partition.Maintainer

	mu        sync.Mutex
	topics    map[TopicID]*Topic
	logs      map[TopicID][]*partition.Log
	created   [][]CreateTopic
	lastID    int64
	failing   error  // of the calls that take a context
	beforeSet func() // runs before settings are changed
	nodes     atomic.Pointer[NodeConfigs]
	dirs      int
	root      string      // directory of the logs
	view      *testTopics // nil: out of date
}

func newTestBackend(t testing.TB, disk vfs.FS) *testBackend {
	b := &testBackend{
		t:          t,
		disk:       disk,
		env:        kafkalog.NewEnv(kafkalog.EnvOptions{FS: disk}),
		flusher:    partition.NewFlusher(partition.FlusherOptions{}),
		maintainer: partition.NewMaintainer(partition.MaintainerOptions{}),
		topics:     map[TopicID]*Topic{},
		logs:       map[TopicID][]*partition.Log{},
		lastID:     1000,
		root:       "/data",
	}
	b.startedWith(nil)
	return b
}

func (b *testBackend) close() {
	for _, logs := range b.logs {
		for _, l := range logs {
			_ = l.Close() // a test may have broken the disk under it
		}
	}
	b.flusher.Close()
	b.maintainer.Close()
	require.NoError(b.t, b.env.Close())
}

func (b *testBackend) ClusterID() string { return testCluster }

func (b *testBackend) NodeID() int32 { return testNode }

func (b *testBackend) Nodes(via Via) []Node {
	n := Node{ID: testNode, Host: "pipe.example", Port: 9092, Rack: "r1"}
	if tcp, ok := via.Listener.(*net.TCPAddr); ok {
		n.Host, n.Port, n.Rack = tcp.IP.String(), int32(tcp.Port), via.Local.String()
	}
	return []Node{n}
}

// testTopics is a view of the topics at one moment.
type testTopics struct {
	byName map[string]*Topic
	byID   map[TopicID]*Topic
}

func (b *testBackend) Topics() Topics {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.view == nil {
		b.view = b.viewLocked()
	}
	return b.view
}

func (b *testBackend) viewLocked() *testTopics {
	v := &testTopics{byName: map[string]*Topic{}, byID: maps.Clone(b.topics)}
	for _, t := range b.topics {
		v.byName[t.Name] = t
	}
	return v
}

func (v *testTopics) ByName(name string) (*Topic, bool) { t, ok := v.byName[name]; return t, ok }

func (v *testTopics) ByID(id TopicID) (*Topic, bool) { t, ok := v.byID[id]; return t, ok }

func (v *testTopics) ByCollision(name string) (*Topic, bool) {
	for _, t := range v.byName {
		if collisionKey(t.Name) == collisionKey(name) {
			return t, true
		}
	}
	return nil, false
}

func (v *testTopics) All() iter.Seq[*Topic] {
	return func(yield func(*Topic) bool) {
		for _, name := range slices.Sorted(maps.Keys(v.byName)) {
			if !yield(v.byName[name]) {
				return
			}
		}
	}
}

func (v *testTopics) Len() int { return len(v.byName) }

func (b *testBackend) Partition(id TopicID, index int32) (*partition.Log, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	logs, ok := b.logs[id]
	switch {
	case !ok:
		return nil, ErrUnknownTopicID
	case int(index) >= len(logs):
		return nil, ErrUnknownPartition
	}
	return logs[index], nil
}

func (b *testBackend) ResolveConfig(_ string, overrides map[string]string) (topicconfig.Config, error) {
	return b.nodes.Load().InForce.With(overrides)
}

// startedWith has the server start with defaults of topics.
func (b *testBackend) startedWith(defaults map[string]string) {
	config, err := topicconfig.Parse(defaults)
	require.NoError(b.t, err)
	b.nodes.Store(&NodeConfigs{Static: config, InForce: config})
}

func (b *testBackend) CreateTopics(ctx context.Context, topics []CreateTopic) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.created = append(b.created, topics)
	errs := make([]error, len(topics))
	for i, t := range topics {
		errs[i] = b.createLocked(ctx, t)
	}
	return errs
}

func (b *testBackend) createLocked(ctx context.Context, c CreateTopic) error {
	if b.failing != nil {
		return b.failing
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, t := range b.topics {
		if t.Name == c.Name {
			return ErrTopicExists
		}
	}
	config, err := b.ResolveConfig(c.Name, c.Overrides)
	if err != nil {
		return err
	}
	t := &Topic{Name: c.Name, ID: c.ID, Internal: isInternalName(c.Name), Config: config}
	for i := range c.Partitions {
		l, err := b.openLocked(t, i)
		if err != nil {
			return err
		}
		b.logs[c.ID] = append(b.logs[c.ID], l)
		t.Partitions = append(t.Partitions, hereAlone())
	}
	b.topics[c.ID] = t
	b.view = nil
	return nil
}

// openLocked opens a new log of a topic.
func (b *testBackend) openLocked(t *Topic, index int32) (*partition.Log, error) {
	b.dirs++
	return partition.Open(partition.Options{
		Env: b.env, Flusher: b.flusher, Maintainer: b.maintainer,
		Dir: fmt.Sprintf("%s/%s-%d.%d", b.root, t.Name, index, b.dirs), Topic: t.Name, Index: index, TopicID: t.ID,
		Config: t.Config, RecoveryPoint: -1, HighWatermark: -1, LogStart: -1,
	})
}

// hereAlone is a partition that is on this node only.
func hereAlone() Partition {
	return Partition{Leader: testNode, Replicas: []int32{testNode}, InSync: []int32{testNode}}
}

func (b *testBackend) DeleteTopics(ctx context.Context, ids []TopicID) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	errs := make([]error, len(ids))
	for i, id := range ids {
		switch {
		case b.failing != nil:
			errs[i] = b.failing
		case b.topics[id] == nil:
			errs[i] = ErrUnknownTopicID
		default:
			delete(b.topics, id)
			b.view = nil
			for _, l := range b.logs[id] {
				errs[i] = l.Remove(func() (string, error) { return l.Dir() + "-delete", b.disk.Rename(l.Dir(), l.Dir()+"-delete") })
			}
			delete(b.logs, id)
		}
	}
	return errs
}

func (b *testBackend) NextProducerID(context.Context) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failing != nil {
		return 0, b.failing
	}
	b.lastID++
	return b.lastID, nil
}

// setPartition changes what the metadata say about a partition.
func (b *testBackend) setPartition(name string, index int, p Partition) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, t := range b.topics {
		if t.Name == name {
			changed := *t
			changed.Partitions = slices.Clone(t.Partitions)
			changed.Partitions[index] = p
			b.topics[id] = &changed
			b.view = nil
		}
	}
}
