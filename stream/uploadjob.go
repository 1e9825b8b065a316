package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// uploadJob is a block in progress. Its channels close when a step is done, and never if the uploader fails or ends
// before.
type uploadJob struct {
	block *cacheBlock
	begun time.Time

	// Prerequisites: an earlier block's commit, so that not too many are in progress; the steps of the block before it.
	mayBegin, mayPrepare, mayCommit <-chan struct{}

	prepared, committed chan struct{}
}

// upload uploads a block to the data bucket, however long that takes.
func (u *uploader) upload(j *uploadJob) {
	age := j.begun.Sub(j.block.began)
	if j.block.hurried || age < rateMinAge {
		restore := u.rate.lift()
		defer restore()
	} else {
		u.rate.need(j.block.cost, age)
	}
	objects, err := u.commitBlock(u.ctx, j)
	if err != nil {
		if u.ctx.Err() == nil {
			u.fail(err)
		}
		return
	}
	u.cache.markFree(j.block)
	u.committed(j.block)
	close(j.committed)
	u.events.uploaded(UploadedEvent{
		Objects: objects, Streams: len(j.block.runs), Bytes: j.block.size,
		Waited: time.Since(j.block.began), Took: time.Since(j.begun),
	})
}

// uploadRecords commits records that come from a log alone: those of each stream in order. It returns when the catalog's
// view has them. The error matches [ErrFenced] or [ErrEngineFailed], or is the context's or a [*DiscontinuityError]; it
// does not fail the uploader.
func (u *uploader) uploadRecords(ctx context.Context, records []Record) error {
	j, err := u.newRecordsJob(&uploadJob{prepared: u.now, committed: u.now}, records)
	if err != nil {
		return err
	}
	return u.uploadJob(ctx, j)
}

// newRecordsJob returns an upload of records that is committed after another one.
func (u *uploader) newRecordsJob(after *uploadJob, records []Record) (*uploadJob, error) {
	b, err := newSealedBlock(time.Now(), records)
	if err != nil {
		return nil, err
	}
	return &uploadJob{
		block: b, mayBegin: u.now, mayPrepare: after.prepared, mayCommit: after.committed,
		prepared: make(chan struct{}), committed: make(chan struct{}),
	}, nil
}

// uploadJob commits a block that no cache holds. It is not slowed down: a caller waits for it.
func (u *uploader) uploadJob(ctx context.Context, j *uploadJob) error {
	restore := u.rate.lift()
	defer restore()
	if _, err := u.commitBlock(ctx, j); err != nil {
		return err
	}
	close(j.committed)
	return nil
}

// commitBlock runs steps 1 to 5 of section 5.1 and returns how many objects the block became.
func (u *uploader) commitBlock(ctx context.Context, j *uploadJob) (objects int, err error) {
	plan := planUpload(j.block, u.cfg.UploadStreamSplit)
	if err := await(ctx, j.mayBegin); err != nil {
		return 0, err
	}
	if err := await(ctx, j.mayPrepare); err != nil {
		return 0, err
	}
	if plan.objects() == 0 { // UP-10
		close(j.prepared)
		return 0, await(ctx, j.mayCommit)
	}
	first, err := u.prepare(ctx, plan.objects())
	if err != nil {
		return 0, err
	}
	close(j.prepared)
	for try := 0; ; try++ {
		commit, err := u.write(ctx, j.block, plan.assign(first))
		if err != nil {
			return 0, err
		}
		if err := await(ctx, j.mayCommit); err != nil {
			return 0, err
		}
		err = u.commit(ctx, commit)
		if !errors.Is(err, errWriteAgain) {
			return plan.objects(), err
		}
		u.events.uploadRetried(UploadRetriedEvent{Step: "commit", Try: try + 1, Err: err})
		if first, err = u.prepare(ctx, plan.objects()); err != nil {
			return 0, err
		}
	}
}

// prepare reserves ids. A try whose reply was lost costs ids that expire unused.
func (u *uploader) prepare(ctx context.Context, count int) (first catalog.ObjectID, err error) {
	err = u.untilKnown(ctx, "prepare", func() error {
		first, err = u.catalog.PrepareObjects(ctx, u.node, count, u.cfg.UploadPrepareTTL)
		return err
	})
	if err == nil || ctx.Err() != nil {
		return first, err
	}
	return 0, fmt.Errorf("preparing %d objects: %w", count, engineError(err))
}

