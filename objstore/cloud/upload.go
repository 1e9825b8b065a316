package cloud

import (
	"context"
	"errors"
	"io"

	"github.com/tidemark-io/tidemark/objstore"
)

// Create implements [objstore.Store]. Up to one part the object is one request; above that it is a multipart upload. The
// first call finds out whether S3 finishes such an upload only if the key is free.
func (s *Store) Create(ctx context.Context, key string) (objstore.Upload, error) {
	if err := s.begin(ctx, objstore.OpCreate, key); err != nil {
		return nil, err
	}
	conditional, err := s.finishesIfAbsent(ctx)
	if err != nil {
		return nil, s.fail(ctx, objstore.OpCreate, key, err)
	}
	sending, cancel := context.WithCancel(ctx)
	w, err := s.writer(sending, key, conditional)
	if err != nil {
		cancel()
		return nil, s.fail(ctx, objstore.OpCreate, key, err)
	}
	return &upload{ctx: ctx, cancel: cancel, store: s, key: key, w: w, looks: !conditional}, nil
}

// writer begins an object. Closing it finishes the object, under the condition that the key is free if that is asked for, unless
// its context was cancelled before: then nothing is left.
func (s *Store) writer(ctx context.Context, key string, ifAbsent bool) (io.WriteCloser, error) {
	if s.s3.takes(key) {
		return newPartWriter(ctx, s.s3, key, ifAbsent), nil
	}
	o := s.writerOptions(s.part)
	o.IfNotExist = ifAbsent
	return s.bucket.NewWriter(ctx, key, o)
}

// finishesIfAbsent reports whether the provider keeps an upload from replacing an object. All do that the library knows, but
// not all stores that speak like S3.
func (s *Store) finishesIfAbsent(ctx context.Context) (bool, error) {
	if s.s3 == nil {
		return true, nil
	}
	yes, first, err := s.s3.finishesIfAbsent(ctx)
	if first && !yes && s.replaces != nil {
		s.replaces()
	}
	return yes, err
}

// upload is an object that is being written.
type upload struct {
	ctx    context.Context
	cancel context.CancelFunc
	store  *Store
	key    string
	w      io.WriteCloser
	looks  bool  // checks the key before it finishes, since the store would replace an existing object
	failed error // the first write that failed
	ended  bool
}

func (u *upload) Write(p []byte) (int, error) {
	if err := u.usable(objstore.OpWrite); err != nil {
		return 0, err
	}
	n, err := u.w.Write(p)
	if err != nil {
		u.failed = u.store.fail(u.ctx, objstore.OpWrite, u.key, err)
		return n, u.failed
	}
	return n, nil
}

func (u *upload) Finish() error {
	if err := u.usable(objstore.OpFinish); err != nil {
		return errors.Join(err, u.Abort())
	}
	if u.failed != nil {
		return errors.Join(u.failed, u.Abort())
	}
	if err := u.look(); err != nil {
		return errors.Join(err, u.Abort())
	}
	u.ended = true
	defer u.cancel()
	if err := u.w.Close(); err != nil {
		return u.store.fail(u.ctx, objstore.OpFinish, u.key, err)
	}
	return nil
}

// look fails if the key is taken and the store would not report that.
func (u *upload) look() error {
	if !u.looks {
		return nil
	}
	_, err := u.store.bucket.Attributes(u.ctx, u.key)
	switch {
	case err == nil:
		return &objstore.Error{Op: objstore.OpFinish, Store: u.store.name, Key: u.key, Class: objstore.ErrExists}
	case u.ctx.Err() == nil && classOf(err) == objstore.ErrNotFound:
		return nil
	}
	return u.store.fail(u.ctx, objstore.OpFinish, u.key, err)
}

// Abort implements [objstore.Upload]. It also waits until what was being sent has ended.
func (u *upload) Abort() error {
	if u.ended {
		return nil
	}
	u.ended = true
	u.cancel()
	u.w.Close() // fails because it was cancelled
	return nil
}

func (u *upload) usable(op objstore.Op) error {
	if u.ended {
		return &objstore.Error{Op: op, Store: u.store.name, Key: u.key, Err: objstore.ErrEnded}
	}
	return u.store.usable(u.ctx, op, u.key)
}
