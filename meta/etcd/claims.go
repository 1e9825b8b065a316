package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tidemark-io/tidemark/meta"
)

// claims are the expiring keys that this backend holds.
type claims struct {
	mu      sync.Mutex
	held    map[*claim]struct{}
	closed  bool
	refresh sync.WaitGroup
}

// claim is an expiring key on its own lease. Its goroutine refreshes the lease four times per time to live, and gives the
// key up if it could not for as long as that.
type claim struct {
	b     *Backend
	key   string
	lease clientv3.LeaseID
	ttl   time.Duration
	lost  chan struct{}
	end   context.CancelFunc // of the goroutine

	mu     sync.Mutex
	proved time.Time // when the last refresh that succeeded was asked for
}

// Claim takes an expiring key, if nobody holds it.
func (b *Backend) Claim(ctx context.Context, key string, value []byte) (meta.Claim, error) {
	if err := b.usable(ctx); err != nil {
		return nil, err
	}
	under, cancel := b.limit(ctx)
	defer cancel()
	asked := time.Now()
	granted, err := b.client.Grant(under, int64((b.config.TTL+time.Second-1)/time.Second))
	if err != nil {
		return nil, b.readFailed(ctx, err) // at worst a lease expires that nothing hangs on
	}
	name := b.keys.claim(key)
	done, err := b.client.Txn(under).If(clientv3.Compare(clientv3.CreateRevision(name), "=", 0)).
		Then(clientv3.OpPut(name, string(value), clientv3.WithLease(granted.ID))).Commit()
	if err != nil {
		b.revoke(granted.ID) // the key, if it was written, goes with the lease
		return nil, b.writeFailed(ctx, err)
	}
	if !done.Succeeded {
		b.revoke(granted.ID)
		return nil, fmt.Errorf("%w: %s", meta.ErrClaimed, key)
	}
	c := &claim{
		b: b, key: key, lease: granted.ID, ttl: time.Duration(granted.TTL) * time.Second, lost: make(chan struct{}), proved: asked,
	}
	return c, b.claims.add(c)
}

// add begins to refresh a claim.
func (cs *claims) add(c *claim) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.closed {
		return meta.ErrClosed
	}
	if cs.held == nil {
		cs.held = map[*claim]struct{}{}
	}
	cs.held[c] = struct{}{}
	var life context.Context
	life, c.end = context.WithCancel(c.b.life)
	cs.refresh.Go(func() { c.keep(life) })
	return nil
}

// drop forgets a claim. It reports whether it was held until now.
func (cs *claims) drop(c *claim) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if _, held := cs.held[c]; !held {
		return false
	}
	delete(cs.held, c)
	close(c.lost)
	return true
}

func (cs *claims) releaseAll() {
	cs.mu.Lock()
	cs.closed = true
	held := cs.held
	cs.held = nil
	for c := range held {
		close(c.lost)
	}
	cs.mu.Unlock()
	for c := range held {
		c.end()
		c.b.revoke(c.lease)
	}
}

// wait returns when claims are no longer refreshed.
func (cs *claims) wait() { cs.refresh.Wait() }

// keep refreshes the lease until life ends or the key is lost.
func (c *claim) keep(life context.Context) {
	for pause(life, c.ttl/4) == nil {
		if !c.refresh(life) {
			c.b.claims.drop(c)
			return
		}
	}
}

// refresh asks etcd to keep the lease. It reports false if the key is lost: etcd says so, or has not answered for the
// time to live since the last successful refresh was requested.
func (c *claim) refresh(life context.Context) bool {
	asked := time.Now()
	left := c.ttl - asked.Sub(c.Proved())
	if left <= 0 {
		return false
	}
	under, cancel := context.WithTimeout(life, min(left, c.b.config.Timeout))
	defer cancel()
	_, err := c.b.client.KeepAliveOnce(under, c.lease)
	switch {
	case err == nil:
		c.mu.Lock()
		c.proved = asked
		c.mu.Unlock()
		return true
	case life.Err() != nil:
		return true
	}
	return !errors.Is(err, rpctypes.ErrLeaseNotFound) && time.Since(c.Proved()) < c.ttl
}

// Proved returns when the last refresh that succeeded was asked for.
func (c *claim) Proved() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proved
}

// Lost returns a channel that is closed when the key is released, or must be given up.
func (c *claim) Lost() <-chan struct{} { return c.lost }

// Release gives the key up. It waits for etcd, or leaves it to the lease to expire.
func (c *claim) Release() {
	if c.b.claims.drop(c) {
		c.end()
		c.b.revoke(c.lease)
	}
}

// revoke ends a lease and what hangs on it.
func (b *Backend) revoke(id clientv3.LeaseID) {
	under, cancel := b.limit(context.Background())
	defer cancel()
	_, _ = b.client.Revoke(under, id) // it expires by itself
}

// Claims returns the keys that anybody holds.
func (b *Backend) Claims(ctx context.Context, prefix string) (map[string][]byte, error) {
	if err := b.usable(ctx); err != nil {
		return nil, err
	}
	under, cancel := b.limit(ctx)
	defer cancel()
	got, err := b.client.Get(under, b.keys.claim(prefix), clientv3.WithPrefix())
	if err != nil {
		return nil, b.readFailed(ctx, err)
	}
	out := map[string][]byte{}
	for _, kv := range got.Kvs {
		out[strings.TrimPrefix(string(kv.Key), b.keys.claim(""))] = append([]byte{}, kv.Value...)
	}
	return out, nil
}
