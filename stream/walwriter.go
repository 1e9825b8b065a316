package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/objstore"
)

// walWriter writes one epoch's WAL: it runs the uploads that a walQueue decides on, and acknowledges in order.
//
// It has one goroutine for deadlines and one for each upload in flight; close waits for all. An acknowledgement runs in
// one of them, without the lock, one at a time and in the order of submission.
type walWriter struct {
	store  objstore.Store
	prefix WALPrefix
	epoch  int64
	keys   string // begins the epoch's keys
	hooks  walHooks
	ctx    context.Context // ends the uploads
	cancel context.CancelFunc
	wake   chan struct{} // signals that the deadline has changed
	all    sync.WaitGroup

	mu struct {
		sync.Mutex
		queue      *walQueue
		acks       []walAck
		delivering bool
		idle       chan struct{} // closed and replaced whenever nothing is in flight any more
		closing    bool
		failed     error
	}
}

// walHooks are the writer's callbacks to its owner. None may block or call the writer; all must be safe for concurrent
// use. Those that only report may be nil.
type walHooks struct {
	// proof returns when the node's epoch was last known to be current.
	proof func() time.Time
	// stored reports an acknowledged group, before any of its records is. It runs under the writer's lock.
	stored func(g *walGroup)
	// retried reports a PUT that will be retried.
	retried func(e PutRetriedEvent)
}

type walAck struct {
	item *walItem
	err  error
}

// newWALWriter begins the log of an epoch at a window.
func newWALWriter(
	store objstore.Store, prefix WALPrefix, epoch, start int64, limits walLimits, hooks walHooks,
) *walWriter {
	w := &walWriter{
		store: store, prefix: prefix, epoch: epoch, keys: prefix.Epoch(epoch), hooks: hooks, wake: make(chan struct{}, 1),
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.mu.queue = newWALQueue(limits, start)
	w.mu.idle = make(chan struct{})
	w.all.Go(w.keepDeadlines)
	return w
}

// submit submits a record and returns immediately. acked is called when it is durable, with its logical offset, or
// with an error that matches [ErrWALFailed]. The payload must not change before that. [ErrOverCapacity],
// [ErrRecordTooLarge] and the failure of the log are returned, and then acked is not called.
func (w *walWriter) submit(r Record, acked func(offset int64, err error)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.mu.failed != nil:
		return w.mu.failed
	case w.mu.closing:
		return ErrClosed
	}
	before, _ := w.mu.queue.deadline()
	if err := w.mu.queue.submit(&walItem{record: r, acked: acked}, time.Now(), w.hooks.proof()); err != nil {
		return err
	}
	w.startUploadsLocked()
	if due, waiting := w.mu.queue.deadline(); waiting && due != before {
		w.pokeLocked()
	}
	return nil
}

// trim sets the trim offset that goes into the groups sealed from now on.
func (w *walWriter) trim(offset int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.queue.setTrim(offset)
}

// seal sends off the open group (WAL-2 c).
func (w *walWriter) seal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.queue.seal(time.Now(), w.hooks.proof())
	w.startUploadsLocked()
}

// carriesTrim reports whether a sealed group carries the newest trim offset (WAL-20).
func (w *walWriter) carriesTrim() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.queue.sealedTrim == w.mu.queue.trim
}

// nextWindow returns where the log's next group goes, and where the next log may begin once this one is closed.
func (w *walWriter) nextWindow() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.queue.next
}

