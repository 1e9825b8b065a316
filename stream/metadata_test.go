package stream_test

import (
	"context"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/embedded"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// openMetadata opens the metadata log in a file of a directory, with a clock, and takes commands of streams in. closed ends
// it and lets another process open the file.
func openMetadata(ctx context.Context, t require.TestingT, dir string, now func() time.Time) (c catalog.Catalog, closed func()) {
	backend, err := embedded.Open(filepath.Join(dir, "meta.db"), embedded.Options{ClusterID: "test", Reserve: -1})
	require.NoError(t, err)
	log, err := meta.Open(ctx, backend, meta.Options{Now: now, SnapshotEvery: 100})
	require.NoError(t, err)
	const bystander = 1000 // a node that nobody is, and that understands everything
	_, err = log.Propose(ctx,
		meta.RegisterNode{Node: bystander, ExpectedEpoch: -1, Incarnation: [16]byte{0xFF}},
		meta.AnnounceLevel{Node: bystander, Incarnation: [16]byte{0xFF}, Level: meta.NewestLevel, Build: "test"},
		meta.RaiseLevel{Level: meta.LevelStreams, Nodes: []int32{bystander}})
	require.NoError(t, err)
	return meta.NewCatalog(log), func() {
		log.Close()
		_ = backend.Close()
	}
}
