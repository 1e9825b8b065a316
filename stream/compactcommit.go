package stream

import (
	"context"
	"errors"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// blocks returns a source of blocks with this compactor's limits.
func (c *compactor) blocks() blockSource { return blockSource{c.data, c.namespace, c.throttle} }

// prepare reserves ids, retrying as often as necessary. A try whose reply was lost costs ids that expire unused (GC-4).
func (c *compactor) prepare(ctx context.Context, n int) (first catalog.ObjectID, err error) {
	err = retry(ctx, func() (err error) {
		first, err = c.catalog.PrepareObjects(ctx, c.node, n, c.config.prepareTTL)
		return err
	})
	return first, err
}

// settle repeats a commit until its outcome is known, and then removes objects that were written in vain. If the outcome
// stays unknown, because ctx ends, everything is left alone: the ids expire if they were not committed (GC-4).
func (c *compactor) settle(ctx context.Context, written []catalog.ObjectID, commit func() error) error {
	unknown := false
	for try := 0; ; try++ {
		err := commit()
		switch {
		case err == nil || errors.Is(err, catalog.ErrRedundant):
			return nil
		case ctx.Err() != nil:
			return err
		case errors.Is(err, catalog.ErrUnavailable):
			unknown = true
		default:
			// A node that is fenced deletes nothing. And an earlier try that was applied may have been followed by another
			// compaction, which needs these bytes.
			if !unknown && !errors.Is(err, catalog.ErrNodeEpochMismatch) {
				c.discard(ctx, written)
			}
			return err
		}
		if err := pause(ctx, retryDelay(try)); err != nil {
			return err
		}
	}
}

// discard removes objects that will never be committed, unless another process may have objects of the same ids. Those
// that it fails to remove are removed when the ids expire.
func (c *compactor) discard(ctx context.Context, ids []catalog.ObjectID) {
	if len(ids) == 0 || ctx.Err() != nil || c.owns != nil && c.owns(ctx) != nil {
		return
	}
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = DataKey(c.namespace, id)
	}
	_ = c.data.Delete(ctx, keys...)
}

// discardUnless is discard after a failed write, unless the error says that others have written there.
func (c *compactor) discardUnless(ctx context.Context, err error, ids ...catalog.ObjectID) {
	var taken *ObjectTakenError
	if !errors.As(err, &taken) {
		c.discard(ctx, ids)
	}
}
