package stream

import (
	"context"
	"fmt"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// Failover takes over the log of another node that is dead, or presumed dead (3.10): it ends the node's epoch, commits
// what it had acknowledged but not committed, closes its streams so that any node can open them, and records that
// nothing is left to recover. If the node is alive after all, it acknowledges nothing in its log from the fence
// onwards, whatever is stored there. It may still acknowledge appends that precede the fence, even after Failover has
// returned: a reply of the store was in flight, or the process was paused when the reply arrived. All of these are
// committed by then, at the same offsets. When the node comes back it begins a higher epoch (WAL-34).
//
// If several nodes take over the same one, one of them wins; the others get [catalog.ErrNodeEpochMismatch]. Failover
// may be repeated after an error, here or on another node, and also when there is nothing to take over. Other errors
// are those of [Open]. A node that the catalog does not know is [catalog.ErrNodeEpochMismatch] too.
func (e *Engine) Failover(ctx context.Context, dead catalog.NodeID) error {
	if err := e.usable(); err != nil {
		return err
	}
	if dead == e.node.ID {
		return fmt.Errorf("%w: node %d takes over itself", catalog.ErrInvalidArgument, dead)
	}
	state, known := e.options.Catalog.View().Node(dead)
	if !known {
		return fmt.Errorf("%w: node %d is not registered", catalog.ErrNodeEpochMismatch, dead)
	}
	epoch, err := e.register(ctx, catalog.Registration{
		ID: dead, Expected: state.Epoch, Incarnation: e.options.Incarnation, Slots: state.Slots,
	})
	if err != nil {
		return err
	}
	node := catalog.Node{ID: dead, Epoch: epoch}
	prefix := WALPrefix{Cluster: e.options.Cluster, Node: dead}
	start, err := e.takeOver(ctx, node, prefix)
	if err != nil {
		return err
	}
	c := e.options.Catalog
	if err := retry(ctx, func() error { return c.CloseWAL(ctx, node, start) }); err != nil {
		return err
	}
	e.background(func() { e.removeOldEpochs(e.ctx, node, prefix) })
	return nil
}
