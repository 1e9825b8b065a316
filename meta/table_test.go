package meta

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta/tableschema"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// schema is that of a table with one column of text, and those given.
func schema(more ...SchemaColumn) []byte {
	return EncodeTestSchema(append([]SchemaColumn{{ID: 1, Name: "v"}}, more...)...)
}

// table creates a table of a name, without partitions, of so many buckets.
func table(name string, buckets uint32) CreateTable {
	return CreateTable{Name: name, Buckets: buckets, Options: []byte(`{"k":1}`), Schema: schema()}
}

func partitioned(name string, buckets uint32) CreateTable {
	c := table(name, buckets)
	c.Partitioned, c.Kind = true, PrimaryKeyTable
	return c
}

func streams(ids ...catalog.StreamID) []catalog.StreamID { return ids }

// twoNodes is a state with nodes 1 and 2, both at epoch 1.
func twoNodes(t *testing.T) *State {
	return play(t, Empty(),
		step{RegisterNode{Node: 1, ExpectedEpoch: -1, Incarnation: [16]byte{1}, Slots: 1}, Result{ID: 1}},
		step{RegisterNode{Node: 2, ExpectedEpoch: -1, Incarnation: [16]byte{2}, Slots: 1}, Result{ID: 1}},
	)
}

// requireTablesInOrder checks the invariants, and that a snapshot keeps all of it.
func requireTablesInOrder(t testing.TB, s *State) {
	t.Helper()
	require.Empty(t, slices.Collect(s.CheckTables()))
	b := s.EncodeSnapshot()
	again, err := DecodeSnapshot(b)
	require.NoError(t, err)
	require.Equal(t, s.dump(), again.dump())
	require.Equal(t, b, again.EncodeSnapshot())
}

func TestCAT1_ATableComesWithItsSchemaAndAStreamForEachBucket(t *testing.T) {
	s := twoNodes(t)
	s = play(t, s, step{CreateStreams{Node: 1, NodeEpoch: 1, Count: 2}, Result{ID: 0, Count: 2}},
		step{table("orders", 3), Result{ID: 1, Streams: streams(2, 3, 4)}},
		step{table("orders", 3), Result{Code: TableExists, Detail: `"orders"`}},
		step{partitioned("by.day_-", 2), Result{ID: 2}},
		step{table("next", 1), Result{ID: 3, Streams: streams(5)}},
	)
	got, ok := s.Table("orders")
	require.True(t, ok)
	byID, _ := s.TableByID(1)
	require.Equal(t, got, byID)
	require.Equal(t, []any{TableID(1), "orders", LogTable, false, int32(3), []byte(`{"k":1}`), int64(1000), int16(0), 1},
		[]any{got.ID, got.Name, got.Kind, got.Partitioned, got.Buckets, got.Options, got.CreatedMs, got.NewestSchema(),
			got.PartitionCount()})
	version0, ok := got.Schema(0)
	require.True(t, ok)
	require.Equal(t, schema(), version0)
	_, ok = got.Schema(1)
	require.False(t, ok)
	columns, ok := got.Columns(0)
	require.True(t, ok)
	require.Equal(t, []tableschema.Column{{ID: 1, Field: tableschema.Field{
		Name: "v", Nullable: true, Type: tableschema.Type{Kind: tableschema.Utf8},
	}}}, columns)
	_, ok = got.Columns(1)
	require.False(t, ok)
	for n, stream := range streams(2, 3, 4) {
		id := BucketID{1, NoPartition, int32(n)}
		b, ok := s.Bucket(id)
		require.True(t, ok)
		require.Equal(t, Bucket{Stream: stream, LeaderEpoch: -1, Node: -1}, b)
		of, ok := s.BucketOf(stream)
		require.True(t, ok)
		require.Equal(t, id, of)
		row, ok := s.Stream(stream)
		require.True(t, ok)
		require.Equal(t, catalog.Stream{ID: stream, Epoch: -1, Node: -1}, row)
	}
	_, ok = s.BucketOf(0)
	require.False(t, ok)
	_, ok = s.Bucket(BucketID{1, NoPartition, 3})
	require.False(t, ok)
	_, ok = s.Bucket(BucketID{9, NoPartition, 0})
	require.False(t, ok)
	parted, _ := s.Table("by.day_-")
	require.Equal(t, 0, parted.PartitionCount())
	require.Equal(t, 3, s.TableCount())
	require.Equal(t, []*Table{got, parted}, slices.Collect(s.Tables())[:2])
	requireTablesInOrder(t, s)
}

