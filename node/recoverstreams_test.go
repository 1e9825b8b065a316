package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/embedded"
	"github.com/tidemark-io/tidemark/meta/metatest"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/dir"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/stream"
	streamcatalog "github.com/tidemark-io/tidemark/stream/catalog"
	"github.com/tidemark-io/tidemark/vfs"
)

// lostCluster is two nodes with streams in a bucket, which is all that will be left of them.
type lostCluster struct {
	*testing.T
	bucket  string
	log     *meta.Log
	store   *faultstore.Store
	engines []*stream.Engine
	rows    map[streamcatalog.StreamID][]string // that were acknowledged
}

// newLostCluster lets two nodes write, and kills them: one stream is in objects, one was compacted, others are in logs alone.
func newLostCluster(t *testing.T) *lostCluster {
	t.Helper()
	c := &lostCluster{T: t, bucket: t.TempDir(), rows: map[streamcatalog.StreamID][]string{}}
	store, err := dir.Open(vfs.OS(), c.bucket)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	c.store = faultstore.New(store, nil)
	backend := metatest.NewMemory("lost").Join()
	c.log, err = meta.Open(t.Context(), backend, meta.Options{Node: 1})
	require.NoError(t, err)
	m, err := meta.Join(t.Context(), c.log, meta.MemberOptions{Node: 1})
	require.NoError(t, err)
	require.NoError(t, m.RaiseLevel(t.Context(), meta.LevelStreams))
	for node := range 2 {
		e := c.open(meta.NewCatalog(c.log), streamcatalog.NodeID(node+1), m.Incarnation(), c.store)
		c.engines = append(c.engines, e)
		var streams []*stream.Stream
		for range 3 {
			streams = append(streams, c.stream(e))
		}
		for range 3 {
			for _, s := range streams[1:] {
				c.append(s)
			}
			require.NoError(t, e.Upload(t.Context()))
		}
		require.NoError(t, e.Compact(t.Context()))
		for _, s := range streams[:2] {
			c.append(s)
		}
	}
	c.store.SetInjector(faultstore.Always(faultstore.Fault{Err: objstore.ErrDenied}))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, e := range c.engines {
		_ = e.Close(ended)
	}
	m.Close()
	require.NoError(t, c.log.Close())
	require.NoError(t, backend.Close())
	return c
}

func (c *lostCluster) open(
	metadata streamcatalog.Catalog, node streamcatalog.NodeID, incarnation [16]byte, store objstore.Store,
) *stream.Engine {
	c.Helper()
	config := stream.DefaultConfig()
	config.WALBatchInterval = time.Millisecond
	if node != 1 {
		incarnation = [16]byte{}
	}
	e, err := stream.Open(c.Context(), stream.Options{
		Catalog: metadata, Node: node, Cluster: "lost", Incarnation: incarnation, Slots: 1, WAL: store, Data: store,
		Proof: time.Now, Config: config,
	})
	require.NoError(c, err)
	return e
}

func (c *lostCluster) stream(e *stream.Engine) *stream.Stream {
	c.Helper()
	id, err := e.CreateStreams(c.Context(), 1)
	require.NoError(c, err)
	s, err := e.OpenStream(c.Context(), id, 1)
	require.NoError(c, err)
	return s
}

func (c *lostCluster) append(s *stream.Stream) {
	c.Helper()
	row := fmt.Sprintf("%d@%d", s.ID(), s.Next())
	_, err := s.Append(c.Context(), 1, []byte(row))
	require.NoError(c, err)
	c.rows[s.ID()] = append(c.rows[s.ID()], row)
}

