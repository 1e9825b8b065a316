package stream

import (
	"context"
	"errors"
	"sync"
)

// commitsAhead is how many blocks of a recovery are uploaded at the same time, while one more is gathered.
const commitsAhead = 2

// walCommits uploads what a recovery gathers, block by block. Writes overlap, and the log is read on meanwhile; a block
// is committed after the one before it (UP-2, WAL-30). It is for one goroutine, and has at most two.
//
//	read, gather | block 3
//	write        | block 1, block 2
//	commit       | block 0
type walCommits struct {
	uploader *uploader
	last     *uploadJob
	slots    chan struct{} // a token for each block under way
	all      sync.WaitGroup
	ctx      context.Context // ends when a block fails, with the reason as its cause
	fail     context.CancelCauseFunc
}

// newWALCommits begins a recovery's uploads. end must be called.
func newWALCommits(ctx context.Context, u *uploader) *walCommits {
	c := &walCommits{uploader: u, last: &uploadJob{prepared: u.now, committed: u.now}, slots: make(chan struct{}, commitsAhead)}
	c.ctx, c.fail = context.WithCancelCause(ctx)
	return c
}

// add begins to commit records, sorted by stream and offset, which follow those that were added before. It waits while
// enough blocks are in progress; the error is why one of them failed.
func (c *walCommits) add(records []Record) error {
	select {
	case c.slots <- struct{}{}:
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
	j, err := c.uploader.newRecordsJob(c.last, records)
	if err != nil {
		<-c.slots
		return err
	}
	c.last = j
	c.all.Go(func() {
		defer func() { <-c.slots }()
		if err := c.uploader.uploadJob(c.ctx, j); err != nil {
			c.fail(err)
		}
	})
	return nil
}

// end waits for everything that was added, which is valid whatever came after it, and returns err or why a block failed.
func (c *walCommits) end(err error) error {
	c.all.Wait()
	failed := context.Cause(c.ctx)
	c.fail(context.Canceled) // releases the context
	if failed != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return failed
	}
	return err
}
