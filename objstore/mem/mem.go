// Package mem is an object store in memory, for tests. It has no faults of its own; package faultstore adds them.
//
// Everything that opens the same [Bucket] sees the same objects, as several processes do that share a bucket. The
// objects live as long as the Bucket.
package mem

import (
	"bytes"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/objstore"
)

// Bucket holds the objects. It is safe for concurrent use.
type Bucket struct {
	now func() time.Time

	mu struct {
		sync.RWMutex
		objects map[string]object
	}
}

// object is one version of an object; its bytes are never changed.
type object struct {
	data     []byte
	modified time.Time
}

// NewBucket returns an empty bucket. Modification times come from now.
func NewBucket(now func() time.Time) *Bucket {
	b := &Bucket{now: now}
	b.mu.objects = map[string]object{}
	return b
}

// Open returns a store over the bucket. Closing it leaves the bucket as it is.
func (b *Bucket) Open() *Store { return &Store{bucket: b} }

// New returns a store over a bucket of its own, with the time of the machine.
func New() *Store { return NewBucket(time.Now).Open() }

// Store is one process's view of a [Bucket]: an [objstore.Store].
type Store struct {
	bucket *Bucket
	mu     struct {
		sync.RWMutex
		closed bool
	}
}

var _ objstore.Store = (*Store)(nil)

// String returns "mem://".
func (s *Store) String() string { return "mem://" }

// begin checks what every call checks. It does not block.
func (s *Store) begin(ctx context.Context, op objstore.Op, key string) error {
	if err := objstore.CheckKey(key); err != nil {
		return s.fail(op, key, objstore.ErrInvalid, err)
	}
	return s.usable(ctx, op, key)
}

func (s *Store) usable(ctx context.Context, op objstore.Op, key string) error {
	if err := ctx.Err(); err != nil {
		return s.fail(op, key, nil, err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mu.closed {
		return s.fail(op, key, nil, objstore.ErrClosed)
	}
	return nil
}

func (s *Store) fail(op objstore.Op, key string, class, err error) error {
	return &objstore.Error{Op: op, Store: s.String(), Key: key, Class: class, Err: err}
}

// Put implements [objstore.Store].
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	if err := s.begin(ctx, objstore.OpPut, key); err != nil {
		return err
	}
	s.bucket.put(key, bytes.Clone(data))
	return nil
}

func (b *Bucket) put(key string, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.objects[key] = object{data, b.now()}
}

// PutIfAbsent implements [objstore.Store].
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	if err := s.begin(ctx, objstore.OpPutIfAbsent, key); err != nil {
		return err
	}
	if !s.bucket.putIfAbsent(key, bytes.Clone(data)) {
		return s.fail(objstore.OpPutIfAbsent, key, objstore.ErrExists, nil)
	}
	return nil
}

// putIfAbsent reports whether the key was free.
func (b *Bucket) putIfAbsent(key string, data []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, taken := b.mu.objects[key]; taken {
		return false
	}
	b.mu.objects[key] = object{data, b.now()}
	return true
}

func (b *Bucket) find(key string) (object, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	o, ok := b.mu.objects[key]
	return o, ok
}

// find looks an object up for one of the reading calls.
func (s *Store) find(ctx context.Context, op objstore.Op, key string) (object, error) {
	if err := s.begin(ctx, op, key); err != nil {
		return object{}, err
	}
	o, ok := s.bucket.find(key)
	if !ok {
		return object{}, s.fail(op, key, objstore.ErrNotFound, nil)
	}
	return o, nil
}

// Get implements [objstore.Store].
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	o, err := s.find(ctx, objstore.OpGet, key)
	if err != nil {
		return nil, err
	}
	return append([]byte{}, o.data...), nil
}

// ReadRange implements [objstore.Store].
func (s *Store) ReadRange(ctx context.Context, key string, p []byte, off int64) error {
	if err := objstore.CheckRange(off, len(p), math.MaxInt64); err != nil {
		return s.fail(objstore.OpReadRange, key, objstore.ErrInvalid, err)
	}
	o, err := s.find(ctx, objstore.OpReadRange, key)
	if err != nil {
		return err
	}
	if err := objstore.CheckRange(off, len(p), int64(len(o.data))); err != nil {
		return s.fail(objstore.OpReadRange, key, objstore.ErrInvalid, err)
	}
	copy(p, o.data[off:])
	return nil
}

// Head implements [objstore.Store].
func (s *Store) Head(ctx context.Context, key string) (objstore.Info, error) {
	o, err := s.find(ctx, objstore.OpHead, key)
	if err != nil {
		return objstore.Info{}, err
	}
	return o.info(key), nil
}

func (o object) info(key string) objstore.Info {
	return objstore.Info{Key: key, Size: int64(len(o.data)), Modified: o.modified}
}

// List implements [objstore.Store]. Its tokens are the last key of the page.
func (s *Store) List(ctx context.Context, request objstore.ListRequest) (objstore.Page, error) {
	limit, err := request.PageSize()
	if err != nil {
		return objstore.Page{}, s.fail(objstore.OpList, request.Prefix, objstore.ErrInvalid, err)
	}
	if err := s.usable(ctx, objstore.OpList, request.Prefix); err != nil {
		return objstore.Page{}, err
	}
	b := s.bucket
	b.mu.RLock()
	defer b.mu.RUnlock()
	var page objstore.Page
	for _, key := range slices.Sorted(maps.Keys(b.mu.objects)) {
		if !strings.HasPrefix(key, request.Prefix) || key <= request.Token {
			continue
		}
		if len(page.Objects) == limit {
			page.Next = page.Objects[limit-1].Key
			break
		}
		page.Objects = append(page.Objects, b.mu.objects[key].info(key))
	}
	return page, nil
}

// Delete implements [objstore.Store].
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	var failed []*objstore.Error
	for _, key := range keys {
		if err := s.begin(ctx, objstore.OpDelete, key); err != nil {
			failed = append(failed, err.(*objstore.Error))
			continue
		}
		s.bucket.remove(key)
	}
	if failed != nil {
		return &objstore.DeleteError{Failed: failed}
	}
	return nil
}

func (b *Bucket) remove(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.mu.objects, key)
}

// Close implements [objstore.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.closed = true
	return nil
}

// Create implements [objstore.Store].
func (s *Store) Create(ctx context.Context, key string) (objstore.Upload, error) {
	if err := s.begin(ctx, objstore.OpCreate, key); err != nil {
		return nil, err
	}
	return &upload{ctx: ctx, store: s, key: key}, nil
}

// upload gathers the bytes of an object.
type upload struct {
	ctx   context.Context
	store *Store
	key   string
	data  []byte
	done  bool
}

func (u *upload) Write(p []byte) (int, error) {
	if err := u.usable(objstore.OpWrite); err != nil {
		return 0, err
	}
	u.data = append(u.data, p...)
	return len(p), nil
}

func (u *upload) Finish() error {
	err := u.usable(objstore.OpFinish)
	u.done = true
	if err != nil {
		return err
	}
	if !u.store.bucket.putIfAbsent(u.key, u.data) {
		return u.store.fail(objstore.OpFinish, u.key, objstore.ErrExists, nil)
	}
	return nil
}

func (u *upload) Abort() error {
	u.done, u.data = true, nil
	return nil
}

func (u *upload) usable(op objstore.Op) error {
	if u.done {
		return u.store.fail(op, u.key, nil, objstore.ErrEnded)
	}
	return u.store.usable(u.ctx, op, u.key)
}
