package meta_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/metatest"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// withTables is a log at LevelTables with node 1 at epoch 1.
func withTables(t *testing.T, b meta.Backend, o meta.Options) (*meta.Log, *meta.Tables) {
	t.Helper()
	l := open(t, b, o)
	one := [16]byte{1}
	for _, c := range []meta.Command{
		meta.RegisterNode{Node: 1, ExpectedEpoch: -1, Incarnation: one},
		meta.AnnounceLevel{Node: 1, Incarnation: one, Level: meta.LevelTables},
		meta.RaiseLevel{Level: meta.LevelTables, Nodes: []int32{1}},
	} {
		_, err := l.Do(background, c)
		require.NoError(t, err)
	}
	return l, meta.NewTables(l)
}

func TestTablesAreMadeUsedAndDropped(t *testing.T) {
	storage := metatest.NewMemory("c")
	l, tables := withTables(t, storage.Join(), meta.Options{})
	day, err := tables.Create(background, meta.CreateTable{Name: "days", Partitioned: true, Buckets: 1, Schema: tableSchemas[0]})
	require.NoError(t, err)
	_, err = tables.Create(background, meta.CreateTable{Name: "days", Buckets: 1, Schema: tableSchemas[0]})
	require.ErrorIs(t, err, meta.TableExists)
	version, err := tables.AddSchema(background, day, 0, tableSchemas[1])
	require.NoError(t, err)
	require.EqualValues(t, 1, version)
	_, err = tables.AddSchema(background, day, 1, tableSchemas[3])
	require.ErrorIs(t, err, meta.SchemaIncompatible)
	monday, err := tables.CreatePartition(background, day, "monday")
	require.NoError(t, err)
	require.NoError(t, tables.AddBuckets(background, day, 1, 2))
	require.ErrorIs(t, tables.AddBuckets(background, day, 1, 2), meta.BucketConflict)
	require.ErrorIs(t, tables.AddBuckets(background, day, 3, -1), meta.InvalidArgument)

	coordinator, err := tables.RegisterCoordinator(background, 1, 1, 0)
	require.NoError(t, err)
	bucket := meta.BucketID{Table: day, Partition: monday, Bucket: 2}
	epoch, err := tables.LeadBucket(background, 1, 1, bucket, coordinator)
	require.NoError(t, err)
	require.Zero(t, epoch)
	_, err = tables.LeadBucket(background, 1, 1, bucket, coordinator-1)
	require.ErrorIs(t, err, meta.CoordinatorFenced)
	b, _ := l.View().Bucket(bucket)
	c := meta.NewCatalog(l)
	node := catalog.Node{ID: 1, Epoch: 1}
	row, err := c.OpenStream(background, node, b.Stream, epoch)
	require.NoError(t, err)
	require.Equal(t, epoch, row.Epoch)
	_, err = tables.LeadBucket(background, 1, 1, bucket, coordinator)
	require.NoError(t, err)
	require.NoError(t, c.CloseStream(background, node, b.Stream, epoch))
	_, err = c.OpenStream(background, node, b.Stream, epoch)
	require.ErrorIs(t, err, catalog.ErrStreamFenced)

	left, err := tables.DropPartition(background, day, monday)
	require.NoError(t, err)
	require.Len(t, left, 3)
	for _, d := range left {
		row, _ := c.View().Stream(d.Stream)
		require.NoError(t, c.DeleteStream(background, node, d.Stream, row.Epoch))
	}
	left, err = tables.Drop(background, day)
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = tables.Drop(background, day)
	require.ErrorIs(t, err, meta.TableNotExist)
	require.Zero(t, l.View().DroppedCount())

	look := storage.Join()
	defer look.Close()
	found, err := meta.Inspect(background, look)
	require.NoError(t, err)
	require.Empty(t, found.Findings)
}

func TestTablesAreMadeOnlyOnceEveryNodeUnderstandsThem(t *testing.T) {
	l := raised(t, open(t, metatest.NewMemory("c").Join(), meta.Options{}))
	require.Equal(t, meta.LevelStreams, l.View().Level())
	before := l.View().Index()
	for _, c := range []meta.Command{
		meta.CreateTable{}, meta.DropTable{}, meta.AddSchema{}, meta.CreatePartition{}, meta.DropPartition{}, meta.AddBuckets{},
		meta.LeadBucket{}, meta.RegisterCoordinator{},
	} {
		_, err := l.Do(background, c)
		var level *meta.LevelError
		require.ErrorAs(t, err, &level, "%T", c)
		require.Equal(t, meta.LevelTables, level.Needs)
		require.Equal(t, meta.LevelStreams, level.Level)
	}
	require.Equal(t, before, l.View().Index(), "nothing was proposed")

	old := [16]byte{7}
	_, err := l.Propose(background,
		meta.RegisterNode{Node: 7, ExpectedEpoch: -1, Incarnation: old},
		meta.AnnounceLevel{Node: 7, Incarnation: old, Level: meta.LevelStreams, Build: "v0.1"})
	require.NoError(t, err)
	_, err = l.Do(background, meta.RaiseLevel{Level: meta.LevelTables, Nodes: []int32{7}})
	require.ErrorIs(t, err, meta.LevelTooLow)
	_, err = meta.NewTables(l).Create(background, meta.CreateTable{Name: "t", Buckets: 1, Schema: tableSchemas[0]})
	require.ErrorContains(t, err, `CreateTable needs level 2 and the log is at level 1; node 7 runs "v0.1", which understands level 1`)
}
