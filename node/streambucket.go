package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/objstore"
)

// Metadata says which bucket the streams of the cluster are in, by the name of an object that is in no other one. Without it
// an engine on another bucket would find no log there, take that for an empty one, and close what has acknowledged records
// elsewhere: its own of an earlier start, or a dead node's.
//
//	metadata   streams/bucket               MARK
//	bucket     tidemark-bucket/MARK         the cluster's id
const (
	bucketKey    = "streams/bucket"
	bucketPrefix = "tidemark-bucket/"
)

// WrongStoreError says that an object store is not the one that holds the streams of the cluster.
type WrongStoreError struct {
	Store string // without secrets
	Mark  string // the key of the object that is not in it
}

func (e *WrongStoreError) Error() string {
	return fmt.Sprintf("the object store %s is not the one that the streams of this cluster are in: that one holds an object %s",
		e.Store, e.Mark)
}

// checkBucket makes sure that the open store is the one that metadata knows, if it knows one.
func (s *streams) checkBucket(ctx context.Context) error {
	mark, known := s.log.View().Get(bucketKey)
	if !known {
		return nil
	}
	key := bucketPrefix + string(mark.Value)
	_, err := s.store.Head(ctx, key)
	if errors.Is(err, objstore.ErrNotFound) {
		return &WrongStoreError{Store: s.store.String(), Mark: key}
	}
	return err
}

// markBucket makes the open store the one that metadata knows, unless it knows one: then it must be the same. Of several nodes
// that do so at once the first to write metadata decides; the marks of the others stay in their buckets and mean nothing.
func (s *streams) markBucket(ctx context.Context) error {
	if _, known := s.log.View().Get(bucketKey); !known {
		mark := logdir.NewUUID().Hex()
		if err := s.store.Put(ctx, bucketPrefix+mark, []byte(s.log.ClusterID())); err != nil {
			return err
		}
		if _, err := s.log.Do(ctx, meta.PutKvIfAbsent{Key: bucketKey, Value: []byte(mark)}); err != nil {
			return err
		}
	}
	return s.checkBucket(ctx)
}
