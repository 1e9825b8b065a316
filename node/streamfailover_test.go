package node

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/metatest"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/observe"
	"github.com/tidemark-io/tidemark/stream"
	streamcatalog "github.com/tidemark-io/tidemark/stream/catalog"
)

// heard are the take-overs that a node told of.
type heard struct {
	mu     sync.Mutex
	events []observe.TakeOverEvent
	came   chan struct{} // receives with each
}

// hear has a node tell of its take-overs. It is called before the node has an engine.
func hear(n *streamNode) *heard {
	h := &heard{came: make(chan struct{}, 1000)}
	n.observe = func(func() observe.StreamState) observe.StreamEvents {
		return observe.StreamEvents{TakeOver: func(e observe.TakeOverEvent) {
			h.mu.Lock()
			defer h.mu.Unlock()
			e.Took = 0
			h.events = append(h.events, e)
			h.came <- struct{}{}
		}}
	}
	return h
}

// hearLease has a node tell when it leaves the lease to others.
func hearLease(n *streamNode) (left chan observe.LeaseLeftEvent) {
	left = make(chan observe.LeaseLeftEvent, 100)
	n.observe = func(func() observe.StreamState) observe.StreamEvents {
		return observe.StreamEvents{LeaseLeft: func(e observe.LeaseLeftEvent) { left <- e }}
	}
	return left
}

func (h *heard) all() []observe.TakeOverEvent {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.events
}

// kill ends a node as by kill -9: nothing is closed, its liveness key and its lease expire, and its store does nothing more.
func (n *streamNode) kill(t *testing.T, store *faultstore.Store) {
	t.Helper()
	n.killed = true
	store.SetInjector(faultstore.Always(faultstore.Fault{Err: objstore.ErrDenied}))
	n.loops.end()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if n.engine != nil {
		require.Error(t, n.engine.Close(ended))
	}
	n.member.Close()
	require.NoError(t, n.log.Close())
}

// stop ends a node in order, before the test ends.
func (n *streamNode) stop(t *testing.T) {
	t.Helper()
	n.killed = true
	require.NoError(t, n.close(t.Context()))
	n.member.Close()
	require.NoError(t, n.log.Close())
}

// until waits until a node's view of the metadata is as wanted.
func until(t *testing.T, n *streamNode, wanted func(*meta.State) bool) {
	t.Helper()
	patience := time.After(time.Minute)
	for {
		changed := n.log.Changes()
		if wanted(n.log.View()) {
			return
		}
		select {
		case <-changed:
		case <-patience:
			require.FailNow(t, "the metadata did not become what was waited for")
		}
	}
}

func tookOver(id int32) func(*meta.State) bool {
	return func(s *meta.State) bool {
		node, known := s.Node(id)
		return known && node.WALEpoch < 0
	}
}

func TestU03_TheLogOfADeadNodeIsTakenOverByTheHolderOfTheLease(t *testing.T) {
	storage, bucket := metatest.NewMemory("c"), mem.NewBucket(time.Now)
	first := newStreamNodeOf(t, 1, storage, func() objstore.Store { return bucket.Open() })
	told := hear(first)
	faults := faultstore.New(bucket.Open(), nil)
	second := newStreamNodeOf(t, 2, storage, func() objstore.Store { return faults })

	e, err := first.get(t.Context())
	require.NoError(t, err)
	e2, err := second.get(t.Context())
	require.NoError(t, err)
	id := write(t, e2)
	require.Empty(t, first.deadLogs(), "it lives")
	second.kill(t, faults)

	until(t, first, tookOver(2))
	<-told.came
	require.Equal(t, []observe.TakeOverEvent{{Node: 2, Try: 1}}, told.all())
	row, _ := first.log.View().Stream(id)
	require.Equal(t, []any{int64(3), false}, []any{row.End, row.Opened}, "what was acknowledged is committed")
	s, err := e.OpenStream(t.Context(), id, 2)
	require.NoError(t, err)
	got, err := s.Fetch(t.Context(), stream.FetchRequest{Start: 0, End: 3, MaxBytes: 100})
	require.NoError(t, err)
	require.Equal(t, "three", string(got.Records[0].Payload))
	require.Empty(t, first.deadLogs())
}