func TestCAT1_WhatNoTableCanBeIsRefused(t *testing.T) {
	invalid := func(change func(*CreateTable), detail string) {
		t.Helper()
		c := table("t", 1)
		change(&c)
		play(t, Empty(), step{c, Result{Code: InvalidArgument, Detail: detail}})
	}
	for _, name := range []string{"", "a b", "a/b", "ä", "a\x00", strings.Repeat("n", 250)} {
		invalid(func(c *CreateTable) { c.Name = name }, "not a legal table name")
	}
	for _, name := range []string{".", "..", "-", "A.z-0_9", strings.Repeat("n", 249)} {
		play(t, Empty(), step{table(name, 1), Result{ID: 1, Streams: streams(0)}})
	}
	invalid(func(c *CreateTable) { c.Kind = 2 }, "there is no kind 2")
	invalid(func(c *CreateTable) { c.Buckets = 0 }, "1 to 4096 buckets, not 0")
	invalid(func(c *CreateTable) { c.Buckets = 4097 }, "1 to 4096 buckets, not 4097")
	invalid(func(c *CreateTable) { c.Options = make([]byte, MaxTableOptionsBytes+1) }, "at most 65536 bytes")
	invalid(func(c *CreateTable) { c.Schema = nil }, "not an Arrow IPC message")
	invalid(func(c *CreateTable) { c.Schema = c.Schema[:len(c.Schema)-1] }, "the schema: ")
	invalid(func(c *CreateTable) { c.Schema = make([]byte, tableschema.MaxBytes+1) }, "at most 262144 bytes")
	invalid(func(c *CreateTable) { c.Schema = schema(SchemaColumn{2, "w", arrow.BinaryTypes.StringView}) }, "text view")
	invalid(func(c *CreateTable) { c.Schema = schema(SchemaColumn{1, "w", nil}) }, "field id 1 appears twice")
	s := play(t, Empty(), step{partitioned("t", MaxBuckets), Result{ID: 1}})
	require.Empty(t, slices.Collect(s.Streams()))
}

func TestCAT2_ASchemaFollowsTheNewestOneOrIsRefused(t *testing.T) {
	s := play(t, Empty(), step{table("t", 1), Result{ID: 1, Streams: streams(0)}})
	two := schema(SchemaColumn{2, "n", arrow.PrimitiveTypes.Int32})
	wide := schema(SchemaColumn{2, "number", arrow.PrimitiveTypes.Int64})
	add := func(last int16, b []byte) AddSchema { return AddSchema{Table: 1, ExpectedLast: last, Schema: b} }
	s = play(t, s,
		step{AddSchema{Table: 2, ExpectedLast: 0, Schema: two}, Result{Code: TableNotExist, Detail: "2"}},
		step{add(0, schema()), Result{ID: 0}}, // a retry of CreateTable's
		step{add(7, schema()), Result{ID: 0}}, // whatever it expected
		step{add(-1, two), Result{Code: SchemaConflict, Detail: "is 0, expected -1"}},
		step{add(1, two), Result{Code: SchemaConflict, Detail: "is 0, expected 1"}},
		step{add(0, two), Result{ID: 1}},
		step{add(0, two), Result{ID: 1}}, // the reply was lost
		step{add(0, schema()), Result{Code: SchemaConflict}},
		step{add(1, nil), Result{Code: InvalidArgument, Detail: "the schema: "}},
		step{add(1, schema(SchemaColumn{2, "n", arrow.PrimitiveTypes.Int8})), Result{Code: SchemaIncompatible, Detail: "wider"}},
		step{add(1, wide), Result{ID: 2}},     // renamed and widened
		step{add(2, schema()), Result{ID: 3}}, // dropped, and equal to an older version
		step{add(3, two), Result{Code: SchemaIncompatible, Detail: "field id 2, which an earlier version had"}},
		step{add(3, schema(SchemaColumn{3, "n", nil})), Result{ID: 4}},
	)
	got, _ := s.TableByID(1)
	for version, want := range [][]byte{schema(), two, wide, schema(), schema(SchemaColumn{3, "n", nil})} {
		b, ok := got.Schema(int16(version))
		require.True(t, ok)
		require.Equal(t, want, b)
	}
	requireTablesInOrder(t, s)
	again, err := DecodeSnapshot(s.EncodeSnapshot())
	require.NoError(t, err)
	play(t, again, step{add(4, schema(SchemaColumn{2, "n", nil})), Result{Code: SchemaIncompatible, Detail: "earlier version"}})
}

