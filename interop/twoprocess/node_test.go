package twoprocess

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/etcd"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/cloud"
	"github.com/tidemark-io/tidemark/stream"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// place is where the nodes of a test meet: a metadata log in etcd, and a bucket.
type place struct{ Etcd, Log, Bucket string }

// keyLife is how long a liveness key outlives a process that is gone or stands still.
const keyLife = 3 * time.Second

// node is what a process has of a cluster, put together as a server does.
type node struct {
	backend meta.Backend
	log     *meta.Log
	member  *meta.Member
	store   objstore.Store
	engine  *stream.Engine
}

// join opens the metadata log, waits for the node's liveness key, and opens the node's engine.
func join(ctx context.Context, p place, id int32) (n *node, err error) {
	n = &node{}
	if n.backend, err = etcd.Open(ctx, etcd.Config{
		Endpoints: []string{p.Etcd}, Name: p.Log, NewClusterID: p.Log, TTL: keyLife,
	}); err != nil {
		return nil, err
	}
	if n.log, err = meta.Open(ctx, n.backend, meta.Options{Node: id, SnapshotEvery: 200}); err != nil {
		return nil, err
	}
	if n.member, err = meta.Join(ctx, n.log, meta.MemberOptions{Node: id, Slots: 1, Tick: keyLife / 10}); err != nil {
		return nil, err
	}
	if err = n.member.RaiseLevel(ctx, meta.LevelStreams); err != nil {
		return nil, err
	}
	if n.store, err = cloud.Open(ctx, p.Bucket, cloud.Options{PartBytes: cloud.MinPartBytes}); err != nil {
		return nil, err
	}
	n.engine, err = stream.Open(ctx, stream.Options{
		Catalog: meta.NewCatalog(n.log), Node: catalog.NodeID(id), Cluster: n.log.ClusterID(),
		Incarnation: n.member.Incarnation(), Slots: 1, WAL: n.store, Data: n.store, Proof: n.member.Proved,
		Leads: n.log.Leads, Adopts: func(id catalog.NodeID) bool { return n.member.Buried(int32(id)) }, Config: config(),
	})
	return n, err
}

// config has everything happen within milliseconds.
func config() stream.Config {
	c := stream.DefaultConfig()
	c.WALBatchInterval, c.WALTrimPersist, c.UploadInterval = 5*time.Millisecond, 20*time.Millisecond, 100*time.Millisecond
	c.CompactInterval, c.GCInterval, c.GCGrace = 200*time.Millisecond, 50*time.Millisecond, 500*time.Millisecond
	c.UploadStreamSplit, c.CompactSplit, c.ObjectBlockSize = 16<<10, 32<<10, 4<<10
	return c
}

// leave gives up the node's place. The engine must be closed.
func (n *node) leave() error {
	n.member.Close()
	return errors.Join(n.log.Close(), n.backend.Close(), n.store.Close())
}

// awaitDeath waits until another node is to be taken for dead.
func (n *node) awaitDeath(ctx context.Context, other int32) error {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !n.member.Buried(other) {
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// openAll makes the node the owner of all streams.
func (n *node) openAll(ctx context.Context) (all []*stream.Stream, err error) {
	for row := range n.log.View().Streams() {
		s, err := n.engine.OpenStream(ctx, row.ID, row.Epoch+1)
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	return all, nil
}

// record is a record of a stream, without its payload.
type record struct {
	Stream catalog.StreamID
	Base   int64
	Count  int32
	Size   int
	Tag    string
}

// payload is different for every record.
func (r record) payload() []byte {
	text := fmt.Appendf(nil, "%d at %d by %s, ", r.Stream, r.Base, r.Tag)
	return bytes.Repeat(text, r.Size/len(text)+1)[:r.Size]
}

// readAll reads a stream from its first record to its last one, which follow each other without a gap.
func readAll(ctx context.Context, s *stream.Stream, found func(stream.Record)) error {
	for at := int64(0); at < s.Confirm(); {
		got, err := s.Fetch(ctx, stream.FetchRequest{Start: at, End: s.Confirm(), MaxBytes: 1 << 20})
		if err != nil {
			return err
		}
		for _, r := range got.Records {
			if r.Base != at {
				return fmt.Errorf("stream %d: a record at %d where one at %d was expected", s.ID(), r.Base, at)
			}
			at = r.End()
			found(r)
		}
	}
	return nil
}
