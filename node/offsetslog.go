package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/coordinator"
	"github.com/tidemark-io/tidemark/coordinator/runner"
	"github.com/tidemark-io/tidemark/partition"
)

// offsetsLog is a partition of the offsets topic as the group coordinator needs it.
type offsetsLog struct{ log *partition.Log }

var _ runner.Log = offsetsLog{}

// replayAtOnce is how many bytes are read at a time.
const replayAtOnce = 1 << 20

// Replay reads the log from its start to its high watermark.
func (l offsetsLog) Replay(ctx context.Context, visit func(runner.Entry) error) error {
	o := l.log.Offsets()
	var buf []byte
	for next := o.LogStart; next < o.HighWatermark; {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		read, err := l.log.Read(next, partition.ReadUncommitted, replayAtOnce, true)
		if err != nil {
			return err
		}
		buf, err = read.Records.AppendTo(buf[:0])
		read.Records.Release()
		if err != nil {
			return err
		}
		after, err := replayBatches(buf, o.LogStart, visit)
		if err != nil {
			return err
		}
		if after <= next {
			return fmt.Errorf("%s: nothing to read at offset %d, below the high watermark %d", l.log, next, o.HighWatermark)
		}
		next = after
	}
	return nil
}

// replayBatches visits the records of batches from an offset on, and returns the next offset.
func replayBatches(b []byte, from int64, visit func(runner.Entry) error) (next int64, err error) {
	for len(b) > 0 {
		one, rest, err := batch.Next(b)
		if err != nil {
			return next, err
		}
		if err := one.VerifyCRC(); err != nil {
			return next, fmt.Errorf("offset %d: %w", one.BaseOffset(), err)
		}
		if err := replayBatch(one, from, visit); err != nil {
			return next, err
		}
		next, b = one.NextOffset(), rest
	}
	return next, nil
}

func replayBatch(b batch.Batch, from int64, visit func(runner.Entry) error) error {
	control, ok, err := b.Control()
	switch {
	case err != nil:
		return fmt.Errorf("offset %d: %w", b.BaseOffset(), err)
	case ok:
		marker := runner.AbortMarker
		if control.Type == batch.Commit {
			marker = runner.CommitMarker
		}
		return visit(runner.Entry{Offset: b.BaseOffset(), ProducerID: b.ProducerID(), Marker: marker})
	}
	producer := int64(-1)
	if b.Attributes().Transactional() {
		producer = b.ProducerID()
	}
	records := b.Records(batch.Limits{})
	defer records.Close()
	for records.Next() {
		r := records.Record()
		if r.Offset < from {
			continue
		}
		if err := visit(runner.Entry{Offset: r.Offset, Key: r.Key, Value: r.Value, ProducerID: producer}); err != nil {
			return err
		}
	}
	return records.Err()
}

// Append writes one batch.
func (l offsetsLog) Append(ctx context.Context, ms int64, records []runner.KeyValue) (runner.Pending, error) {
	return l.append(ctx, ms, records, partition.AppendOptions{Acks: -1, ProduceVersion: -1})
}

// Carry writes a batch of one record, which may be larger than max.message.bytes now allows.
func (l offsetsLog) Carry(ctx context.Context, ms int64, record runner.KeyValue) (runner.Pending, error) {
	return l.append(ctx, ms, []runner.KeyValue{record}, partition.AppendOptions{Acks: -1, ProduceVersion: -1, AnySize: true})
}

func (l offsetsLog) append(ctx context.Context, ms int64, records []runner.KeyValue, o partition.AppendOptions) (runner.Pending, error) {
	b := batch.NewBuilder(batch.BuilderOptions{})
	for _, r := range records {
		b.Add(ms, r.Key, r.Value)
	}
	built, err := b.Build()
	if err != nil {
		return nil, err
	}
	a, err := l.log.Append(ctx, built, o)
	if err != nil {
		return nil, coordinatorError(err)
	}
	return a, nil
}

// coordinatorError translates the failure of an append into the coordinator's errors.
func coordinatorError(err error) error {
	var invalid *batch.ValidationError
	var storage *partition.StorageError
	switch {
	case errors.As(err, &invalid) && (invalid.Kind == batch.TooLarge || invalid.Kind == batch.ListTooLarge):
		return fmt.Errorf("%w: %w", coordinator.ErrRecordTooLarge, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %w", coordinator.ErrNotAvailable, err)
	case errors.As(err, &storage) && !storage.Final:
		return fmt.Errorf("%w: %w", coordinator.ErrNotCoordinator, err)
	}
	return fmt.Errorf("%w: %w: %w", coordinator.ErrNotCoordinator, runner.ErrEnded, err)
}

// MaxBatchBytes is the topic's max.message.bytes.
func (l offsetsLog) MaxBatchBytes() int { return int(l.log.Config().MaxMessageBytes) }

// Empty reports whether the log holds nothing.
func (l offsetsLog) Empty() bool {
	o := l.log.Offsets()
	return o.LogStart == o.LogEnd
}

// End is the log end.
func (l offsetsLog) End() int64 { return l.log.Offsets().LogEnd }

// Trim moves the log start up.
func (l offsetsLog) Trim(offset int64) error {
	_, err := l.log.Trim(offset)
	return err
}
