package node

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/metatest"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/observe"
	"github.com/tidemark-io/tidemark/stream"
)

// paused is the backend of a process that stands still for a while: nothing is read or written meanwhile, and that it has lost a
// key it does not hear even later.
type paused struct {
	meta.Backend
	gate atomic.Pointer[chan struct{}] // nil: it runs
}

// pause stops it until resume is called.
func (p *paused) pause() (resume func()) {
	gate := make(chan struct{})
	p.gate.Store(&gate)
	return func() {
		p.gate.Store(nil)
		close(gate)
	}
}

func (p *paused) wait(ctx context.Context) error {
	if gate := p.gate.Load(); gate != nil {
		select {
		case <-*gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (p *paused) Head(ctx context.Context) (uint64, error) {
	if err := p.wait(ctx); err != nil {
		return 0, err
	}
	return p.Backend.Head(ctx)
}

func (p *paused) Append(ctx context.Context, index uint64, entry []byte) error {
	if err := p.wait(ctx); err != nil {
		return err
	}
	return p.Backend.Append(ctx, index, entry)
}

func (p *paused) Read(ctx context.Context, from uint64, limit int) ([][]byte, error) {
	if err := p.wait(ctx); err != nil {
		return nil, err
	}
	return p.Backend.Read(ctx, from, limit)
}

func (p *paused) Claims(ctx context.Context, prefix string) (map[string][]byte, error) {
	if err := p.wait(ctx); err != nil {
		return nil, err
	}
	return p.Backend.Claims(ctx, prefix)
}

func (p *paused) Claim(ctx context.Context, key string, value []byte) (meta.Claim, error) {
	if err := p.wait(ctx); err != nil {
		return nil, err
	}
	c, err := p.Backend.Claim(ctx, key, value)
	if err != nil {
		return nil, err
	}
	return deafClaim{c, make(chan struct{})}, nil
}

type deafClaim struct {
	meta.Claim
	never chan struct{}
}

func (c deafClaim) Lost() <-chan struct{} { return c.never }

// undamaged holds what is in a bucket against the metadata.
func undamaged(t *testing.T, n *streamNode, bucket *mem.Bucket) {
	t.Helper()
	for f, err := range stream.Check(t.Context(), stream.CheckOptions{
		Catalog: meta.NewCatalog(n.log), WAL: bucket.Open(), Data: bucket.Open(), Cluster: "c", Deep: true,
	}) {
		require.NoError(t, err)
		require.NotEqual(t, stream.Damage, f.Severity, f.String())
	}
}

// TestMP9_AHolderOfTheLeaseThatWasPausedAmidATakeOverDoesNoHarmWhenItGoesOn: its lease has expired without its knowing, and another
// one has registered as the coordinator and taken the dead node over. The paused one goes on where it was, and stops: it may put a
// fence into the log that has ended, but commits nothing, deletes nothing, and takes nothing from who leads.
func TestMP9_AHolderOfTheLeaseThatWasPausedAmidATakeOverDoesNoHarmWhenItGoesOn(t *testing.T) {
	for name, where := range map[string]func(faultstore.Op) bool{
		"before the fence": func(op faultstore.Op) bool { return op.Kind == objstore.OpList && op.Key == streamcatalogPrefix(2) },
		"behind the fence": faultstore.Matching(objstore.OpGet, streamcatalogPrefix(2)+"*/wal/*"),
		"before its commit": func(op faultstore.Op) bool {
			_, err := stream.ParseDataKey(stream.DefaultNamespace, op.Key)
			return err == nil && op.IsWrite()
		},
	} {
		t.Run(name, func(t *testing.T) {
			storage, bucket := metatest.NewMemory("c"), mem.NewBucket(time.Now)
			mine, faults := faultstore.New(bucket.Open(), nil), faultstore.New(bucket.Open(), nil)
			metadata := &paused{Backend: storage.Join()}
			first := newStreamNodeOver(t, 1, metadata, func() objstore.Store { return mine })
			told := hear(first)
			dead := newStreamNodeOf(t, 2, storage, func() objstore.Store { return faults })
			third := newStreamNodeOf(t, 3, storage, func() objstore.Store { return bucket.Open() })
			for _, n := range []*streamNode{first, dead, third} {
				_, err := n.get(t.Context())
				require.NoError(t, err)
			}
			until(t, first, func(s *meta.State) bool { return s.Coordinator() == meta.Coordinator{Epoch: 1, Node: 1} })
			id := write(t, dead.engine)
			gate := faultstore.NewGate(where)
			mine.SetInjector(gate.Inject)
			dead.kill(t, faults)
			_, err := gate.Held(t.Context(), 1)
			require.NoError(t, err)
			resume := metadata.pause()

			require.True(t, storage.Expire(meta.LeaseKey))
			until(t, third, tookOver(2))
			log := func() (keys []string) {
				page, err := bucket.Open().List(t.Context(), objstore.ListRequest{Prefix: streamcatalogPrefix(2)})
				require.NoError(t, err)
				for _, o := range page.Objects {
					keys = append(keys, o.Key)
				}
				return keys
			}
			require.Eventually(t, func() bool { return len(log()) == 1 }, time.Minute, time.Millisecond, "the fence")
			fence, node := log(), nodeRow(third, 2)
			coordinator := third.log.View().Coordinator()
			require.EqualValues(t, 3, coordinator.Node)
			require.True(t, first.log.Leads(), "as far as it knows")

			gate.Open()
			resume()
			<-told.came
			require.Error(t, told.all()[0].Err)
			until(t, first, func(s *meta.State) bool { return s.Coordinator() == coordinator })
			require.False(t, first.log.Leads())
			_, err = third.log.Do(t.Context(), meta.PutKv{Key: "later"}) // all that it may have proposed is in front of this
			require.NoError(t, err)
			require.Equal(t, []any{node, coordinator}, []any{nodeRow(third, 2), third.log.View().Coordinator()})
			require.Subset(t, log(), fence)
			row, _ := third.log.View().Stream(id)
			require.Equal(t, []any{int64(3), false}, []any{row.End, row.Opened})
			undamaged(t, third, bucket)
		})
	}
}

func nodeRow(n *streamNode, id int32) meta.Node {
	row, _ := n.log.View().Node(id)
	return row
}

// TestTheHolderOfTheLeaseCleansAlthoughNobodyAsksItForAStream: streams were written and deleted, all was closed, and what they left
// waits for a cleaner.
func TestTheHolderOfTheLeaseCleansAlthoughNobodyAsksItForAStream(t *testing.T) {
	storage, bucket := metatest.NewMemory("c"), mem.NewBucket(time.Now)
	first := newStreamNodeOf(t, 1, storage, func() objstore.Store { return bucket.Open() })
	first.config.GCInterval = time.Hour
	e, err := first.get(t.Context())
	require.NoError(t, err)
	id := write(t, e)
	require.NoError(t, e.Upload(t.Context()))
	s, err := e.OpenStream(t.Context(), id, 1)
	require.NoError(t, err)
	require.NoError(t, s.Destroy(t.Context()))
	require.NotZero(t, first.log.View().DestroyedCount())
	first.stop(t)
	own, _ := first.log.View().Node(1)
	require.EqualValues(t, -1, own.WALEpoch, "it was closed")

	again := newStreamNodeOf(t, 1, storage, func() objstore.Store { return bucket.Open() })
	again.config.GCInterval, again.config.GCGrace = time.Millisecond, time.Nanosecond
	again.watch()
	until(t, again, func(s *meta.State) bool { return s.DestroyedCount() == 0 })
	page, err := bucket.Open().List(t.Context(), objstore.ListRequest{})
	require.NoError(t, err)
	for _, o := range page.Objects {
		_, err := stream.ParseDataKey(stream.DefaultNamespace, o.Key)
		require.Error(t, err, "%s is left", o.Key)
	}
}

// TestANodeCompactsItsOwnObjectsAlthoughNobodyAsksItForAStream: nobody else does as long as it lives, whoever holds the lease.
func TestANodeCompactsItsOwnObjectsAlthoughNobodyAsksItForAStream(t *testing.T) {
	storage, bucket := metatest.NewMemory("c"), mem.NewBucket(time.Now)
	first := newStreamNodeOf(t, 1, storage, func() objstore.Store { return bucket.Open() })
	first.look = time.Hour
	_, err := first.get(t.Context())
	require.NoError(t, err)
	second := newStreamNodeOf(t, 2, storage, func() objstore.Store { return bucket.Open() })
	e, err := second.get(t.Context())
	require.NoError(t, err)
	var streams []*stream.Stream
	for range 2 { // objects of one stream alone are none of a set
		s, err := e.OpenStream(t.Context(), write(t, e), 1)
		require.NoError(t, err)
		streams = append(streams, s)
	}
	for range 4 {
		for _, s := range streams {
			_, err := s.Append(t.Context(), 1, []byte("one"))
			require.NoError(t, err)
		}
		require.NoError(t, e.Upload(t.Context()))
	}
	require.Equal(t, 4, second.log.View().StreamSetCount())
	second.stop(t)

	again := newStreamNodeOf(t, 2, storage, func() objstore.Store { return bucket.Open() })
	again.config.CompactInterval = time.Millisecond
	require.False(t, again.log.Leads())
	again.watch()
	until(t, again, func(s *meta.State) bool { return s.StreamSetCount() == 1 })
}

// TestAnEngineThatFailedIsStartedAgainAlthoughNobodyAsksForAStream: its log must be recovered, so that others can open its streams.
func TestAnEngineThatFailedIsStartedAgainAlthoughNobodyAsksForAStream(t *testing.T) {
	storage, bucket := metatest.NewMemory("c"), mem.NewBucket(time.Now)
	faults := faultstore.New(bucket.Open(), nil)
	n := newStreamNode(t, storage, func() objstore.Store { return faults })
	e, err := n.get(t.Context())
	require.NoError(t, err)
	id := write(t, e)
	s, err := e.OpenStream(t.Context(), id, 1)
	require.NoError(t, err)
	faults.SetInjector(faultstore.When(faultstore.Writes, faultstore.Always(faultstore.Fault{Err: objstore.ErrDenied})))
	_, err = s.Append(t.Context(), 1, []byte("lost"))
	require.ErrorIs(t, err, stream.ErrWALFailed)
	faults.SetInjector(nil)
	until(t, n, func(s *meta.State) bool {
		row, _ := s.Stream(id)
		own, _ := s.Node(1)
		return !row.Opened && row.End == 3 && own.WALEpoch > e.Node().Epoch
	})
}

// TestAHolderOfTheLeaseThatCannotReachTheBucketLeavesItToOthers: they take the dead node over. When it reaches the bucket again it may
// hold the lease again.
func TestAHolderOfTheLeaseThatCannotReachTheBucketLeavesItToOthers(t *testing.T) {
	for name, fault := range map[string]faultstore.Fault{
		"it refuses":      {Err: objstore.ErrDenied},
		"it is away":      {Err: objstore.ErrTransient},
		"it says nothing": {Hook: func(ctx context.Context) { <-ctx.Done() }, Err: objstore.ErrTransient},
	} {
		t.Run(name, func(t *testing.T) {
			storage, bucket := metatest.NewMemory("c"), mem.NewBucket(time.Now)
			mine, faults := faultstore.New(bucket.Open(), nil), faultstore.New(bucket.Open(), nil)
			first := newStreamNodeOf(t, 1, storage, func() objstore.Store { return mine })
			first.ask, first.askTime, first.patience = time.Millisecond, time.Second, 20*time.Millisecond
			left := hearLease(first)
			dead := newStreamNodeOf(t, 2, storage, func() objstore.Store { return faults })
			third := newStreamNodeOf(t, 3, storage, func() objstore.Store { return bucket.Open() })
			for _, n := range []*streamNode{first, dead, third} {
				_, err := n.get(t.Context())
				require.NoError(t, err)
			}
			id := write(t, dead.engine)
			require.True(t, first.log.Leads())
			mine.SetInjector(faultstore.Always(fault))
			dead.kill(t, faults)

			until(t, third, tookOver(2))
			e := <-left
			require.Error(t, e.Err)
			require.Equal(t, observe.LeaseLeftEvent{Err: e.Err, Failing: e.Failing, Pause: firstPause}, e)
			row, _ := third.log.View().Stream(id)
			require.Equal(t, []any{int64(3), false}, []any{row.End, row.Opened})
			require.True(t, third.log.Leads())
			require.False(t, first.log.Leads())

			mine.SetInjector(nil)
			third.stop(t)
			require.Eventually(t, first.log.Leads, time.Minute, time.Millisecond, "nobody else is there")
		})
	}
}

// TestANodeAloneKeepsTheLeaseWhateverItsBucketDoes: there is nobody to leave it to.
func TestANodeAloneKeepsTheLeaseWhateverItsBucketDoes(t *testing.T) {
	storage := metatest.NewMemory("c")
	asked := make(chan struct{}, 1000)
	backend := watchedClaims{storage.Join(), asked}
	store := faultstore.New(mem.New(), nil)
	n := newStreamNodeOver(t, 1, backend, func() objstore.Store { return store })
	n.ask, n.patience = time.Millisecond, time.Millisecond
	left := hearLease(n)
	e, err := n.get(t.Context())
	require.NoError(t, err)
	write(t, e)
	store.SetInjector(faultstore.Always(faultstore.Fault{Err: objstore.ErrTransient}))
	for range 100 {
		<-asked
	}
	require.True(t, n.log.Leads())
	require.Empty(t, left)
	store.SetInjector(nil)
}

// TestNodesThatCannotReachTheBucketLeaveTheLeaseToEachOtherEverMoreRarely: and when they reach it again one holds it soon.
func TestNodesThatCannotReachTheBucketLeaveTheLeaseToEachOtherEverMoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage, bucket := metatest.NewMemory("c"), mem.NewBucket(time.Now)
		var nodes []*streamNode
		var stores []*faultstore.Store
		var left []<-chan observe.LeaseLeftEvent
		for id := range int32(2) {
			l, err := meta.Open(t.Context(), storage.Join(), meta.Options{Node: id})
			require.NoError(t, err)
			m, err := meta.Join(t.Context(), l, meta.MemberOptions{Node: id, Announce: true})
			require.NoError(t, err)
			store := faultstore.New(bucket.Open(), nil)
			n := &streamNode{log: l, streams: newStreams(l, m, streamOptions{
				open: func(context.Context) (objstore.Store, error) { return store, nil }, config: stream.DefaultConfig(),
			})}
			nodes, stores, left = append(nodes, n), append(stores, store), append(left, hearLease(n))
			e, err := n.get(t.Context())
			require.NoError(t, err)
			write(t, e)
		}
		faults := func(in faultstore.Injector) {
			for _, s := range stores {
				s.SetInjector(in)
			}
		}
		leads := func() bool { return nodes[0].log.Leads() || nodes[1].log.Leads() }

		faults(faultstore.When(faultstore.Matching(objstore.OpHead, bucketPrefix+"*"), faultstore.Always(faultstore.Fault{Err: objstore.ErrTransient})))
		for pause := firstPause; pause <= lastPause; pause *= 2 {
			for _, l := range left {
				require.Equal(t, pause, (<-l).Pause)
			}
		}
		for _, l := range left {
			require.Equal(t, lastPause, (<-l).Pause, "it grows no more")
		}
		require.False(t, leads())
		faults(nil)
		<-time.After(askStore + 2*lookForDead) // in a bubble that takes no time
		require.True(t, leads())
		for _, n := range nodes {
			n.stop(t)
		}
	})
}

// watchedClaims says when it is asked who lives.
type watchedClaims struct {
	meta.Backend
	asked chan struct{}
}

func (w watchedClaims) Claims(ctx context.Context, prefix string) (map[string][]byte, error) {
	select {
	case w.asked <- struct{}{}:
	default:
	}
	return w.Backend.Claims(ctx, prefix)
}
