package node

import (
	"fmt"

	"github.com/tidemark-io/tidemark/broker"
	"github.com/tidemark-io/tidemark/meta"
)

// setTopicConfigs replaces a topic's own settings. When it returns nil, the settings are durable and every open log of
// the topic has them. After a crash in between, the logs are opened with what the metadata log says.
func (n *Node) setTopicConfigs(c broker.SetTopicConfigs) error {
	t, ok := n.meta.View().TopicByID(c.Topic)
	if !ok {
		return broker.ErrUnknownTopicID
	}
	defer n.keepDefaults()()
	defer n.names.lock(t.Name)()
	config, err := n.catalog.resolve(t.Name, c.Overrides)
	if err != nil {
		return err
	}
	h, ok := n.partitions.get(c.Topic)
	if !ok {
		return fmt.Errorf("%w: it was deleted in the meantime", broker.ErrUnknownTopicID)
	}
	var leaving leavers
	leaving.add(h, n.catalog.topic(n.meta.View(), t).Config, config)
	if err := leaving.prepare(n); err != nil {
		return err
	}
	if _, err := n.meta.Do(n.life, meta.SetTopicConfigs{
		ID: c.Topic, ExpectedVersion: c.Version, Configs: c.Overrides,
	}); err != nil {
		leaving.refused(err)
		return rejected(err)
	}
	for _, l := range h.logs {
		if l != nil {
			l.SetConfig(config)
		}
	}
	return nil
}
