package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Close stops the node cleanly: it refuses new clients, answers outstanding requests, syncs and closes every log, writes
// the checkpoints and the clean-shutdown marker, and unlocks the data directory. It takes a second or two.
//
// If ctx ends first, connections are cut, and Close returns soon after with an error that names the step that a disk is
// holding up. That step continues if the disk ever responds; until then there is no clean-shutdown marker, and the next
// start checks the logs. A second call waits for the first and returns the same error.
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
	var step atomicText
	closed := make(chan error, 1)
	go func() { closed <- n.closeAll(ctx, &step) }()
	err := waitFor(ctx, closed, &step, n.late)
	n.end(ErrClosed)
	n.fail(ErrClosed)
	if err != nil {
		n.log.Error("not closed cleanly", "error", err)
		return err
	}
	n.log.Info("closed", "took", n.config.Now().Sub(began))
	return nil
}

// closeAll undoes the steps of start-up in reverse order.
func (n *Node) closeAll(ctx context.Context, step *atomicText) error {
	var errs []error
	for _, c := range slices.Backward(n.closers) {
		step.set(c.name)
		if err := c.close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("node: closing %s: %w", c.name, err))
		}
		n.status.step()
	}
	return errors.Join(errs...)
}

// lateTime is how much longer a close whose context has ended may take before it is abandoned.
const lateTime = 500 * time.Millisecond

// waitFor waits for a close, until a little after the end of ctx.
func waitFor(ctx context.Context, closed <-chan error, step *atomicText, lateTime time.Duration) error {
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(lateTime)
	defer late.Stop()
	select {
	case err := <-closed:
		return err
	case <-late.C:
		return fmt.Errorf("node: closing %s takes too long: %w", step.get(), context.Cause(ctx))
	}
}
