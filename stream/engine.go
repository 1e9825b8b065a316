package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// Engine runs the streams of one node under one of its epochs.
//
//	Append --> gate --> WAL: one PUT for all that came together --> log cache --> acknowledged
//	                                                                    |
//	Fetch  <-- log cache, block cache, data objects <-- catalog <-- uploader --> trim and delete of the WAL
//
// It is safe for concurrent use. An engine that has failed acknowledges nothing any more, see [Engine.Err].
type Engine struct {
	options Options
	node    catalog.Node
	prefix  WALPrefix

	gate     *gate
	wal      *walWriter
	trimmer  *walTrimmer
	cache    *logCache
	uploader *uploader
	reader   *objectReader
	compact  *compactor
	clean    *cleaner

	ctx    context.Context // ends the background loops
	cancel context.CancelFunc
	all    sync.WaitGroup
	closed chan struct{} // when Close has ended

	mu struct {
		sync.Mutex
		streams map[catalog.StreamID]*Stream
		failed  error // or that the engine was closed
		closing bool
	}
}

// Node returns the node and the epoch under which the engine runs.
func (e *Engine) Node() catalog.Node { return e.node }

// Err returns why the engine accepts no appends, nil while it does. After a failure it matches [ErrWALFailed], and also
// [ErrFenced] if another process has taken the node over, or [ErrEngineFailed] if an invariant is broken. Recovery may
// or may not find what was not acknowledged. The owner closes the engine and opens another one, which gets a new epoch.
// After [Engine.Close] of a healthy engine it matches [ErrClosed].
func (e *Engine) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.failed
}

// fail ends the engine with the first error: nothing is acknowledged any more. It does not block.
func (e *Engine) fail(err error) {
	if !errors.Is(err, ErrWALFailed) && !errors.Is(err, ErrClosed) {
		err = fmt.Errorf("%w: %w", ErrWALFailed, err)
	}
	e.mu.Lock()
	if e.mu.failed != nil {
		e.mu.Unlock()
		return
	}
	e.mu.failed = err
	streams := slices.Collect(maps.Values(e.mu.streams))
	closing := e.mu.closing
	e.mu.Unlock()
	e.gate.fail(err)
	for _, s := range streams {
		s.refuse(err)
	}
	e.wal.fail(err)
	if e.options.Events.Failed != nil && !closing {
		e.options.Events.Failed(FailedEvent{err})
	}
}

// usable returns nil while the engine accepts calls.
func (e *Engine) usable() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.failed == nil && e.mu.closing {
		return ErrClosed
	}
	return e.mu.failed
}

// refusal interprets an error of the catalog: one that says that the node has a newer epoch ends the engine (UP-5).
func (e *Engine) refusal(err error) error {
	if !errors.Is(err, catalog.ErrNodeEpochMismatch) {
		return err
	}
	e.fail(fmt.Errorf("%w: %w", ErrFenced, err))
	return e.Err()
}

// CreateStreams creates count streams, closed and empty, with consecutive ids, and returns the first.
// See [catalog.Catalog.CreateStreams].
func (e *Engine) CreateStreams(ctx context.Context, count int) (first catalog.StreamID, err error) {
	if err := e.usable(); err != nil {
		return 0, err
	}
	first, err = e.options.Catalog.CreateStreams(ctx, e.node, count)
	return first, e.refusal(err)
}

// OpenStream makes this node the owner of a stream under an epoch above all its earlier ones, and returns it. Opening
// one that is already open here in that epoch returns it again. Errors are those of [catalog.Catalog.OpenStream], and
// the engine's; a stream that another caller closes meanwhile is [catalog.ErrStreamFenced].
func (e *Engine) OpenStream(ctx context.Context, id catalog.StreamID, epoch int64) (*Stream, error) {
	if err := e.usable(); err != nil {
		return nil, err
	}
	c := e.options.Catalog
	err := retry(ctx, func() error { _, err := c.OpenStream(ctx, e.node, id, epoch); return err })
	if err != nil {
		return nil, e.refusal(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.mu.failed != nil:
		return nil, e.mu.failed
	case e.mu.closing:
		return nil, ErrClosed
	}
	s := e.mu.streams[id]
	if s != nil && s.epoch == epoch {
		return s, nil
	}
	// Since the catalog answered, another caller may have opened the stream here in the same epoch, appended to it, and
	// closed it: offsets from that answer would be assigned a second time.
	row, known := c.View().Stream(id)
	if !known || !row.Opened || row.Node != e.node.ID || row.Epoch != epoch {
		return nil, fmt.Errorf("%w: stream %d was closed again while it was being opened in epoch %d", catalog.ErrStreamFenced, id, epoch)
	}
	s = newStream(e, row)
	e.mu.streams[id] = s
	return s, nil
}

// forget drops a stream that was closed.
func (e *Engine) forget(s *Stream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.streams[s.id] == s {
		delete(e.mu.streams, s.id)
	}
}

// openStreams returns the streams that are open here.
func (e *Engine) openStreams() []*Stream {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.mu.streams))
}

