package node

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta/metatest"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/stream"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// overdue is a context whose deadline passes when done is closed.
type overdue struct {
	context.Context
	done chan struct{}
}

func (o overdue) Done() <-chan struct{} { return o.done }

func (o overdue) Err() error {
	select {
	case <-o.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestF60_AStopWhileTheObjectStoreDoesNotAnswerEndsAndLosesNothing(t *testing.T) {
	fs, bucket, metadata := memfs.New(), mem.NewBucket(time.Now), metatest.NewMemory("c")
	silent := faultstore.NewGate(func(faultstore.Op) bool { return true })
	store := faultstore.New(bucket.Open(), nil)
	backend := metadata.Join()
	n, err := Open(t.Context(), Config{DataDir: "/data", FS: fs, Meta: backend, NodeID: 1, Kafka: []Listener{{Listen: "127.0.0.1:0"}}})
	require.NoError(t, err)
	n.streams.open = func(context.Context) (objstore.Store, error) { return store, nil }
	engine, err := n.streams.get(t.Context())
	require.NoError(t, err)
	id := write(t, engine) // acknowledged, and in the log alone

	store.SetInjector(silent.Inject)
	over := overdue{context.Background(), make(chan struct{})}
	go func() {
		defer close(over.done)
		_, _ = silent.Held(t.Context(), 1)
	}()
	n.late = time.Hour  // the rest of the close waits for nobody
	err = n.Close(over) // which returns, although nothing answers
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.EqualError(t, err, "node: closing streams: the object store mem:// did not answer in time; what was acknowledged is in it, "+
		"and the next start recovers it: context deadline exceeded")
	require.NoError(t, backend.Close())

	next := newStreamNode(t, metadata, func() objstore.Store { return bucket.Open() })
	engine, err = next.get(t.Context())
	require.NoError(t, err)
	s, err := engine.OpenStream(t.Context(), id, 2)
	require.NoError(t, err)
	got, err := s.Fetch(t.Context(), stream.FetchRequest{Start: 0, End: 3, MaxBytes: 1 << 20})
	require.NoError(t, err)
	require.Len(t, got.Records, 1)
	require.Equal(t, "three", string(got.Records[0].Payload))
}

// The start of a server waits for a store that does not answer, for a while; a stop meanwhile ends it at once.
func TestF60_AStopOfAStartThatWaitsForTheObjectStoreEndsIt(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	require.NoError(t, err)
	t.Setenv("AWS_ACCESS_KEY_ID", "x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	backend := metatest.NewMemory("c").Join()
	ctx, stop := context.WithCancel(t.Context())
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		for {
			c, err := silent.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			stop()
		}
	}()
	_, err = Open(ctx, Config{
		DataDir: "/data", FS: memfs.New(), Meta: backend, Kafka: []Listener{{Listen: "127.0.0.1:0"}},
		Store: "s3://bucket?region=x&use_path_style=true&endpoint=http://" + silent.Addr().String(),
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, silent.Close())
	<-asked
	require.NoError(t, backend.Close())
}