func TestATakeOverThatFailsIsTriedAgain(t *testing.T) {
	storage, bucket := metatest.NewMemory("c"), mem.NewBucket(time.Now)
	mine, faults := faultstore.New(bucket.Open(), nil), faultstore.New(bucket.Open(), nil)
	first := newStreamNodeOf(t, 1, storage, func() objstore.Store { return mine })
	told := hear(first)
	second := newStreamNodeOf(t, 2, storage, func() objstore.Store { return faults })
	_, err := first.get(t.Context())
	require.NoError(t, err)
	e2, err := second.get(t.Context())
	require.NoError(t, err)
	write(t, e2)
	theirs := streamcatalogPrefix(2)
	failing := 2
	mine.SetInjector(func(op faultstore.Op) faultstore.Fault {
		if op.Kind == objstore.OpList && op.Key == theirs && failing > 0 {
			failing--
			return faultstore.Fault{Err: objstore.ErrDenied}
		}
		return faultstore.Fault{}
	})
	second.kill(t, faults)
	until(t, first, tookOver(2))
	for range 3 {
		<-told.came
	}
	var errs []bool
	for i, e := range told.all() {
		require.Equal(t, i+1, e.Try)
		errs = append(errs, e.Err != nil)
	}
	require.Equal(t, []bool{true, true, false}, errs)
	require.NoError(t, first.engine.Err(), "its own engine goes on")
}

// streamcatalogPrefix is what the keys of a node's log begin with.
func streamcatalogPrefix(id streamcatalog.NodeID) string {
	return stream.WALPrefix{Cluster: "c", Node: id}.String()
}

func TestATakeOverEndsWithTheLeaseAndTheNextHolderDoesIt(t *testing.T) {
	storage, bucket := metatest.NewMemory("c"), mem.NewBucket(time.Now)
	mine, faults := faultstore.New(bucket.Open(), nil), faultstore.New(bucket.Open(), nil)
	first := newStreamNodeOf(t, 1, storage, func() objstore.Store { return mine })
	told := hear(first)
	second := newStreamNodeOf(t, 2, storage, func() objstore.Store { return faults })
	third := newStreamNodeOf(t, 3, storage, func() objstore.Store { return bucket.Open() })
	for _, n := range []*streamNode{first, second, third} {
		_, err := n.get(t.Context())
		require.NoError(t, err)
	}
	id := write(t, second.engine)
	gate := faultstore.NewGate(func(op faultstore.Op) bool { return op.Kind == objstore.OpList && op.Key == streamcatalogPrefix(2) })
	mine.SetInjector(gate.Inject)
	second.kill(t, faults)
	_, err := gate.Held(t.Context(), 1)
	require.NoError(t, err)
	require.True(t, storage.Expire(meta.LeaseKey))
	<-told.came
	require.ErrorIs(t, told.all()[0].Err, meta.ErrNotLeading)
	gate.Open()
	until(t, third, tookOver(2))
	row, _ := third.log.View().Stream(id)
	require.Equal(t, []any{int64(3), false}, []any{row.End, row.Opened})
}

