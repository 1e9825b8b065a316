package meta

import "context"

// Tables is the metadata log as whoever keeps tables sees it. It is safe for concurrent use and holds nothing of its own: several
// may be made of one log, which must outlive them.
//
// Every method proposes one command and returns once it is durable and applied here. A command that was rejected is a
// [*Rejection]; what else may be the error is at [Log.Propose]. A log below [LevelTables] answers a [*LevelError].
type Tables struct{ log *Log }

// NewTables returns the tables that a log holds.
func NewTables(log *Log) *Tables { return &Tables{log: log} }

// Create makes a table and returns its id (CAT-1). Errors to match: [TableExists], [InvalidArgument].
func (t *Tables) Create(ctx context.Context, c CreateTable) (TableID, error) {
	done, err := t.log.Do(ctx, c)
	return TableID(done.ID), err
}

// Drop removes a table and returns what is left of it to be destroyed (CAT-4): its buckets with their streams. Errors to match:
// [TableNotExist], which a drop that is repeated answers too.
func (t *Tables) Drop(ctx context.Context, id TableID) ([]DroppedBucket, error) {
	return t.drop(ctx, DropTable{Table: id})
}

// AddSchema adds the next version of a table's schema and returns it (CAT-2). Errors to match: [TableNotExist],
// [SchemaConflict], [SchemaLimit], [SchemaIncompatible], [InvalidArgument].
func (t *Tables) AddSchema(ctx context.Context, id TableID, expectedLast int16, schema []byte) (version int16, err error) {
	done, err := t.log.Do(ctx, AddSchema{Table: id, ExpectedLast: expectedLast, Schema: schema})
	return int16(done.ID), err
}

// CreatePartition makes a partition and returns its id (CAT-3). Errors to match: [TableNotExist], [PartitionExists],
// [InvalidArgument].
func (t *Tables) CreatePartition(ctx context.Context, id TableID, key string) (PartitionID, error) {
	done, err := t.log.Do(ctx, CreatePartition{Table: id, Key: key})
	return PartitionID(done.ID), err
}

// DropPartition removes a partition and returns what is left of it to be destroyed (CAT-4). Errors to match: [TableNotExist],
// [PartitionNotExist].
func (t *Tables) DropPartition(ctx context.Context, id TableID, partition PartitionID) ([]DroppedBucket, error) {
	return t.drop(ctx, DropPartition{Table: id, Partition: partition})
}

// drop proposes a drop and returns those of its buckets that nobody has destroyed yet.
func (t *Tables) drop(ctx context.Context, c Command) ([]DroppedBucket, error) {
	done, err := t.log.Do(ctx, c)
	if err != nil {
		return nil, err
	}
	var left []DroppedBucket
	view := t.log.View()
	for _, stream := range done.Streams {
		if d, is := view.dropped.get(stream); is {
			left = append(left, d)
		}
	}
	return left, nil
}

// AddBuckets adds count buckets to a table that has expected ones, and to each of its partitions (CAT-3). Errors to match:
// [TableNotExist], [BucketConflict], [InvalidArgument].
func (t *Tables) AddBuckets(ctx context.Context, id TableID, expected, count int32) error {
	_, err := t.log.Do(ctx, AddBuckets{Table: id, Expected: uint32(expected), Count: uint32(count)})
	return err
}

// LeadBucket gives a node the next leader epoch of a bucket (KV-5). The node leads once it has opened the bucket's stream in that
// epoch (KV-6). Errors to match: [NodeEpochMismatch], [CoordinatorFenced], [TableNotExist], [PartitionNotExist],
// [InvalidArgument].
func (t *Tables) LeadBucket(
	ctx context.Context, node int32, nodeEpoch int64, b BucketID, coordinatorEpoch int64,
) (leaderEpoch int64, err error) {
	done, err := t.log.Do(ctx, LeadBucket{Node: node, NodeEpoch: nodeEpoch, Bucket: b, CoordinatorEpoch: coordinatorEpoch})
	return int64(done.ID), err
}

// RegisterCoordinator makes a node the coordinator after the one with the expected epoch, and returns its own (KV-5). Errors to
// match: [NodeEpochMismatch], [CoordinatorFenced].
func (t *Tables) RegisterCoordinator(ctx context.Context, node int32, nodeEpoch, expected int64) (epoch int64, err error) {
	done, err := t.log.Do(ctx, RegisterCoordinator{Node: node, NodeEpoch: nodeEpoch, ExpectedEpoch: expected})
	return int64(done.ID), err
}