func TestCAT2_TheLastSchemaIsVersion32767(t *testing.T) {
	s := play(t, Empty(), step{table("t", 1), Result{ID: 1, Streams: streams(0)}})
	full, _ := s.TableByID(1)
	worn := *full
	var b treeBuilder[int16, []byte]
	for version := range MaxSchemaVersion {
		b.add(int16(version), schema())
	}
	worn.schemas = b.tree()
	tr := transition{next: *s}
	tr.putTable(&worn)
	last := schema(SchemaColumn{2, "n", nil})
	play(t, &tr.next,
		step{AddSchema{Table: 1, ExpectedLast: MaxSchemaVersion - 1, Schema: last}, Result{ID: MaxSchemaVersion}},
		step{AddSchema{Table: 1, ExpectedLast: MaxSchemaVersion, Schema: last}, Result{ID: MaxSchemaVersion}},
		step{AddSchema{Table: 1, ExpectedLast: MaxSchemaVersion, Schema: schema()}, Result{Code: SchemaLimit, Detail: "32768"}},
	)
}

func TestCAT3_PartitionsAndBucketsGetStreamsAndKeepTheirOwn(t *testing.T) {
	day := func(table TableID, key string) CreatePartition { return CreatePartition{Table: table, Key: key} }
	s := play(t, Empty(),
		step{partitioned("p", 2), Result{ID: 1}},
		step{table("t", 2), Result{ID: 2, Streams: streams(0, 1)}},
		step{day(9, "monday"), Result{Code: TableNotExist}},
		step{day(2, "monday"), Result{Code: InvalidArgument, Detail: "not partitioned"}},
		step{day(1, ""), Result{Code: InvalidArgument, Detail: "1 to 512 bytes, not 0"}},
		step{day(1, strings.Repeat("k", 513)), Result{Code: InvalidArgument, Detail: "not 513"}},
		step{day(1, "monday"), Result{ID: 0, Streams: streams(2, 3)}},
		step{day(1, "monday"), Result{Code: PartitionExists, Detail: "partition 0"}},
		step{day(1, "tuesday"), Result{ID: 1, Streams: streams(4, 5)}},
		step{AddBuckets{Table: 9, Expected: 2, Count: 1}, Result{Code: TableNotExist}},
		step{AddBuckets{Table: 1, Expected: 3, Count: 1}, Result{Code: BucketConflict, Detail: "has 2 buckets, expected 3"}},
		step{AddBuckets{Table: 1, Expected: 2, Count: 0}, Result{Code: InvalidArgument}},
		step{AddBuckets{Table: 1, Expected: 2, Count: 2}, Result{Streams: streams(6, 7, 8, 9)}},
		step{AddBuckets{Table: 1, Expected: 2, Count: 2}, Result{Code: BucketConflict, Detail: "has 4"}}, // never twice
		step{AddBuckets{Table: 2, Expected: 2, Count: 1}, Result{Streams: streams(10)}},
		step{day(1, "wednesday"), Result{ID: 2, Streams: streams(11, 12, 13, 14)}},
		step{AddBuckets{Table: 2, Expected: 3, Count: 4094}, Result{Code: InvalidArgument, Detail: "1 to 4096"}},
		step{AddBuckets{Table: 1, Expected: 4, Count: 1366}, Result{Code: InvalidArgument, Detail: "at once, not 4098"}},
		step{AddBuckets{Table: 2, Expected: 3, Count: math.MaxUint32}, Result{Code: InvalidArgument}},
		step{DropPartition{Table: 1, Partition: 1}, Result{Streams: streams(4, 5, 8, 9)}},
		step{day(1, "tuesday"), Result{ID: 3, Streams: streams(15, 16, 17, 18)}}, // another one of the same key
	)
	got, _ := s.TableByID(1)
	var where []string
	for p := range got.Partitions() {
		byKey, _ := got.PartitionOf(p.Key)
		require.Equal(t, p, byKey)
		for n, b := range p.Buckets() {
			where = append(where, fmt.Sprintf("%s %s=%d", BucketID{1, p.ID, n}, p.Key, b.Stream))
		}
	}
	require.Equal(t, []string{
		"1/0/0 monday=2", "1/0/1 monday=3", "1/0/2 monday=6", "1/0/3 monday=7",
		"1/2/0 wednesday=11", "1/2/1 wednesday=12", "1/2/2 wednesday=13", "1/2/3 wednesday=14",
		"1/3/0 tuesday=15", "1/3/1 tuesday=16", "1/3/2 tuesday=17", "1/3/3 tuesday=18",
	}, where)
	requireTablesInOrder(t, s)
}

