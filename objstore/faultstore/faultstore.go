// Package faultstore wraps an object store to make it misbehave, and to write down what is asked of it.
//
// An [Injector] sees every call before it happens and may delay it, fail it, let it happen and lose the reply, or fail
// single keys of a delete. A [Gate] holds chosen calls, or their replies, until the test lets them go in an order of its
// own; an [Allowance] throttles. A [Trace] is the exact list of calls: requests are what an object store costs, so tests
// compare it with a golden.
//
// Two wrappers around one store are two processes that share a bucket.
package faultstore

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/tidemark-io/tidemark/objstore"
)

// Store is an [objstore.Store] with faults.
type Store struct {
	base objstore.Store

	mu struct {
		sync.Mutex
		inject Injector
		calls  []objstore.Op // the kind of every call so far
		traces []*Trace
	}
}

var _ objstore.Store = (*Store)(nil)

// New wraps a store. A nil Injector injects nothing. Close closes the base.
func New(base objstore.Store, inject Injector) *Store {
	s := &Store{base: base}
	s.mu.inject = inject
	return s
}

// SetInjector replaces the injector for the calls that begin from now on.
func (s *Store) SetInjector(inject Injector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.inject = inject
}

// Calls returns how many calls have begun.
func (s *Store) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.calls)
}

// Count returns how many calls of the given kinds have begun.
func (s *Store) Count(kinds ...objstore.Op) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, call := range s.mu.calls {
		if slices.Contains(kinds, call) {
			n++
		}
	}
	return n
}

// String names the base store.
func (s *Store) String() string { return s.base.String() }

// begin numbers a call and asks the injector about it.
func (s *Store) begin(op Op) (Op, Fault) {
	s.mu.Lock()
	op.Index = len(s.mu.calls)
	s.mu.calls = append(s.mu.calls, op.Kind)
	inject := s.mu.inject
	s.mu.Unlock()
	if inject == nil {
		return op, Fault{}
	}
	return op, inject(op)
}

func (s *Store) end(op Op, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.mu.traces {
		t.note(op, err)
	}
}

// do makes one call as the injector decides.
func (s *Store) do(ctx context.Context, op Op, call func(Fault) error) (err error) {
	op, fault := s.begin(op)
	defer func() { s.end(op, err) }()
	if fault.After {
		err = call(fault)
	}
	if fault.Hook != nil {
		fault.Hook(ctx)
	}
	if fault.Err != nil {
		return s.injected(op, fault.Err)
	}
	if !fault.After {
		err = call(fault)
	}
	return err
}

var classes = []error{
	objstore.ErrExists, objstore.ErrNotFound, objstore.ErrThrottled, objstore.ErrTransient, objstore.ErrDenied,
	objstore.ErrInvalid,
}

// injected is the error that the caller sees: of the class that the injected error matches, if any.
func (s *Store) injected(op Op, cause error) error {
	fail := func(key string) *objstore.Error {
		e := &objstore.Error{Op: op.Kind, Store: s.String(), Key: key, Err: cause}
		for _, class := range classes {
			if errors.Is(cause, class) {
				e.Class = class
			}
		}
		return e
	}
	if op.Kind != objstore.OpDelete {
		return fail(op.Key)
	}
	all := &objstore.DeleteError{}
	for _, key := range op.Keys {
		all.Failed = append(all.Failed, fail(key))
	}
	return all
}

// Put implements [objstore.Store].
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	op := Op{Kind: objstore.OpPut, Key: key, Len: int64(len(data))}
	return s.do(ctx, op, func(Fault) error { return s.base.Put(ctx, key, data) })
}

// PutIfAbsent implements [objstore.Store].
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	op := Op{Kind: objstore.OpPutIfAbsent, Key: key, Len: int64(len(data))}
	return s.do(ctx, op, func(Fault) error { return s.base.PutIfAbsent(ctx, key, data) })
}

