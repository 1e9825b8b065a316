package stream

import (
	"context"
	"fmt"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// Failover takes over the log of another node that is dead, or thought to be (3.10): it ends the node's epoch, commits what
// it had acknowledged and not committed, closes its streams so that any node can open them, and notes that nothing is left
// to recover. Should the node live after all, it acknowledges nothing that its log has from the fence on, whatever is stored
// there. It may still tell its callers of what comes before the fence, also after Failover has returned: a reply of the store
// was on its way, or the process was paused when it came. All of that is committed by then, at the same offsets. When the
// node comes back it begins a higher epoch (WAL-34).
//
// Of several nodes that take over the same one, one wins; the others get [catalog.ErrNodeEpochMismatch]. Failover may be
// repeated after an error, here or on another node, and when there is nothing to take over. Other errors are those of
// [Open]. A node that the catalog does not know is [catalog.ErrNodeEpochMismatch] too.
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
