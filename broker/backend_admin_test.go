package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/topicconfig"
)

func (b *testBackend) CreatePartitions(_ context.Context, topics []CreatePartitions) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	errs := make([]error, len(topics))
	for i, c := range topics {
		errs[i] = b.growLocked(c)
	}
	return errs
}

func (b *testBackend) growLocked(c CreatePartitions) error {
	t, ok := b.topics[c.Topic]
	switch {
	case b.failing != nil:
		return b.failing
	case !ok:
		return ErrUnknownTopicID
	case len(t.Partitions) != int(c.Expected):
		return ErrPartitionsChanged
	}
	grown := *t
	grown.Partitions = append([]Partition(nil), t.Partitions...)
	for i := c.Expected; i < c.Total; i++ {
		l, err := b.openLocked(t, i)
		if err != nil {
			return err
		}
		b.logs[t.ID] = append(b.logs[t.ID], l)
		grown.Partitions = append(grown.Partitions, hereAlone())
	}
	b.topics[t.ID] = &grown
	b.view = nil
	return nil
}

func (b *testBackend) SetTopicConfigs(_ context.Context, topics []SetTopicConfigs) []error {
	errs := make([]error, len(topics))
	for i, c := range topics {
		if b.beforeSet != nil {
			b.beforeSet()
		}
		errs[i] = b.setConfigs(c)
	}
	return errs
}

func (b *testBackend) setConfigs(c SetTopicConfigs) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.topics[c.Topic]
	switch {
	case b.failing != nil:
		return b.failing
	case !ok:
		return ErrUnknownTopicID
	case t.ConfigVersion != c.Version:
		return ErrConfigChanged
	}
	config, err := b.ResolveConfig(t.Name, c.Overrides)
	if err != nil {
		return err
	}
	changed := *t
	changed.Config, changed.ConfigVersion = config, t.ConfigVersion+1
	b.topics[c.Topic] = &changed
	b.view = nil
	for _, l := range b.logs[c.Topic] {
		l.SetConfig(config)
	}
	return nil
}

func (b *testBackend) LogDirs() []LogDir {
	return []LogDir{{Path: "/abs" + b.root, Holds: b.root, Total: 1000, Usable: 400}}
}

func (b *testBackend) ServerConfigs() []ServerConfig {
	return []ServerConfig{
		{Name: "node.id", Value: "7", Default: "-1", Type: topicconfig.Int, Doc: "The node."},
		{Name: "password", Value: "hush", Default: "", Type: topicconfig.String, Secret: true},
	}
}

func (b *testBackend) NodeConfigs() NodeConfigs { return *b.nodes.Load() }

func (b *testBackend) SetNodeConfigs(_ context.Context, c SetNodeConfigs) error {
	if b.beforeSet != nil {
		b.beforeSet()
	}
	return b.setNodes(c)
}

func (b *testBackend) setNodes(c SetNodeConfigs) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := *b.nodes.Load()
	layer := &next.This
	if c.All {
		layer = &next.All
	}
	if layer.Version != c.Version {
		return ErrConfigChanged
	}
	*layer = NodeOverrides{Version: c.Version + 1, Settings: c.Settings}
	var err error
	if next.InForce, err = next.Static.With(topicconfig.DefaultsOfBroker(next.All.Settings)); err != nil {
		return err
	}
	if next.InForce, err = next.InForce.With(topicconfig.DefaultsOfBroker(next.This.Settings)); err != nil {
		return err
	}
	switch {
	case b.failing != nil:
		return b.failing
	case c.ValidateOnly:
		return nil
	}
	b.nodes.Store(&next)
	b.view = nil
	for id, t := range b.topics {
		changed := *t
		if changed.Config, err = next.InForce.With(t.Config.Overrides()); err != nil {
			return err
		}
		b.topics[id] = &changed
		for _, l := range b.logs[id] {
			l.SetConfig(changed.Config)
		}
	}
	return nil
}

func (emptyBackend) NodeConfigs() NodeConfigs {
	return NodeConfigs{Static: topicconfig.Default(), InForce: topicconfig.Default()}
}

func (emptyBackend) SetNodeConfigs(context.Context, SetNodeConfigs) error { return nil }

func (emptyBackend) CreatePartitions(_ context.Context, topics []CreatePartitions) []error {
	return make([]error, len(topics))
}

func (emptyBackend) SetTopicConfigs(_ context.Context, topics []SetTopicConfigs) []error {
	return make([]error, len(topics))
}

func (emptyBackend) LogDirs() []LogDir { return nil }

func (emptyBackend) ServerConfigs() []ServerConfig { return nil }

// sampleAdmin is [sample] for what administrators ask.
func sampleAdmin(key, version int16, topic *Topic) kmsg.Request {
	switch key {
	case 21:
		return deleteRequest(version, topic.Name, 0, 0)
	case 23:
		return epochRequest(version, topic.Name, 0, 0, 0)
	case 32:
		req := describeConfigs(version, resourceTopic, topic.Name)
		req.IncludeSynonyms, req.IncludeDocumentation = true, true
		return req
	case 33:
		return replace(version, resourceTopic, topic.Name, "retention.ms", "5")
	case 37:
		return growRequest(version, growTo(topic.Name, int32(version)+2))
	case 44:
		req := at(version, kmsg.NewPtrIncrementalAlterConfigsRequest())
		req.Resources = append(req.Resources, altering(resourceTopic, topic.Name, alteration{"retention.ms", opSet, "7"}))
		return req
	case 61:
		req := at(version, kmsg.NewPtrDescribeProducersRequest())
		req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: topic.Name, Partitions: []int32{0}}}
		return req
	case 74:
		req := at(version, kmsg.NewPtrListConfigResourcesRequest())
		req.ResourceTypes = []int8{resourceTopic}
		return req
	case 75:
		return pageRequest(1, nil, topic.Name)
	}
	return nil
}
