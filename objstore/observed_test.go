package objstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/objstore/objstoretest"
)

func TestAnObservedStoreKeepsEveryPromise(t *testing.T) {
	events := objstore.Events{Called: func(objstore.CalledEvent) {}}
	objstoretest.Run(t, func(*testing.T) objstoretest.Opener {
		bucket := mem.NewBucket(time.Now)
		return func(*testing.T) objstore.Store { return objstore.Observed(bucket.Open(), events) }
	})
}

func TestEachCallIsToldWithWhatItCarried(t *testing.T) {
	var told []objstore.CalledEvent
	s := objstore.Observed(mem.New(), objstore.Events{Called: func(e objstore.CalledEvent) {
		require.GreaterOrEqual(t, e.Took, time.Duration(0))
		e.Took = 0
		told = append(told, e)
	}})
	ctx := t.Context()
	require.NoError(t, s.Put(ctx, "a", []byte("12345")))
	exists := s.PutIfAbsent(ctx, "a", []byte("other"))
	require.ErrorIs(t, exists, objstore.ErrExists)
	_, err := s.Get(ctx, "a")
	require.NoError(t, err)
	require.NoError(t, s.ReadRange(ctx, "a", make([]byte, 2), 1))
	_, missing := s.Head(ctx, "b")
	require.ErrorIs(t, missing, objstore.ErrNotFound)
	for _, finish := range []bool{true, false} {
		up, err := s.Create(ctx, "b")
		require.NoError(t, err)
		_, err = up.Write([]byte("123"))
		require.NoError(t, err)
		if finish {
			require.NoError(t, up.Finish())
		}
		require.NoError(t, up.Abort(), "after the end it does nothing")
	}
	_, err = s.List(ctx, objstore.ListRequest{})
	require.NoError(t, err)
	require.NoError(t, s.Delete(ctx, "a", "b"))
	require.NoError(t, s.Close())
	require.Equal(t, []objstore.CalledEvent{
		{Op: objstore.OpPut, Key: "a", Keys: 1, Sent: 5},
		{Op: objstore.OpPutIfAbsent, Key: "a", Keys: 1, Err: exists},
		{Op: objstore.OpGet, Key: "a", Keys: 1, Received: 5},
		{Op: objstore.OpReadRange, Key: "a", Keys: 1, Received: 2},
		{Op: objstore.OpHead, Key: "b", Keys: 1, Err: missing},
		{Op: objstore.OpCreate, Key: "b", Keys: 1},
		{Op: objstore.OpFinish, Key: "b", Keys: 1, Sent: 3},
		{Op: objstore.OpCreate, Key: "b", Keys: 1},
		{Op: objstore.OpAbort, Key: "b", Keys: 1},
		{Op: objstore.OpList, Keys: 2},
		{Op: objstore.OpDelete, Key: "a", Keys: 2},
	}, told)
}

func TestOutcomesHaveNames(t *testing.T) {
	for name, err := range map[string]error{
		"ok": nil, "exists": objstore.ErrExists, "throttled": &objstore.Error{Class: objstore.ErrThrottled},
		"denied":    &objstore.DeleteError{Failed: []*objstore.Error{{Class: objstore.ErrDenied}}},
		"cancelled": context.Canceled, "failed": objstore.ErrClosed,
	} {
		require.Equal(t, name, objstore.Outcome(err))
	}
}