func TestCAT4_ATombstoneStaysUntilStreamAndSnapshotAreGone(t *testing.T) {
	s := play(t, twoNodes(t),
		step{table("t", 2), Result{ID: 1, Streams: streams(0, 1)}},
		step{partitioned("p", 1), Result{ID: 2}},
		step{CreatePartition{Table: 2, Key: "k"}, Result{ID: 0, Streams: streams(2)}},
		step{LeadBucket{Node: 1, NodeEpoch: 1, Bucket: BucketID{1, NoPartition, 0}}, Result{ID: 0}},
	)
	root, piece := BucketID{1, NoPartition, 0}.WriterSnapshotKey(), BucketID{1, NoPartition, 0}.WriterSnapshotKey()+"/303/0"
	require.Equal(t, "mink/writers/1/-/0", root)
	require.Equal(t, "mink/writers/2/0/0", BucketID{2, 0, 0}.WriterSnapshotKey())
	s, _ = s.Apply(s.index+1, Entry{NowMs: 2000, Commands: []Command{
		OpenStream{Node: 1, NodeEpoch: 1, Stream: 0, Epoch: 0}, PutKv{Key: root, Value: []byte("{}")},
		PutKv{Key: piece, Value: []byte("1")}, PutKv{Key: "mink/writers/1/-/00", Value: []byte{}}, PutKv{Key: "mink/writers/1", Value: []byte{}},
	}})
	s = play(t, s,
		step{DeleteStream{Node: 1, NodeEpoch: 1, Stream: 1, Epoch: -1}, Result{Code: InvalidArgument, Detail: "is bucket 1/-/1"}},
		step{DropPartition{Table: 2, Partition: 1}, Result{Code: PartitionNotExist}},
		step{DropPartition{Table: 1, Partition: NoPartition}, Result{Code: PartitionNotExist}},
		step{DropPartition{Table: 9, Partition: 0}, Result{Code: TableNotExist}},
		step{DropPartition{Table: 2, Partition: 0}, Result{Streams: streams(2)}},
		step{DropPartition{Table: 2, Partition: 0}, Result{Code: PartitionNotExist}},
		step{DropTable{Table: 1}, Result{Streams: streams(0, 1)}},
		step{DropTable{Table: 1}, Result{Code: TableNotExist, Detail: "1"}},
		step{AddBuckets{Table: 1, Expected: 2, Count: 1}, Result{Code: TableNotExist}},
		step{LeadBucket{Node: 1, NodeEpoch: 1, Bucket: BucketID{1, NoPartition, 0}}, Result{Code: TableNotExist}},
		step{LeadBucket{Node: 1, NodeEpoch: 1, Bucket: BucketID{2, 0, 0}}, Result{Code: PartitionNotExist}},
		step{OpenStream{Node: 2, NodeEpoch: 1, Stream: 1, Epoch: 5}, Result{Code: StreamNotExist, Detail: `table "t", which was dropped`}},
		step{OpenStream{Node: 1, NodeEpoch: 1, Stream: 0, Epoch: 0}, Result{Code: StreamNotExist, Detail: `table "t", which was dropped`}},
		step{table("t", 1), Result{ID: 3, Streams: streams(3)}}, // the name is free, the id is another
	)
	_, known := s.TableByID(1)
	require.False(t, known)
	_, known = s.BucketOf(0)
	require.False(t, known)
	left := func(s *State) (ids []string) {
		for d := range s.Dropped() {
			require.Equal(t, int64(2000), d.DroppedMs)
			ids = append(ids, fmt.Sprintf("%s %s %d", d.Name, d.BucketID, d.Stream))
		}
		require.Equal(t, len(ids), s.DroppedCount())
		requireTablesInOrder(t, s)
		return ids
	}
	require.Equal(t, []string{"t 1/-/0 0", "t 1/-/1 1", "p 2/0/0 2"}, left(s))

	s = play(t, s,
		step{DeleteStream{Node: 2, NodeEpoch: 1, Stream: 1, Epoch: -1}, Result{}},
		step{DeleteStream{Node: 2, NodeEpoch: 1, Stream: 2, Epoch: -1}, Result{}},
	)
	require.Equal(t, []string{"t 1/-/0 0"}, left(s))
	s = play(t, s,
		step{CloseStream{Node: 1, NodeEpoch: 1, Stream: 0, Epoch: 0}, Result{}},
		step{DeleteStream{Node: 1, NodeEpoch: 1, Stream: 0, Epoch: 0}, Result{}},
		step{DeleteStream{Node: 1, NodeEpoch: 1, Stream: 0, Epoch: 0}, Result{}}, // each step may be repeated
	)
	require.Equal(t, []string{"t 1/-/0 0"}, left(s), "the snapshot of its writers is there")
	s = play(t, s, step{DeleteKv{Key: root}, Result{Value: []byte("{}"), Version: 1}})
	require.Equal(t, []string{"t 1/-/0 0"}, left(s), "a piece of it is there")
	matching := play(t, s, step{DeleteKvIfMatches{Key: piece, Value: []byte("1")}, Result{Value: []byte("1"), Version: 2}})
	require.Empty(t, left(matching))
	s = play(t, s, step{DeleteKv{Key: piece}, Result{Value: []byte("1"), Version: 2}})
	require.Empty(t, left(s))
	last, _ := s.Table("t")
	require.Equal(t, TableID(3), last.ID)
	s = play(t, s, step{DropTable{Table: 3}, Result{Streams: streams(3)}},
		step{DeleteStream{Node: 1, NodeEpoch: 1, Stream: 3, Epoch: -1}, Result{}})
	again, err := DecodeSnapshot(s.EncodeSnapshot())
	require.NoError(t, err)
	play(t, again, step{table("t", 1), Result{ID: 4, Streams: streams(4)}}) // ids are never given again
}

