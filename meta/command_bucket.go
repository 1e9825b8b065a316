package meta

import "math"

// LeadBucket gives a node the next leader epoch of a bucket (KV-5). It leads once it has opened the bucket's stream in that
// epoch, and not before (KV-6). Result: the leader epoch in ID, the first one being 0; rejected as [NodeEpochMismatch],
// [CoordinatorFenced] if there is a newer coordinator, [TableNotExist], [PartitionNotExist], or [InvalidArgument] for a
// bucket that the table does not have.
type LeadBucket struct {
	Node             int32
	NodeEpoch        int64
	Bucket           BucketID
	CoordinatorEpoch int64
}

// RegisterCoordinator makes a node the coordinator of buckets, if the last one's epoch is the expected one, 0 for none (KV-5).
// Result: the coordinator's epoch in ID, the first one being 1; rejected as [NodeEpochMismatch] or [CoordinatorFenced].
type RegisterCoordinator struct {
	Node          int32
	NodeEpoch     int64
	ExpectedEpoch int64
}

// Type returns 38.
func (LeadBucket) Type() uint8 { return numLeadBucket }

// Type returns 43.
func (RegisterCoordinator) Type() uint8 { return numRegisterCoordinator }

func (c LeadBucket) encode(w *writer) {
	w.node(c.Node, c.NodeEpoch)
	w.bucket(c.Bucket)
	w.i64(c.CoordinatorEpoch)
}

func decodeLeadBucket(r *reader) Command {
	return LeadBucket{Node: r.i32(), NodeEpoch: r.i64(), Bucket: r.bucket(), CoordinatorEpoch: r.i64()}
}

func (c RegisterCoordinator) encode(w *writer) {
	w.node(c.Node, c.NodeEpoch)
	w.i64(c.ExpectedEpoch)
}

func (c LeadBucket) apply(t *transition) Result {
	if r := t.checkNode(c.Node, c.NodeEpoch); r.Code != OK {
		return r
	}
	if now := t.next.coordinator.Epoch; c.CoordinatorEpoch < now {
		return reject(CoordinatorFenced, "the coordinator is at epoch %d, not %d", now, c.CoordinatorEpoch)
	}
	table, r := t.findTable(c.Bucket.Table)
	if table == nil {
		return r
	}
	p, known := table.partitions.get(c.Bucket.Partition)
	if !known {
		return reject(PartitionNotExist, "table %d has no partition %d", c.Bucket.Table, c.Bucket.Partition)
	}
	b, known := p.buckets.get(c.Bucket.Bucket)
	switch {
	case !known:
		return reject(InvalidArgument, "table %d has no bucket %d", c.Bucket.Table, c.Bucket.Bucket)
	case b.LeaderEpoch == math.MaxInt32:
		return reject(InvalidArgument, "the leader epoch of bucket %s would pass %d", c.Bucket, math.MaxInt32)
	}
	b.LeaderEpoch, b.Node = b.LeaderEpoch+1, c.Node
	led := *p
	led.buckets = p.buckets.set(c.Bucket.Bucket, b)
	changed := *table
	changed.partitions = table.partitions.set(p.ID, &led)
	t.putTable(&changed)
	return Result{ID: uint64(b.LeaderEpoch)}
}

func (c RegisterCoordinator) apply(t *transition) Result {
	if r := t.checkNode(c.Node, c.NodeEpoch); r.Code != OK {
		return r
	}
	if now := t.next.coordinator.Epoch; c.ExpectedEpoch != now {
		return reject(CoordinatorFenced, "the coordinator is at epoch %d, expected %d", now, c.ExpectedEpoch)
	}
	t.next.coordinator = Coordinator{Epoch: c.ExpectedEpoch + 1, Node: c.Node}
	return Result{ID: uint64(t.next.coordinator.Epoch)}
}
