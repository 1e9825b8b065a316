package meta

import "github.com/tidemark-io/tidemark/stream/catalog"

// findTable returns the table with the id, or nil and the rejection.
func (t *transition) findTable(id TableID) (*Table, Result) {
	table, known := t.next.tables.get(id)
	if !known {
		return nil, reject(TableNotExist, "no table has the id %d", id)
	}
	return table, Result{}
}

// putTable puts a new version of a table in place.
func (t *transition) putTable(table *Table) {
	t.next.tables = t.next.tables.set(table.ID, table)
	t.next.tableNames = t.next.tableNames.set(table.Name, table.ID)
}

// addPartition makes the buckets that a partition lacks, each with a stream, and puts it into a table that nobody else has seen
// yet. It returns the new streams.
func (t *transition) addPartition(table *Table, p *Partition) (made []catalog.StreamID) {
	changed := *p
	for n := int32(p.buckets.len()); n < table.Buckets; n++ {
		stream := t.newStream()
		changed.buckets = changed.buckets.set(n, Bucket{Stream: stream, LeaderEpoch: neverOpened, Node: -1})
		t.next.bucketOf = t.next.bucketOf.set(stream, BucketID{table.ID, p.ID, n})
		made = append(made, stream)
	}
	table.partitions = table.partitions.set(p.ID, &changed)
	if p.ID != NoPartition {
		table.keys = table.keys.set(p.Key, p.ID)
	}
	return made
}

// dropPartition leaves the tombstones of a partition's buckets and returns their streams.
func (t *transition) dropPartition(table *Table, p *Partition) (streams []catalog.StreamID) {
	for n, b := range p.Buckets() {
		d := DroppedBucket{
			BucketID: BucketID{table.ID, p.ID, n}, Stream: b.Stream, Name: table.Name, DroppedMs: t.next.clockMs,
		}
		t.next.bucketOf = t.next.bucketOf.remove(b.Stream)
		t.next.bury(d)
		streams = append(streams, b.Stream)
	}
	return streams
}

// bury puts a tombstone.
func (s *State) bury(d DroppedBucket) {
	s.dropped = s.dropped.set(d.Stream, d)
	s.droppedKeys = s.droppedKeys.set(d.WriterSnapshotKey(), d.Stream)
}

// forgetDropped takes the tombstone of a stream away, if the stream and the snapshot of its writers are gone (CAT-4).
func (t *transition) forgetDropped(stream catalog.StreamID) {
	d, is := t.next.dropped.get(stream)
	if _, exists := t.next.streams.get(stream); !is || exists || t.next.hasWriterSnapshot(d.WriterSnapshotKey()) {
		return
	}
	t.next.dropped = t.next.dropped.remove(stream)
	t.next.droppedKeys = t.next.droppedKeys.remove(d.WriterSnapshotKey())
}

// keyRemoved checks whether a key was the last item that a tombstone waited for.
func (t *transition) keyRemoved(key string) {
	if root, is := bucketOfKey(key); is {
		if stream, is := t.next.droppedKeys.get(root); is {
			t.forgetDropped(stream)
		}
	}
}

// newStream makes one stream, closed and empty.
func (t *transition) newStream() catalog.StreamID {
	id := catalog.StreamID(t.next.nextStreamID)
	t.next.nextStreamID++
	t.putStream(&streamRow{Stream: catalog.Stream{ID: id, Epoch: neverOpened, Node: -1}})
	return id
}

// checkDropped rejects the opening of a stream whose bucket is dropped, also by the node that has it open.
func (t *transition) checkDropped(stream catalog.StreamID) Result {
	if d, is := t.next.dropped.get(stream); is {
		return reject(StreamNotExist, "stream %d was bucket %s of table %q, which was dropped", stream, d.BucketID, d.Name)
	}
	return Result{}
}

// checkOpen rejects the opening of a bucket's stream under an epoch that is not the bucket's leader epoch (KV-6).
func (t *transition) checkOpen(stream catalog.StreamID, epoch int64) Result {
	id, is := t.next.bucketOf.get(stream)
	if !is {
		return Result{}
	}
	b, _ := t.next.Bucket(id)
	switch {
	case epoch < b.LeaderEpoch:
		return reject(LeaderFenced, "the leader of bucket %s is at epoch %d, not %d", id, b.LeaderEpoch, epoch)
	case epoch > b.LeaderEpoch:
		return reject(InvalidArgument, "epoch %d of bucket %s was never assigned; it is at %d", epoch, id, b.LeaderEpoch)
	}
	return Result{}
}
