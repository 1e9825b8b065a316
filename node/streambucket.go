package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream"
	streamcatalog "github.com/tidemark-io/tidemark/stream/catalog"
)

// Metadata names the bucket of the cluster's streams by an object that is in no other one. Without it an engine on another
// bucket would find no log there, take it for an empty one, and close logs that have acknowledged records elsewhere: its own
// of an earlier start, or a dead node's.
//
//	metadata   streams/bucket               MARK
//	bucket     tidemark-bucket/MARK         the cluster's id
const (
	bucketKey    = "streams/bucket"
	bucketPrefix = "tidemark-bucket/"
)

// WrongStoreError says that an object store is not the one that holds the cluster's streams.
type WrongStoreError struct {
	Store string // without secrets
	Mark  string // the key of the object that it lacks, or the prefix of such keys, which ends in a slash
	// Unmarked says that metadata names no store, and that this one does not hold the objects that metadata knows.
	Unmarked bool
}

func (e *WrongStoreError) Error() string {
	s := fmt.Sprintf("the object store %s is not the one that the streams of this cluster are in: that one holds an object %s",
		e.Store, e.Mark)
	if e.Unmarked {
		s += "; use that one, or copy all of its objects into this one"
	}
	return s
}

// checkBucket makes sure that the open store is the one that metadata names, if it names one.
func (s *streams) checkBucket(ctx context.Context) error { return s.checkMark(ctx, s.store) }

// checkMark does that for a store.
func (s *streams) checkMark(ctx context.Context, store objstore.Store) error {
	mark, known := s.log.View().Get(bucketKey)
	if !known {
		return nil
	}
	key := bucketPrefix + string(mark.Value)
	_, err := store.Head(ctx, key)
	if errors.Is(err, objstore.ErrNotFound) {
		return &WrongStoreError{Store: store.String(), Mark: key}
	}
	return err
}

// markBucket makes the open store the one that metadata names, unless metadata names one already, which must then be the
// same. Of several nodes that do so at once the first to write metadata wins; the others' marks stay in their buckets and
// mean nothing.
//
// Metadata that names none, but has logs that were not closed or objects of streams, is older than marks. Then the store
// must hold an object of one of those logs, whose keys name the cluster, or one of the streams' objects at its size.
// Streams that have neither hold no record, so any store will do.
func (s *streams) markBucket(ctx context.Context) error {
	if _, known := s.log.View().Get(bucketKey); !known {
		if err := s.checkUnmarked(ctx); err != nil {
			return err
		}
		mark, err := putMark(ctx, s.store, s.log.ClusterID())
		if err != nil {
			return err
		}
		if _, err := s.log.Do(ctx, mark); err != nil {
			return err
		}
	}
	return s.checkBucket(ctx)
}

// putMark marks a store, and returns the command that makes metadata name it.
func putMark(ctx context.Context, store objstore.Store, cluster string) (meta.Command, error) {
	mark := logdir.NewUUID().Hex()
	if err := store.Put(ctx, bucketPrefix+mark, []byte(cluster)); err != nil {
		return nil, err
	}
	return meta.PutKvIfAbsent{Key: bucketKey, Value: []byte(mark)}, nil
}

// checkUnmarked makes sure that the open store holds one of the objects that metadata knows, if it knows any.
func (s *streams) checkUnmarked(ctx context.Context) error {
	view, missing := s.log.View(), ""
	for node := range view.Nodes() {
		if node.WALEpoch < 0 {
			continue
		}
		missing = stream.WALPrefix{Cluster: s.log.ClusterID(), Node: streamcatalog.NodeID(node.ID)}.String()
		holds, err := holdsAny(ctx, s.store, missing)
		if holds || err != nil {
			return err
		}
	}
	if id, size, known := anyObject(view); known {
		missing = stream.DataKey(stream.DefaultNamespace, id)
		info, err := s.store.Head(ctx, missing)
		if err == nil && info.Size == size || err != nil && !errors.Is(err, objstore.ErrNotFound) {
			return err
		}
	}
	if missing == "" {
		return nil
	}
	return &WrongStoreError{Store: s.store.String(), Mark: missing, Unmarked: true}
}

// holdsAny reports whether a store holds an object whose key begins with a prefix.
func holdsAny(ctx context.Context, store objstore.Store, prefix string) (bool, error) {
	for token := ""; ; {
		page, err := store.List(ctx, objstore.ListRequest{Prefix: prefix, Token: token})
		if err != nil || len(page.Objects) > 0 || page.Next == "" {
			return len(page.Objects) > 0, err
		}
		token = page.Next
	}
}

// anyObject returns an object with records of streams.
func anyObject(view *meta.State) (id streamcatalog.ObjectID, size int64, known bool) {
	for set := range view.StreamSets() {
		return set.Object, set.Size, true
	}
	for row := range view.Streams() {
		for _, o := range view.StreamObjects(row.ID) {
			return o.Object, o.Size, true
		}
	}
	return 0, 0, false
}
