package meta_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// tablesModel is tables as plain maps, to hold the state against.
type tablesModel struct {
	Tables      map[meta.TableID]*modelTable
	Streams     map[catalog.StreamID]modelStream
	Keys        map[string]bool
	Graves      map[catalog.StreamID]meta.BucketID
	Coordinator meta.Coordinator

	lastTable  meta.TableID
	nextStream catalog.StreamID
}

type modelTable struct {
	Name    string
	Parts   map[meta.PartitionID]string // key
	Parted  bool
	Buckets int32
	Schemas []int // which of tableSchemas
	Of      map[meta.BucketID]meta.Bucket

	nextPart meta.PartitionID
}

type modelStream struct {
	Epoch int64
	Open  bool
	Node  int32
}

func newTablesModel() *tablesModel {
	return &tablesModel{Tables: map[meta.TableID]*modelTable{}, Streams: map[catalog.StreamID]modelStream{},
		Keys: map[string]bool{}, Graves: map[catalog.StreamID]meta.BucketID{}}
}

// tableSchemas are those that the model knows, and which may follow which: 0 is one column, 1 has another, 2 widens and renames
// that, 3 has one of another type under its id, and 4 is no schema.
var tableSchemas = [][]byte{
	meta.EncodeTestSchema(meta.SchemaColumn{ID: 1, Name: "v"}),
	meta.EncodeTestSchema(meta.SchemaColumn{ID: 1, Name: "v"}, meta.SchemaColumn{ID: 2, Name: "n", Type: arrow.PrimitiveTypes.Int16}),
	meta.EncodeTestSchema(meta.SchemaColumn{ID: 1, Name: "v"}, meta.SchemaColumn{ID: 2, Name: "m", Type: arrow.PrimitiveTypes.Int64}),
	meta.EncodeTestSchema(meta.SchemaColumn{ID: 1, Name: "v"}, meta.SchemaColumn{ID: 2, Name: "n", Type: arrow.FixedWidthTypes.Boolean}),
	[]byte("no schema"),
}

// follows is which schemas may come next, when the field id 2 was used before or not.
func follows(before, next int, used bool) bool {
	switch {
	case before == 0:
		return next != 0 && !used
	case before == 1:
		return next == 0 || next == 2
	}
	return next == 0 // from 2 and 3 the column can only go
}

func (m *tablesModel) fill(id meta.TableID, part meta.PartitionID) (made []catalog.StreamID) {
	t := m.Tables[id]
	for n := range t.Buckets {
		b := meta.BucketID{Table: id, Partition: part, Bucket: n}
		if _, has := t.Of[b]; !has {
			t.Of[b] = meta.Bucket{Stream: m.nextStream, LeaderEpoch: -1, Node: -1}
			m.Streams[m.nextStream] = modelStream{Epoch: -1, Node: -1}
			made = append(made, m.nextStream)
			m.nextStream++
		}
	}
	return made
}

func (m *tablesModel) bury(id meta.TableID, part meta.PartitionID) (gone []catalog.StreamID) {
	t := m.Tables[id]
	for n := range t.Buckets {
		b := meta.BucketID{Table: id, Partition: part, Bucket: n}
		m.Graves[t.Of[b].Stream] = b
		gone = append(gone, t.Of[b].Stream)
		delete(t.Of, b)
	}
	return gone
}

// settle takes away the tombstones that wait for nothing.
func (m *tablesModel) settle() {
	maps.DeleteFunc(m.Graves, func(s catalog.StreamID, b meta.BucketID) bool {
		_, there := m.Streams[s]
		return !there && !m.Keys[b.WriterSnapshotKey()] && !m.Keys[b.WriterSnapshotKey()+"/7/0"]
	})
}

func (m *tablesModel) named(name string) bool {
	for _, t := range m.Tables {
		if t.Name == name {
			return true
		}
	}
	return false
}