// TestF52_ASnapshotOfWritersIsOfALiveBucket: what comes late, when the bucket is gone, would never be removed again.
func TestF52_ASnapshotOfWritersIsOfALiveBucket(t *testing.T) {
	level := []step{
		{AnnounceLevel{Node: 1, Incarnation: [16]byte{1}, Level: LevelTables}, Result{}},
		{AnnounceLevel{Node: 2, Incarnation: [16]byte{2}, Level: LevelTables}, Result{}},
		{RaiseLevel{Level: LevelTables, Nodes: []int32{1, 2}}, Result{ID: 2}},
	}
	s := play(t, twoNodes(t), append(level, step{table("t", 1), Result{ID: 1, Streams: streams(0)}},
		step{partitioned("p", 1), Result{ID: 2}}, step{CreatePartition{Table: 2, Key: "k"}, Result{ID: 0, Streams: streams(1)}})...)
	root, part := BucketID{1, NoPartition, 0}.WriterSnapshotKey(), BucketID{2, 0, 0}.WriterSnapshotKey()
	written := play(t, s,
		step{CasKv{Key: root}, Result{Version: 1, Swapped: true}},
		step{PutKv{Key: part + "/7/0"}, Result{Version: 2}},
		step{PutKvIfAbsent{Key: "mink/writers"}, Result{Version: 3}}, // of no bucket
	)
	require.Equal(t, 3, written.kv.len())
	refused := func(s *State, keys ...string) {
		t.Helper()
		for _, key := range keys {
			for _, c := range []Command{CasKv{Key: key}, CasKv{Key: key, Expected: 1}, PutKv{Key: key}, PutKvIfAbsent{Key: key}} {
				_, results := s.Apply(s.index+1, Entry{NowMs: 1000, Commands: []Command{c}})
				require.Equal(t, TableNotExist, results[0].Code, "%+v: %s", c, results[0].Detail)
			}
			play(t, s, step{DeleteKv{Key: key}, Result{}})
		}
	}
	refused(s, "mink/writers/1/-/1", "mink/writers/1/-/00", "mink/writers/1/0/0", "mink/writers/2/-/0", "mink/writers/x/y/z/1",
		"mink/writers/1/-/-1", "mink/writers/3/-/0/7/0")

	s = play(t, s, step{DropTable{Table: 1}, Result{Streams: streams(0)}})
	refused(s, root, root+"/7/0")
	s = play(t, s, step{DeleteStream{Node: 1, NodeEpoch: 1, Stream: 0, Epoch: -1}, Result{}})
	require.Zero(t, s.DroppedCount())
	refused(s, root, root+"/7/0")
	requireTablesInOrder(t, s)
}

