package node

import (
	"context"

	"github.com/tidemark-io/tidemark/meta"
)

// producerIDBlock is how many producer ids are taken from the metadata log at once, as in Kafka. Those not assigned when
// the node stops are never used.
const producerIDBlock = 1000

// producerIDs assigns producer ids from blocks that the metadata log reserved for this node.
type producerIDs struct {
	log    *meta.Log
	member *meta.Member

	turn       chan struct{} // holds one token; its holder may use the fields below
	next, left uint64
}

func newProducerIDs(log *meta.Log, member *meta.Member) *producerIDs {
	p := &producerIDs{log: log, member: member, turn: make(chan struct{}, 1)}
	p.turn <- struct{}{}
	return p
}

// take returns an id that was never assigned before. When the block is used up it waits for the metadata log, for as long
// as ctx allows.
func (p *producerIDs) take(ctx context.Context) (int64, error) {
	select {
	case <-p.turn:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	defer func() { p.turn <- struct{}{} }()
	if p.left == 0 {
		block, err := p.log.Do(ctx, meta.AllocateProducerIDs{
			Node: p.member.Node(), NodeEpoch: p.member.Epoch(), Count: producerIDBlock,
		})
		if err != nil {
			return 0, err
		}
		p.next, p.left = block.ID, block.Count
	}
	id := p.next
	p.next++
	p.left--
	return int64(id), nil
}