// apply does one command and returns its code, id and streams. It is written from the rules and shares nothing with the code
// under test.
func (m *tablesModel) apply(c meta.Command) (meta.Code, uint64, []catalog.StreamID) {
	switch c := c.(type) {
	case meta.CreateTable:
		switch {
		case m.named(c.Name):
			return meta.TableExists, 0, nil
		case string(c.Schema) == "no schema", c.Buckets == 0:
			return meta.InvalidArgument, 0, nil
		}
		m.lastTable++
		which := slices.IndexFunc(tableSchemas, func(b []byte) bool { return string(b) == string(c.Schema) })
		t := &modelTable{Name: c.Name, Parted: c.Partitioned, Buckets: int32(c.Buckets), Schemas: []int{which},
			Parts: map[meta.PartitionID]string{}, Of: map[meta.BucketID]meta.Bucket{}}
		m.Tables[m.lastTable] = t
		if c.Partitioned {
			return meta.OK, uint64(m.lastTable), nil
		}
		t.Parts[meta.NoPartition] = ""
		return meta.OK, uint64(m.lastTable), m.fill(m.lastTable, meta.NoPartition)
	case meta.OpenStream:
		return m.open(c)
	case meta.CloseStream:
		s, known := m.Streams[c.Stream]
		switch {
		case !known:
			return meta.StreamNotExist, 0, nil
		case !s.Open && s.Epoch == c.Epoch:
			return meta.OK, 0, nil
		case !s.Open:
			return meta.StreamNotOpened, 0, nil
		case s.Epoch != c.Epoch:
			return meta.ExpiredEpoch, 0, nil
		case s.Node != c.Node:
			return meta.StreamFenced, 0, nil
		}
		s.Open = false
		m.Streams[c.Stream] = s
	case meta.DeleteStream:
		s, known := m.Streams[c.Stream]
		_, grave := m.Graves[c.Stream]
		switch {
		case !known:
		case s.Open:
			return meta.StreamNotClosed, 0, nil
		case s.Epoch != c.Epoch:
			return meta.ExpiredEpoch, 0, nil
		case !grave:
			return meta.InvalidArgument, 0, nil
		}
		delete(m.Streams, c.Stream)
	case meta.PutKv:
		m.Keys[c.Key] = true
	case meta.DeleteKv:
		delete(m.Keys, c.Key)
	case meta.RegisterCoordinator:
		if c.ExpectedEpoch != m.Coordinator.Epoch {
			return meta.CoordinatorFenced, 0, nil
		}
		m.Coordinator = meta.Coordinator{Epoch: c.ExpectedEpoch + 1, Node: c.Node}
		return meta.OK, uint64(c.ExpectedEpoch + 1), nil
	default:
		return m.applyToTable(c)
	}
	m.settle()
	return meta.OK, 0, nil
}

func (m *tablesModel) open(c meta.OpenStream) (meta.Code, uint64, []catalog.StreamID) {
	s, known := m.Streams[c.Stream]
	_, grave := m.Graves[c.Stream]
	leader := int64(0)
	for _, t := range m.Tables {
		for _, b := range t.Of {
			if b.Stream == c.Stream {
				leader = b.LeaderEpoch
			}
		}
	}
	switch {
	case !known:
		return meta.StreamNotExist, 0, nil
	case grave:
		return meta.StreamNotExist, 0, nil
	case s.Open && s.Epoch == c.Epoch && s.Node == c.Node:
		return meta.OK, 0, nil
	case s.Epoch >= c.Epoch:
		return meta.StreamFenced, 0, nil
	case c.Epoch < leader:
		return meta.LeaderFenced, 0, nil
	case c.Epoch > leader:
		return meta.InvalidArgument, 0, nil
	case s.Open:
		return meta.StreamNotClosed, 0, nil
	}
	m.Streams[c.Stream] = modelStream{Epoch: c.Epoch, Open: true, Node: c.Node}
	return meta.OK, 0, nil
}

