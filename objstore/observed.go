package objstore

import (
	"context"
	"errors"
	"time"
)

// Events receives the calls of a store that [Observed] returned. Fields may be nil.
type Events struct {
	// Called reports a call that has ended. It runs on the goroutine of the call, must return quickly and must not call
	// the store.
	Called func(CalledEvent)
}

// CalledEvent describes a completed call of a store.
type CalledEvent struct {
	// Op is the call. OpWrite is not reported separately: what it has sent is in the event of OpFinish or OpAbort.
	Op Op
	// Key is the object's key, in a listing its prefix, and in a delete that of the first object.
	Key string
	// Keys is how many objects a delete named or a listing found; 1 otherwise.
	Keys int
	// Sent and Received are the bytes of objects sent to the store and received from it. For a call that failed they
	// are 0.
	Sent, Received int64
	// Took is how long it took; for an upload, since it was begun.
	Took time.Duration
	// Err is why it failed.
	Err error
}

// Class is the kind of request that a call is billed as.
type Class string

// The classes. A multipart upload is as many writes as it has parts.
const (
	ClassWrite  Class = "write"  // put and list: the expensive ones
	ClassRead   Class = "read"   // get and head
	ClassDelete Class = "delete" // which costs nothing in most places
)

// Class is the class of a call.
func (op Op) Class() Class {
	switch op {
	case OpGet, OpReadRange, OpHead:
		return ClassRead
	case OpDelete, OpAbort:
		return ClassDelete
	}
	return ClassWrite
}

// Outcome is a word for how a call ended: "ok", one of the package's classes as "exists", "not_found", "throttled",
// "transient", "denied" or "invalid", "cancelled" if its context had ended, and "failed" for everything else.
func Outcome(err error) string {
	for _, o := range []struct {
		is   error
		name string
	}{
		{ErrExists, "exists"}, {ErrNotFound, "not_found"}, {ErrThrottled, "throttled"}, {ErrTransient, "transient"},
		{ErrDenied, "denied"}, {ErrInvalid, "invalid"}, {context.Canceled, "cancelled"}, {context.DeadlineExceeded, "cancelled"},
	} {
		if errors.Is(err, o.is) {
			return o.name
		}
	}
	if err == nil {
		return "ok"
	}
	return "failed"
}

// Observed returns a store that forwards to s and reports each call. Closing it closes s.
func Observed(s Store, e Events) Store {
	if e.Called == nil {
		return s
	}
	return &observed{Store: s, called: e.Called}
}

// observed embeds the store for String and Close, which are not reported.
type observed struct {
	Store
	called func(CalledEvent)
}

// tell reports a call that has ended.
func (s *observed) tell(e CalledEvent, began time.Time) {
	if e.Err != nil {
		e.Sent, e.Received = 0, 0
	}
	e.Took = time.Since(began)
	s.called(e)
}

// Put implements [Store].
func (s *observed) Put(ctx context.Context, key string, data []byte) error {
	began := time.Now()
	err := s.Store.Put(ctx, key, data)
	s.tell(CalledEvent{Op: OpPut, Key: key, Keys: 1, Sent: int64(len(data)), Err: err}, began)
	return err
}

// PutIfAbsent implements [Store].
func (s *observed) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	began := time.Now()
	err := s.Store.PutIfAbsent(ctx, key, data)
	s.tell(CalledEvent{Op: OpPutIfAbsent, Key: key, Keys: 1, Sent: int64(len(data)), Err: err}, began)
	return err
}

// Create implements [Store].
func (s *observed) Create(ctx context.Context, key string) (Upload, error) {
	began := time.Now()
	u, err := s.Store.Create(ctx, key)
	s.tell(CalledEvent{Op: OpCreate, Key: key, Keys: 1, Err: err}, began)
	if err != nil {
		return nil, err
	}
	return &observedUpload{Upload: u, store: s, key: key, began: began}, nil
}

// Get implements [Store].
func (s *observed) Get(ctx context.Context, key string) ([]byte, error) {
	began := time.Now()
	data, err := s.Store.Get(ctx, key)
	s.tell(CalledEvent{Op: OpGet, Key: key, Keys: 1, Received: int64(len(data)), Err: err}, began)
	return data, err
}

// ReadRange implements [Store].
func (s *observed) ReadRange(ctx context.Context, key string, p []byte, off int64) error {
	began := time.Now()
	err := s.Store.ReadRange(ctx, key, p, off)
	s.tell(CalledEvent{Op: OpReadRange, Key: key, Keys: 1, Received: int64(len(p)), Err: err}, began)
	return err
}

// Head implements [Store].
func (s *observed) Head(ctx context.Context, key string) (Info, error) {
	began := time.Now()
	info, err := s.Store.Head(ctx, key)
	s.tell(CalledEvent{Op: OpHead, Key: key, Keys: 1, Err: err}, began)
	return info, err
}

// List implements [Store].
func (s *observed) List(ctx context.Context, request ListRequest) (Page, error) {
	began := time.Now()
	page, err := s.Store.List(ctx, request)
	s.tell(CalledEvent{Op: OpList, Key: request.Prefix, Keys: len(page.Objects), Err: err}, began)
	return page, err
}

// Delete implements [Store].
func (s *observed) Delete(ctx context.Context, keys ...string) error {
	began := time.Now()
	err := s.Store.Delete(ctx, keys...)
	if len(keys) > 0 {
		s.tell(CalledEvent{Op: OpDelete, Key: keys[0], Keys: len(keys), Err: err}, began)
	}
	return err
}

// observedUpload reports the end of an upload.
type observedUpload struct {
	Upload
	store *observed
	key   string
	began time.Time
	sent  int64
	ended bool
}

// Write implements [Upload].
func (u *observedUpload) Write(p []byte) (int, error) {
	n, err := u.Upload.Write(p)
	u.sent += int64(n)
	return n, err
}

// Finish implements [Upload].
func (u *observedUpload) Finish() error {
	err := u.Upload.Finish()
	u.tell(OpFinish, u.sent, err)
	return err
}

// Abort implements [Upload].
func (u *observedUpload) Abort() error {
	err := u.Upload.Abort()
	u.tell(OpAbort, 0, err)
	return err
}

// tell reports the first end of the upload: an abort after that does nothing.
func (u *observedUpload) tell(op Op, sent int64, err error) {
	if !u.ended {
		u.ended = true
		u.store.tell(CalledEvent{Op: op, Key: u.key, Keys: 1, Sent: sent, Err: err}, u.began)
	}
}
