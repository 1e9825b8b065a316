package dir

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/tidemark-io/tidemark/objstore"
)

// Delete implements [objstore.Store]. Directories that it empties are removed. It syncs each directory once, however many
// objects of it are removed.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	failed := map[string]*objstore.Error{}
	byDir := map[string][]string{}
	for _, key := range keys {
		if err := s.unlink(ctx, key); err != nil {
			failed[key] = err
			continue
		}
		dir := path.Dir(s.file(key))
		byDir[dir] = append(byDir[dir], key)
	}
	for _, dir := range slices.Sorted(maps.Keys(byDir)) {
		err := s.settleDelete(dir)
		for _, key := range byDir[dir] {
			if err != nil {
				failed[key] = s.fail(objstore.OpDelete, key, err)
			}
		}
	}
	if len(failed) == 0 {
		return nil
	}
	e := &objstore.DeleteError{}
	for _, key := range keys {
		if f := failed[key]; f != nil {
			e.Failed = append(e.Failed, f)
			delete(failed, key)
		}
	}
	return e
}

// unlink removes an object's name; it is no error if there is no object.
func (s *Store) unlink(ctx context.Context, key string) *objstore.Error {
	if err := s.writable(ctx, objstore.OpDelete, key); err != nil {
		return err.(*objstore.Error)
	}
	_, err := s.stat(key) // so that an empty directory is not taken for an object
	if err == nil {
		err = s.fs.Remove(s.file(key))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s.fail(objstore.OpDelete, key, err)
	}
	return nil
}

// settleDelete makes removals in a directory durable, and removes the directory, and those above it, if they are empty.
func (s *Store) settleDelete(dir string) error {
	for {
		err := s.syncDir(dir)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == s.root {
			return err
		}
		dir = path.Dir(dir) // another delete has emptied and removed it, so its parent must be durable
	}
	for ; dir != s.root; dir = path.Dir(dir) {
		if !s.prune(dir) {
			return nil
		}
	}
	return nil
}

// prune removes a directory if only its mark and the remains of a dead process are in it. If that fails, or a power cut
// undoes it, the cost is an empty directory.
func (s *Store) prune(dir string) bool {
	entries, err := s.fs.List(dir)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	for _, e := range entries {
		if e.Name() != markerName && !s.isDeadPin(e.Name()) {
			return false
		}
	}
	for _, e := range entries {
		if ignoreMissing(s.fs.Remove(path.Join(dir, e.Name()))) != nil {
			return false
		}
	}
	return s.fs.Remove(dir) == nil
}

// isDeadPin reports whether a file is the pin of an earlier holder of this store's slot. Those of other slots may be in
// use.
func (s *Store) isDeadPin(name string) bool {
	slot := strings.TrimSuffix(s.pinPrefix, s.incarnation+"-")
	return strings.HasPrefix(name, slot) && !strings.HasPrefix(name, s.pinPrefix)
}