func TestKV5_LeaderAndCoordinatorEpochsRise(t *testing.T) {
	lead := func(node int32, bucket int32, coordinator int64) LeadBucket {
		return LeadBucket{Node: node, NodeEpoch: 1, Bucket: BucketID{1, NoPartition, bucket}, CoordinatorEpoch: coordinator}
	}
	coordinate := func(node int32, expected int64) RegisterCoordinator {
		return RegisterCoordinator{Node: node, NodeEpoch: 1, ExpectedEpoch: expected}
	}
	s := play(t, twoNodes(t),
		step{table("t", 2), Result{ID: 1, Streams: streams(0, 1)}},
		step{lead(9, 0, 0), Result{Code: NodeEpochMismatch, Detail: "unknown"}},
		step{LeadBucket{Node: 1, NodeEpoch: 2, Bucket: BucketID{1, NoPartition, 0}}, Result{Code: NodeEpochMismatch}},
		step{lead(1, 0, 0), Result{ID: 0}},
		step{lead(2, 0, 0), Result{ID: 1}},
		step{lead(2, 0, 0), Result{ID: 2}},
		step{lead(1, 1, 0), Result{ID: 0}},
		step{lead(1, 2, 0), Result{Code: InvalidArgument, Detail: "no bucket 2"}},
		step{lead(1, -1, 0), Result{Code: InvalidArgument}},
		step{LeadBucket{Node: 1, NodeEpoch: 1, Bucket: BucketID{9, NoPartition, 0}}, Result{Code: TableNotExist}},
		step{LeadBucket{Node: 1, NodeEpoch: 1, Bucket: BucketID{1, 0, 0}}, Result{Code: PartitionNotExist}},
		step{coordinate(9, 0), Result{Code: NodeEpochMismatch}},
		step{coordinate(1, 1), Result{Code: CoordinatorFenced, Detail: "at epoch 0, expected 1"}},
		step{coordinate(1, 0), Result{ID: 1}},
		step{coordinate(2, 0), Result{Code: CoordinatorFenced, Detail: "at epoch 1, expected 0"}},
		step{lead(1, 0, 0), Result{Code: CoordinatorFenced, Detail: "at epoch 1, not 0"}},
		step{lead(1, 0, 1), Result{ID: 3}},
		step{coordinate(2, 1), Result{ID: 2}},
		step{lead(1, 0, 1), Result{Code: CoordinatorFenced}},
	)
	require.Equal(t, Coordinator{Epoch: 2, Node: 2}, s.Coordinator())
	b, _ := s.Bucket(BucketID{1, NoPartition, 0})
	require.Equal(t, Bucket{Stream: 0, LeaderEpoch: 3, Node: 1}, b)
	requireTablesInOrder(t, s)

	worn, _ := s.TableByID(1)
	changed := *worn
	p, _ := worn.Partition(NoPartition)
	last := *p
	last.buckets = p.buckets.set(0, Bucket{LeaderEpoch: math.MaxInt32})
	changed.partitions = worn.partitions.set(NoPartition, &last)
	tr := transition{next: *s}
	tr.putTable(&changed)
	play(t, &tr.next, step{lead(1, 0, 2), Result{Code: InvalidArgument, Detail: "would pass 2147483647"}})
}

