package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"

	"github.com/tidemark-io/tidemark/objstore"
)

// ObjectTakenError is a data object that already exists with different bytes, under an id that was assigned to a new
// one. A metadata log never assigns an id twice, so a second one is assigning ids for the same bucket: a copy that was
// opened elsewhere, or one that went back in time. The object is left unchanged. The error matches [ErrEngineFailed]:
// the engine stops; the WAL has the data.
type ObjectTakenError struct {
	Key string
}

func (e *ObjectTakenError) Error() string {
	return fmt.Sprintf("object %q already exists with different bytes: another metadata log assigns the same ids", e.Key)
}

// Is matches [ErrEngineFailed].
func (e *ObjectTakenError) Is(target error) bool { return target == ErrEngineFailed }

// putData stores a data object under a new id. An existing object with the same bytes is an earlier try, or one by a copy
// of this node that had the same to write; one with other bytes is an [*ObjectTakenError].
func putData(ctx context.Context, store objstore.Store, key string, data []byte) error {
	err := store.PutIfAbsent(ctx, key, data)
	if !errors.Is(err, objstore.ErrExists) {
		return err
	}
	found, err := store.Get(ctx, key)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(found, data):
		return &ObjectTakenError{Key: key}
	}
	return nil
}

// createData begins a data object that is too large for one put, under a new id.
func createData(ctx context.Context, store objstore.Store, key string) (*dataUpload, error) {
	u, err := store.Create(ctx, key)
	if err != nil {
		return nil, err
	}
	return &dataUpload{Upload: u, ctx: ctx, store: store, key: key}, nil
}

// dataUpload is a data object being uploaded. What was sent is not kept, only a sum of it: enough to tell an object of
// an earlier upload, whose reply was lost, from another one's.
type dataUpload struct {
	objstore.Upload
	ctx   context.Context
	store objstore.Store
	key   string
	size  int64
	sum   maphash.Hash
}

// Write implements [objstore.Upload].
func (u *dataUpload) Write(p []byte) (int, error) {
	n, err := u.Upload.Write(p)
	_, _ = u.sum.Write(p[:n]) // never fails
	u.size += int64(n)
	return n, err
}

// Finish implements [objstore.Upload]. An existing object with the same bytes is equivalent to this one; one with others
// is an [*ObjectTakenError].
func (u *dataUpload) Finish() error {
	err := u.Upload.Finish()
	if !errors.Is(err, objstore.ErrExists) {
		return err
	}
	info, err := u.store.Head(u.ctx, u.key)
	if err != nil {
		return err
	}
	same := info.Size == u.size
	if same {
		same, err = u.isThere()
	}
	if err == nil && !same {
		err = &ObjectTakenError{Key: u.key}
	}
	return err
}

// compareBytes is how many bytes of an object are read at once for a comparison.
const compareBytes = 4 << 20

// isThere reports whether the existing object, which has the right size, has the bytes that were sent.
func (u *dataUpload) isThere() (bool, error) {
	var found maphash.Hash
	found.SetSeed(u.sum.Seed())
	b := make([]byte, min(compareBytes, u.size))
	for off := int64(0); off < u.size; off += int64(len(b)) {
		b = b[:min(int64(len(b)), u.size-off)]
		if err := u.store.ReadRange(u.ctx, u.key, b, off); err != nil {
			return false, err
		}
		_, _ = found.Write(b)
	}
	return found.Sum64() == u.sum.Sum64(), nil
}
