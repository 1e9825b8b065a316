package embedded

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/meta"
)

// failure is the first write that failed. It stays.
type failure struct {
	mu  sync.Mutex
	err error
}

func (f *failure) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *failure) set(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
	return f.err
}

// claims are the keys held in this process. The lock on the file keeps every other process out, so they need not be
// stored, and they expire with the process.
type claims struct {
	mu     sync.Mutex
	held   map[string]*claim
	closed bool
}

type claim struct {
	owner *claims
	key   string
	value []byte
	lost  chan struct{}
}

// Claim takes a key that nobody in this process holds.
func (b *Backend) Claim(ctx context.Context, key string, value []byte) (meta.Claim, error) {
	if err := b.usable(ctx); err != nil {
		return nil, err
	}
	c := &b.claims
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, meta.ErrClosed
	}
	if _, held := c.held[key]; held {
		return nil, fmt.Errorf("%w: %s", meta.ErrClaimed, key)
	}
	if c.held == nil {
		c.held = map[string]*claim{}
	}
	held := &claim{owner: c, key: key, value: bytes.Clone(value), lost: make(chan struct{})}
	c.held[key] = held
	return held, nil
}

// Claims returns the keys that are held in this process.
func (b *Backend) Claims(ctx context.Context, prefix string) (map[string][]byte, error) {
	if err := b.usable(ctx); err != nil {
		return nil, err
	}
	c := &b.claims
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string][]byte{}
	for key, held := range c.held {
		if strings.HasPrefix(key, prefix) {
			out[key] = bytes.Clone(held.value)
		}
	}
	return out, nil
}

// Lost returns a channel that is closed when the claim is released or the backend closed.
func (c *claim) Lost() <-chan struct{} { return c.lost }

// Proved returns the present: the lock on the file keeps everybody else out.
func (c *claim) Proved() time.Time { return time.Now() }

// Release gives the key up.
func (c *claim) Release() {
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	c.owner.release(c)
}

// release ends a claim. The caller holds the lock.
func (c *claims) release(held *claim) {
	if c.held[held.key] == held {
		delete(c.held, held.key)
		close(held.lost)
	}
}

func (c *claims) releaseAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, held := range c.held {
		c.release(held)
	}
}
