package meta

import (
	"github.com/tidemark-io/tidemark/meta/tableschema"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// hasTables reports whether a state says anything of tables, which needs version 3 of a snapshot.
func (s *State) hasTables() bool {
	return s.level >= LevelTables || s.lastTable > 0 || s.tables.len() > 0 || s.coordinator != Coordinator{} || s.dropped.len() > 0
}

func encodeTables(s *State, w *writer) {
	for _, t := range s.tables.all() {
		w.u64(uint64(t.ID))
		w.str(t.Name)
		w.u8(uint8(t.Kind))
		w.bool(t.Partitioned)
		w.i32(t.Buckets)
		w.i64(t.CreatedMs)
		w.blob(t.Options)
		w.count(t.schemas.len())
		for _, schema := range t.schemas.all() {
			w.blob(schema)
		}
		w.i64(int64(t.nextPartition))
		w.count(t.keys.len())
		for _, p := range t.partitions.all() {
			if p.ID != NoPartition {
				w.i64(int64(p.ID))
				w.str(p.Key)
			}
		}
	}
}

func decodeTables(s *State, r *reader, rows int) {
	last := TableID(0)
	for range rows {
		t := decodeTable(r)
		if r.err != nil {
			return
		}
		if _, twice := s.tableNames.get(t.Name); twice || t.ID <= last {
			r.fail("table %d, %q, is out of order", t.ID, t.Name)
			return
		}
		last = t.ID
		s.tables = s.tables.set(t.ID, t)
		s.tableNames = s.tableNames.set(t.Name, t.ID)
	}
}

func decodeTable(r *reader) *Table {
	t := &Table{
		ID: TableID(r.u64()), Name: r.str(), Kind: TableKind(r.u8()), Partitioned: r.bool(), Buckets: r.i32(),
		CreatedMs: r.i64(), Options: cloned(r.blob()),
	}
	if r.err == nil && (t.Kind > PrimaryKeyTable || t.Buckets < 1 || t.Buckets > MaxBuckets) {
		r.fail("table %d is a %s with %d buckets", t.ID, t.Kind, t.Buckets)
	}
	schemas := r.count(4)
	if schemas < 1 || schemas > MaxSchemaVersion+1 {
		r.fail("table %d has %d schemas", t.ID, schemas)
	}
	for range schemas {
		data := cloned(r.blob())
		if r.err != nil {
			return t
		}
		schema, err := tableschema.Decode(data)
		if err != nil {
			r.fail("schema %d of table %d: %v", t.schemas.len(), t.ID, err)
			return t
		}
		t.withSchema(data, schema)
	}
	t.nextPartition = PartitionID(r.i64())
	t.decodePartitions(r)
	return t
}

func (t *Table) decodePartitions(r *reader) {
	last := NoPartition
	n := r.count(12)
	if !t.Partitioned && n == 0 {
		t.partitions = t.partitions.set(NoPartition, &Partition{ID: NoPartition})
	}
	for range n {
		p := &Partition{ID: PartitionID(r.i64()), Key: r.str()}
		if r.err != nil {
			return
		}
		if _, twice := t.keys.get(p.Key); twice || !t.Partitioned || p.ID <= last || p.ID >= t.nextPartition {
			r.fail("partition %d of table %d, %q, is out of order", p.ID, t.ID, p.Key)
			return
		}
		last = p.ID
		t.partitions, t.keys = t.partitions.set(p.ID, p), t.keys.set(p.Key, p.ID)
	}
}

// bucketCount is how many buckets all tables have together.
func (s *State) bucketCount() int { return s.bucketOf.len() }

func encodeBuckets(s *State, w *writer) {
	for _, t := range s.tables.all() {
		for _, p := range t.partitions.all() {
			for n, b := range p.buckets.all() {
				w.bucket(BucketID{t.ID, p.ID, n})
				w.i64(int64(b.Stream))
				w.i64(b.LeaderEpoch)
				w.i32(b.Node)
			}
		}
	}
}

// decodeBuckets reads the rows of each bucket that the tables must have, which are in the order of the tables.
func decodeBuckets(s *State, r *reader, rows int) {
	for _, t := range s.tables.all() {
		for _, p := range t.partitions.all() {
			var buckets treeBuilder[int32, Bucket]
			for n := range t.Buckets {
				want := BucketID{t.ID, p.ID, n}
				if rows--; rows < 0 {
					r.fail("bucket %s is missing", want)
				}
				id := r.bucket()
				b := Bucket{Stream: r.stream(), LeaderEpoch: r.i64(), Node: r.i32()}
				if r.err != nil {
					return
				}
				if _, twice := s.bucketOf.get(b.Stream); twice || id != want || uint64(b.Stream) >= s.nextStreamID {
					r.fail("bucket %s with stream %d is out of order", id, b.Stream)
					return
				}
				s.bucketOf = s.bucketOf.set(b.Stream, id)
				buckets.add(n, b)
			}
			p.buckets = buckets.tree() // nobody else has seen the table yet
		}
	}
	if rows > 0 {
		r.fail("%d buckets belong to no table", rows)
	}
}

// writeTableCounters writes what version 3 adds: the counters of tables, and the tombstones.
func (s *State) writeTableCounters(w *writer) {
	w.u64(uint64(s.lastTable))
	w.i64(s.coordinator.Epoch)
	w.i32(s.coordinator.Node)
	droppedSection().write(s, w)
}

func (s *State) readTableCounters(r *reader) {
	s.lastTable = TableID(r.u64())
	s.coordinator = Coordinator{Epoch: r.i64(), Node: r.i32()}
	for id := range s.tables.all() {
		if r.err == nil && id > s.lastTable {
			r.fail("table %d is above the last one, %d", id, s.lastTable)
		}
	}
	droppedSection().read(s, r)
}

func droppedSection() section {
	return section{"dropped buckets", (*State).DroppedCount, encodeDropped, decodeDropped, 40}
}

func encodeDropped(s *State, w *writer) {
	for stream, d := range s.dropped.all() {
		w.i64(int64(stream))
		w.bucket(d.BucketID)
		w.str(d.Name)
		w.i64(d.DroppedMs)
	}
}

func decodeDropped(s *State, r *reader, rows int) {
	last := catalog.StreamID(-1)
	for range rows {
		d := DroppedBucket{Stream: r.stream(), BucketID: r.bucket(), Name: r.str(), DroppedMs: r.i64()}
		if r.err != nil {
			return
		}
		_, live := s.bucketOf.get(d.Stream)
		_, twice := s.droppedKeys.get(d.WriterSnapshotKey())
		if live || twice || d.Stream <= last || uint64(d.Stream) >= s.nextStreamID {
			r.fail("the dropped bucket %s with stream %d is out of order", d.BucketID, d.Stream)
			return
		}
		last = d.Stream
		s.bury(d)
	}
}

// A bucket's name. Little-endian.
//
//	  0        8           16       20
//	 +--------+-----------+--------+
//	 | table  | partition | bucket |
//	 | u64    | i64, or -1| i32    |
//	 +--------+-----------+--------+

func (w *writer) bucket(b BucketID) {
	w.u64(uint64(b.Table))
	w.i64(int64(b.Partition))
	w.i32(b.Bucket)
}

func (r *reader) bucket() BucketID {
	return BucketID{Table: TableID(r.u64()), Partition: PartitionID(r.i64()), Bucket: r.i32()}
}
