package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/internal/budget"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

var (
	// ErrWouldBlock is a read of records that are not in memory, by a caller that asked not to wait (RD-3).
	// Nothing was started.
	ErrWouldBlock = errors.New("records are not in memory")
	// ErrNotContinuous is data with a gap: see [*NotContinuousError]. It is a defect, or metadata and objects that do
	// not belong together; no read skips the gap.
	ErrNotContinuous = errors.New("stream is not continuous")
)

const (
	// readResets is how often a read starts again because the objects have changed under it (BC-5).
	readResets = 2
	// sweepInterval is how often unused entries are swept, while there are any.
	sweepInterval = 10 * time.Second
)

// readerOptions are what an objectReader works with.
type readerOptions struct {
	data      objstore.Store
	catalog   catalog.Catalog
	namespace string
	cfg       Config
	cache     *logCache
	// retried is called for calls of the store that are retried; it may be nil.
	retried func(StoreRetriedEvent)
}

// objectReader reads records from wherever they are (4.3):
//
//	      start                        h                     end
//	        |  block cache, data bucket |      log cache      |
//	read -> [ head ........................ ][ tail ............... ]
//
// Its memory is bounded by the configured caches, and by as much again for units that reads are waiting for. It is safe
// for concurrent use. It has one goroutine for each request in flight.
type objectReader struct {
	readerOptions
	cancel  context.CancelFunc
	indexes *indexCache
	blocks  *blockCache
	readers *readerPool
	demand  *budget.Budget // bytes of units that reads wait for
	// small is the size up to which an object is read whole when its index is wanted: one request instead of two.
	small int64

	running sync.WaitGroup // reads and loads

	mu struct {
		sync.Mutex
		closed bool
		sweep  *time.Timer // nil while there is nothing to sweep
	}
}

func newObjectReader(options readerOptions) *objectReader {
	ctx, cancel := context.WithCancel(context.Background())
	options.data = newPatientStore(options.data, readPatience(), options.retried)
	o := &objectReader{
		readerOptions: options, cancel: cancel, readers: newReaderPool(), demand: budget.New(options.cfg.CacheBlockSize),
		small: indexTail,
	}
	keyOf := func(id catalog.ObjectID) string { return DataKey(o.namespace, id) }
	o.blocks = newBlockCache(ctx, &o.running, o.data, keyOf, o.cfg.CacheBlockSize)
	o.indexes = newIndexCache(ctx, &o.running, o.cfg.CacheIndexSize, o.load)
	return o
}

// load reads the index of an object, and the whole of a small one.
func (o *objectReader) load(ctx context.Context, r catalog.ObjectRange) (objectLayout, error) {
	if r.Attributes.IsComposite() || r.Size > o.small || r.Size < FooterSize {
		return loadLayout(ctx, o.data, o.namespace, r.Object, r.Size, r.Attributes)
	}
	key, b := DataKey(o.namespace, r.Object), make([]byte, r.Size)
	if err := o.data.ReadRange(ctx, key, b, 0); err != nil {
		return objectLayout{}, err
	}
	index, err := indexOfWhole(key, b)
	if err != nil {
		return objectLayout{}, err
	}
	o.blocks.offer(r.Object, index, b)
	return objectLayout{object: r.Object, entries: index}, nil
}

// indexOfWhole decodes the index of an object that was read whole.
func indexOfWhole(key string, b []byte) (Index, error) {
	f, err := DecodeFooter(key, int64(len(b)), b)
	switch {
	case err != nil:
		return nil, err
	case f.Composite:
		return nil, source{object: key}.corrupt("a composite, not an object with data")
	}
	return DecodeIndex(key, f, b[f.IndexPosition:f.IndexPosition+int64(f.IndexLen)])
}

// close ends all reads, which fail with [ErrClosed], and returns when no goroutine is left.
func (o *objectReader) close() {
	o.mu.Lock()
	o.mu.closed = true
	if o.mu.sweep != nil {
		o.mu.sweep.Stop()
	}
	o.mu.Unlock()
	o.cancel()
	o.running.Wait()
}