// DeleteStream deletes a stream that is closed, at the epoch of its last opening (STR-6). Its objects are removed when
// they hold nothing else. A stream that does not exist is not an error. Errors are those of
// [catalog.Catalog.DeleteStream], and the engine's.
func (e *Engine) DeleteStream(ctx context.Context, id catalog.StreamID, epoch int64) error {
	if err := e.usable(); err != nil {
		return err
	}
	c := e.options.Catalog
	return e.refusal(retry(ctx, func() error { return c.DeleteStream(ctx, e.node, id, epoch) }))
}

// committed is called by the uploader for each block, in order, once it is committed.
func (e *Engine) committed(b *cacheBlock) { e.trimmer.committed(b.lastOffset) }

// gone is called by the uploader for streams that no longer exist although records of theirs were acknowledged: they have
// been deleted (F-45). If one is still open here, its calls are refused.
func (e *Engine) gone(ids []catalog.StreamID) {
	for _, s := range e.openStreams() {
		if slices.Contains(ids, s.id) {
			s.deleted()
		}
	}
}

// stored is called by the WAL for each object, in order, once it and all before it are stored.
func (e *Engine) stored(g *walGroup) {
	e.trimmer.stored(g)
	if e.options.Events.Acknowledged != nil {
		e.options.Events.Acknowledged(AcknowledgedEvent{
			Window: g.window, Records: len(g.items), Bytes: g.size, Waited: time.Since(g.first),
		})
	}
}

// background runs something that ends with the engine's context, unless the engine is closing.
func (e *Engine) background(work func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.mu.closing {
		e.all.Go(work)
	}
}

// Close ends the engine cleanly (3.11): it refuses appends, waits for those that were submitted, uploads and commits
// everything, closes the streams, and records in the catalog that nothing is left to recover. Every goroutine of the
// engine has ended when it returns, with or without an error.
//
// If ctx ends first, or the engine has failed, the engine stops as in a crash: what was acknowledged is in the WAL, and
// the next [Open] recovers it. The first call returns the reason; later calls wait for it and return nil.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	if e.mu.closing {
		e.mu.Unlock()
		<-e.closed
		return nil
	}
	e.mu.closing = true
	err := e.mu.failed
	e.mu.Unlock()
	defer close(e.closed)
	if err == nil {
		err = e.closeCleanly(ctx)
	}
	e.stop()
	return err
}

func (e *Engine) closeCleanly(ctx context.Context) error {
	e.gate.fail(ErrClosed)
	for _, s := range e.openStreams() {
		s.refuse(ErrClosed)
	}
	if err := e.wal.close(ctx); err != nil {
		return err
	}
	if err := e.uploader.force(ctx); err != nil {
		return err
	}
	c, recovery := e.options.Catalog, e.recovery(e.node, e.prefix, e.uploader)
	for {
		if err := recovery.closeStreams(ctx); err != nil {
			return err
		}
		err := retry(ctx, func() error { return c.CloseWAL(ctx, e.node, e.wal.nextWindow()) })
		if !errors.Is(err, catalog.ErrStreamNotClosed) { // otherwise one was being opened
			return err
		}
	}
}

// stop ends the goroutines, and fails everything still in flight.
func (e *Engine) stop() {
	e.fail(fmt.Errorf("%w: the engine", ErrClosed))
	e.cancel()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = e.wal.close(ended) // whatever it waited for has failed
	e.uploader.close()
	e.reader.close()
	e.all.Wait()
}
