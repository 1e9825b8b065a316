package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/embedded"
	"github.com/tidemark-io/tidemark/stream"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// testNode is an engine with its metadata and its place in a store.
type testNode struct {
	*stream.Engine
	store   *counted
	log     *meta.Log
	member  *meta.Member
	options stream.Options
}

// newNode opens an engine on an empty place. change may adjust the settings.
func newNode(ctx context.Context, b *bucket, change func(*stream.Config)) (*testNode, error) {
	store, err := b.place(ctx)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(b.dir, fmt.Sprintf("meta-%d", b.count))
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	backend, err := embedded.Open(filepath.Join(path, "meta.db"), embedded.Options{ClusterID: "bench"})
	if err != nil {
		return nil, err
	}
	log, err := meta.Open(ctx, backend, meta.Options{})
	if err != nil {
		return nil, err
	}
	member, err := meta.Join(ctx, log, meta.MemberOptions{Node: 1})
	if err != nil {
		return nil, err
	}
	if err := member.RaiseLevel(ctx, meta.LevelStreams); err != nil {
		return nil, err
	}
	n := &testNode{store: store, log: log, member: member, options: stream.Options{
		Catalog: meta.NewCatalog(log), Node: 1, Cluster: "bench", WAL: store, Data: store, Proof: member.Proved,
		Incarnation: member.Incarnation(), Config: stream.DefaultConfig(),
	}}
	change(&n.options.Config)
	n.Engine, err = stream.Open(ctx, n.options)
	return n, err
}

// reopen opens the engine again under a new epoch of the node, whatever happened to the previous one.
func (n *testNode) reopen(ctx context.Context) (err error) {
	if _, err := n.member.Renew(ctx); err != nil {
		return err
	}
	n.options.Incarnation = n.member.Incarnation()
	n.Engine, err = stream.Open(ctx, n.options)
	return err
}

// close ends the engine and removes nothing.
func (n *testNode) close(ctx context.Context) error {
	err := n.Engine.Close(ctx)
	n.member.Close()
	if logErr := n.log.Close(); err == nil {
		err = logErr
	}
	if storeErr := n.store.Close(); err == nil {
		err = storeErr
	}
	return err
}

// streams creates and opens streams.
func (n *testNode) streams(ctx context.Context, count int) ([]*stream.Stream, error) {
	var opened []*stream.Stream
	for len(opened) < count {
		batch := min(count-len(opened), catalog.MaxStreams)
		first, err := n.CreateStreams(ctx, batch)
		if err != nil {
			return nil, err
		}
		for i := range batch {
			s, err := n.OpenStream(ctx, first+catalog.StreamID(i), 1)
			if err != nil {
				return nil, err
			}
			opened = append(opened, s)
		}
	}
	return opened, nil
}

// fill appends records of 64 KiB to streams in turn, and returns when all are durable.
func fill(ctx context.Context, n *testNode, streams []*stream.Stream, bytes int64) error {
	const size = 64 << 10
	var last *stream.Ack
	for i := 0; int64(i)*size < bytes; i++ {
		a, err := n.Admit(ctx, 1, size)
		if err != nil {
			return err
		}
		last, err = streams[i%len(streams)].Submit(a, 1, payload(size))
		a.Release()
		if err != nil {
			return err
		}
	}
	return last.Wait(ctx)
}