func (m *tablesModel) applyToTable(c meta.Command) (meta.Code, uint64, []catalog.StreamID) {
	var id meta.TableID
	switch c := c.(type) {
	case meta.DropTable:
		id = c.Table
	case meta.AddSchema:
		id = c.Table
	case meta.CreatePartition:
		id = c.Table
	case meta.DropPartition:
		id = c.Table
	case meta.AddBuckets:
		id = c.Table
	case meta.LeadBucket:
		if id = c.Bucket.Table; c.CoordinatorEpoch < m.Coordinator.Epoch {
			return meta.CoordinatorFenced, 0, nil
		}
	}
	t := m.Tables[id]
	if t == nil {
		return meta.TableNotExist, 0, nil
	}
	parts := slices.Sorted(maps.Keys(t.Parts))
	var streams []catalog.StreamID
	switch c := c.(type) {
	case meta.DropTable:
		for _, p := range parts {
			streams = append(streams, m.bury(id, p)...)
		}
		delete(m.Tables, id)
	case meta.AddSchema:
		newest := len(t.Schemas) - 1
		which := slices.IndexFunc(tableSchemas, func(b []byte) bool { return string(b) == string(c.Schema) })
		used := slices.ContainsFunc(t.Schemas, func(s int) bool { return s > 0 })
		switch {
		case which == t.Schemas[newest]:
			return meta.OK, uint64(newest), nil
		case int(c.ExpectedLast) != newest:
			return meta.SchemaConflict, 0, nil
		case which == 4:
			return meta.InvalidArgument, 0, nil
		case !follows(t.Schemas[newest], which, used):
			return meta.SchemaIncompatible, 0, nil
		}
		t.Schemas = append(t.Schemas, which)
		return meta.OK, uint64(newest + 1), nil
	case meta.CreatePartition:
		if !t.Parted {
			return meta.InvalidArgument, 0, nil
		}
		if slices.Contains(slices.Collect(maps.Values(t.Parts)), c.Key) {
			return meta.PartitionExists, 0, nil
		}
		part := t.nextPart
		t.nextPart++
		t.Parts[part] = c.Key
		return meta.OK, uint64(part), m.fill(id, part)
	case meta.DropPartition:
		if _, known := t.Parts[c.Partition]; !known || !t.Parted {
			return meta.PartitionNotExist, 0, nil
		}
		streams = m.bury(id, c.Partition)
		delete(t.Parts, c.Partition)
	case meta.AddBuckets:
		if uint32(t.Buckets) != c.Expected {
			return meta.BucketConflict, 0, nil
		}
		if c.Count == 0 {
			return meta.InvalidArgument, 0, nil
		}
		t.Buckets += int32(c.Count)
		for _, p := range parts {
			streams = append(streams, m.fill(id, p)...)
		}
	case meta.LeadBucket:
		if _, known := t.Parts[c.Bucket.Partition]; !known {
			return meta.PartitionNotExist, 0, nil
		}
		b, known := t.Of[c.Bucket]
		if !known {
			return meta.InvalidArgument, 0, nil
		}
		b.LeaderEpoch, b.Node = b.LeaderEpoch+1, c.Node
		t.Of[c.Bucket] = b
		return meta.OK, uint64(b.LeaderEpoch), nil
	}
	return meta.OK, 0, streams
}

// tablesOf reads a state into a model. Counters are not visible in it.
func tablesOf(s *meta.State) *tablesModel {
	m := newTablesModel()
	for t := range s.Tables() {
		row := &modelTable{Name: t.Name, Parted: t.Partitioned, Buckets: t.Buckets, Parts: map[meta.PartitionID]string{},
			Of: map[meta.BucketID]meta.Bucket{}}
		for version := range t.NewestSchema() + 1 {
			b, _ := t.Schema(version)
			row.Schemas = append(row.Schemas, slices.IndexFunc(tableSchemas, func(s []byte) bool { return string(b) == string(s) }))
		}
		for p := range t.Partitions() {
			row.Parts[p.ID] = p.Key
			for n, b := range p.Buckets() {
				row.Of[meta.BucketID{Table: t.ID, Partition: p.ID, Bucket: n}] = b
			}
		}
		m.Tables[t.ID] = row
	}
	for row := range s.Streams() {
		m.Streams[row.ID] = modelStream{Epoch: row.Epoch, Open: row.Opened, Node: int32(row.Node)}
	}
	for key := range s.List("") {
		m.Keys[key] = true
	}
	for d := range s.Dropped() {
		m.Graves[d.Stream] = d.BucketID
	}
	m.Coordinator = s.Coordinator()
	return m
}

// visible is what tablesOf can see.
func (m *tablesModel) visible() *tablesModel {
	c := *m
	c.lastTable, c.nextStream = 0, 0
	c.Tables = map[meta.TableID]*modelTable{}
	for id, t := range m.Tables {
		row := *t
		row.nextPart = 0
		c.Tables[id] = &row
	}
	return &c
}

