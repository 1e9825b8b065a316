package meta

import (
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/tidemark-io/tidemark/meta/tableschema"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// TableID identifies a table forever. The first one is 1.
type TableID uint64

// PartitionID identifies a partition of a table forever, from 0.
type PartitionID int64

// NoPartition stands for all of a table that has no partitions.
const NoPartition PartitionID = -1

// TableKind says what a table keeps of its rows. The numbers are on disk.
type TableKind uint8

// The kinds of tables.
const (
	// LogTable keeps every row.
	LogTable TableKind = 0
	// PrimaryKeyTable keeps the newest row of each key; its buckets are logs of changes.
	PrimaryKeyTable TableKind = 1
)

// String returns the kind in words.
func (k TableKind) String() string {
	switch k {
	case LogTable:
		return "log"
	case PrimaryKeyTable:
		return "primary key"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// BucketID names a bucket: one log of a table.
type BucketID struct {
	Table     TableID
	Partition PartitionID // NoPartition for a table without partitions
	Bucket    int32       // from 0
}

// writerSnapshots begins the keys of the snapshots of writers (8.5).
const writerSnapshots = "mink/writers/"

// String returns the bucket as it is in keys: table, partition and bucket, with - for no partition.
func (b BucketID) String() string {
	partition := "-"
	if b.Partition != NoPartition {
		partition = strconv.FormatInt(int64(b.Partition), 10)
	}
	return fmt.Sprintf("%d/%s/%d", b.Table, partition, b.Bucket)
}

// WriterSnapshotKey is the key of the snapshot of the bucket's writers; that of a piece of it begins with the key and a slash.
func (b BucketID) WriterSnapshotKey() string { return writerSnapshots + b.String() }

// Table is one table as of one state. It is shared between states: read only.
type Table struct {
	ID   TableID
	Name string
	Kind TableKind
	// Partitioned says that rows go to partitions, which are made and dropped one by one.
	Partitioned bool
	// Buckets is how many buckets the table has, or each of its partitions.
	Buckets int32
	// Options is a JSON document that the log does not look into.
	Options []byte
	// CreatedMs is the state's clock when the table was created, in ms since 1970.
	CreatedMs int64

	schemas       tree[int16, []byte]
	fieldIDs      tree[int32, bool] // of every version so far
	nextPartition PartitionID
	partitions    tree[PartitionID, *Partition] // of a table without partitions: NoPartition alone
	keys          tree[string, PartitionID]
}

// Partition is a partition of a table, or all of one that has none. It is shared between states: read only.
type Partition struct {
	ID PartitionID
	// Key is what the partition is for; empty for NoPartition.
	Key string

	buckets tree[int32, Bucket]
}

// Bucket is one log of a table.
type Bucket struct {
	Stream catalog.StreamID
	// LeaderEpoch is the last one assigned, -1 before the first, and Node the node that got it, -1 for none. The leader
	// is the node that has the stream open in that epoch (KV-6).
	LeaderEpoch int64
	Node        int32
}

// DroppedBucket is a bucket of a table or partition that was dropped. It is listed until its stream and the snapshot of
// its writers are gone (CAT-4).
type DroppedBucket struct {
	BucketID
	Stream catalog.StreamID
	// Name is that of the table, and DroppedMs the state's clock when it went, in ms since 1970.
	Name      string
	DroppedMs int64
}

// Coordinator is the node that last became the coordinator of buckets. Epoch is 0 if none ever did.
type Coordinator struct {
	Epoch int64
	Node  int32
}

// Table returns the table with this name.
func (s *State) Table(name string) (*Table, bool) {
	id, known := s.tableNames.get(name)
	if !known {
		return nil, false
	}
	return s.TableByID(id)
}

// TableByID returns the table with this id.
func (s *State) TableByID(id TableID) (*Table, bool) { return s.tables.get(id) }

// Tables yields every table in the order of their ids.
func (s *State) Tables() iter.Seq[*Table] {
	return func(yield func(*Table) bool) {
		for _, t := range s.tables.all() {
			if !yield(t) {
				return
			}
		}
	}
}

// TableCount is how many tables there are.
func (s *State) TableCount() int { return s.tables.len() }

// BucketOf returns the bucket that a stream is the log of. A dropped one is none.
func (s *State) BucketOf(stream catalog.StreamID) (BucketID, bool) { return s.bucketOf.get(stream) }

// Bucket returns the bucket with this name.
func (s *State) Bucket(id BucketID) (Bucket, bool) {
	t, known := s.tables.get(id.Table)
	if !known {
		return Bucket{}, false
	}
	p, known := t.partitions.get(id.Partition)
	if !known {
		return Bucket{}, false
	}
	return p.Bucket(id.Bucket)
}

// Dropped yields the buckets whose table or partition was dropped and that are not gone yet, in the order of their streams.
func (s *State) Dropped() iter.Seq[DroppedBucket] {
	return func(yield func(DroppedBucket) bool) {
		for _, d := range s.dropped.all() {
			if !yield(d) {
				return
			}
		}
	}
}

// DroppedCount is how many such buckets there are.
func (s *State) DroppedCount() int { return s.dropped.len() }

// Coordinator is who was last made the coordinator.
func (s *State) Coordinator() Coordinator { return s.coordinator }

// Schema returns a version of the table's schema, as an Arrow IPC message. It is shared: read only.
func (t *Table) Schema(version int16) ([]byte, bool) { return t.schemas.get(version) }

// Columns returns what a version of the table's schema says.
func (t *Table) Columns(version int16) ([]tableschema.Column, bool) {
	data, known := t.schemas.get(version)
	if !known {
		return nil, false
	}
	schema, _ := tableschema.Decode(data) // it was read before it was put there
	return schema.Columns, true
}

// NewestSchema is the version of the schema that was added last, from 0.
func (t *Table) NewestSchema() int16 { return int16(t.schemas.len() - 1) }

// Partitions yields the table's partitions in the order of their ids: [NoPartition] alone for a table without.
func (t *Table) Partitions() iter.Seq[*Partition] {
	return func(yield func(*Partition) bool) {
		for _, p := range t.partitions.all() {
			if !yield(p) {
				return
			}
		}
	}
}

// PartitionCount is how many partitions there are; 1 for a table without.
func (t *Table) PartitionCount() int { return t.partitions.len() }

// Partition returns the partition with this id.
func (t *Table) Partition(id PartitionID) (*Partition, bool) { return t.partitions.get(id) }

// PartitionOf returns the partition with this key.
func (t *Table) PartitionOf(key string) (*Partition, bool) {
	id, known := t.keys.get(key)
	if !known {
		return nil, false
	}
	return t.partitions.get(id)
}

// Bucket returns a bucket by its number.
func (p *Partition) Bucket(n int32) (Bucket, bool) { return p.buckets.get(n) }

// Buckets yields the buckets in the order of their numbers.
func (p *Partition) Buckets() iter.Seq2[int32, Bucket] { return p.buckets.all() }

// withSchema adds a version that was read already. The bytes are kept.
func (t *Table) withSchema(data []byte, schema tableschema.Schema) {
	t.schemas = t.schemas.set(int16(t.schemas.len()), data)
	for _, c := range schema.Columns {
		t.fieldIDs = t.fieldIDs.set(c.ID, true)
	}
}

// newest returns the newest version of the schema and its bytes.
func (t *Table) newest() (tableschema.Schema, []byte) {
	data, _ := t.schemas.get(t.NewestSchema())
	schema, _ := tableschema.Decode(data) // it was read before it was put there
	return schema, data
}

// bucketOfKey returns the part of a key that names the bucket whose writers' snapshot, or a piece of it, is under it.
func bucketOfKey(key string) (root string, is bool) {
	rest, is := strings.CutPrefix(key, writerSnapshots)
	if !is {
		return "", false
	}
	parts := strings.SplitN(rest, "/", 4)
	if len(parts) < 3 {
		return "", false
	}
	return writerSnapshots + strings.Join(parts[:3], "/"), true
}

// parseWriterSnapshotKey is the inverse of [BucketID.WriterSnapshotKey].
func parseWriterSnapshotKey(root string) (id BucketID, is bool) {
	parts := strings.Split(strings.TrimPrefix(root, writerSnapshots), "/")
	if len(parts) != 3 {
		return BucketID{}, false
	}
	table, err1 := strconv.ParseUint(parts[0], 10, 64)
	partition, err2 := int64(NoPartition), error(nil)
	if parts[1] != "-" {
		partition, err2 = strconv.ParseInt(parts[1], 10, 64)
	}
	bucket, err3 := strconv.ParseInt(parts[2], 10, 32)
	id = BucketID{TableID(table), PartitionID(partition), int32(bucket)}
	return id, err1 == nil && err2 == nil && err3 == nil && id.WriterSnapshotKey() == root
}

// hasWriterSnapshot reports whether the snapshot of a bucket's writers is there, or a piece of it.
func (s *State) hasWriterSnapshot(root string) bool {
	if _, is := s.kv.get(root); is {
		return true
	}
	for range s.List(root + "/") {
		return true
	}
	return false
}

func cloned(b []byte) []byte { return append([]byte{}, b...) }