// holds opens the recovered metadata of a data directory, as a server would, and reads everything back.
func (c *lostCluster) holds(dataDir string) {
	c.Helper()
	backend, err := embedded.Open(filepath.Join(dataDir, metaFile), embedded.Options{ClusterID: "lost", MustExist: true, Reserve: -1})
	require.NoError(c, err)
	defer func() { require.NoError(c, backend.Close()) }()
	log, err := meta.Open(c.Context(), backend, meta.Options{Node: 1})
	require.NoError(c, err)
	defer func() { require.NoError(c, log.Close()) }()
	for s := range log.View().Streams() {
		require.False(c, s.Opened, "stream %d", s.ID)
	}
	store, err := WriteObjects(c.Context(), c.bucket)
	require.NoError(c, err)
	defer func() { require.NoError(c, store.Close()) }()
	mark, known := log.View().Get(bucketKey)
	require.True(c, known, "metadata knows the bucket again")
	_, err = store.Head(c.Context(), bucketPrefix+string(mark.Value))
	require.NoError(c, err)
	e := c.open(meta.NewCatalog(log), 1, [16]byte{9}, store)
	require.Greater(c, e.Node().Epoch, int64(1))
	for id, want := range c.rows {
		row, known := log.View().Stream(id)
		require.True(c, known)
		s, err := e.OpenStream(c.Context(), id, row.Epoch+1)
		require.NoError(c, err)
		var got []string
		for s.Start()+int64(len(got)) < s.Confirm() {
			f, err := s.Fetch(c.Context(), stream.FetchRequest{Start: s.Start() + int64(len(got)), End: s.Confirm(), MaxBytes: 1 << 20})
			require.NoError(c, err)
			for _, r := range f.Records {
				got = append(got, string(r.Payload))
			}
		}
		require.Equal(c, want, got)
	}
	fresh := c.stream(e)
	require.NotContains(c, c.rows, fresh.ID(), "ids are not given out again")
	require.NoError(c, e.Close(c.Context()))
}

func TestStreamsAreMadeAgainFromTheBucketAlone(t *testing.T) {
	c, dataDir := newLostCluster(t), filepath.Join(t.TempDir(), "new")
	before := contents(t, c.bucket)
	plan, err := RecoverMeta(t.Context(), dataDir, RecoverOptions{Store: c.bucket, NodeID: 1})
	require.NoError(t, err)
	require.Equal(t, before, contents(t, c.bucket), "a dry run changes nothing")
	require.NoDirExists(t, dataDir)
	require.Equal(t, []any{"lost", int32(1)}, []any{plan.ClusterID, plan.NodeID})
	require.Equal(t, []RecoveredLog{{Node: 1, Epoch: 1}, {Node: 2, Epoch: 1}}, plan.Streams.Logs)
	require.Empty(t, plan.Streams.Findings)
	require.Equal(t, []RecoveredStream{
		{ID: 0, End: 1, Epoch: 1}, {ID: 1, ObjectEnd: 3, End: 4, Epoch: 1}, {ID: 2, ObjectEnd: 3, End: 3, Epoch: 1},
		{ID: 3, End: 1, Epoch: 1}, {ID: 4, ObjectEnd: 3, End: 4, Epoch: 1}, {ID: 5, ObjectEnd: 3, End: 3, Epoch: 1},
	}, plan.Streams.Streams)

	_, err = RecoverMeta(t.Context(), dataDir, RecoverOptions{Store: c.bucket, NodeID: 1, Execute: true})
	require.NoError(t, err)
	require.NoFileExists(t, scratchFile(dataDir))
	c.holds(dataDir)
}

// contents are the names and bytes of all files below a directory.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		all[name] = string(b)
		return err
	}))
	return all
}

// TestACrashInTheMiddleOfARecoveryCostsNothing ends recoveries at each write to the bucket, one after the other.
func TestACrashInTheMiddleOfARecoveryCostsNothing(t *testing.T) {
	c, dataDir := newLostCluster(t), t.TempDir()
	base, err := dir.Open(vfs.OS(), c.bucket)
	require.NoError(t, err)
	defer func() { require.NoError(t, base.Close()) }()
	for writes := 0; ; writes++ {
		require.Less(t, writes, 100)
		store := faultstore.New(base, nil)
		r := &streamRecovery{store: store, node: 1, now: time.Now()}
		require.NoError(t, r.look(t.Context(), &RecoverPlan{}, RecoverOptions{}))
		state, err := (&RecoverPlan{NodeID: 1}).state(time.Now().UnixMilli())
		require.NoError(t, err)
		store.SetInjector(faultstore.When(faultstore.Writes, faultstore.FailFrom(writes, objstore.ErrDenied)))
		if state, err = r.finish(t.Context(), store, "lost", state, scratchFile(dataDir)); err != nil {
			require.ErrorIs(t, err, objstore.ErrDenied)
			continue
		}
		t.Logf("whole after %d writes", writes)
		require.NoError(t, MetaSource{DataDir: dataDir}.install(t.Context(), "lost", state))
		break
	}
	c.holds(dataDir)
}
