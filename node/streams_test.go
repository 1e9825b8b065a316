package node

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/metatest"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/stream"
	streamcatalog "github.com/tidemark-io/tidemark/stream/catalog"
)

// streamNode is the metadata of a node and a bucket, and how often the bucket was opened.
type streamNode struct {
	*streams
	log    *meta.Log
	opened int
	killed bool
}

func newStreamNode(t *testing.T, storage *metatest.Memory, bucket func() objstore.Store) *streamNode {
	return newStreamNodeOf(t, 1, storage, bucket)
}

// newStreamNodeOf is newStreamNode for a node with a number.
func newStreamNodeOf(t *testing.T, id int32, storage *metatest.Memory, bucket func() objstore.Store) *streamNode {
	t.Helper()
	return newStreamNodeOver(t, id, storage.Join(), bucket)
}

// newStreamNodeOver is newStreamNodeOf over a backend of the metadata.
func newStreamNodeOver(t *testing.T, id int32, b meta.Backend, bucket func() objstore.Store) *streamNode {
	t.Helper()
	l, err := meta.Open(t.Context(), b, meta.Options{Node: id})
	require.NoError(t, err)
	m, err := meta.Join(t.Context(), l, meta.MemberOptions{Node: id, Tick: 5 * time.Millisecond, Announce: true})
	require.NoError(t, err)
	n := &streamNode{log: l}
	config := stream.DefaultConfig()
	config.WALBatchInterval = time.Millisecond
	n.streams = newStreams(l, m, streamOptions{
		open:   func(context.Context) (objstore.Store, error) { n.opened++; return bucket(), nil },
		config: config, look: time.Millisecond,
	})
	t.Cleanup(func() {
		if n.killed {
			return
		}
		require.NoError(t, n.close(context.Background()))
		m.Close()
		require.NoError(t, l.Close())
		require.NoError(t, b.Close())
	})
	return n
}

// write makes a stream and appends a record to it.
func write(t *testing.T, e *stream.Engine) streamcatalog.StreamID {
	t.Helper()
	id, err := e.CreateStreams(t.Context(), 1)
	require.NoError(t, err)
	s, err := e.OpenStream(t.Context(), id, 1)
	require.NoError(t, err)
	_, err = s.Append(t.Context(), 3, []byte("three"))
	require.NoError(t, err)
	return id
}

func TestANodeWithoutStreamsPaysNothing(t *testing.T) {
	n := newStreamNode(t, metatest.NewMemory("c"), func() objstore.Store { return mem.New() })
	require.NoError(t, n.close(t.Context()))
	require.Zero(t, n.opened)
	require.Equal(t, meta.LevelTopics, n.log.View().Level())
	_, err := n.get(t.Context())
	require.ErrorIs(t, err, ErrClosed)
}

func TestTheEngineStartsWithTheFirstStreamUnderTheNodesEpoch(t *testing.T) {
	storage, bucket := metatest.NewMemory("c"), mem.NewBucket(time.Now)
	n := newStreamNode(t, storage, func() objstore.Store { return bucket.Open() })
	epoch := n.member.Epoch()
	e, err := n.get(t.Context())
	require.NoError(t, err)
	again, err := n.get(t.Context())
	require.NoError(t, err)
	require.Same(t, e, again)
	require.Equal(t, []any{1, epoch, streamcatalog.Node{ID: 1, Epoch: epoch}}, []any{n.opened, n.member.Epoch(), e.Node()})
	require.GreaterOrEqual(t, n.log.View().Level(), meta.LevelStreams)
	id := write(t, e)
	require.NoError(t, n.close(t.Context()))
	row, _ := n.log.View().Stream(id)
	require.Equal(t, []any{int64(3), false}, []any{row.End, row.Opened})
	node, _ := n.log.View().Node(1)
	require.EqualValues(t, -1, node.WALEpoch, "nothing is left to recover")
}

