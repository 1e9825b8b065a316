package stream

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/objstore"
)

// walLedger tracks which objects of this epoch's WAL are stored, up to where their records are committed, and which of
// them may therefore be deleted (3.7). It does no I/O and reads no clock; its owner locks it.
//
//	                     trim, persisted in a later object
//	[first] [covered] [covered] | [acknowledged] [acknowledged] [newest]
//	 never   deletable                                           never: it carries the trim
//
// The first object stays as long as the epoch: a process with the same epoch, because metadata was copied or went back in
// time, begins where this one began, and must meet what this one wrote.
type walLedger struct {
	objects   []walStored // those that are not deleted, in the order of their windows
	first     int64       // the window of the first object, -1 before there is one
	trim      int64       // the newest record up to which everything is committed, inclusive
	persisted int64       // the greatest trim offset that an acknowledged object carries
}

// walStored is an object whose records were acknowledged.
type walStored struct {
	window int64
	// last is the offset of the last record in the object; lastData of the last one that is not a sentinel, or -1.
	last, lastData int64
	// lastAcked is the offset of the data record that was acknowledged last, which need not be the last one in the object:
	// frames are sorted, acknowledgements are not (WAL-4, WAL-7).
	lastAcked int64
}

func newWALLedger() *walLedger { return &walLedger{first: -1, trim: -1, persisted: -1} }

// stored records that an object is acknowledged. It reports whether more objects may be deleted now.
func (l *walLedger) stored(g *walGroup) (covers bool) {
	o := walStored{window: g.window, lastData: -1, lastAcked: -1}
	for _, item := range g.items {
		o.last = max(o.last, item.offset)
		if !item.record.IsSentinel() {
			o.lastData, o.lastAcked = max(o.lastData, item.offset), item.offset
		}
	}
	l.objects = append(l.objects, o)
	if l.first < 0 {
		l.first = o.window
	}
	covers = g.trim > l.persisted
	l.persisted = max(l.persisted, g.trim)
	return covers
}

// committed records that all records acknowledged up to the one at offset, inclusive, are committed. It returns the trim
// offset in force and whether it moved (WAL-19).
//
// Only objects whose records are all committed count: another record of the same object may lie below this one and be
// acknowledged, and committed, after it (F-07).
func (l *walLedger) committed(offset int64) (trim int64, moved bool) {
	before := l.trim
	window := offset - offset%Window
	for _, o := range l.objects {
		if o.window > window || o.window == window && o.lastAcked != offset {
			break
		}
		l.trim = max(l.trim, o.lastData)
	}
	return l.trim, l.trim > before
}

// deletable returns the windows whose objects may be removed: a later object that is acknowledged carries a trim offset
// that covers them (WAL-21). The newest one stays (WAL-22), and so does the first one.
func (l *walLedger) deletable() []int64 {
	var windows []int64
	for _, o := range l.objects[:max(0, len(l.objects)-1)] {
		if o.last <= l.persisted && o.window != l.first {
			windows = append(windows, o.window)
		}
	}
	return windows
}

// deleted forgets deleted objects.
func (l *walLedger) deleted(windows []int64) {
	l.objects = slices.DeleteFunc(l.objects, func(o walStored) bool { return slices.Contains(windows, o.window) })
}

// walTrimmer keeps a WAL short: it persists the trim offset when no append does, and deletes what is covered. It never
// holds up an append.
type walTrimmer struct {
	writer  *walWriter
	events  Events
	persist time.Duration // how soon a trim offset must be in an object (WAL-20)
	failed  func(error)   // a sentinel was not stored: the log has failed
	news    chan struct{} // holds a token when there may be something to do

	mu struct {
		sync.Mutex
		ledger *walLedger
	}
}

// deleteRetry is when a failed delete is retried, unless a trim comes first (WAL-23).
const deleteRetry = 10 * time.Second

