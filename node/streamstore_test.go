package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/metatest"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// storeNode opens a node over a file system, and returns it and what its metrics begin with.
func storeNode(t *testing.T, fs vfs.FS, store string) (n *Node, families func() []string) {
	t.Helper()
	metadata := metatest.NewMemory("c").Join()
	t.Cleanup(func() { require.NoError(t, metadata.Close()) })
	n, err := Open(t.Context(), Config{
		DataDir: "/data", FS: fs, Meta: metadata, Store: store, Kafka: []Listener{{Listen: "127.0.0.1:0"}}, MemoryLimit: 1 << 30,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close(context.Background())) })
	return n, func() (names []string) {
		gathered, err := n.reg.Gather()
		require.NoError(t, err)
		for _, f := range gathered {
			names = append(names, f.GetName())
		}
		return names
	}
}

func TestAServerWithoutAStorePaysNothing(t *testing.T) {
	fs := memfs.New()
	n, families := storeNode(t, fs, "")
	_, err := fs.Stat("/data/" + objectsDir)
	require.Error(t, err)
	for _, name := range families() {
		require.NotContains(t, name, "tidemark_stream_")
		require.NotContains(t, name, "tidemark_objstore_")
	}
	engine, err := n.streams.get(t.Context())
	require.NoError(t, err)
	write(t, engine)
	_, err = fs.Stat("/data/" + objectsDir)
	require.NoError(t, err)
	require.Subset(t, families(), []string{
		"tidemark_stream_streams", "tidemark_stream_appended_bytes_total", "tidemark_objstore_requests_total",
	})
}

func TestAServerThatIsGivenAStoreProbesItAtItsStart(t *testing.T) {
	fs := memfs.New()
	n, families := storeNode(t, fs, "file:///objects")
	require.Contains(t, families(), "tidemark_objstore_requests_total")
	require.NotContains(t, families(), "tidemark_stream_streams", "there is none")
	page, err := n.streams.store.List(t.Context(), objstore.ListRequest{})
	require.NoError(t, err)
	require.Empty(t, page.Objects, "the probe leaves nothing")
	require.Equal(t, StreamConfig{}.config(1<<30, n.config.memoryBudgets().streams, localStore), n.streams.config)
}

func TestAStoreThatLacksSomethingIsNamedAndSoIsWhatItLacks(t *testing.T) {
	for want, fault := range map[string]faultstore.Injector{
		`the object store mem:// cannot be used: it lacks put-if-absent: `: faultstore.When(
			faultstore.Matching(objstore.OpPutIfAbsent, "*/*"), faultstore.Always(faultstore.Fault{Err: errors.New("not implemented")})),
		`the object store mem:// denies access: put was asked for: `: faultstore.Always(faultstore.Fault{Err: objstore.ErrDenied}),
	} {
		s := newStreams(nil, nil, streamOptions{open: func(context.Context) (objstore.Store, error) {
			return faultstore.New(mem.New(), fault), nil
		}})
		err := s.openStore(t.Context())
		var store *StoreError
		require.ErrorAs(t, err, &store)
		require.ErrorContains(t, err, want)
	}
}

func TestAStoreThatDoesNotAnswerIsWaitedForUntilTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		failing := 3
		s := newStreams(nil, nil, streamOptions{open: func(context.Context) (objstore.Store, error) {
			return faultstore.New(mem.New(), func(faultstore.Op) faultstore.Fault {
				if failing > 0 {
					failing--
					return faultstore.Fault{Err: objstore.ErrTransient}
				}
				return faultstore.Fault{}
			}), nil
		}})
		require.NoError(t, s.openStore(t.Context()))
		require.Less(t, time.Since(began), storeTime)

		failing = 1 << 30
		s.store = nil
		began = time.Now()
		err := s.openStore(t.Context())
		require.ErrorContains(t, err, "the object store mem:// does not answer: put was asked for: ")
		require.ErrorIs(t, err, objstore.ErrTransient)
		require.Equal(t, storeTime, time.Since(began))
	})
}

func TestAnotherStoreThanTheClustersIsRefused(t *testing.T) {
	storage, right, wrong := metatest.NewMemory("c"), mem.NewBucket(time.Now), mem.NewBucket(time.Now)
	faults := faultstore.New(right.Open(), nil)
	n := newStreamNode(t, storage, func() objstore.Store { return faults })
	e, err := n.get(t.Context())
	require.NoError(t, err)
	id := write(t, e)
	n.kill(t, faults)

	strayed := newStreamNodeOf(t, 2, storage, func() objstore.Store { return wrong.Open() })
	for range 2 {
		var other *WrongStoreError
		require.ErrorAs(t, strayed.reach(t.Context()), &other)
		_, err = strayed.get(t.Context())
		require.ErrorAs(t, err, &other, "its engine would close a log that it cannot see")
	}
	back := newStreamNode(t, storage, func() objstore.Store { return right.Open() })
	_, err = back.get(t.Context())
	require.NoError(t, err)
	row, _ := back.log.View().Stream(id)
	require.EqualValues(t, 3, row.End, "nothing was lost")
}

// TestMetadataWithoutAMarkMarksOnlyTheStoreThatHoldsItsObjects: a log that was not closed, or objects alone.
func TestMetadataWithoutAMarkMarksOnlyTheStoreThatHoldsItsObjects(t *testing.T) {
	for _, killed := range []bool{true, false} {
		storage, right, wrong := metatest.NewMemory("c"), mem.NewBucket(time.Now), mem.NewBucket(time.Now)
		faults := faultstore.New(right.Open(), nil)
		n := newStreamNode(t, storage, func() objstore.Store { return faults })
		e, err := n.get(t.Context())
		require.NoError(t, err)
		write(t, e)
		if killed {
			n.kill(t, faults)
		} else {
			require.NoError(t, n.close(t.Context()))
		}
		strayed := newStreamNodeOf(t, 2, storage, func() objstore.Store { return wrong.Open() })
		_, err = strayed.log.Do(t.Context(), meta.DeleteKv{Key: bucketKey})
		require.NoError(t, err)
		for range 2 {
			_, err = strayed.get(t.Context())
			var other *WrongStoreError
			require.ErrorAs(t, err, &other)
			require.True(t, other.Unmarked)
			require.ErrorContains(t, err, "; use that one, or copy all of its objects into this one")
		}
		_, known := strayed.log.View().Get(bucketKey)
		require.False(t, known)
		dead, _ := strayed.log.View().Node(1)
		require.Equal(t, killed, dead.WALEpoch >= 0, "its log is as it was")
		other := newStreamNodeOf(t, 3, storage, func() objstore.Store { return right.Open() })
		_, err = other.get(t.Context())
		require.NoError(t, err)
		_, known = other.log.View().Get(bucketKey)
		require.True(t, known)
	}
}

func TestStreamsWithoutRecordsAreOfNoStoreYet(t *testing.T) {
	n := newStreamNode(t, metatest.NewMemory("c"), func() objstore.Store { return mem.New() })
	require.NoError(t, n.member.RaiseLevel(t.Context(), meta.LevelStreams))
	_, err := n.streams.log.Do(t.Context(), meta.CreateStreams{Node: 1, NodeEpoch: n.member.Epoch(), Count: 1})
	require.NoError(t, err)
	_, err = n.get(t.Context())
	require.NoError(t, err)
}
