package node

import (
	"fmt"
	"iter"
	"maps"
	"path"
	"sync"
	"sync/atomic"

	"github.com/tidemark-io/tidemark/broker"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/topicconfig"
)

// catalog translates the topics of the metadata log into those of the broker. A topic is translated once for each of its
// versions and of the settings of nodes, so a view costs nothing however many topics there are.
type catalog struct {
	node     int32
	patterns []TopicPattern
	nodes    atomic.Pointer[broker.NodeConfigs] // the defaults of topics, and what was set while the node ran

	mu    sync.RWMutex
	known map[meta.TopicID]translated
}

// minKnown is how many deleted topics may be kept before they are swept.
const minKnown = 64

// internalTopic reports whether a topic is one of those that Kafka's servers keep for themselves. Other names with the
// same prefix are free.
func internalTopic(name string) bool {
	return name == "__consumer_offsets" || name == "__transaction_state" || name == "__share_group_state"
}

// translated is a topic and what it was translated from.
type translated struct {
	from  *meta.Topic
	under *broker.NodeConfigs
	to    *broker.Topic
}

func newCatalog(c Config) *catalog {
	static, err := topicconfig.Parse(c.TopicDefaults)
	if err != nil {
		static = topicconfig.Default() // the configuration was checked
	}
	made := &catalog{node: c.NodeID, patterns: c.TopicPatterns, known: map[meta.TopicID]translated{}}
	made.nodes.Store(&broker.NodeConfigs{Static: static, InForce: static})
	return made
}

// resolve returns the settings of a topic of this name with the given overrides.
func (c *catalog) resolve(name string, overrides map[string]string) (topicconfig.Config, error) {
	return c.resolveUnder(*c.nodes.Load(), name, overrides)
}

// resolveUnder is resolve under other settings of nodes. The server's defaults for topics of this name override them.
func (c *catalog) resolveUnder(nodes broker.NodeConfigs, name string, overrides map[string]string) (topicconfig.Config, error) {
	config := nodes.InForce
	for _, p := range c.patterns {
		if matched, err := path.Match(p.Pattern, name); err != nil || !matched {
			continue // the patterns were checked at start
		}
		var err error
		if config, err = config.With(p.Settings); err != nil {
			return topicconfig.Config{}, err
		}
	}
	return config.With(overrides)
}

// fits returns an error naming a topic whose settings conflict with other settings of nodes, or nil.
func (c *catalog) fits(s *meta.State, nodes broker.NodeConfigs) error {
	for t := range s.Topics() {
		_, err := c.resolveUnder(nodes, t.Name, t.Configs())
		if err == nil {
			continue
		}
		if _, before := c.resolve(t.Name, t.Configs()); before == nil {
			return fmt.Errorf("topic %q: %w", t.Name, err)
		}
	}
	return nil
}

// topic translates a topic of the given state.
func (c *catalog) topic(s *meta.State, t *meta.Topic) *broker.Topic {
	under := c.nodes.Load()
	c.mu.RLock()
	known := c.known[t.ID]
	c.mu.RUnlock()
	if known.from == t && known.under == under {
		return known.to
	}
	to := c.translate(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[t.ID] = translated{from: t, under: under, to: to}
	if len(c.known) > 2*s.TopicCount()+minKnown {
		maps.DeleteFunc(c.known, func(id meta.TopicID, _ translated) bool {
			_, there := s.TopicByID(id)
			return !there
		})
	}
	return to
}

func (c *catalog) translate(t *meta.Topic) *broker.Topic {
	config, err := c.resolve(t.Name, t.Configs())
	if err != nil {
		// The settings were valid when they were proposed. A server that no longer knows one of them runs the topic with
		// the rest rather than not at all.
		config = c.resolveKnown(t)
	}
	self := []int32{c.node}
	to := &broker.Topic{
		Name: t.Name, ID: t.ID, Internal: internalTopic(t.Name),
		Config: config, ConfigVersion: t.ConfigVersion, Partitions: make([]broker.Partition, t.Partitions()),
	}
	for i := range to.Partitions {
		to.Partitions[i] = broker.Partition{
			Leader: c.node, LeaderEpoch: t.LeaderEpoch(int32(i)), Replicas: self, InSync: self,
		}
	}
	return to
}

// resolveKnown applies a topic's settings one by one and skips those that are refused.
func (c *catalog) resolveKnown(t *meta.Topic) topicconfig.Config {
	kept := map[string]string{}
	config, err := c.resolve(t.Name, kept)
	if err != nil {
		return topicconfig.Default()
	}
	for name, value := range t.Configs() {
		kept[name] = value
		if better, err := c.resolve(t.Name, kept); err == nil {
			config = better
			continue
		}
		delete(kept, name)
	}
	return config
}

// topicsView presents one state of the metadata log to the broker.
type topicsView struct {
	state   *meta.State
	catalog *catalog
}

// ByName finds a topic by its name.
func (v topicsView) ByName(name string) (*broker.Topic, bool) {
	t, ok := v.state.Topic(name)
	if !ok {
		return nil, false
	}
	return v.catalog.topic(v.state, t), true
}

// ByID finds a topic by its id.
func (v topicsView) ByID(id broker.TopicID) (*broker.Topic, bool) {
	t, ok := v.state.TopicByID(id)
	if !ok {
		return nil, false
	}
	return v.catalog.topic(v.state, t), true
}

// ByCollision finds the topic that prevents the creation of a topic of this name.
func (v topicsView) ByCollision(name string) (*broker.Topic, bool) {
	if t, ok := v.ByName(name); ok {
		return t, true
	}
	other, ok := v.state.CollidingTopic(name)
	if !ok {
		return nil, false
	}
	return v.ByName(other)
}

// All yields every topic in the order of names.
func (v topicsView) All() iter.Seq[*broker.Topic] {
	return func(yield func(*broker.Topic) bool) {
		for t := range v.state.Topics() {
			if !yield(v.catalog.topic(v.state, t)) {
				return
			}
		}
	}
}

// Len returns the number of topics.
func (v topicsView) Len() int { return v.state.TopicCount() }