func newWALTrimmer(events Events, persist time.Duration, failed func(error)) *walTrimmer {
	t := &walTrimmer{events: events, persist: persist, failed: failed, news: make(chan struct{}, 1)}
	t.mu.ledger = newWALLedger()
	return t
}

// stored is called by the writer for each stored group.
func (t *walTrimmer) stored(g *walGroup) {
	t.mu.Lock()
	covers := t.mu.ledger.stored(g)
	t.mu.Unlock()
	if covers { // for each group it would scan the whole log, while callers wait for their answers
		t.tell()
	}
}

// committed records that a block is committed whose last record has the offset.
func (t *walTrimmer) committed(offset int64) {
	t.mu.Lock()
	trim, moved := t.mu.ledger.committed(offset)
	t.mu.Unlock()
	if moved {
		t.writer.trim(trim)
		t.tell()
	}
}

func (t *walTrimmer) tell() {
	select {
	case t.news <- struct{}{}:
	default:
	}
}

// run works until ctx ends.
func (t *walTrimmer) run(ctx context.Context) {
	var persistAt, deleteAt time.Time // zero: nothing waits
	var tried int64                   // the persisted trim offset when a delete failed last
	for {
		now := time.Now()
		switch {
		case t.writer.carriesTrim():
			persistAt = time.Time{}
		case persistAt.IsZero():
			persistAt = now.Add(t.persist)
		case !now.Before(persistAt):
			t.submitSentinel()
			persistAt = now.Add(t.persist)
		}
		if persisted := t.persisted(); deleteAt.IsZero() || !now.Before(deleteAt) || persisted != tried {
			deleteAt, tried = time.Time{}, persisted
			if !t.deleteCovered(ctx) {
				deleteAt = time.Now().Add(deleteRetry)
			}
		}
		select {
		case <-t.news:
		case <-until(persistAt):
		case <-until(deleteAt):
		case <-ctx.Done():
			return
		}
	}
}

// persisted returns the trim offset up to which objects may be deleted.
func (t *walTrimmer) persisted() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.ledger.persisted
}

// until returns a channel that receives at a time, or never for the zero time.
func until(at time.Time) <-chan time.Time {
	if at.IsZero() {
		return nil
	}
	return time.After(time.Until(at))
}

// submitSentinel makes the log write the trim offset (WAL-20). If the log refuses it, it has failed, and reports that
// elsewhere.
func (t *walTrimmer) submitSentinel() {
	_ = t.writer.submit(Sentinel(), func(_ int64, err error) {
		if err != nil {
			t.failed(err)
		}
	})
}

// deleteCovered removes what may be removed; false if something was left that should be gone (WAL-23).
func (t *walTrimmer) deleteCovered(ctx context.Context) bool {
	t.mu.Lock()
	windows, persisted := t.mu.ledger.deletable(), t.mu.ledger.persisted
	t.mu.Unlock()
	if len(windows) == 0 {
		return true
	}
	keys := make([]string, len(windows))
	for i, window := range windows {
		keys[i] = t.writer.key(window)
	}
	if err := deleteAll(ctx, t.writer.store, keys); err != nil { // deleting a missing object again costs nothing
		if t.events.WALDeleteFailed != nil && ctx.Err() == nil {
			t.events.WALDeleteFailed(FailedEvent{err})
		}
		return false
	}
	t.mu.Lock()
	t.mu.ledger.deleted(windows)
	t.mu.Unlock()
	if t.events.WALDeleted != nil {
		t.events.WALDeleted(WALDeletedEvent{Keys: keys, Trim: persisted})
	}
	return true
}

// deleteAll removes objects, in batches. It tries all of them, and returns the first error.
func deleteAll(ctx context.Context, store objstore.Store, keys []string) error {
	var first error
	for part := range slices.Chunk(keys, objstore.MaxPage) {
		if err := store.Delete(ctx, part...); err != nil && first == nil {
			first = err
		}
	}
	return first
}
