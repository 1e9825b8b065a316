package stream

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

const (
	// uploadLinger is how long a forced upload waits for others to join it (UP-8).
	uploadLinger = 100 * time.Millisecond
	// uploadBlocks is how many blocks are uploaded at the same time (UP-2).
	uploadBlocks = 4
	// uploadWrites is how many objects are written at the same time.
	uploadWrites = 4
	// uploadTries bounds the tries of a write that fails with unclassified errors, such as a multipart upload that the
	// store has forgotten (F-58). Errors that the store calls transient are retried forever: the WAL keeps the data.
	uploadTries = 10
)

// CommitRejectedError is a commit that the metadata refused although it must be valid (UP-6): its offsets are not
// contiguous, or its ids are in use. The engine stops; the WAL has the data. It matches [ErrEngineFailed] and the
// refusal.
type CommitRejectedError struct {
	// Commit is the whole request.
	Commit catalog.Commit
	Err    error
}

func (e *CommitRejectedError) Error() string {
	return fmt.Sprintf("commit of an upload was rejected: %v: %+v", e.Err, e.Commit)
}

// Unwrap returns [ErrEngineFailed] and the refusal.
func (e *CommitRejectedError) Unwrap() []error { return []error{ErrEngineFailed, e.Err} }

// UploadError is an object that the data store refuses permanently. The engine stops; the WAL has the data. It
// matches [ErrEngineFailed] and the store's error.
type UploadError struct {
	Key   string
	Tries int
	Err   error
}

func (e *UploadError) Error() string {
	return fmt.Sprintf("object %q could not be written, %d tries: %v", e.Key, e.Tries, e.Err)
}

// Unwrap returns [ErrEngineFailed] and the store's error.
func (e *UploadError) Unwrap() []error { return []error{ErrEngineFailed, e.Err} }

// uploaderOptions are what an uploader works with.
type uploaderOptions struct {
	data      objstore.Store
	catalog   catalog.Catalog
	node      catalog.Node
	namespace string
	cfg       Config
	// cache is where blocks come from; nil for an uploader of [uploader.uploadRecords] only.
	cache  *logCache
	events Events
	// committed is called for each block, in the order in which they were sealed, one at a time, after the catalog's view
	// has the commit and the block is free.
	committed func(*cacheBlock)
	// gone is called, without locks, with streams that turned out to be deleted while records of theirs were uploaded; those
	// are not committed. It may be nil.
	gone func([]catalog.StreamID)
	// failed is called at most once, without locks: no block is committed any more. The error matches [ErrFenced] or
	// [ErrEngineFailed].
	failed func(error)
}

// uploader uploads sealed blocks of a log cache to the data bucket (section 5):
//
//	plan, prepare --> write --> commit, wait until applied, release
//	in seal order    overlap    in seal order (UP-2)
//
// It has one goroutine that decides when blocks are sealed (UP-8), and one for each block in progress.
type uploader struct {
	uploaderOptions
	ctx    context.Context // ends everything
	cancel context.CancelFunc
	wake   chan struct{} // signals that a forced upload is wanted
	rate   uploadRate
	writes chan struct{} // holds a token for each object that is being written
	all    sync.WaitGroup
	now    chan struct{} // a closed channel, for steps that need not wait

	// Owned by the goroutine run: the newest block, and channels that say that the newest uploadBlocks are committed,
	// oldest first.
	last  *uploadJob
	under []<-chan struct{}

	mu struct {
		sync.Mutex
		forced *forcedUpload // requested, and not sealed yet
		err    error
	}
}

// forcedUpload is a seal that callers wait for.
type forcedUpload struct {
	due       time.Time
	sealed    chan struct{}
	committed <-chan struct{} // of the last block up to it; set before sealed is closed
}

// newUploader starts an uploader. Its owner closes it.
func newUploader(o uploaderOptions) *uploader {
	u := &uploader{uploaderOptions: o, wake: make(chan struct{}, 1), writes: make(chan struct{}, uploadWrites)}
	u.ctx, u.cancel = context.WithCancel(context.Background())
	u.now = make(chan struct{})
	close(u.now)
	u.last = &uploadJob{prepared: u.now, committed: u.now}
	u.under = slices.Repeat([]<-chan struct{}{u.now}, uploadBlocks)
	if u.cache != nil {
		u.all.Go(u.run)
	}
	return u
}

