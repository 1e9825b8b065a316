package stream_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/stream"
	"github.com/tidemark-io/tidemark/stream/catalog"
	"github.com/tidemark-io/tidemark/stream/catalog/catalogtest"
)

// Field reports on what a node finds that takes over from one that trimmed, compacted and cleaned. Two engines share a
// bucket and a catalog.

type pair struct {
	*testing.T
	bucket  *mem.Bucket
	catalog *catalogtest.Memory
}

func inPair(t *testing.T, test func(p *pair)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pair{T: t, bucket: mem.NewBucket(time.Now), catalog: catalogtest.NewMemory(time.Now)}
		test(p)
		p.check()
	})
}

// check finds no damage in what both left.
func (p *pair) check() {
	for f, err := range stream.Check(p.Context(), stream.CheckOptions{
		Catalog: p.catalog, WAL: p.bucket.Open(), Data: p.bucket.Open(), Cluster: "pair", Deep: true,
	}) {
		require.NoError(p, err)
		require.NotEqual(p, stream.Damage, f.Severity, "%s", f)
	}
}

// open opens a node's engine. kill ends it as a crash does.
func (p *pair) open(node catalog.NodeID) (e *stream.Engine, kill func()) {
	store := faultstore.New(p.bucket.Open(), nil)
	config := stream.DefaultConfig()
	config.GCGrace = time.Millisecond
	e, err := stream.Open(p.Context(), stream.Options{
		Catalog: p.catalog, Node: node, Cluster: "pair", WAL: store, Data: store, Proof: time.Now, Config: config,
	})
	require.NoError(p, err)
	return e, func() {
		store.SetInjector(faultstore.Always(faultstore.Fault{Err: errors.New("the process is dead")}))
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		require.Error(p, e.Close(ended))
	}
}

func (p *pair) openStream(e *stream.Engine, id catalog.StreamID) *stream.Stream {
	row, _ := p.catalog.View().Stream(id)
	s, err := e.OpenStream(p.Context(), id, row.Epoch+1)
	require.NoError(p, err)
	return s
}

func (p *pair) append(s *stream.Stream, rows int) {
	for range rows {
		_, err := s.Append(p.Context(), 1, []byte{byte(s.Next())})
		require.NoError(p, err)
	}
}

// read reads a stream from an offset on; every row has its offset as payload.
func (p *pair) read(s *stream.Stream, from int64) {
	p.Helper()
	got, err := s.Fetch(p.Context(), stream.FetchRequest{Start: from, End: s.Confirm(), MaxBytes: 1 << 20})
	require.NoError(p, err)
	require.Len(p, got.Records, int(s.Confirm()-from))
	for i, r := range got.Records {
		require.Equal(p, []byte{byte(from + int64(i))}, r.Payload)
	}
}

// removeDead uploads, compacts and cleans until nothing is left to remove.
func (p *pair) removeDead(e *stream.Engine) {
	require.NoError(p, e.Upload(p.Context()))
	require.NoError(p, e.Compact(p.Context()))
	wait(p.Context(), time.Second)
	require.NoError(p, e.Clean(p.Context()))
}

func TestF26_ANewOwnerServesFromTheFirstOffsetThatIsThere(t *testing.T) {
	inPair(t, func(p *pair) {
		a, kill := p.open(1)
		id, err := a.CreateStreams(p.Context(), 1)
		require.NoError(p, err)
		s := p.openStream(a, id)
		for range 5 {
			p.append(s, 10)
			require.NoError(p, a.Upload(p.Context()))
		}
		require.NoError(p, s.Trim(p.Context(), 35))
		p.removeDead(a)
		p.append(s, 3) // acknowledged, and only in the log
		kill()

		b, killB := p.open(2)
		defer killB()
		require.NoError(p, b.Failover(p.Context(), 1))
		s = p.openStream(b, id)
		require.Equal(p, []int64{35, 53}, []int64{s.Start(), s.Confirm()})
		p.read(s, 35)
		_, err = s.Fetch(p.Context(), stream.FetchRequest{Start: 34, End: 53, MaxBytes: 1})
		require.ErrorIs(p, err, stream.ErrOffsetOutOfRange)
	})
}

// TestF35_ARecoveryGoesOnWhileOthersCompactAndClean: a node that takes over reads the log while the one that is ended, and
// does not know it, compacts and cleans.
func TestF35_ARecoveryGoesOnWhileOthersCompactAndClean(t *testing.T) {
	inPair(t, func(p *pair) {
		a, kill := p.open(1)
		defer kill()
		id, err := a.CreateStreams(p.Context(), 1)
		require.NoError(p, err)
		s := p.openStream(a, id)
		for range 5 {
			p.append(s, 10)
			require.NoError(p, a.Upload(p.Context()))
		}
		p.append(s, 10)
		reader := p.openReader()
		b, killB := p.open(2)
		defer killB()
		var calls atomic.Int32 // the engine's background asks too
		reader.SetInjector(func(faultstore.Op) faultstore.Fault {
			return faultstore.Fault{Hook: func(ctx context.Context) {
				if calls.Add(1) > 20 {
					return
				}
				_ = a.Compact(ctx) // refused as soon as the takeover has begun
				_ = b.Compact(ctx)
				wait(ctx, time.Second)
				_ = b.Clean(ctx)
			}}
		})
		c, err := stream.Open(p.Context(), stream.Options{
			Catalog: p.catalog, Node: 3, Cluster: "pair", WAL: reader, Data: reader, Proof: time.Now,
		})
		require.NoError(p, err)
		require.NoError(p, c.Failover(p.Context(), 1))
		reader.SetInjector(nil)
		require.Greater(p, calls.Load(), int32(5))
		s = p.openStream(c, id)
		require.EqualValues(p, 60, s.Confirm())
		p.read(s, 0)
		require.NoError(p, c.Close(p.Context()))
	})
}

func (p *pair) openReader() *faultstore.Store { return faultstore.New(p.bucket.Open(), nil) }