// drawTableCommand draws from a small world, so that commands meet each other.
func drawTableCommand(t *rapid.T, m *tablesModel) meta.Command {
	id := meta.TableID(rapid.Uint64Range(1, 5).Draw(t, "table"))
	part := meta.PartitionID(rapid.Int64Range(-1, 3).Draw(t, "partition"))
	count := rapid.Uint32Range(0, 3).Draw(t, "count")
	node := rapid.Int32Range(1, 2).Draw(t, "node")
	b := meta.BucketID{Table: id, Partition: part, Bucket: rapid.Int32Range(0, 3).Draw(t, "bucket")}
	schema := tableSchemas[rapid.IntRange(0, len(tableSchemas)-1).Draw(t, "schema")]
	stream := catalog.StreamID(rapid.Int64Range(0, 12).Draw(t, "stream"))
	epoch := rapid.Int64Range(-1, 2).Draw(t, "epoch")
	if s, known := m.Streams[stream]; known && rapid.Bool().Draw(t, "present epoch") {
		epoch, node = s.Epoch, max(s.Node, 1)
	}
	key := b.WriterSnapshotKey() + rapid.SampledFrom([]string{"", "/7/0"}).Draw(t, "piece")
	switch rapid.IntRange(0, 12).Draw(t, "command") {
	case 0:
		name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
		return meta.CreateTable{Name: name, Partitioned: part >= 0, Buckets: count, Options: []byte{}, Schema: schema}
	case 1:
		return meta.DropTable{Table: id}
	case 2, 3:
		return meta.AddSchema{Table: id, ExpectedLast: int16(count), Schema: schema}
	case 4:
		return meta.CreatePartition{Table: id, Key: fmt.Sprint("key", count)}
	case 5:
		return meta.DropPartition{Table: id, Partition: part}
	case 6:
		return meta.AddBuckets{Table: id, Expected: count, Count: uint32(b.Bucket)}
	case 7, 8:
		return meta.LeadBucket{Node: node, NodeEpoch: 1, Bucket: b, CoordinatorEpoch: epoch + 1}
	case 9:
		return meta.OpenStream{Node: node, NodeEpoch: 1, Stream: stream, Epoch: epoch}
	case 10:
		if part < 0 {
			return meta.CloseStream{Node: node, NodeEpoch: 1, Stream: stream, Epoch: epoch}
		}
		return meta.DeleteStream{Node: node, NodeEpoch: 1, Stream: stream, Epoch: epoch}
	case 11:
		if count == 0 {
			return meta.RegisterCoordinator{Node: node, NodeEpoch: 1, ExpectedEpoch: epoch}
		}
		return meta.PutKv{Key: key, Value: []byte{}}
	default:
		return meta.DeleteKv{Key: key}
	}
}

func TestTheTablesAreWhatTheModelSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newTablesModel()
		s, _ := meta.Empty().Apply(1, meta.Entry{Commands: []meta.Command{
			meta.RegisterNode{Node: 1, ExpectedEpoch: -1}, meta.RegisterNode{Node: 2, ExpectedEpoch: -1},
		}})
		for range rapid.IntRange(1, 60).Draw(t, "commands") {
			c := drawTableCommand(t, m)
			b, err := meta.Entry{Node: 1, Commands: []meta.Command{c}}.Encode()
			require.NoError(t, err)
			e, err := meta.DecodeEntry(b)
			require.NoError(t, err)
			code, id, streams := m.apply(c)
			var results []meta.Result
			s, results = s.Apply(s.Index()+1, e)
			require.Equal(t, code, results[0].Code, "%+v: %s", c, results[0].Detail)
			require.Equal(t, streams, results[0].Streams, "%+v", c)
			if _, kv := c.(meta.PutKv); !kv {
				require.Equal(t, id, results[0].ID, "%+v", c)
			}
			require.Equal(t, m.visible(), tablesOf(s), "%+v", c)
			require.Empty(t, slices.Collect(s.CheckTables()), "%+v", c)
			if rapid.IntRange(0, 5).Draw(t, "restart") == 0 {
				snapshot := s.EncodeSnapshot()
				s, err = meta.DecodeSnapshot(snapshot)
				require.NoError(t, err)
				require.Equal(t, snapshot, s.EncodeSnapshot())
			}
		}
	})
}