func TestKV6_ABucketsStreamIsOpenedInItsLeaderEpoch(t *testing.T) {
	lead := func(node int32) LeadBucket {
		return LeadBucket{Node: node, NodeEpoch: 1, Bucket: BucketID{1, NoPartition, 0}}
	}
	open := func(node int32, epoch int64) OpenStream {
		return OpenStream{Node: node, NodeEpoch: 1, Stream: 0, Epoch: epoch}
	}
	opened := func(node int32, epochs ...int64) Result {
		row := &catalog.Stream{Epoch: epochs[len(epochs)-1], Opened: true, Node: catalog.NodeID(node)}
		for _, e := range epochs {
			row.Epochs = append(row.Epochs, catalog.EpochStart{Epoch: e})
		}
		return Result{Stream: row}
	}
	s := play(t, twoNodes(t),
		step{table("t", 1), Result{ID: 1, Streams: streams(0)}},
		step{open(1, 0), Result{Code: InvalidArgument, Detail: "epoch 0 of bucket"}},
		step{lead(1), Result{ID: 0}},
		step{open(1, 1), Result{Code: InvalidArgument, Detail: "epoch 1 of bucket 1/-/0 was never assigned; it is at 0"}},
		step{open(1, 0), opened(1, 0)},
		step{lead(2), Result{ID: 1}},
		step{open(1, 0), opened(1, 0)},                  // a retry: it leads until it has closed
		step{open(2, 1), Result{Code: StreamNotClosed}}, // LeadBucket alone gives nothing
		step{lead(2), Result{ID: 2}},
		step{CloseStream{Node: 1, NodeEpoch: 1, Stream: 0, Epoch: 0}, Result{}},
		step{open(2, 1), Result{Code: LeaderFenced, Detail: "at epoch 2, not 1"}},
		step{open(1, 0), Result{Code: StreamFenced}},
		step{open(2, 2), opened(2, 0, 2)},
	)
	require.ErrorIs(t, Result{Code: LeaderFenced}.Err(), catalog.ErrStreamFenced)
	requireTablesInOrder(t, s)
}

