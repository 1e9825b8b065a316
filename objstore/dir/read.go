package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/vfs"
)

// open opens an object's file. What is not a plain file is not an object, nor is anything below an object.
func (s *Store) open(ctx context.Context, op objstore.Op, key string) (vfs.File, fs.FileInfo, error) {
	if err := s.begin(ctx, op, key); err != nil {
		return nil, nil, err
	}
	if _, err := s.stat(key); err != nil {
		return nil, nil, s.fail(op, key, err)
	}
	f, err := s.fs.Open(s.file(key), vfs.ReadOnly)
	if err != nil {
		return nil, nil, s.fail(op, key, err)
	}
	// The object may have been replaced since: what counts is the file that is open.
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, s.fail(op, key, err)
	}
	return f, info, nil
}

func (s *Store) stat(key string) (fs.FileInfo, error) {
	info, err := s.fs.Stat(s.file(key))
	if errors.Is(err, syscall.ENOTDIR) || err == nil && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "stat", Path: s.file(key), Err: fs.ErrNotExist}
	}
	return info, err
}

// Get implements [objstore.Store].
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	f, info, err := s.open(ctx, objstore.OpGet, key)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, info.Size())
	if err := readFull(f, data, 0); err != nil {
		return nil, s.fail(objstore.OpGet, key, err)
	}
	return data, nil
}

// ReadRange implements [objstore.Store].
func (s *Store) ReadRange(ctx context.Context, key string, p []byte, off int64) error {
	if err := objstore.CheckRange(off, len(p), math.MaxInt64); err != nil {
		return s.fail(objstore.OpReadRange, key, err)
	}
	f, info, err := s.open(ctx, objstore.OpReadRange, key)
	if err != nil {
		return err
	}
	defer f.Close()
	err = objstore.CheckRange(off, len(p), info.Size())
	if err == nil {
		err = readFull(f, p, off)
	}
	if err != nil {
		return s.fail(objstore.OpReadRange, key, err)
	}
	return nil
}

// readFull reads bytes that the file must have: they never change once it is an object.
func readFull(f vfs.File, p []byte, off int64) error {
	n, err := f.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	return fmt.Errorf("read %d bytes of %d: %w", n, len(p), err)
}

// Head implements [objstore.Store].
func (s *Store) Head(ctx context.Context, key string) (objstore.Info, error) {
	if err := s.begin(ctx, objstore.OpHead, key); err != nil {
		return objstore.Info{}, err
	}
	info, err := s.stat(key)
	if err != nil {
		return objstore.Info{}, s.fail(objstore.OpHead, key, err)
	}
	return objectInfo(key, info), nil
}

func objectInfo(key string, info fs.FileInfo) objstore.Info {
	return objstore.Info{Key: key, Size: info.Size(), Modified: info.ModTime()}
}

// List implements [objstore.Store]. Its tokens are the last key of the page.
func (s *Store) List(ctx context.Context, request objstore.ListRequest) (objstore.Page, error) {
	limit, err := request.PageSize()
	if err != nil {
		return objstore.Page{}, s.fail(objstore.OpList, request.Prefix, err)
	}
	if err := s.usable(ctx, objstore.OpList, request.Prefix); err != nil {
		return objstore.Page{}, err
	}
	l := &lister{store: s, ctx: ctx, prefix: request.Prefix, after: request.Token, limit: limit}
	top, _ := path.Split(request.Prefix)
	if top != "" && objstore.CheckKey(strings.TrimSuffix(top, "/")) != nil {
		return objstore.Page{}, nil // no key begins so
	}
	if err := l.walk(top); err != nil && !errors.Is(err, errPageFull) {
		return objstore.Page{}, s.fail(objstore.OpList, request.Prefix, err)
	}
	return l.page, nil
}

// errPageFull ends a walk.
var errPageFull = errors.New("page is full")

// lister walks the directory in the order of the keys.
type lister struct {
	store  *Store
	ctx    context.Context
	prefix string
	after  string
	limit  int
	page   objstore.Page
}

// walk lists the keys that begin with top, which is empty or ends in a slash. A missing directory was emptied.
func (l *lister) walk(top string) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	entries, err := l.store.fs.List(l.store.file(top))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	// A directory comes where its keys do: "a.b" before "a/b".
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(keyPart(a), keyPart(b)) })
	for _, e := range entries {
		if err := l.visit(top+keyPart(e), e); err != nil {
			return err
		}
	}
	return nil
}

// keyPart is the part of a key that an entry stands for.
func keyPart(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}

func (l *lister) visit(key string, e fs.DirEntry) error {
	switch {
	case isHidden(e.Name()):
		return nil
	case e.IsDir():
		wanted := strings.HasPrefix(key, l.prefix) || strings.HasPrefix(l.prefix, key)
		passed := key < l.after && !strings.HasPrefix(l.after, key)
		if !wanted || passed {
			return nil
		}
		return l.walk(key)
	case !e.Type().IsRegular() || !strings.HasPrefix(key, l.prefix) || key <= l.after:
		return nil
	}
	if len(l.page.Objects) == l.limit {
		l.page.Next = l.page.Objects[l.limit-1].Key
		return errPageFull
	}
	info, err := e.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // deleted since
	}
	if err != nil {
		return err
	}
	l.page.Objects = append(l.page.Objects, objectInfo(key, info))
	return nil
}
