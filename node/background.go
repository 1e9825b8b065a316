package node

import (
	"context"
	"sync"
)

// background runs work that no caller waits for any longer. Its goroutines end on their own, soon after the node's life
// has ended.
type background struct {
	mu      sync.Mutex
	stopped bool
	running int
	idle    chan struct{} // closed when the last one ends after stop
}

// Go runs f, unless the node is stopping.
func (b *background) Go(f func()) (started bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return false
	}
	b.running++
	go func() {
		defer b.done()
		f()
	}()
	return true
}

func (b *background) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running--
	if b.stopped && b.running == 0 {
		close(b.idle)
	}
}

// stop refuses new work and waits for what is running, or for the end of ctx.
func (b *background) stop(ctx context.Context) error {
	b.mu.Lock()
	if !b.stopped {
		b.stopped, b.idle = true, make(chan struct{})
		if b.running == 0 {
			close(b.idle)
		}
	}
	idle := b.idle
	b.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// atomicText is a text that one goroutine sets and others read.
type atomicText struct {
	mu   sync.Mutex
	text string
}

func (t *atomicText) set(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = text
}

func (t *atomicText) get() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text
}
