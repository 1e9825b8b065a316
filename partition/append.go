package partition

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/kafkalog"
)

// AppendOptions describe the request that an append came with.
type AppendOptions struct {
	// Acks is what the producer asked for: 0, 1 or -1. With one replica 1 and -1 are the same, and the answer to either
	// waits for [Append.Wait]; with 0 nobody waits, and the records become durable like any others a moment later.
	Acks int16

	// ProduceVersion is the version of the Produce request, which says what the client may send. Negative: no limit.
	ProduceVersion int16

	// AnySize accepts a batch larger than max.message.bytes, as long as a segment holds it: for records that are in the log
	// already and are moved to its end.
	AnySize bool
}

// Append is the handle of records that are in the log but perhaps not yet durable. It does not change after
// [Log.Append] has returned and may be shared.
type Append struct {
	// BaseOffset and LastOffset are the offsets that the records have.
	BaseOffset, LastOffset int64

	// AppendTime is the time that the log stamped into the records, in ms since 1970, or -1 when they keep their own.
	AppendTime int64

	// LogStart is the log start at the time of the append.
	LogStart int64

	// Duplicate says that the records were already in the log, at these offsets, from an earlier attempt of their
	// producer.
	Duplicate bool

	log   *Log
	round *round // nil: visible and durable enough already
}

// Done returns a channel that is closed when the records are durable by the topic's rule and visible to readers, or when
// that failed; [Append.Err] then says which.
func (a *Append) Done() <-chan struct{} {
	if a.round == nil {
		return a.log.flusher.durable
	}
	return a.round.done
}

// Err returns nil while [Append.Done] is open, and when the records are durable by the topic's rule. An error matches
// [ErrStorage], [ErrClosed] or [ErrDeleted]; the records may or may not be in the log after the next start. If the
// error is a [*StorageError] that is not Final, the log remains usable, and they become visible with the next sync.
func (a *Append) Err() error {
	if a.round == nil {
		return nil
	}
	select {
	case <-a.round.done:
		return a.round.err
	default:
		return nil
	}
}

