package stream_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/embedded"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/cloud"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/stream"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// TestMetadataIsMadeAgainFromTheBucketOverAndOver has engines live one after the other, half of them killed, over uploads,
// compactions, trims and deletions, and throws the metadata away after each.
func TestMetadataIsMadeAgainFromTheBucketOverAndOver(t *testing.T) { makeAgain(t, mem.New()) }

// TestMetadataIsMadeAgainInABucket does that in the bucket that the environment names, if it names one.
func TestMetadataIsMadeAgainInABucket(t *testing.T) {
	url := os.Getenv(storeVariable)
	if url == "" {
		t.Logf("%s is not set: no bucket to run against", storeVariable)
		return
	}
	store, err := cloud.Open(t.Context(), url, cloud.Options{PartBytes: cloud.MinPartBytes})
	require.NoError(t, err)
	defer store.Close()
	makeAgain(t, store)
}

func makeAgain(t *testing.T, store objstore.Store) {
	w := newWorld(t, store, store, 0)
	var free map[*modelStream]bool
	var closed func()
	w.catalog, closed = openMetadata(t.Context(), t, t.TempDir(), w.now)
	for life := range number(t, livesVariable, 3) + 2 {
		w.open()
		w.afterRebuild(free)
		w.readAll()
		w.live(life)
		if !w.dying.Load() {
			require.NoError(t, w.engine.Close(t.Context()))
		}
		closed()
		closed, free = w.loseMetadata()
	}
	w.open()
	w.afterRebuild(free)
	w.readAll()
	require.NoError(t, w.engine.Close(t.Context()))
	w.checkRebuilt(nil)
	closed()
}

// loseMetadata puts metadata in place that is made from the bucket alone, and holds it against the model.
func (w *world) loseMetadata() (closed func(), free map[*modelStream]bool) {
	w.wal.SetInjector(nil)
	w.data.SetInjector(nil)
	o := stream.RebuildOptions{WAL: w.wal, Data: w.data, Node: 1}
	made, err := stream.Rebuild(w.Context(), o)
	require.NoError(w, err)
	require.Equal(w, "end-to-end", made.Cluster)
	require.NoError(w, made.Write(w.Context(), o))
	w.Logf("%d streams, %d sets, %d objects, %d replaced, %d copied, %d records logged, %d findings", len(made.Streams),
		len(made.Sets), len(made.Objects), len(made.Replaced), len(made.Copies), made.LoggedRecords, len(made.Findings))
	c, closed := installed(w, made, w.now)
	w.catalog = c
	w.checkRebuilt(made)
	free = map[*modelStream]bool{}
	for _, m := range w.streams {
		free[m] = w.expectRebuilt(m)
	}
	return closed, free
}

// installed is a metadata log that begins with what was rebuilt.
func installed(t require.TestingT, made *stream.Rebuilt, now func() time.Time) (c catalog.Catalog, closed func()) {
	test := t.(*world)
	state, err := meta.Empty().WithStreams(meta.StreamTables{
		Streams: made.Streams, Nodes: made.Nodes, Sets: made.Sets, Objects: made.Objects, NextStream: made.NextStream,
		NextObject: made.NextObject, Reserved: made.Replaced, ReservedUntilMs: now().Add(7 * 24 * time.Hour).UnixMilli(),
	})
	require.NoError(t, err)
	again, err := meta.DecodeSnapshot(state.EncodeSnapshot())
	require.NoError(t, err)
	require.Equal(t, state.EncodeSnapshot(), again.EncodeSnapshot())
	file := filepath.Join(test.TempDir(), "meta.db")
	require.NoError(t, embedded.Restore(file, "end-to-end", state.Index(), state.EncodeSnapshot()))
	backend, err := embedded.Open(file, embedded.Options{Reserve: -1})
	require.NoError(t, err)
	log, err := meta.Open(test.Context(), backend, meta.Options{Now: now, SnapshotEvery: 100})
	require.NoError(t, err)
	return meta.NewCatalog(log), func() {
		require.NoError(t, log.Close())
		require.NoError(t, backend.Close())
	}
}

// expectRebuilt holds a stream against the model, which is told what came back. It reports whether nothing of it had to: then
// it may end earlier than it did.
func (w *world) expectRebuilt(m *modelStream) (free bool) {
	if m.destroying {
		m.id = -1 // whether it is there again does not matter
		return true
	}
	row, exists := w.catalog.View().Stream(m.id)
	trimmed := max(m.start, m.trimming)
	free = trimmed >= m.end()
	if free && !exists {
		m.id, m.destroying = -1, true
		return true
	}
	require.True(w, exists, "stream %d from %d to %d", m.id, m.start, m.end())
	if !free {
		require.LessOrEqual(w, row.Start, trimmed, "stream %d", m.id)
	}
	m.start, m.trimming = row.Start, 0
	return free
}

// afterRebuild takes over that streams which were trimmed to their end may end earlier than they did.
func (w *world) afterRebuild(free map[*modelStream]bool) {
	for _, m := range w.streams {
		for n := len(m.acked); free[m] && n > 0 && m.acked[n-1].end() > m.handle.Confirm(); n-- {
			m.acked = m.acked[:n-1]
		}
	}
}

// checkRebuilt allows objects that a rebuild has left alone, and what an engine is about to delete.
func (w *world) checkRebuilt(made *stream.Rebuilt) {
	for f, err := range stream.Check(w.Context(), stream.CheckOptions{
		Catalog: w.catalog, WAL: w.wal, Data: w.data, Cluster: "end-to-end", Deep: true,
	}) {
		require.NoError(w, err)
		if f.Kind != stream.FoundLeftover && f.Kind != stream.FoundOrphan {
			w.Errorf("%s", f)
		}
	}
}
