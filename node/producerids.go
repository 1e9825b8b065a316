package node

import (
	"context"

	"github.com/tidemark-io/tidemark/meta"
)

// producerIDBlock is how many producer ids are taken from the metadata log at once, as in Kafka. Those that were not
// handed out when the node ends are never used.
const producerIDBlock = 1000

// producerIDs hands out producer ids from a block that the metadata log gave to this node and to nobody else.
type producerIDs struct {
	log    *meta.Log
	member *meta.Member

	turn       chan struct{} // holds one value; who has it may use what follows
	next, left uint64
}

func newProducerIDs(log *meta.Log, member *meta.Member) *producerIDs {
	p := &producerIDs{log: log, member: member, turn: make(chan struct{}, 1)}
	p.turn <- struct{}{}
	return p
}

// take returns an id that nobody was ever given. It waits for the metadata log when the block is used up, as long as ctx
// allows.
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
