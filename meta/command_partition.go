package meta

import (
	"slices"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// CreatePartition makes a partition of a partitioned table, with a stream for each bucket (CAT-3). Keys are 1 to [MaxKeyBytes].
// Result: the partition's id in ID, and the new streams in the order of the buckets; rejected as [TableNotExist],
// [PartitionExists] or [InvalidArgument].
type CreatePartition struct {
	Table TableID
	Key   string
}

// DropPartition removes a partition, whose buckets are in [State.Dropped] from then on (CAT-4). Result: its streams; rejected as
// [TableNotExist] or [PartitionNotExist].
type DropPartition struct {
	Table     TableID
	Partition PartitionID
}

// AddBuckets raises the number of buckets of a table, and of each of its partitions, by Count if it is Expected now (CAT-3).
// Existing buckets do not change. Result: the new streams in the order of the partitions and buckets; rejected as
// [TableNotExist], [BucketConflict], or [InvalidArgument] when there would be more than [MaxBuckets] or as many streams
// to make.
type AddBuckets struct {
	Table    TableID
	Expected uint32
	Count    uint32
}

// Type returns 33.
func (CreatePartition) Type() uint8 { return numCreatePartition }

// Type returns 34.
func (DropPartition) Type() uint8 { return numDropPartition }

// Type returns 35.
func (AddBuckets) Type() uint8 { return numAddBuckets }

func (c CreatePartition) encode(w *writer) {
	w.u64(uint64(c.Table))
	w.str(c.Key)
}

func (c DropPartition) encode(w *writer) {
	w.u64(uint64(c.Table))
	w.u64(uint64(c.Partition))
}

func (c AddBuckets) encode(w *writer) {
	w.u64(uint64(c.Table))
	w.u32(c.Expected)
	w.u32(c.Count)
}

func (c CreatePartition) apply(t *transition) Result {
	table, r := t.findTable(c.Table)
	if table == nil {
		return r
	}
	id, exists := table.keys.get(c.Key)
	switch {
	case !table.Partitioned:
		return reject(InvalidArgument, "table %d is not partitioned", c.Table)
	case exists:
		return reject(PartitionExists, "partition %d of table %d has the key %q", id, c.Table, c.Key)
	case len(c.Key) < 1 || len(c.Key) > MaxKeyBytes:
		return reject(InvalidArgument, "the key of a partition has 1 to %d bytes, not %d", MaxKeyBytes, len(c.Key))
	}
	changed := *table
	id = changed.nextPartition
	changed.nextPartition++
	streams := t.addPartition(&changed, &Partition{ID: id, Key: c.Key})
	t.putTable(&changed)
	return Result{ID: uint64(id), Streams: streams}
}

func (c DropPartition) apply(t *transition) Result {
	table, r := t.findTable(c.Table)
	if table == nil {
		return r
	}
	p, known := table.partitions.get(c.Partition)
	if !known || c.Partition == NoPartition {
		return reject(PartitionNotExist, "table %d has no partition %d", c.Table, c.Partition)
	}
	changed := *table
	changed.partitions = table.partitions.remove(p.ID)
	changed.keys = table.keys.remove(p.Key)
	streams := t.dropPartition(table, p)
	t.putTable(&changed)
	return Result{Streams: streams}
}

func (c AddBuckets) apply(t *transition) Result {
	table, r := t.findTable(c.Table)
	if table == nil {
		return r
	}
	total := uint64(c.Expected) + uint64(c.Count)
	streams := uint64(c.Count) * uint64(table.PartitionCount())
	switch {
	case uint32(table.Buckets) != c.Expected:
		return reject(BucketConflict, "table %d has %d buckets, expected %d", c.Table, table.Buckets, c.Expected)
	case c.Count < 1 || total > MaxBuckets:
		return reject(InvalidArgument, "a table has 1 to %d buckets, not %d or %d", MaxBuckets, c.Expected, c.Count)
	case streams > MaxBuckets:
		return reject(InvalidArgument, "1 to %d streams are created at once, not %d", MaxBuckets, streams)
	}
	changed := *table
	changed.Buckets = int32(total)
	var made []catalog.StreamID
	for p := range table.Partitions() {
		made = append(made, t.addPartition(&changed, p)...)
	}
	t.putTable(&changed)
	return Result{Streams: slices.Clip(made)}
}