// TestF60_AStoreThatIsDownDoesNotHoldUpTheEnd: a server is told to end while its bucket answers nothing. It ends in the time
// that it has, and the next one finds all that was acknowledged.
func TestF60_AStoreThatIsDownDoesNotHoldUpTheEnd(t *testing.T) {
	storage, bucket := metatest.NewMemory("c"), mem.NewBucket(time.Now)
	faults := faultstore.New(bucket.Open(), nil)
	n := newStreamNode(t, storage, func() objstore.Store { return faults })
	e, err := n.get(t.Context())
	require.NoError(t, err)
	id := write(t, e)
	faults.SetInjector(faultstore.Always(faultstore.Fault{Err: objstore.ErrTransient}))
	s, err := e.OpenStream(t.Context(), id, 1)
	require.NoError(t, err)
	stuck := make(chan error, 1)
	go func() {
		_, err := s.Append(context.Background(), 1, []byte("nobody was promised this"))
		stuck <- err
	}()
	require.Eventually(t, func() bool { return s.Next() == 4 }, time.Minute, time.Millisecond)

	over, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, n.close(over), context.DeadlineExceeded)
	require.ErrorIs(t, <-stuck, stream.ErrWALFailed, "whoever waits is told")

	n.member.Close() // the process is gone
	next := newStreamNodeOf(t, 1, storage, func() objstore.Store { return bucket.Open() })
	again, err := next.get(t.Context())
	require.NoError(t, err)
	found, err := again.OpenStream(t.Context(), id, 2)
	require.NoError(t, err)
	require.Equal(t, int64(3), found.Confirm())
}

// TestF60_AStartThatWaitsForItsStoreCanBeEnded: the store does not answer, and is waited for; a SIGTERM ends that.
func TestF60_AStartThatWaitsForItsStoreCanBeEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreams(nil, nil, streamOptions{open: func(context.Context) (objstore.Store, error) {
			return faultstore.New(mem.New(), faultstore.Always(faultstore.Fault{Err: objstore.ErrTransient})), nil
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		require.Error(t, s.openStore(ctx))
		require.Equal(t, time.Second, time.Since(began))
	})
}

func TestAnEngineThatFailedIsFollowedByOneOfAnotherEpoch(t *testing.T) {
	storage, bucket := metatest.NewMemory("c"), mem.NewBucket(time.Now)
	faults := faultstore.New(bucket.Open(), nil)
	n := newStreamNode(t, storage, func() objstore.Store { return faults })
	n.look = time.Hour // only the test starts another one
	e, err := n.get(t.Context())
	require.NoError(t, err)
	id, err := e.CreateStreams(t.Context(), 1)
	require.NoError(t, err)
	s, err := e.OpenStream(t.Context(), id, 1)
	require.NoError(t, err)
	faults.SetInjector(faultstore.When(faultstore.Writes, faultstore.Always(faultstore.Fault{Err: objstore.ErrDenied})))
	_, err = s.Append(t.Context(), 1, []byte("lost"))
	require.ErrorIs(t, err, stream.ErrWALFailed)
	faults.SetInjector(nil)

	second, err := n.get(t.Context())
	require.NoError(t, err)
	require.Equal(t, e.Node().Epoch+1, second.Node().Epoch)
	require.Equal(t, second.Node().Epoch, n.member.Epoch(), "producer ids and all else go on under the new one")
	_, err = n.log.Do(t.Context(), meta.AllocateProducerIDs{Node: 1, NodeEpoch: n.member.Epoch(), Count: 1})
	require.NoError(t, err)
	write(t, second)
}

func TestAppendsDoNotWaitBehindAThousandReadsOfTheBucket(t *testing.T) {
	storage := metatest.NewMemory("c")
	gate := faultstore.NewGate(func(op faultstore.Op) bool { return op.Kind == objstore.OpGet && op.Key == "bulk" })
	bucket := faultstore.New(mem.New(), gate.Inject)
	n := newStreamNode(t, storage, func() objstore.Store { return bucket })
	e, err := n.get(t.Context())
	require.NoError(t, err)
	data, calls := n.streams.options().Data, objstore.DefaultCalls()
	var reads sync.WaitGroup
	for range 1000 + calls {
		reads.Go(func() { _, _ = data.Get(t.Context(), "bulk") })
	}
	_, err = gate.Held(t.Context(), calls)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return n.state().StoreWaiting >= 1000 }, time.Minute, time.Millisecond)
	write(t, e)
	held, err := gate.Held(t.Context(), calls)
	require.NoError(t, err)
	require.Len(t, held, calls, "no more than the limit reach the bucket")
	gate.Open()
	reads.Wait()
}