// read returns the records of a stream from the one that holds start on, up to end and up to maxBytes of payload, but
// always the first one. The caller has made sure that start is below end and that the range lies between the stream's
// start and its confirm offset. With fast it returns what is in memory, and [ErrWouldBlock] if that is nothing. The
// result is whole records without a gap, never empty. It is shared and must not be changed.
//
// Temporary failures of a store are retried for about 20 s, each request individually.
//
// [ErrOffsetOutOfRange] if the stream was trimmed above start meanwhile; [ErrNotContinuous]; otherwise the error is the
// context's, the store's, or says that an object is corrupt.
func (o *objectReader) read(
	ctx context.Context, id catalog.StreamID, start, end int64, maxBytes int, fast bool,
) ([]Record, error) {
	if err := o.begin(); err != nil {
		return nil, err
	}
	defer o.running.Done()
	records, err := o.readJoined(ctx, id, start, end, maxBytes, fast)
	if errors.Is(err, ErrNotContinuous) { // a commit or an eviction may have moved data between the two lookups
		records, err = o.readJoined(ctx, id, start, end, maxBytes, fast)
	}
	if err != nil && ctx.Err() == nil && o.isClosed() {
		return nil, ErrClosed
	}
	return records, err
}

// begin counts a read, unless the reader is closed.
func (o *objectReader) begin() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.closed {
		return ErrClosed
	}
	o.running.Add(1)
	return nil
}

func (o *objectReader) isClosed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.closed
}

// readJoined reads the tail from the log cache, and everything before it from the objects. The log cache is read first:
// what is no longer in it is in the catalog's view by then (RD-1).
func (o *objectReader) readJoined(
	ctx context.Context, id catalog.StreamID, start, end int64, maxBytes int, fast bool,
) ([]Record, error) {
	tail := o.cache.get(id, start, end, maxBytes)
	if len(tail) > 0 && tail[0].Base <= start {
		return tail, nil
	}
	headEnd := end
	if len(tail) > 0 {
		headEnd = tail[0].Base
	}
	head, err := o.readObjects(ctx, id, start, headEnd, maxBytes, fast)
	if err != nil || len(tail) == 0 {
		return head, err
	}
	return join(head, tail, maxBytes)
}

// join returns the head followed by as much of the tail as fits into maxBytes (RD-2). A head that stops before the tail
// is returned alone.
func join(head, tail []Record, maxBytes int) ([]Record, error) {
	last, next := head[len(head)-1], tail[0]
	switch {
	case last.End() < next.Base:
		return head, nil // a limit, or the end of what is in memory
	case last.End() > next.Base:
		return nil, &NotContinuousError{
			last.Stream, next.Base, fmt.Sprintf("an object has [%d, %d), the log cache continues at %d", last.Base, last.End(), next.Base),
		}
	}
	left := int64(maxBytes)
	for _, r := range head {
		left -= int64(len(r.Payload))
	}
	n := countWithin(tail, tail[len(tail)-1].End(), &left, false)
	return joinRecords(head, tail[:n]), nil
}

// readObjects reads committed records (4.5), with the reader that stopped at start, if there is one.
func (o *objectReader) readObjects(
	ctx context.Context, id catalog.StreamID, start, end int64, maxBytes int, fast bool,
) ([]Record, error) {
	s := o.readers.take(id, start)
	if s == nil {
		s = newSeqReader(id, start, o.cfg.ReadaheadStep)
	}
	if fast {
		return o.readInMemory(ctx, s, start, end, maxBytes)
	}
	for try := 0; ; try++ {
		records, err := o.readUnits(ctx, s, start, end, maxBytes)
		moved := errors.Is(err, objstore.ErrNotFound) || errors.Is(err, ErrNotContinuous)
		switch {
		case err == nil:
			o.keep(s)
			return records, nil
		case len(records) > 0: // records before the error are good; a later read meets the error first
			s.drop(o.blocks)
			return records, nil
		case try == readResets || !moved:
			s.drop(o.blocks)
			return nil, fmt.Errorf("reading stream %d at %d: %w", id, start, err)
		}
		if _, err := o.catalog.Wait(ctx, s.view); err != nil {
			s.drop(o.blocks)
			return nil, err
		}
		s.reset(o.blocks, start, time.Now().Add(o.cfg.ReadaheadCooldown))
	}
}

