package meta

import (
	"bytes"
	"math"

	"github.com/tidemark-io/tidemark/meta/tableschema"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// Limits of tables. They are part of how commands apply, so they are the same on every node forever.
const (
	// MaxTableNameBytes is the longest name of a table.
	MaxTableNameBytes = 249
	// MaxBuckets is the most buckets of a table, or of each of its partitions, and the most streams that one command makes.
	MaxBuckets = 4096
	// MaxTableOptionsBytes is the largest options of a table.
	MaxTableOptionsBytes = 64 << 10
	// MaxSchemaVersion is the last version that a schema can have.
	MaxSchemaVersion = math.MaxInt16
)

// CreateTable creates a table with version 0 of its schema and, unless it is partitioned, with a stream for each bucket
// (CAT-1). Names are 1 to [MaxTableNameBytes] of [A-Za-z0-9._-]; what a schema may be is in package tableschema.
// Result: the table's id in ID, and the new streams in the order of the buckets; rejected as [TableExists] or
// [InvalidArgument].
type CreateTable struct {
	Name        string
	Kind        TableKind
	Partitioned bool
	Buckets     uint32 // 1 to MaxBuckets
	Options     []byte // JSON, not interpreted here
	Schema      []byte // an Arrow IPC schema message
}

// DropTable removes a table. Its buckets are in [State.Dropped] from then on, until their streams and the snapshots of their
// writers are gone (CAT-4). Result: all its streams; rejected as [TableNotExist].
type DropTable struct{ Table TableID }

// AddSchema adds the next version of a table's schema (CAT-2). The same bytes as the newest version are no change.
// Result: the version in ID; rejected as [TableNotExist], [SchemaConflict] when ExpectedLast is not the newest version,
// [SchemaLimit], [InvalidArgument] for bytes that are no schema, or [SchemaIncompatible].
type AddSchema struct {
	Table        TableID
	ExpectedLast int16
	Schema       []byte // an Arrow IPC schema message
}

// Type returns 30.
func (CreateTable) Type() uint8 { return numCreateTable }

// Type returns 31.
func (DropTable) Type() uint8 { return numDropTable }

// Type returns 32.
func (AddSchema) Type() uint8 { return numAddSchema }

func (c CreateTable) encode(w *writer) {
	w.str(c.Name)
	w.u8(uint8(c.Kind))
	w.bool(c.Partitioned)
	w.u32(c.Buckets)
	w.blob(c.Options)
	w.blob(c.Schema)
}

func decodeCreateTable(r *reader) Command {
	return CreateTable{
		Name: r.str(), Kind: TableKind(r.u8()), Partitioned: r.bool(), Buckets: r.u32(), Options: r.blob(), Schema: r.blob(),
	}
}

func (c DropTable) encode(w *writer) { w.u64(uint64(c.Table)) }

func (c AddSchema) encode(w *writer) {
	w.u64(uint64(c.Table))
	w.i16(c.ExpectedLast)
	w.blob(c.Schema)
}

func (c CreateTable) apply(t *transition) Result {
	if _, taken := t.next.tableNames.get(c.Name); taken {
		return reject(TableExists, "table %q exists", c.Name)
	}
	schema, r := c.check()
	if r.Code != OK {
		return r
	}
	t.next.lastTable++
	table := &Table{
		ID: t.next.lastTable, Name: c.Name, Kind: c.Kind, Partitioned: c.Partitioned, Buckets: int32(c.Buckets),
		Options: cloned(c.Options), CreatedMs: t.next.clockMs,
	}
	table.withSchema(cloned(c.Schema), schema)
	var streams []catalog.StreamID
	if !c.Partitioned {
		streams = t.addPartition(table, &Partition{ID: NoPartition})
	}
	t.putTable(table)
	return Result{ID: uint64(table.ID), Streams: streams}
}

// check rejects a table that no state could have, and reads its schema.
func (c CreateTable) check() (tableschema.Schema, Result) {
	switch {
	case !isTableName(c.Name):
		return tableschema.Schema{}, reject(InvalidArgument, "%q is not a legal table name", c.Name)
	case c.Kind > PrimaryKeyTable:
		return tableschema.Schema{}, reject(InvalidArgument, "there is no %s", c.Kind)
	case c.Buckets < 1 || c.Buckets > MaxBuckets:
		return tableschema.Schema{}, reject(InvalidArgument, "a table has 1 to %d buckets, not %d", MaxBuckets, c.Buckets)
	case len(c.Options) > MaxTableOptionsBytes:
		return tableschema.Schema{}, reject(InvalidArgument, "options have at most %d bytes, not %d", MaxTableOptionsBytes,
			len(c.Options))
	}
	schema, err := tableschema.Decode(c.Schema)
	if err != nil {
		return tableschema.Schema{}, reject(InvalidArgument, "the schema: %v", err)
	}
	return schema, Result{}
}

func isTableName(name string) bool {
	if len(name) < 1 || len(name) > MaxTableNameBytes {
		return false
	}
	for _, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func (c DropTable) apply(t *transition) Result {
	table, r := t.findTable(c.Table)
	if table == nil {
		return r
	}
	var streams []catalog.StreamID
	for p := range table.Partitions() {
		streams = append(streams, t.dropPartition(table, p)...)
	}
	t.next.tables = t.next.tables.remove(table.ID)
	t.next.tableNames = t.next.tableNames.remove(table.Name)
	return Result{Streams: streams}
}

func (c AddSchema) apply(t *transition) Result {
	table, r := t.findTable(c.Table)
	if table == nil {
		return r
	}
	before, data := table.newest()
	newest := table.NewestSchema()
	switch {
	case bytes.Equal(c.Schema, data):
		return Result{ID: uint64(newest)}
	case c.ExpectedLast != newest:
		return reject(SchemaConflict, "the newest schema of table %d is %d, expected %d", c.Table, newest, c.ExpectedLast)
	case newest == MaxSchemaVersion:
		return reject(SchemaLimit, "table %d has %d schemas", c.Table, MaxSchemaVersion+1)
	}
	schema, err := tableschema.Decode(c.Schema)
	if err != nil {
		return reject(InvalidArgument, "the schema: %v", err)
	}
	used := func(id int32) bool { _, is := table.fieldIDs.get(id); return is }
	if err := schema.Follows(before, used); err != nil {
		return reject(SchemaIncompatible, "%v", err)
	}
	changed := *table
	changed.withSchema(cloned(c.Schema), schema)
	t.putTable(&changed)
	return Result{ID: uint64(changed.NewestSchema())}
}
