package node

import (
	"errors"
	"fmt"

	"github.com/tidemark-io/tidemark/broker"
	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/partition"
)

// createPartitions adds partitions to a topic, in the order in which topics are created: every new directory is durable
// before the one entry in the metadata log. A crash in between leaves directories of partitions that do not exist, which
// the next start removes. When it returns nil, the partitions are durable and can be written to.
func (n *Node) createPartitions(c broker.CreatePartitions) error {
	t, ok := n.meta.View().TopicByID(c.Topic)
	if !ok {
		return broker.ErrUnknownTopicID
	}
	defer n.keepDefaults()()
	defer n.names.lock(t.Name)()
	if t, ok = n.meta.View().TopicByID(c.Topic); !ok {
		return broker.ErrUnknownTopicID
	}
	if t.Partitions() != c.Expected || c.Total <= c.Expected {
		return fmt.Errorf("%w: %s has %d", broker.ErrPartitionsChanged, t.Name, t.Partitions())
	}
	done, err := n.admitPartitions(t.Name, c.Total-c.Expected)
	if err != nil {
		return err
	}
	defer done()
	before, ok := n.partitions.get(t.ID)
	if !ok {
		return broker.ErrUnknownTopicID // the node is closing
	}
	grown, err := n.growLogs(t, before, c.Total)
	if err != nil {
		return errors.Join(err, n.unmakeLogs(t.ID, added(grown, before), c.Expected))
	}
	n.partitions.add(t.ID, grown)
	_, err = n.meta.Do(n.life, meta.CreatePartitions{ID: t.ID, Expected: c.Expected, Total: c.Total})
	if err == nil || errors.Is(err, meta.ErrOutcomeUnknown) {
		return err
	}
	n.partitions.add(t.ID, before)
	return errors.Join(rejected(err), n.unmakeLogs(t.ID, added(grown, before), c.Expected))
}

// growLogs returns the logs of a topic with new ones appended. On an error it returns what it made.
func (n *Node) growLogs(t *meta.Topic, before *hosted, total int32) (*hosted, error) {
	grown := &hosted{name: before.name, logs: make([]*partition.Log, total), errs: make([]error, total)}
	had := copy(grown.logs, before.logs)
	copy(grown.errs, before.errs)
	if err := n.data.forgetFrom(t.Name, int32(had), total); err != nil {
		return grown, err
	}
	config := n.catalog.topic(n.meta.View(), t).Config
	return grown, n.data.dir.Create(int(total)-had, func(c *logdir.Creation) error {
		err := parallel.Each(n.life, int(total)-had, n.flushWorkers(), func(i int) {
			index := had + i
			grown.logs[index], grown.errs[index] = n.makeLog(c, broker.CreateTopic{Name: t.Name, ID: t.ID}, int32(index), config)
		})
		return firstOf(append(grown.errs[had:], err)...)
	})
}

// added is the part of a topic's logs that it did not have before.
func added(grown, before *hosted) *hosted {
	had := len(before.logs)
	return &hosted{name: grown.name, logs: grown.logs[had:], errs: grown.errs[had:]}
}