// Wait waits for [Append.Done] or the end of ctx, and returns [Append.Err] or the context's error. The records stay
// appended in either case.
func (a *Append) Wait(ctx context.Context) error {
	select {
	case <-a.Done():
		return a.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Append validates one batch of records as sent by a producer, assigns the next offsets and writes it. Batches are
// written in the order of the calls. When Append returns, the records are in the log, but neither durable nor visible:
// the response to the producer waits for [Append.Wait], and so does the one for a duplicate, whose original may not be
// durable yet.
//
// The log owns records until Append returns and writes offset, leader epoch and append time into them; it keeps no
// reference after.
//
// Append blocks, until ctx ends, while the log or the process has too many unsynced bytes, and under
// tidemark.flush=every until the previous append has been synced. Errors: *batch.ValidationError for what a client must
// not send; [ErrOutOfOrderSequence], [ErrInvalidProducerEpoch] and [ErrInvalidTxnState] for what its producer state
// forbids; [ErrStorage], [ErrLowDisk], [ErrNotLeader], [ErrClosed], [ErrDeleted]. If it fails nothing was appended,
// except that after an [ErrStorage] that is not [ErrLowDisk] the batch may be in the log after the next start.
func (l *Log) Append(ctx context.Context, records []byte, o AppendOptions) (*Append, error) {
	if err := l.refusal(); err != nil {
		return nil, err
	}
	if err := l.room(len(records)); err != nil {
		err = l.storageError("append", fmt.Errorf("%w: %w", ErrLowDisk, err), false)
		l.refused(records, err)
		return nil, err
	}
	s := l.settings.Load()
	rules := s.rules(l.now(), o.ProduceVersion)
	if o.AnySize {
		rules.MaxMessageBytes = 0
	}
	checked, err := batch.Validate(records, rules)
	if err != nil {
		l.refused(records, err)
		return nil, err
	}
	held, err := l.admit(ctx, int64(len(checked.Batch)), s.mode)
	if err != nil {
		return nil, err
	}
	a, err := l.write(checked.Batch, held)
	if err != nil {
		var failed *StorageError
		if errors.As(err, &failed) && failed.Final {
			l.wakeFailed()
		}
		l.refused(records, err)
		return nil, err
	}
	l.events.Appended(Appended{
		Topic: l.topic, Partition: l.index,
		Records: checked.Batch.Count(), Bytes: len(checked.Batch), Duplicate: a.Duplicate,
	})
	if a.round == nil {
		l.moved()
	}
	return a, nil
}

func (l *Log) refused(records []byte, err error) {
	l.events.Refused(Refused{
		Topic: l.topic, Partition: l.index, Bytes: len(records), Reason: refusalReason(err), Err: err,
	})
}

// shares is what an append holds of the two budgets until it is synced.
type shares struct{ log, process int64 }

// admit waits for room for n unsynced bytes. The page cache is the kernel's to bound. Under flushEvery an append takes the
// whole of its log's budget, so that the next one is written after its sync.
func (l *Log) admit(ctx context.Context, n int64, mode flushMode) (shares, error) {
	if mode == flushOS {
		return shares{}, nil
	}
	h := shares{log: l.syncer.budget.Share(n), process: l.flusher.budget.Share(n)}
	if mode == flushEvery {
		h.log = l.syncer.budget.Capacity()
	}
	if err := l.syncer.budget.Acquire(ctx, h.log); err != nil {
		return shares{}, err
	}
	if err := l.flusher.budget.Acquire(ctx, h.process); err != nil {
		l.syncer.budget.Release(h.log)
		return shares{}, err
	}
	return h, nil
}

// release returns shares to the budgets.
func (s *syncer) release(h shares) {
	if h.log > 0 {
		s.budget.Release(h.log)
	}
	if h.process > 0 {
		s.flusher.budget.Release(h.process)
	}
}

// write appends one batch and joins it to the sync that will cover it. The shares are held on until that sync, or given
// back.
func (l *Log) write(b batch.Batch, held shares) (*Append, error) {
	l.appending.Lock()
	defer l.appending.Unlock()

	if err := l.refusal(); err != nil {
		l.syncer.release(held)
		return nil, err
	}
	size := int64(len(b))
	done, err := l.store.Append(b, kafkalog.AppendOptions{LeaderEpoch: l.epoch.Load(), Origin: kafkalog.Client})
	if err != nil {
		l.syncer.release(held)
		return nil, l.appendError(err)
	}
	l.noteAppend(b)
	a := &Append{
		BaseOffset: done.BaseOffset,
		LastOffset: done.LastOffset,
		AppendTime: done.AppendTime,
		LogStart:   l.store.LogStart(),
		Duplicate:  done.Duplicate,
		log:        l,
	}
	if l.coveredLocked(done.LastOffset, l.settings.Load()) {
		l.syncer.release(held)
		return a, nil
	}
	if done.Duplicate {
		b = nil // nothing was written
	}
	a.round, err = l.syncer.join(b, size, held)
	if err != nil {
		l.syncer.release(held)
		return nil, err
	}
	return a, nil
}

// appendError converts an error of the underlying log into one of this package. If the underlying log accepts no more
// appends, neither does this one: appends that wait for a sync are refused too, since it is unknown whether the device
// accepts it.
func (l *Log) appendError(err error) error {
	switch {
	case errors.Is(err, kafkalog.ErrOutOfOrderSequence),
		errors.Is(err, kafkalog.ErrInvalidProducerEpoch),
		errors.Is(err, kafkalog.ErrInvalidTransactionState):
		return err
	case errors.Is(err, kafkalog.ErrFenced):
		return ErrNotLeader
	case errors.Is(err, kafkalog.ErrClosed):
		return ErrClosed
	}
	final := l.store.Failed() != nil
	err = l.storageError("append", err, final)
	if final {
		l.reportFailed(err)
		l.syncer.fail(err)
	}
	return err
}
