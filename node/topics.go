package node

import (
	"iter"
	"maps"
	"path"
	"sync"

	"github.com/tidemark-io/tidemark/broker"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/topicconfig"
)

// catalog turns the topics of the metadata log into those of the broker. A topic is translated once for each of its
// versions, so a view costs nothing to take however many topics there are.
type catalog struct {
	node     int32
	defaults []topicDefault

	mu    sync.RWMutex
	known map[meta.TopicID]translated
}

// minKnown is how many topics that are gone may be kept before they are looked for.
const minKnown = 64

// internalTopic reports whether a topic is one that Kafka's servers keep for themselves. Other names that begin so are anybody's.
func internalTopic(name string) bool {
	return name == "__consumer_offsets" || name == "__transaction_state" || name == "__share_group_state"
}

// translated is a topic and what it was translated from.
type translated struct {
	from *meta.Topic
	to   *broker.Topic
}

// topicDefault is settings for the topics whose names match.
type topicDefault struct {
	pattern  string // "*" is every topic: names hold no slash
	settings map[string]string
}

func newCatalog(c Config) *catalog {
	defaults := []topicDefault{{pattern: "*", settings: c.TopicDefaults}}
	for _, p := range c.TopicPatterns {
		defaults = append(defaults, topicDefault{pattern: p.Pattern, settings: p.Settings})
	}
	return &catalog{node: c.NodeID, defaults: defaults, known: map[meta.TopicID]translated{}}
}

// resolve returns the settings of a topic of this name with the given overrides.
func (c *catalog) resolve(name string, overrides map[string]string) (topicconfig.Config, error) {
	config := topicconfig.Default()
	for _, d := range c.defaults {
		if matched, err := path.Match(d.pattern, name); err != nil || !matched || len(d.settings) == 0 {
			continue // the patterns were checked at start
		}
		var err error
		if config, err = config.With(d.settings); err != nil {
			return topicconfig.Config{}, err
		}
	}
	return config.With(overrides)
}

// topic translates a topic of the given state.
func (c *catalog) topic(s *meta.State, t *meta.Topic) *broker.Topic {
	c.mu.RLock()
	known := c.known[t.ID]
	c.mu.RUnlock()
	if known.from == t {
		return known.to
	}
	to := c.translate(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[t.ID] = translated{from: t, to: to}
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
		// The settings were valid when they were proposed. A server that does not know one of them any more runs the topic
		// with the rest rather than not at all.
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

// resolveKnown applies a topic's settings one by one and leaves out those that are refused.
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

// topicsView is one state of the metadata log as the broker wants to see it.
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

// ByCollision finds the topic that keeps a topic of this name from being created.
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

// Len is the number of topics.
func (v topicsView) Len() int { return v.state.TopicCount() }