// TestANodeThatCameBackWhileTheEngineStartedIsNotTakenOver: to start this node's own engine may take minutes.
func TestANodeThatCameBackWhileTheEngineStartedIsNotTakenOver(t *testing.T) {
	storage, bucket := metatest.NewMemory("c"), mem.NewBucket(time.Now)
	mine, faults := faultstore.New(bucket.Open(), nil), faultstore.New(bucket.Open(), nil)
	first := newStreamNodeOf(t, 1, storage, func() objstore.Store { return mine })
	first.look = time.Hour // the test does it
	told := hear(first)
	second := newStreamNodeOf(t, 2, storage, func() objstore.Store { return faults })
	e, err := first.get(t.Context())
	require.NoError(t, err)
	id, err := e.CreateStreams(t.Context(), 1)
	require.NoError(t, err)
	s, err := e.OpenStream(t.Context(), id, 1)
	require.NoError(t, err)
	e2, err := second.get(t.Context())
	require.NoError(t, err)
	write(t, e2)
	mine.SetInjector(faultstore.When(faultstore.Writes, faultstore.Always(faultstore.Fault{Err: objstore.ErrDenied})))
	_, err = s.Append(t.Context(), 1, []byte("lost"))
	require.ErrorIs(t, err, stream.ErrWALFailed)
	gate := faultstore.NewGate(func(op faultstore.Op) bool { return op.Kind == objstore.OpList && op.Key == streamcatalogPrefix(1) })
	mine.SetInjector(gate.Inject)
	second.kill(t, faults)
	require.Eventually(t, func() bool { return first.isDead(2) }, time.Minute, time.Millisecond)

	done := make(chan error, 1)
	go func() { done <- first.takeOver(t.Context(), 2, 1) }()
	_, err = gate.Held(t.Context(), 1)
	require.NoError(t, err)
	back := newStreamNodeOf(t, 2, storage, func() objstore.Store { return bucket.Open() })
	require.Eventually(t, func() bool { return !first.isDead(2) }, time.Minute, time.Millisecond)
	gate.Open()
	require.NoError(t, <-done)
	node, _ := first.log.View().Node(2)
	require.Equal(t, back.member.Epoch(), node.Epoch, "it is not fenced")
	require.GreaterOrEqual(t, node.WALEpoch, int64(0), "its log is its own to recover")
	require.Empty(t, told.all(), "there was no take-over")
}

func TestU03_AHolderOfTheLeaseThatWasNeverAskedForAStreamTakesOver(t *testing.T) {
	storage, bucket := metatest.NewMemory("c"), mem.NewBucket(time.Now)
	first := newStreamNodeOf(t, 1, storage, func() objstore.Store { return bucket.Open() })
	told := hear(first)
	faults := faultstore.New(bucket.Open(), nil)
	second := newStreamNodeOf(t, 2, storage, func() objstore.Store { return faults })
	first.watch()
	require.Zero(t, first.opened)
	e, err := second.get(t.Context())
	require.NoError(t, err)
	id := write(t, e)
	second.kill(t, faults)

	until(t, first, tookOver(2))
	<-told.came
	require.Equal(t, []observe.TakeOverEvent{{Node: 2, Try: 1}}, told.all())
	require.Equal(t, 1, first.opened)
	row, _ := first.log.View().Stream(id)
	require.Equal(t, []any{int64(3), false}, []any{row.End, row.Opened})
}

// TestATakeOverByANodeThatCannotReachTheBucketIsTold: it has no engine that could tell.
func TestATakeOverByANodeThatCannotReachTheBucketIsTold(t *testing.T) {
	storage, bucket := metatest.NewMemory("c"), mem.NewBucket(time.Now)
	first := newStreamNodeOf(t, 1, storage, func() objstore.Store { return mem.New() })
	told := hear(first)
	faults := faultstore.New(bucket.Open(), nil)
	second := newStreamNodeOf(t, 2, storage, func() objstore.Store { return faults })
	first.watch()
	e, err := second.get(t.Context())
	require.NoError(t, err)
	write(t, e)
	second.kill(t, faults)
	<-told.came
	var wrong *WrongStoreError
	require.ErrorAs(t, told.all()[0].Err, &wrong)
}

// TestALogThatAnEarlierProcessLeftIsRecoveredAtTheStart: nobody has to ask for a stream, so that others may open those of it.
func TestALogThatAnEarlierProcessLeftIsRecoveredAtTheStart(t *testing.T) {
	storage, bucket := metatest.NewMemory("c"), mem.NewBucket(time.Now)
	faults := faultstore.New(bucket.Open(), nil)
	first := newStreamNodeOf(t, 1, storage, func() objstore.Store { return faults })
	e, err := first.get(t.Context())
	require.NoError(t, err)
	id := write(t, e)
	first.kill(t, faults)

	again := newStreamNodeOf(t, 1, storage, func() objstore.Store { return bucket.Open() })
	told := hear(again)
	again.watch()
	until(t, again, func(s *meta.State) bool {
		row, _ := s.Stream(id)
		own, _ := s.Node(1)
		return row.End == 3 && !row.Opened && own.WALEpoch == again.member.Epoch()
	})
	_, err = again.get(t.Context())
	require.NoError(t, err)
	require.NoError(t, again.close(t.Context()))
	require.Empty(t, told.all(), "nobody else was taken over")
	require.Equal(t, 1, again.opened)
}

