package node

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/tidemark-io/tidemark/broker"
	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/partition"
)

// partitions is the table of the logs that this node hosts. A partition that is not in it is not served, whatever the
// metadata says.
type partitions struct {
	mu     sync.RWMutex
	topics map[meta.TopicID]*hosted
}

// hosted are the logs of one topic by index. Once it is in the table, only [partitions.opened] changes it.
type hosted struct {
	name string
	logs []*partition.Log
	errs []error // errs[i] is why logs[i] is nil
}

func newPartitions() *partitions { return &partitions{topics: map[meta.TopicID]*hosted{}} }

// add puts the logs of a topic into the table.
func (p *partitions) add(id meta.TopicID, h *hosted) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.topics[id] = h
}

// opened records a log that was opened, or why it could not be.
func (p *partitions) opened(h *hosted, index int32, l *partition.Log, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h.logs[index], h.errs[index] = l, err
}

// fails reports whether a log could not be opened, or refuses appends because its disk failed. A log that is yet to be
// opened does not count as failing. The caller holds the table's lock.
func (h *hosted) fails(index int) bool {
	if l := h.logs[index]; l != nil {
		return errors.Is(l.Failed(), partition.ErrStorage)
	}
	return h.errs[index] != nil
}

// get returns the logs of a topic.
func (p *partitions) get(id meta.TopicID) (*hosted, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	h, ok := p.topics[id]
	return h, ok
}

// take removes a topic from the table and returns its logs, or nil.
func (p *partitions) take(id meta.TopicID) *hosted {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.topics[id]
	delete(p.topics, id)
	return h
}

// find returns the log of a partition. The errors are those of [broker.Backend].
func (p *partitions) find(id meta.TopicID, index int32) (*partition.Log, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	h, ok := p.topics[id]
	if !ok {
		return nil, broker.ErrUnknownTopicID
	}
	if index < 0 || int(index) >= len(h.logs) {
		return nil, broker.ErrUnknownPartition
	}
	if h.logs[index] == nil {
		return nil, h.errs[index]
	}
	return h.logs[index], nil
}

// all yields the logs that are open.
func (p *partitions) all() iter.Seq[*partition.Log] {
	return func(yield func(*partition.Log) bool) {
		p.mu.RLock()
		defer p.mu.RUnlock()
		for _, h := range p.topics {
			for _, l := range h.logs {
				if l != nil && !yield(l) {
					return
				}
			}
		}
	}
}

// failed names the partitions that could not be opened or refuse appends, in order.
func (p *partitions) failed() []string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var names []string
	for _, h := range p.topics {
		for i := range h.logs {
			if h.fails(i) {
				names = append(names, fmt.Sprintf("%s-%d", h.name, i))
			}
		}
	}
	slices.Sort(names)
	return names
}

// unopened returns the partitions that could not be opened.
func (p *partitions) unopened() map[logdir.Partition]bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var names map[logdir.Partition]bool
	for _, h := range p.topics {
		for i, l := range h.logs {
			if l != nil {
				continue
			}
			if names == nil {
				names = map[logdir.Partition]bool{}
			}
			names[logdir.Partition{Topic: h.name, Index: int32(i)}] = true
		}
	}
	return names
}
