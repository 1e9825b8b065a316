package objstore

import (
	"container/list"
	"context"
	"errors"
	"runtime"
	"sync"
)

// DefaultCalls is the default limit of a process's concurrent calls of a store: 25 for each core that it may use, at
// least 50 and at most 1000.
func DefaultCalls() int { return callsFor(runtime.GOMAXPROCS(0)) }

// callsFor is [DefaultCalls] for a number of cores.
func callsFor(cores int) int { return min(max(25*cores, 50), 1000) }

// Limit bounds how many calls are in progress at the same time. Calls beyond that wait, and proceed in order of
// arrival. It is safe for concurrent use, and may be shared by any number of stores.
type Limit struct {
	calls int
	mu    struct {
		sync.Mutex
		underWay int
		waiting  list.List // of chan struct{}: closed when the call has its room
	}
}

// NewLimit returns a limit of that many calls, at least one.
func NewLimit(calls int) *Limit { return &Limit{calls: max(calls, 1)} }

// Calls is the limit.
func (l *Limit) Calls() int { return l.calls }

// UnderWay is how many calls there are now, and Waiting how many wait for one of them to end.
func (l *Limit) UnderWay() int { return l.look(func() int { return l.mu.underWay }) }

// Waiting is described at UnderWay.
func (l *Limit) Waiting() int { return l.look(func() int { return l.mu.waiting.Len() }) }

func (l *Limit) look(at func() int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return at()
}

// enter waits for room. On nil the caller must leave; the error is the context's.
func (l *Limit) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	place, mine := l.queue()
	if place == nil {
		return nil
	}
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
		l.giveUp(place, mine)
		return ctx.Err()
	}
}

// queue takes room if there is some and nobody waits; otherwise it takes a place in the queue.
func (l *Limit) queue() (place *list.Element, mine chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.underWay < l.calls { // nobody waits then
		l.mu.underWay++
		return nil, nil
	}
	mine = make(chan struct{})
	return l.mu.waiting.PushBack(mine), mine
}

// giveUp leaves the queue, or hands on the room that came too late.
func (l *Limit) giveUp(place *list.Element, mine chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-mine:
		l.leaveLocked()
	default:
		l.mu.waiting.Remove(place)
	}
}

// leave ends a call: the one that has waited longest takes its room.
func (l *Limit) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaveLocked()
}

func (l *Limit) leaveLocked() {
	if first := l.mu.waiting.Front(); first != nil {
		close(l.mu.waiting.Remove(first).(chan struct{}))
		return
	}
	l.mu.underWay--
}

// Limited returns a store that does what s does, with a bound on the concurrent calls: puts of whole objects count
// against puts, all other calls against others. Both may be the same. A call waits for room for as long as its context
// allows; a call that gave up was never sent. Closing it closes s.
//
// A write-ahead log and the data that is made from it, on one store, should use two stores with the same others and
// separate puts for the log: an append must not wait behind a thousand reads of a compaction.
//
// An upload counts during Create, Write and Finish, not in between: a caller that reads one object to write another could
// otherwise wait for itself. Abort needs no room.
func Limited(s Store, puts, others *Limit) Store {
	return &limited{Store: s, puts: puts, others: others}
}

// limited embeds the store for String and Close, which are never kept waiting.
type limited struct {
	Store
	puts, others *Limit
}

// enter waits for room for a call.
func (s *limited) enter(ctx context.Context, l *Limit, op Op, key string) error {
	if err := l.enter(ctx); err != nil {
		return &Error{Op: op, Store: s.String(), Key: key, Err: err}
	}
	return nil
}

// Put implements [Store].
func (s *limited) Put(ctx context.Context, key string, data []byte) error {
	if err := s.enter(ctx, s.puts, OpPut, key); err != nil {
		return err
	}
	defer s.puts.leave()
	return s.Store.Put(ctx, key, data)
}

// PutIfAbsent implements [Store].
func (s *limited) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	if err := s.enter(ctx, s.puts, OpPutIfAbsent, key); err != nil {
		return err
	}
	defer s.puts.leave()
	return s.Store.PutIfAbsent(ctx, key, data)
}

// Create implements [Store].
func (s *limited) Create(ctx context.Context, key string) (Upload, error) {
	if err := s.enter(ctx, s.others, OpCreate, key); err != nil {
		return nil, err
	}
	defer s.others.leave()
	u, err := s.Store.Create(ctx, key)
	if err != nil {
		return nil, err
	}
	return &limitedUpload{Upload: u, store: s, ctx: ctx, key: key}, nil
}

// Get implements [Store].
func (s *limited) Get(ctx context.Context, key string) ([]byte, error) {
	if err := s.enter(ctx, s.others, OpGet, key); err != nil {
		return nil, err
	}
	defer s.others.leave()
	return s.Store.Get(ctx, key)
}

// ReadRange implements [Store].
func (s *limited) ReadRange(ctx context.Context, key string, p []byte, off int64) error {
	if err := s.enter(ctx, s.others, OpReadRange, key); err != nil {
		return err
	}
	defer s.others.leave()
	return s.Store.ReadRange(ctx, key, p, off)
}

// Head implements [Store].
func (s *limited) Head(ctx context.Context, key string) (Info, error) {
	if err := s.enter(ctx, s.others, OpHead, key); err != nil {
		return Info{}, err
	}
	defer s.others.leave()
	return s.Store.Head(ctx, key)
}

// List implements [Store].
func (s *limited) List(ctx context.Context, request ListRequest) (Page, error) {
	if err := s.enter(ctx, s.others, OpList, request.Prefix); err != nil {
		return Page{}, err
	}
	defer s.others.leave()
	return s.Store.List(ctx, request)
}

// Delete implements [Store].
func (s *limited) Delete(ctx context.Context, keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	if err := s.others.enter(ctx); err != nil {
		return notDeleted(s.String(), keys, err)
	}
	defer s.others.leave()
	return s.Store.Delete(ctx, keys...)
}

// notDeleted is the error of a delete that was never sent.
func notDeleted(store string, keys []string, err error) error {
	failed := make([]*Error, len(keys))
	for i, key := range keys {
		failed[i] = &Error{Op: OpDelete, Store: store, Key: key, Err: err}
	}
	return &DeleteError{Failed: failed}
}

// limitedUpload waits for room with the context of its upload, which it cannot be finished without.
type limitedUpload struct {
	Upload
	store *limited
	ctx   context.Context
	key   string
}

// Write implements [Upload].
func (u *limitedUpload) Write(p []byte) (int, error) {
	if err := u.store.enter(u.ctx, u.store.others, OpWrite, u.key); err != nil {
		return 0, err
	}
	defer u.store.others.leave()
	return u.Upload.Write(p)
}

// Finish implements [Upload]. If it finds no room it aborts the upload.
func (u *limitedUpload) Finish() error {
	if err := u.store.enter(u.ctx, u.store.others, OpFinish, u.key); err != nil {
		return errors.Join(err, u.Upload.Abort())
	}
	defer u.store.others.leave()
	return u.Upload.Finish()
}
