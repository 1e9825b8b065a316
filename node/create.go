package node

import (
	"errors"
	"fmt"

	"github.com/tidemark-io/tidemark/broker"
	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/topicconfig"
)

// createTopic creates a topic. Its order makes sure that a crash at any moment leaves the whole topic or none of it:
// first every directory, durable and with the topic's id in it, then the one entry in the metadata log. When it returns
// nil, the topic is durable and its partitions can be written to.
func (n *Node) createTopic(t broker.CreateTopic) error {
	defer n.keepDefaults()()
	defer n.names.lock(t.Name)()
	if err := creatable(n.meta.View(), t.Name); err != nil {
		return err
	}
	config, err := n.catalog.resolve(t.Name, t.Overrides)
	if err != nil {
		return err
	}
	done, err := n.admitPartitions(t.Name, t.Partitions)
	if err != nil {
		return err
	}
	defer done()
	if err := n.data.forget(t.Name, t.Partitions); err != nil {
		return err
	}
	h, err := n.makeLogs(t, config)
	if err != nil {
		return errors.Join(err, n.unmakeLogs(t.ID, h, 0))
	}
	n.partitions.add(t.ID, h)
	_, err = n.meta.Do(n.life, meta.CreateTopic{
		ID: t.ID, Name: t.Name, Partitions: t.Partitions, Configs: t.Overrides,
	})
	switch {
	case err == nil || errors.Is(err, meta.Redundant):
		return nil
	case errors.Is(err, meta.ErrOutcomeUnknown):
		return err // the metadata log has stopped; the next start finds out
	}
	n.partitions.take(t.ID)
	return errors.Join(rejected(err), n.unmakeLogs(t.ID, h, 0))
}

// creatable returns why no topic of this name can be created now, or nil.
func creatable(s *meta.State, name string) error {
	if _, ok := s.Topic(name); ok {
		return fmt.Errorf("%w: %s", broker.ErrTopicExists, name)
	}
	if other, ok := s.CollidingTopic(name); ok {
		return fmt.Errorf("%w: %s and %s", broker.ErrTopicCollides, name, other)
	}
	return nil
}

// rejected translates a refusal of the metadata log into the broker's error.
func rejected(err error) error {
	switch {
	case errors.Is(err, meta.TopicExists):
		return fmt.Errorf("%w: %w", broker.ErrTopicExists, err)
	case errors.Is(err, meta.TopicNameCollides):
		return fmt.Errorf("%w: %w", broker.ErrTopicCollides, err)
	case errors.Is(err, meta.ConfigConflict):
		return fmt.Errorf("%w: %w", broker.ErrConfigChanged, err)
	case errors.Is(err, meta.PartitionCountConflict):
		return fmt.Errorf("%w: %w", broker.ErrPartitionsChanged, err)
	case errors.Is(err, meta.TopicNotExist):
		return fmt.Errorf("%w: %w", broker.ErrUnknownTopicID, err)
	}
	return err
}

// makeLogs makes the directories of a new topic and opens the logs in them, several at a time. On an error it returns what
// it made.
func (n *Node) makeLogs(t broker.CreateTopic, config topicconfig.Config) (*hosted, error) {
	h := &hosted{name: t.Name, logs: make([]*partition.Log, t.Partitions), errs: make([]error, t.Partitions)}
	return h, n.data.dir.Create(int(t.Partitions), func(c *logdir.Creation) error {
		err := parallel.Each(n.life, int(t.Partitions), n.flushWorkers(), func(i int) {
			h.logs[i], h.errs[i] = n.makeLog(c, t, int32(i), config)
		})
		return firstOf(append(h.errs, err)...)
	})
}

// firstOf returns the first error that is not nil.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// makeLog makes a log whose directory may not survive a crash until the creation is done.
func (n *Node) makeLog(c *logdir.Creation, t broker.CreateTopic, index int32, config topicconfig.Config) (*partition.Log, error) {
	dir, err := n.data.preparePartition(c, t.Name, index, t.ID)
	if err != nil {
		return nil, err
	}
	return partition.Open(n.logOptions(logPlan{
		topic: t.Name, index: index, id: t.ID, dir: dir, config: config, clean: true, recovered: -1, watermark: -1, start: -1,
	}))
}

// unmakeLogs closes and discards a topic's logs from index first on, and the directories of logs that were begun. They
// hold nothing, and no client knows them. Logs come first, because closing them frees descriptors.
func (n *Node) unmakeLogs(id meta.TopicID, h *hosted, first int32) error {
	var errs []error
	for i, l := range h.logs {
		if l != nil {
			if err := n.discard(l); err != nil {
				errs = append(errs, err, n.data.unmake(logdir.Partition{Topic: h.name, Index: first + int32(i)}, id))
			}
		}
	}
	for i, l := range h.logs {
		if l == nil {
			errs = append(errs, n.data.unmake(logdir.Partition{Topic: h.name, Index: first + int32(i)}, id))
		}
	}
	return errors.Join(errs...)
}
