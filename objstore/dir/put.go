package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"syscall"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/vfs"
)

// Put implements [objstore.Store].
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	return s.put(ctx, objstore.OpPut, key, data, s.fs.Rename)
}

// PutIfAbsent implements [objstore.Store].
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return s.put(ctx, objstore.OpPutIfAbsent, key, data, s.fs.Link)
}

func (s *Store) put(
	ctx context.Context, op objstore.Op, key string, data []byte, name func(from, to string) error,
) error {
	if err := s.writable(ctx, op, key); err != nil {
		return err
	}
	if op == objstore.OpPutIfAbsent {
		// Before anything is written; the link decides for those that come at the same time.
		if _, err := s.stat(key); err == nil {
			return s.fail(op, key, s.taken(s.file(key), path.Dir(s.file(key)), fs.ErrExist))
		}
	}
	t, err := s.newTemp()
	if err == nil {
		_, err = t.Write(data)
	}
	if err == nil {
		err = t.seal()
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = s.publish(t.name, key, name)
	}
	if err != nil {
		t.discard()
		return s.fail(op, key, err)
	}
	if op == objstore.OpPutIfAbsent {
		t.discard() // the object is the other name of the file
	}
	return nil
}

// temp is an object's file before it has its name.
type temp struct {
	fs   vfs.FS
	name string
	file vfs.File // nil once closed
	size int64
}

func (s *Store) newTemp() (*temp, error) {
	t := &temp{fs: s.fs, name: path.Join(s.slot, strconv.FormatUint(s.next.Add(1), 10))}
	f, err := s.fs.Open(t.name, vfs.CreateNew)
	if err != nil {
		return t, unnamed(err)
	}
	t.file = f
	return t, nil
}

// unnamed is the error of a file in the slot, which is missing only if the store is broken: it says nothing about the
// object.
func unnamed(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("slot for unfinished objects is damaged: %v", err)
	}
	return err
}

func (t *temp) Write(p []byte) (int, error) {
	n, err := t.file.WriteAt(p, t.size)
	t.size += int64(n)
	return n, err
}

// seal makes the bytes durable and closes the file.
func (t *temp) seal() error {
	err := t.file.Sync()
	if closeErr := t.file.Close(); err == nil {
		err = closeErr
	}
	t.file = nil
	return err
}

// discard removes the file. What cannot be removed is removed when the slot is taken next.
func (t *temp) discard() error {
	if t.file != nil {
		t.file.Close()
		t.file = nil
	}
	if err := t.fs.Remove(t.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// maxRaces bounds how often a put recreates its directory because deletes in other processes emptied and removed it.
const maxRaces = 100

// publish gives the file its key's name and makes that durable. ErrExist says that the name is taken, durably.
func (s *Store) publish(tmp, key string, name func(from, to string) error) error {
	target := s.file(key)
	dir := path.Dir(target)
	for range maxRaces {
		err := name(tmp, target)
		switch {
		case err == nil:
			return s.makeDurable(dir)
		case errors.Is(err, fs.ErrExist):
			return s.taken(target, dir, err)
		case errors.Is(err, syscall.EISDIR):
			return conflict(target)
		case errors.Is(err, syscall.ENOTDIR):
			return conflict(dir)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		err = s.fs.MkdirAll(dir)
		switch {
		case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
			return conflict(dir)
		case err != nil && !errors.Is(err, fs.ErrNotExist): // a parent may have gone meanwhile
			return err
		}
	}
	return fmt.Errorf("directory %s was removed %d times", dir, maxRaces)
}

// taken returns the error for a name that is taken: by an object, which is made durable first, since its own put may not
// have got there yet; or by a directory.
func (s *Store) taken(target, dir string, err error) error {
	if info, statErr := s.fs.Stat(target); statErr == nil && info.IsDir() {
		return conflict(target)
	}
	if durableErr := s.makeDurable(dir); durableErr != nil {
		return durableErr
	}
	return err
}

func conflict(name string) error {
	return fmt.Errorf("%w: %s is an object's name and the front of another's", objstore.ErrInvalid, name)
}

// makeDurable syncs the directory in which an object has just got its name, and the way to it unless that is known to be
// done. A directory that is gone was emptied by a delete of that very object.
func (s *Store) makeDurable(dir string) error {
	err := s.syncDir(dir)
	if err == nil && !s.marked(dir) {
		err = s.syncWay(dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (s *Store) marked(dir string) bool {
	_, err := s.fs.Stat(path.Join(dir, markerName))
	return err == nil
}

// syncWay syncs all names on the way to a directory and marks it. Meanwhile a pin in the directory keeps others from
// removing it: otherwise the mark could land in one that was removed and created again. Only the syncs matter for the
// object, which keeps its directory by itself; without a mark the next put makes the same syncs.
func (s *Store) syncWay(dir string) error {
	pin := path.Join(dir, s.pinPrefix+strconv.FormatUint(s.next.Add(1), 10))
	f, pinErr := s.fs.Open(pin, vfs.CreateNew)
	if pinErr == nil {
		pinErr = f.Close()
	}
	for d := dir; d != s.root; d = path.Dir(d) {
		if err := s.syncDir(path.Dir(d)); err != nil {
			return errors.Join(err, ignoreMissing(s.fs.Remove(pin)))
		}
	}
	if pinErr != nil || s.fs.Rename(pin, path.Join(dir, markerName)) != nil {
		s.fs.Remove(pin)
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Create implements [objstore.Store].
func (s *Store) Create(ctx context.Context, key string) (objstore.Upload, error) {
	if err := s.writable(ctx, objstore.OpCreate, key); err != nil {
		return nil, err
	}
	t, err := s.newTemp()
	if err != nil {
		return nil, s.fail(objstore.OpCreate, key, err)
	}
	return &upload{ctx: ctx, store: s, key: key, temp: t}, nil
}

// upload is an object that is being written.
type upload struct {
	ctx   context.Context
	store *Store
	key   string
	temp  *temp // nil once it has ended
	// failed is the first write that failed: what follows it must not be published without it.
	failed error
}

func (u *upload) Write(p []byte) (int, error) {
	if err := u.usable(objstore.OpWrite); err != nil {
		return 0, err
	}
	n, err := u.temp.Write(p)
	if err != nil {
		u.failed = u.store.fail(objstore.OpWrite, u.key, err)
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
	t := u.temp
	u.temp = nil
	err := t.seal()
	if err == nil {
		err = u.store.publish(t.name, u.key, u.store.fs.Link)
	}
	t.discard() // the object is the other name of the file
	if err != nil {
		return u.store.fail(objstore.OpFinish, u.key, err)
	}
	return nil
}

func (u *upload) Abort() error {
	t := u.temp
	if t == nil {
		return nil
	}
	u.temp = nil
	if err := t.discard(); err != nil {
		return u.store.fail(objstore.OpAbort, u.key, err)
	}
	return nil
}

func (u *upload) usable(op objstore.Op) error {
	if u.temp == nil {
		return u.store.fail(op, u.key, objstore.ErrEnded)
	}
	return u.store.writable(u.ctx, op, u.key)
}
