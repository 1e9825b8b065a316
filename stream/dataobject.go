package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-io/tidemark/objstore"
)

// ObjectTakenError is a data object that is there already with other bytes, under an id that was given out for a new one. The
// ids of a metadata log are never given out twice, so another one does that for the same bucket: a copy of it that was opened
// elsewhere, or one that went back in time. The object is left as it is. The error matches [ErrEngineFailed]: the engine
// stops; the WAL has the data.
type ObjectTakenError struct {
	Key string
}

func (e *ObjectTakenError) Error() string {
	return fmt.Sprintf("object %q is there already with other bytes: another metadata log gives out the same ids", e.Key)
}

// Is matches [ErrEngineFailed].
func (e *ObjectTakenError) Is(target error) bool { return target == ErrEngineFailed }

// putData stores a data object that nobody has written yet. One that is there with the same bytes is an earlier try, or that
// of a copy of this node which had the same to write; one with others is an [*ObjectTakenError].
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

// createData begins a data object that is too large for one put. S3 can finish such an upload under the condition that the key
// is free (If-None-Match of CompleteMultipartUpload); [objstore.Upload] has no such condition, so the key is looked at before:
// an object that comes between is replaced, as is one that an earlier upload of the same caller has left when again says so.
func createData(ctx context.Context, store objstore.Store, key string, again bool) (objstore.Upload, error) {
	if !again {
		_, err := store.Head(ctx, key)
		if err == nil {
			return nil, &ObjectTakenError{Key: key}
		}
		if !errors.Is(err, objstore.ErrNotFound) {
			return nil, err
		}
	}
	return store.Create(ctx, key)
}