// readUnits is one try. Records are returned together with an error that comes after them.
func (o *objectReader) readUnits(
	ctx context.Context, s *seqReader, start, end int64, maxBytes int,
) ([]Record, error) {
	begun := o.blocks.loads()
	n, err := s.plan(ctx, o, start, end, maxBytes, lookAndWait)
	switch {
	case n == 0 && err == nil:
		return nil, o.nothingAt(s.stream, start)
	case n == 0:
		return nil, err
	}
	share := o.demand.Share(s.missingBytes(n))
	if err := o.demand.Acquire(ctx, share); err != nil {
		return nil, err
	}
	defer o.demand.Release(share)
	s.hold(o.blocks, n)
	s.grow(o.cfg, n)
	s.readAhead(ctx, o, n, time.Now())
	c := collector{next: start, end: end, left: int64(maxBytes)}
	for i := range n {
		u, err := s.wait(ctx, o.blocks, i, begun)
		if err != nil {
			return c.found, err
		}
		more, err := c.add(u)
		if err != nil {
			return c.found, err
		}
		if !more {
			break
		}
	}
	s.advance(o.blocks, c.next)
	return c.found, err
}

// nothingAt returns why no object holds an offset: the stream was trimmed, or is gone, or this is a bug.
func (o *objectReader) nothingAt(id catalog.StreamID, start int64) error {
	st, exists := o.catalog.View().Stream(id)
	switch {
	case !exists:
		return fmt.Errorf("%w: %d", catalog.ErrStreamNotExist, id)
	case start < st.Start:
		return &OffsetRangeError{Stream: id, Want: start, Low: st.Start, High: max(st.End, st.Start)}
	}
	return &NotContinuousError{id, start, fmt.Sprintf("metadata have objects for [%d, %d)", st.Start, st.End)}
}

// readInMemory reads without any request (RD-3).
func (o *objectReader) readInMemory(
	ctx context.Context, s *seqReader, start, end int64, maxBytes int,
) ([]Record, error) {
	n, err := s.plan(ctx, o, start, end, maxBytes, lookInMemory)
	if err != nil {
		s.drop(o.blocks)
		return nil, ErrWouldBlock // a read that may wait will find the cause
	}
	c := collector{next: start, end: end, left: int64(maxBytes)}
	for i := range n {
		if u := s.inMemory(o.blocks, i); u == nil || !u.isLoaded() {
			break
		}
		more, err := c.add(s.held[i])
		if err != nil {
			s.drop(o.blocks)
			return nil, ErrWouldBlock
		}
		if !more {
			break
		}
	}
	if len(c.found) == 0 {
		o.putBack(s)
		return nil, ErrWouldBlock
	}
	s.advance(o.blocks, c.next)
	o.keep(s)
	return c.found, nil
}

// putBack keeps a reader that found nothing, if it is not new.
func (o *objectReader) putBack(s *seqReader) {
	if s.reads > 0 {
		o.keep(s)
		return
	}
	s.drop(o.blocks)
}

// keep remembers a reader for the read that continues where it stopped.
func (o *objectReader) keep(s *seqReader) {
	s.rest(o.blocks)
	if surplus := o.readers.put(s); surplus != nil {
		surplus.drop(o.blocks)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.sweep == nil && !o.mu.closed {
		o.mu.sweep = time.AfterFunc(sweepInterval, o.sweep)
	}
}

// sweep drops what nobody has used for a while, and reschedules itself while anything is left.
func (o *objectReader) sweep() {
	now := time.Now()
	expired, readers := o.readers.expire(now)
	for _, s := range expired {
		s.drop(o.blocks)
	}
	units := o.blocks.evictUnused(now)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.closed || !readers && !units {
		o.mu.sweep = nil
		return
	}
	o.mu.sweep.Reset(sweepInterval)
}

// collector gathers the records of a read from successive units.
type collector struct {
	next, end int64 // offsets: where the records continue, and where the read ends
	left      int64 // bytes of payload
	found     []Record
}

// add takes a unit's records and reports whether more may be wanted. The error is a [*NotContinuousError].
func (c *collector) add(u *unit) (more bool, err error) {
	run := logRun{records: u.records}
	records := run.from(c.next)
	if len(records) == 0 || len(c.found) > 0 && records[0].Base != c.next || records[0].Base > c.next {
		return false, &NotContinuousError{u.entry.Stream, c.next, fmt.Sprintf("object %d has %s", u.object, u.entry)}
	}
	n := countWithin(records, c.end, &c.left, len(c.found) == 0)
	for i, r := range records[:n] {
		if i > 0 && r.Base != records[i-1].End() {
			return false, &NotContinuousError{r.Stream, records[i-1].End(), fmt.Sprintf("object %d has a gap up to %d", u.object, r.Base)}
		}
	}
	c.found = joinRecords(c.found, records[:n])
	if n > 0 {
		c.next = records[n-1].End()
	}
	return n == len(records), nil
}