// Get implements [objstore.Store].
func (s *Store) Get(ctx context.Context, key string) (data []byte, err error) {
	err = s.do(ctx, Op{Kind: objstore.OpGet, Key: key}, func(Fault) (err error) {
		data, err = s.base.Get(ctx, key)
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// ReadRange implements [objstore.Store].
func (s *Store) ReadRange(ctx context.Context, key string, p []byte, off int64) error {
	op := Op{Kind: objstore.OpReadRange, Key: key, Off: off, Len: int64(len(p))}
	return s.do(ctx, op, func(Fault) error { return s.base.ReadRange(ctx, key, p, off) })
}

// Head implements [objstore.Store].
func (s *Store) Head(ctx context.Context, key string) (info objstore.Info, err error) {
	err = s.do(ctx, Op{Kind: objstore.OpHead, Key: key}, func(Fault) (err error) {
		info, err = s.base.Head(ctx, key)
		return err
	})
	if err != nil {
		return objstore.Info{}, err
	}
	return info, nil
}

// List implements [objstore.Store].
func (s *Store) List(ctx context.Context, request objstore.ListRequest) (page objstore.Page, err error) {
	op := Op{Kind: objstore.OpList, Key: request.Prefix, Token: request.Token, Len: int64(request.Limit)}
	err = s.do(ctx, op, func(Fault) (err error) {
		page, err = s.base.List(ctx, request)
		return err
	})
	if err != nil {
		return objstore.Page{}, err
	}
	return page, nil
}

// Delete implements [objstore.Store].
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	op := Op{Kind: objstore.OpDelete, Keys: slices.Clone(keys)}
	return s.do(ctx, op, func(fault Fault) error { return s.deleteSome(ctx, keys, fault.Keys) })
}

// deleteSome deletes the keys that are not made to fail, and reports all failures in the order of the keys.
func (s *Store) deleteSome(ctx context.Context, keys []string, faults map[string]error) error {
	var rest []string
	failed := map[string]*objstore.Error{}
	for _, key := range keys {
		if cause := faults[key]; cause != nil {
			var one *objstore.DeleteError
			errors.As(s.injected(Op{Kind: objstore.OpDelete, Keys: []string{key}}, cause), &one)
			failed[key] = one.Failed[0]
			continue
		}
		rest = append(rest, key)
	}
	err := s.base.Delete(ctx, rest...)
	var base *objstore.DeleteError
	if err != nil && !errors.As(err, &base) {
		return err
	}
	if base != nil {
		for _, f := range base.Failed {
			failed[f.Key] = f
		}
	}
	if len(failed) == 0 {
		return nil
	}
	all := &objstore.DeleteError{}
	for _, key := range keys {
		if f := failed[key]; f != nil {
			all.Failed = append(all.Failed, f)
			delete(failed, key)
		}
	}
	return all
}

// Close closes the base. It is not a call that the injector sees.
func (s *Store) Close() error { return s.base.Close() }

// Create implements [objstore.Store]. The upload's calls are seen by the injector too.
func (s *Store) Create(ctx context.Context, key string) (up objstore.Upload, err error) {
	err = s.do(ctx, Op{Kind: objstore.OpCreate, Key: key}, func(Fault) (err error) {
		up, err = s.base.Create(ctx, key)
		return err
	})
	if err != nil {
		if up != nil {
			err = errors.Join(err, up.Abort()) // it was made, and the reply is lost
		}
		return nil, err
	}
	return &upload{ctx: ctx, store: s, key: key, base: up}, nil
}

type upload struct {
	ctx   context.Context
	store *Store
	key   string
	base  objstore.Upload
	// failed is a write that was made to fail; the base has not seen it.
	failed error
}

func (u *upload) Write(p []byte) (n int, err error) {
	asked := false
	op := Op{Kind: objstore.OpWrite, Key: u.key, Len: int64(len(p))}
	err = u.store.do(u.ctx, op, func(Fault) (err error) {
		asked = true
		n, err = u.base.Write(p)
		return err
	})
	if err != nil && !asked {
		u.failed = err
	}
	return n, err
}

// Finish ends the upload even when it is made to fail.
func (u *upload) Finish() error {
	finished := false
	if u.failed != nil {
		return errors.Join(u.failed, u.Abort())
	}
	err := u.store.do(u.ctx, Op{Kind: objstore.OpFinish, Key: u.key}, func(Fault) error {
		finished = true
		return u.base.Finish()
	})
	if err != nil && !finished {
		err = errors.Join(err, u.base.Abort())
	}
	return err
}

// Abort happens even when it is made to fail.
func (u *upload) Abort() error {
	aborted := false
	err := u.store.do(u.ctx, Op{Kind: objstore.OpAbort, Key: u.key}, func(Fault) error {
		aborted = true
		return u.base.Abort()
	})
	if err != nil && !aborted {
		err = errors.Join(err, u.base.Abort())
	}
	return err
}
