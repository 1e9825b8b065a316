package node

import (
	"context"
	"sync"

	"github.com/tidemark-io/tidemark/broker"
	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/topicconfig"
)

// backend is the node as the broker sees it.
type backend struct{ n *Node }

var _ broker.Backend = backend{}

// ClusterID is the cluster's identity.
func (b backend) ClusterID() string { return b.n.clusterID }

// NodeID is this node's id.
func (b backend) NodeID() int32 { return b.n.config.NodeID }

// Nodes returns this node, under the address that the client should use.
func (b backend) Nodes(via broker.Via) []broker.Node {
	host, port := b.n.kafka.advertised(via)
	return []broker.Node{{ID: b.n.config.NodeID, Host: host, Port: port, Rack: b.n.config.Rack}}
}

// Topics is the newest state of the metadata log.
func (b backend) Topics() broker.Topics {
	return topicsView{state: b.n.meta.View(), catalog: b.n.catalog}
}

// Partition finds a log.
func (b backend) Partition(topic broker.TopicID, index int32) (*partition.Log, error) {
	return b.n.partitions.find(topic, index)
}

// ResolveConfig applies the server's defaults.
func (b backend) ResolveConfig(name string, overrides map[string]string) (topicconfig.Config, error) {
	return b.n.catalog.resolve(name, overrides)
}

// changesAtOnce is how many topics of one request are changed at the same time.
const changesAtOnce = 8

// CreateTopics carries each creation through, even if ctx ends first.
func (b backend) CreateTopics(ctx context.Context, topics []broker.CreateTopic) []error {
	return b.n.change(ctx, len(topics), func(i int) error {
		t := topics[i]
		_, created := b.n.traces.Work(ctx, "create topic", "topic", t.Name, "partitions", t.Partitions)
		err := b.n.createTopic(t)
		created(err)
		return err
	})
}

// DeleteTopics carries each deletion through, even if ctx ends first.
func (b backend) DeleteTopics(ctx context.Context, topics []broker.TopicID) []error {
	return b.n.change(ctx, len(topics), func(i int) error { return b.n.deleteTopic(topics[i]) })
}

// CreatePartitions carries each addition through, even if ctx ends first.
func (b backend) CreatePartitions(ctx context.Context, topics []broker.CreatePartitions) []error {
	return b.n.change(ctx, len(topics), func(i int) error { return b.n.createPartitions(topics[i]) })
}

// SetTopicConfigs carries each change through, even if ctx ends first.
func (b backend) SetTopicConfigs(ctx context.Context, topics []broker.SetTopicConfigs) []error {
	return b.n.change(ctx, len(topics), func(i int) error { return b.n.setTopicConfigs(topics[i]) })
}

// LogDirs is the one data directory.
func (b backend) LogDirs() []broker.LogDir { return []broker.LogDir{b.n.logDir()} }

// ServerConfigs are the settings that the node was started with.
func (b backend) ServerConfigs() []broker.ServerConfig { return b.n.settings() }

// NodeConfigs are the settings that were changed while the node ran.
func (b backend) NodeConfigs() broker.NodeConfigs { return *b.n.catalog.nodes.Load() }

// SetNodeConfigs carries the change through, even if ctx ends first.
func (b backend) SetNodeConfigs(ctx context.Context, c broker.SetNodeConfigs) error {
	return b.n.change(ctx, 1, func(int) error { return b.n.setNodeConfigs(c) })[0]
}

// NextProducerID assigns an id.
func (b backend) NextProducerID(ctx context.Context) (int64, error) {
	id, err := b.n.producerIDs.take(ctx)
	return id, b.n.told(err)
}

// change runs several changes of topics and returns the outcome of each. A change that has begun is carried through: if
// ctx ends first, change returns ctx's error and the work continues.
func (n *Node) change(ctx context.Context, count int, f func(i int) error) []error {
	var mu sync.Mutex
	errs := make([]error, count)
	decided := make([]bool, count)
	done := make(chan struct{})
	n.background.Go(func() {
		defer close(done)
		_ = parallel.Each(n.life, count, changesAtOnce, func(i int) {
			err := n.checkStillThere()
			if err == nil {
				err = f(i)
			}
			err = n.told(err)
			mu.Lock()
			defer mu.Unlock()
			errs[i], decided[i] = err, true
		})
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
	mu.Lock()
	defer mu.Unlock()
	answer := make([]error, count)
	for i := range answer {
		switch {
		case decided[i]:
			answer[i] = errs[i]
		case ctx.Err() != nil:
			answer[i] = context.Cause(ctx)
		default:
			answer[i] = context.Cause(n.life)
		}
	}
	return answer
}