// flush seals the open group and waits until nothing is in flight; it returns nil if the log still works then.
func (w *walWriter) flush(ctx context.Context) error {
	for {
		w.mu.Lock()
		w.mu.queue.seal(time.Now(), w.hooks.proof())
		w.startUploadsLocked()
		err, done, idle := w.mu.failed, w.quietLocked(), w.mu.idle
		w.mu.Unlock()
		if done {
			return err
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// close refuses more records, flushes, and returns when all goroutines have ended. If ctx ends first, records in flight
// fail as after a crash.
func (w *walWriter) close(ctx context.Context) error {
	w.mu.Lock()
	w.mu.closing = true
	w.mu.Unlock()
	err := w.flush(ctx)
	if err != nil {
		w.fail(fmt.Errorf("%w: closed before it was flushed: %w", ErrWALFailed, err))
	}
	w.cancel()
	w.all.Wait()
	return err
}

// quietLocked reports whether everything was acknowledged or failed, and every caller notified.
func (w *walWriter) quietLocked() bool {
	return w.mu.queue.idle() && len(w.mu.acks) == 0 && !w.mu.delivering
}

func (w *walWriter) pokeLocked() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// keepDeadlines seals the open group when its time has come.
func (w *walWriter) keepDeadlines() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		w.mu.Lock()
		w.mu.queue.tick(time.Now(), w.hooks.proof())
		w.startUploadsLocked()
		due, waiting := w.mu.queue.deadline()
		w.mu.Unlock()
		var expired <-chan time.Time // never, unless a group waits
		if waiting {
			timer.Reset(time.Until(due))
			expired = timer.C
		}
		select {
		case <-expired:
		case <-w.wake:
		case <-w.ctx.Done():
			return
		}
	}
}

func (w *walWriter) startUploadsLocked() {
	for _, g := range w.mu.queue.takeUploads() {
		w.all.Go(func() { w.upload(g) })
	}
}

// key returns the key of a window's object.
func (w *walWriter) key(window int64) string {
	return windowKey(w.keys, window)
}

// upload stores a group, however often that takes, and handles the outcome (3.5).
func (w *walWriter) upload(g *walGroup) {
	key := w.key(g.window)
	header := WALHeader{Start: g.window, Node: w.prefix.Node, Epoch: w.epoch, Trim: g.trim}
	object := EncodeWALObject(header, g.object())
	for try := 0; ; try++ {
		err := w.put(key, object)
		switch {
		case err == nil:
			w.finish(g)
			return
		case errors.Is(err, errPutAgain):
		default:
			w.fail(err)
			return
		}
		if !w.waitToRetry(key, try, err) {
			return // fail or close has notified the callers
		}
		if err := w.mu.queue.checkAge(g, time.Now()); err != nil { // reads only fields that never change
			w.fail(fmt.Errorf("%w: %w", ErrWALFailed, err))
			return
		}
	}
}

// errPutAgain says that the outcome of a put is not known.
var errPutAgain = errors.New("try the put again")

// put is one try: nil if the object is stored, errPutAgain if that is not known, otherwise the end of the log.
func (w *walWriter) put(key string, object []byte) error {
	err := w.store.PutIfAbsent(w.ctx, key, object)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, objstore.ErrExists):
		return w.compare(key, object)
	case objstore.Retriable(err) || w.ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errPutAgain, err)
	}
	return fmt.Errorf("%w: %w", ErrWALFailed, err)
}

// compare reads the object that took the key: an earlier try of this group, or another writer's.
func (w *walWriter) compare(key string, object []byte) error {
	found, err := w.store.Get(w.ctx, key)
	switch {
	case err == nil && bytes.Equal(found, object):
		return nil
	case err == nil:
		return &WALFencedError{Key: key, ByEpoch: epochIn(key, found)}
	case objstore.Retriable(err) || errors.Is(err, objstore.ErrNotFound) || w.ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errPutAgain, err)
	}
	return fmt.Errorf("%w: %w", ErrWALFailed, err)
}

func epochIn(key string, object []byte) int64 {
	h, err := DecodeWALHeader(key, int64(len(object)), object)
	if err != nil {
		return -1
	}
	return h.Epoch
}

// waitToRetry waits before the next try; false if the log has ended.
func (w *walWriter) waitToRetry(key string, try int, err error) bool {
	delay := retryDelay(try)
	if w.hooks.retried != nil && w.ctx.Err() == nil {
		w.hooks.retried(PutRetriedEvent{Key: key, Try: try + 1, Delay: delay, Err: err})
	}
	return pause(w.ctx, delay) == nil
}

// finish records that a group is stored, and acknowledges what that completes.
func (w *walWriter) finish(g *walGroup) {
	w.mu.Lock()
	if w.mu.failed != nil {
		w.mu.Unlock()
		return // its records have failed
	}
	acked, err := w.mu.queue.finish(g, time.Now())
	for _, group := range acked {
		if w.hooks.stored != nil {
			w.hooks.stored(group)
		}
		for _, item := range group.items {
			w.mu.acks = append(w.mu.acks, walAck{item, nil})
		}
	}
	if err != nil {
		w.failLocked(fmt.Errorf("%w: %w", ErrWALFailed, err))
	}
	w.mu.queue.tick(time.Now(), w.hooks.proof()) // the open group may have waited for its turn
	w.startUploadsLocked()
	if _, waiting := w.mu.queue.deadline(); waiting {
		w.pokeLocked()
	}
	w.deliverAndUnlock()
}

// fail ends the log: every record that is not acknowledged fails, in order (WAL-11).
func (w *walWriter) fail(err error) {
	w.mu.Lock()
	w.failLocked(err)
	w.deliverAndUnlock()
}

func (w *walWriter) failLocked(err error) {
	if w.mu.failed != nil {
		return
	}
	w.mu.failed = err
	for _, item := range w.mu.queue.drain() {
		w.mu.acks = append(w.mu.acks, walAck{item, err})
	}
	w.cancel()
}

// deliverAndUnlock calls the acknowledgements that are due, unless another goroutine is doing so and will see them.
func (w *walWriter) deliverAndUnlock() {
	if w.mu.delivering {
		w.mu.Unlock()
		return
	}
	w.mu.delivering = true
	for len(w.mu.acks) > 0 {
		acks := w.mu.acks
		w.mu.acks = nil
		w.mu.Unlock()
		for _, a := range acks {
			a.item.acked(a.item.offset, a.err)
		}
		w.mu.Lock()
	}
	w.mu.delivering = false
	if w.quietLocked() {
		close(w.mu.idle)
		w.mu.idle = make(chan struct{})
	}
	w.mu.Unlock()
}