// write stores all objects of a block, several at a time.
func (u *uploader) write(ctx context.Context, b *cacheBlock, plan []objectPlan) (catalog.Commit, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	written := make([]writtenObject, len(plan))
	err := parallel.Each(ctx, len(plan), uploadWrites, func(i int) {
		var err error
		if written[i], err = u.writeObject(ctx, b, plan[i]); err != nil {
			cancel(err)
		}
	})
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return catalog.Commit{}, err // some were not written
	}
	return commitOf(written), nil
}

// errWriteAgain says that a commit's ids have expired: nothing was committed, and the cleaner removes the objects that
// were written (UP-7).
var errWriteAgain = errors.New("reserved object ids have expired")

// commit makes a block visible, retrying as often as necessary, and returns once the local view has it (RD-1). Streams
// that were deleted since the block was written are left out: their records have nowhere to go, and all others continue
// (F-45).
func (u *uploader) commit(ctx context.Context, c catalog.Commit) error {
	for try := 0; ; try++ {
		err := u.untilKnown(ctx, "commit", func() error { return u.catalog.Commit(ctx, u.node, c) })
		switch {
		case err == nil, errors.Is(err, catalog.ErrRedundant): // an earlier try was applied (UP-4)
			return u.awaitApplied(ctx, c)
		case errors.Is(err, catalog.ErrObjectNotPrepared):
			// An earlier try may still have been applied, and its object compacted since.
			if isApplied(u.catalog.View(), c) {
				return nil
			}
			return fmt.Errorf("%w: %w", errWriteAgain, err)
		case errors.Is(err, catalog.ErrObjectIDInUse) && isApplied(u.catalog.View(), c):
			return nil // or one of its streams has been deleted since, with its own object
		case errors.Is(err, catalog.ErrStreamNotExist):
			left, gone := withoutDeleted(u.catalog.View(), c)
			if len(gone) == 0 {
				return &CommitRejectedError{Commit: c, Err: err}
			}
			u.events.uploadRetried(UploadRetriedEvent{Step: "commit", Try: try + 1, Err: err})
			if u.gone != nil {
				u.gone(gone)
			}
			if c = left; len(committedRanges(c)) == 0 {
				return nil // the objects are removed when their ids have expired
			}
			continue
		case ctx.Err() != nil:
			return err
		}
		if fenced := engineError(err); errors.Is(fenced, ErrFenced) {
			return fenced
		}
		return &CommitRejectedError{Commit: c, Err: err}
	}
}

// awaitApplied waits until the local view has a commit (5.1 step 5).
func (u *uploader) awaitApplied(ctx context.Context, c catalog.Commit) error {
	v := u.catalog.View()
	for !isApplied(v, c) {
		var err error
		if v, err = u.catalog.Wait(ctx, v.Index()+1); err != nil {
			return err
		}
	}
	return nil
}

// untilKnown calls the catalog until the outcome is known: a call with an unknown outcome is repeated, with the same
// ids (UP-4).
func (u *uploader) untilKnown(ctx context.Context, step string, call func() error) error {
	for try := 0; ; try++ {
		err := call()
		if err == nil || ctx.Err() != nil || !isUnknown(err) {
			return err
		}
		delay := retryDelay(try)
		u.events.uploadRetried(UploadRetriedEvent{Step: step, Try: try + 1, Delay: delay, Err: err})
		if err := pause(ctx, delay); err != nil {
			return err
		}
	}
}

// isUnknown reports whether the effect of a catalog call is unknown.
func isUnknown(err error) bool {
	return errors.Is(err, catalog.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled)
}

// engineError interprets a refusal of the catalog: [ErrFenced] if this process is no longer the owner (UP-5), otherwise a
// broken invariant, [ErrEngineFailed].
func engineError(err error) error {
	if errors.Is(err, catalog.ErrNodeEpochMismatch) || errors.Is(err, catalog.ErrStreamFenced) {
		return fmt.Errorf("%w: %w", ErrFenced, err)
	}
	return fmt.Errorf("%w: %w", ErrEngineFailed, err)
}

// await waits until a channel is closed, or fails with the context's error if that ends first.
func await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