func TestTheCheckOfTablesNamesWhatContradictsItself(t *testing.T) {
	s := play(t, twoNodes(t), step{table("t", 2), Result{ID: 1, Streams: streams(0, 1)}})
	broken := transition{next: *s}
	broken.next.streams = s.streams.remove(0)
	broken.putStream(&streamRow{Stream: catalog.Stream{ID: 1, Epoch: 7}})
	broken.next.bucketOf = s.bucketOf.set(5, BucketID{1, NoPartition, 1})
	broken.next.bury(DroppedBucket{BucketID: BucketID{9, NoPartition, 0}, Stream: 9})
	var got []string
	for err := range broken.next.CheckTables() {
		got = append(got, err.Error())
	}
	require.Equal(t, []string{
		"stream 0 of bucket 1/-/0 does not exist", "stream 1 of bucket 1/-/1 is at epoch 7, and its leader at -1",
		"stream 5 does not belong to bucket 1/-/1", "the dropped bucket 9/-/0 is gone, but its tombstone is not",
	}, got)
	for range broken.next.CheckTables() {
		break
	}
}

func TestASnapshotWhoseTablesContradictEachOtherIsRefused(t *testing.T) {
	s := play(t, twoNodes(t),
		step{table("a", 2), Result{ID: 1, Streams: streams(0, 1)}},
		step{partitioned("b", 1), Result{ID: 2}},
		step{CreatePartition{Table: 2, Key: "k"}, Result{ID: 0, Streams: streams(2)}},
		step{CreatePartition{Table: 2, Key: "l"}, Result{ID: 1, Streams: streams(3)}},
	)
	change := func(id TableID, f func(*Table)) *State {
		was, _ := s.TableByID(id)
		changed := *was
		f(&changed)
		tr := transition{next: *s}
		tr.next.tables = s.tables.set(id, &changed)
		return &tr.next
	}
	next := func(f func(*State)) *State { c := *s; f(&c); return &c }
	for want, bad := range map[string]*State{
		`table 2, "a", is out of`: change(2, func(t *Table) { t.Name = "a" }),
		"with 0 buckets":          change(1, func(t *Table) { t.Buckets = 0 }),
		"with 4097 buckets":       change(1, func(t *Table) { t.Buckets = 4097 }),
		"is a kind 9":             change(1, func(t *Table) { t.Kind = 9 }),
		"has 0 schemas":           change(1, func(t *Table) { t.schemas = tree[int16, []byte]{} }),
		"schema 0 of table 1":     change(1, func(t *Table) { t.schemas = t.schemas.set(0, []byte("x")) }),
		"partition 1 of table 2":  change(2, func(t *Table) { t.nextPartition = 1 }),
		"partition 0 of table 2":  change(2, func(t *Table) { t.Partitioned = false }),
		"bucket 1/-/2 is missing": change(2, func(t *Table) { t.partitions, t.keys = tree[PartitionID, *Partition]{}, tree[string, PartitionID]{} }),
		"is above the last one":   next(func(s *State) { s.lastTable = 1 }),
		"is out of order":         next(func(s *State) { s.nextStreamID = 3 }),
		"the dropped bucket":      next(func(s *State) { s.bury(DroppedBucket{BucketID: BucketID{7, 0, 0}, Stream: 2}) }),
	} {
		if want == "bucket 1/-/2 is missing" {
			was, _ := bad.TableByID(1)
			more := *was
			more.Buckets = 3
			bad.tables = bad.tables.set(1, &more)
			bad.bucketOf = bad.bucketOf.remove(2).remove(3)
		}
		_, err := DecodeSnapshot(bad.EncodeSnapshot())
		require.ErrorContains(t, err, want)
	}
	older := *s
	older.lastTable, older.level = 0, LevelStreams
	b := older.EncodeSnapshot()
	b[4] = 2 // tables in the version before them
	_, err := DecodeSnapshot(reseal(b))
	require.Error(t, err)
}
