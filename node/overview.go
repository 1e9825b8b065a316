package node

import (
	"cmp"
	"slices"
	"sync"

	"github.com/tidemark-io/tidemark/admin"
	"github.com/tidemark-io/tidemark/observe"
)

// overview describes the node for the status page. It may be called before the node is ready, and then returns what is
// known so far.
func (n *Node) overview() admin.Overview {
	o := admin.Overview{
		Version: n.config.Version, Node: n.config.NodeID, Started: n.began, Now: n.config.Now(),
		Healthy: n.status.Health() == nil, Readiness: n.status.Readiness(),
		Listeners: []admin.Listener{}, Groups: []admin.Group{},
	}
	n.shown.mu.Lock()
	o.Cluster = n.shown.cluster
	space, topics, groups := n.shown.space, n.shown.topics, n.shown.groups
	o.Listeners = append(o.Listeners, n.shown.listeners...)
	n.shown.mu.Unlock()
	if space != nil {
		d := space.state()
		o.Disk = admin.Disk{Free: d.Free, Total: d.Total, Reserve: d.Reserve}
	}
	o.Topics = n.partitions.overview()
	if topics != nil {
		for i := range o.Topics {
			t := &o.Topics[i]
			t.WrittenRecords, t.WrittenBytes = topics.Appended(t.Name)
		}
	}
	if groups != nil {
		o.Groups = shownGroups(groups())
	}
	return o
}

// overview summarizes the hosted topics, by name.
func (p *partitions) overview() []admin.Topic {
	p.mu.RLock()
	defer p.mu.RUnlock()
	topics := make([]admin.Topic, 0, len(p.topics))
	for _, h := range p.topics {
		t := admin.Topic{Name: h.name, Internal: internalTopic(h.name), Partitions: len(h.logs)}
		for i, l := range h.logs {
			if h.fails(i) {
				t.Offline++
			}
			if l != nil {
				at := l.Offsets()
				t.Records += at.HighWatermark - at.LogStart
				t.Bytes += l.Size()
			}
		}
		topics = append(topics, t)
	}
	slices.SortFunc(topics, func(a, b admin.Topic) int { return cmp.Compare(a.Name, b.Name) })
	return topics
}

// hosting counts partitions for the metrics.
func (p *partitions) hosting() (h observe.HostingState) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	h.Topics = len(p.topics)
	for _, t := range p.topics {
		h.Partitions += len(t.logs)
		for i := range t.logs {
			if t.fails(i) {
				h.Failed++
			}
		}
	}
	return h
}

// shown is what the status page knows about a node that is starting.
type shown struct {
	mu        sync.Mutex
	cluster   string
	listeners []admin.Listener
	space     *space
	topics    *observe.Topics
	groups    func() []observe.GroupState
}

// show updates what the status page knows.
func (n *Node) show(change func(s *shown)) {
	n.shown.mu.Lock()
	defer n.shown.mu.Unlock()
	change(&n.shown)
}
