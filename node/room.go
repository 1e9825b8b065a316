package node

import (
	"fmt"
	"sync"

	"github.com/tidemark-io/tidemark/broker"
	"github.com/tidemark-io/tidemark/partition"
)

// DefaultMaxPartitions is how many partitions a node holds by default. Each costs some KiB of memory, and a descriptor while it
// is written to.
const DefaultMaxPartitions = 10_000

// partitionRoom counts the partitions being created, so that concurrent requests do not pass the limit together.
type partitionRoom struct {
	mu     sync.Mutex
	coming int
}

// admitPartitions reserves room for new partitions of a topic, or returns why there is none. The caller calls done when
// they are in the metadata log, or when it is known that they will not be. The server's own topics always have room: they
// are few, and groups cannot work without them.
func (n *Node) admitPartitions(topic string, count int32) (done func(), err error) {
	if internalTopic(topic) {
		return func() {}, nil
	}
	if err := n.space.room(0); err != nil {
		return nil, &partition.StorageError{
			Topic: topic, Doing: "create", Err: fmt.Errorf("%w: %w", partition.ErrLowDisk, err),
		}
	}
	limit := n.config.MaxPartitions
	if limit < 0 {
		return func() {}, nil
	}
	r := &n.room
	r.mu.Lock()
	defer r.mu.Unlock()
	have := int(n.meta.View().PartitionCount()) + r.coming
	if have+int(count) > limit {
		n.metrics.PartitionsRefused.Inc()
		err := fmt.Errorf("%w: it has %d, %d more were requested, and max-partitions is %d",
			broker.ErrTooManyPartitions, have, count, limit)
		n.log.Warn("partitions are not created", "topic", topic, "reason", err)
		return nil, err
	}
	r.coming += int(count)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.coming -= int(count)
	}, nil
}

// roomFor returns the check that a log makes before it appends. The server's own topics may use the reserve, which is
// kept for them.
func (n *Node) roomFor(topic string) func(bytes int) error {
	if internalTopic(topic) {
		return nil
	}
	return n.space.room
}