func TestANodeInAClusterWithoutStreamsPaysNothing(t *testing.T) {
	storage := metatest.NewMemory("c")
	n := newStreamNodeOf(t, 1, storage, func() objstore.Store { return mem.New() })
	told := hear(n)
	n.watch()
	other := newStreamNodeOf(t, 2, storage, func() objstore.Store { return mem.New() })
	other.stop(t)
	require.Eventually(t, func() bool { return n.member.Buried(2) }, time.Minute, time.Millisecond)
	_, err := n.log.Do(t.Context(), meta.PutKv{Key: "k", Value: []byte("v")})
	require.NoError(t, err)
	require.NoError(t, n.close(t.Context()))
	require.Zero(t, n.opened)
	require.Equal(t, meta.LevelTopics, n.log.View().Level())
	require.Empty(t, told.all())
}

// TestFencesOfANodeThatNeverComesBackAreRemovedByALaterHolderOfTheLease: who took it over ends long before they are old.
func TestFencesOfANodeThatNeverComesBackAreRemovedByALaterHolderOfTheLease(t *testing.T) {
	storage, bucket := metatest.NewMemory("c"), mem.NewBucket(time.Now)
	first := newStreamNodeOf(t, 1, storage, func() objstore.Store { return bucket.Open() })
	faults := faultstore.New(bucket.Open(), nil)
	second := newStreamNodeOf(t, 2, storage, func() objstore.Store { return faults })
	for _, n := range []*streamNode{first, second} {
		_, err := n.get(t.Context())
		require.NoError(t, err)
	}
	write(t, second.engine)
	until(t, first, func(s *meta.State) bool { // otherwise it may not know yet that there is a log
		node, _ := s.Node(2)
		return node.WALEpoch >= 0
	})
	second.kill(t, faults)
	until(t, first, tookOver(2))
	first.stop(t)
	left := func() int {
		page, err := bucket.Open().List(t.Context(), objstore.ListRequest{Prefix: streamcatalogPrefix(2)})
		require.NoError(t, err)
		return len(page.Objects)
	}
	require.Equal(t, 1, left(), "the fence")

	third := newStreamNodeOf(t, 3, storage, func() objstore.Store { return bucket.Open() })
	third.config.WALFenceRetention = time.Nanosecond // it is old by now
	third.clean = time.Millisecond
	third.watch()
	require.Eventually(t, func() bool { return left() == 0 }, time.Minute, time.Millisecond)
}

// TestAProcessThatHasLostItsNodeDoesNotTakeItBack: it was away for so long that another process runs under the same id, and does
// not know that yet.
func TestAProcessThatHasLostItsNodeDoesNotTakeItBack(t *testing.T) {
	for _, had := range []bool{true, false} { // an engine
		storage, bucket := metatest.NewMemory("c"), mem.NewBucket(time.Now)
		first := newStreamNode(t, storage, func() objstore.Store { return bucket.Open() })
		if had {
			_, err := first.get(t.Context())
			require.NoError(t, err)
		}
		first.member.Close() // it is away: nobody looks after its place
		second := newStreamNode(t, storage, func() objstore.Store { return bucket.Open() })
		e, err := second.get(t.Context())
		require.NoError(t, err)
		write(t, e)
		if had {
			_, err := first.engine.CreateStreams(t.Context(), 1)
			require.ErrorIs(t, err, stream.ErrFenced)
		}
		_, err = first.get(t.Context())
		require.ErrorIs(t, err, streamcatalog.ErrNodeEpochMismatch)
		node, _ := second.log.View().Node(1)
		require.Equal(t, second.member.Epoch(), node.Epoch)
		write(t, e)
		first.killed = true
		_ = first.close(t.Context()) // it may say again why
		require.NoError(t, first.log.Close())
	}
}
