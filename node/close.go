package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Close stops the node in order: no more clients, what they wait for is answered, every log is synced and closed, the
// checkpoints and the clean-shutdown marker are written, and the data directory is unlocked. It takes a second or two.
//
// When ctx ends first, connections are cut, and what a disk still holds up is given up: the error says what, there is no
// clean-shutdown marker, and the next start checks the logs. A second call waits for the first and returns the same.
func (n *Node) Close(ctx context.Context) error {
	n.closing.once.Do(func() {
		n.closing.err = n.close(ctx)
		close(n.closing.done)
	})
	<-n.closing.done
	return n.closing.err
}

func (n *Node) close(ctx context.Context) error {
	began := n.config.Now()
	n.status.enter("closing", len(n.closers))
	n.metrics.Ready.Set(0)
	n.end(ErrClosed)
	var errs []error
	for _, c := range slices.Backward(n.closers) {
		if err := c.close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("node: closing %s: %w", c.name, err))
		}
		n.status.step()
	}
	n.fail(ErrClosed)
	err := errors.Join(errs...)
	if err != nil {
		n.log.Error("not closed in order", "error", err)
		return err
	}
	n.log.Info("closed", "took", n.config.Now().Sub(began))
	return nil
}