// close stops the uploader: uncommitted records stay in the WAL. It returns when all goroutines have ended.
func (u *uploader) close() {
	u.cancel()
	u.all.Wait()
}

// err returns why no block is committed any more, nil while the uploader works.
func (u *uploader) err() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.mu.err
}

// fail stops the uploader with the first error. Its owner learns of it before anybody who waits for an upload.
func (u *uploader) fail(err error) {
	u.mu.Lock()
	first := u.mu.err == nil
	if first {
		u.mu.err = err
	}
	u.mu.Unlock()
	if first {
		u.failed(err)
		u.cancel()
	}
}

// force seals the content of the cache and waits until everything that was put before the call is committed. Calls within
// uploadLinger are served by one seal (UP-8). The error is the uploader's or the context's; after a context error the
// upload continues.
func (u *uploader) force(ctx context.Context) error {
	restore := u.rate.lift()
	defer restore()
	f := u.ask()
	if err := u.await(ctx, f.sealed); err != nil {
		return err
	}
	return u.await(ctx, f.committed)
}

// await waits until a channel is closed; it fails if the context or the uploader ends first.
func (u *uploader) await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-u.ctx.Done():
	}
	select {
	case <-done:
		return nil
	default:
		return u.ended()
	}
}

// ended returns why nothing is uploaded any more.
func (u *uploader) ended() error {
	if err := u.err(); err != nil {
		return err
	}
	return ErrClosed
}

// kick starts an upload without a waiter, because appends wait for room in the cache (LC-7). While blocks are in progress
// it does nothing: they will make room.
func (u *uploader) kick() {
	if !u.cache.isUploading() {
		u.ask()
	}
}

// ask joins the pending forced upload, or begins one.
func (u *uploader) ask() *forcedUpload {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.mu.forced == nil {
		u.mu.forced = &forcedUpload{due: time.Now().Add(uploadLinger), sealed: make(chan struct{})}
		select {
		case u.wake <- struct{}{}:
		default:
		}
	}
	return u.mu.forced
}

// takeForced returns the forced upload if its time has come; otherwise when that will be, if there is one.
func (u *uploader) takeForced(now time.Time) (f *forcedUpload, due time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.mu.forced == nil:
		return nil, time.Time{}
	case u.mu.forced.due.After(now):
		return nil, u.mu.forced.due
	}
	f, u.mu.forced = u.mu.forced, nil
	return f, time.Time{}
}

// run uploads whatever is due.
func (u *uploader) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		var expired <-chan time.Time // never, unless something will be due
		if due := u.sealDue(time.Now()); !due.IsZero() {
			timer.Reset(time.Until(due))
			expired = timer.C
		}
		select {
		case <-expired:
		case <-u.wake:
		case <-u.cache.news:
		case <-u.ctx.Done():
			return
		}
	}
}

// sealDue seals what is forced or old enough, starts the uploads of all sealed blocks in their order, and returns when it
// must be called again; the zero time if nothing waits.
func (u *uploader) sealDue(now time.Time) (next time.Time) {
	forced, next := u.takeForced(now)
	if forced != nil {
		u.cache.seal()
	}
	if due, waiting := u.cache.sealOlder(u.cfg.UploadInterval, now); waiting && (next.IsZero() || due.Before(next)) {
		next = due
	}
	for _, b := range u.cache.takeSealed() {
		u.start(b)
	}
	if forced != nil {
		forced.committed = u.last.committed
		close(forced.sealed)
	}
	return next
}

// start begins the upload of the next block.
func (u *uploader) start(b *cacheBlock) {
	j := &uploadJob{
		block: b, begun: time.Now(), prepared: make(chan struct{}), committed: make(chan struct{}),
		mayPrepare: u.last.prepared, mayCommit: u.last.committed, mayBegin: u.under[0],
	}
	u.last = j
	u.under = append(u.under[1:], j.committed)
	u.all.Go(func() { u.upload(j) })
}
