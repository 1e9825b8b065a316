package broker

import (
	"context"
	"time"
)

// lateContext is a context with a deadline that creates its timer only when somebody waits for it. An append that finds
// room never does. It belongs to one goroutine.
type lateContext struct {
	parent   context.Context
	deadline time.Time
	real     context.Context // nil until somebody waits
	cancel   context.CancelFunc
}

// Deadline implements context.Context.
func (c *lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Done implements context.Context.
func (c *lateContext) Done() <-chan struct{} {
	if c.real == nil {
		c.real, c.cancel = context.WithDeadlineCause(c.parent, c.deadline, errFlushTimedOut)
	}
	return c.real.Done()
}

// Err implements context.Context.
func (c *lateContext) Err() error { return c.current().Err() }

// Value implements context.Context.
func (c *lateContext) Value(key any) any { return c.current().Value(key) }

func (c *lateContext) current() context.Context {
	if c.real != nil {
		return c.real
	}
	return c.parent
}

// release stops the timer, if there is one.
func (c *lateContext) release() {
	if c.cancel != nil {
		c.cancel()
	}
}
