package objstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/objstore/objstoretest"
)

func TestALimitedStoreKeepsEveryPromise(t *testing.T) {
	objstoretest.Run(t, func(*testing.T) objstoretest.Opener {
		bucket, one := mem.NewBucket(time.Now), objstore.NewLimit(1)
		return func(*testing.T) objstore.Store { return objstore.Limited(bucket.Open(), one, one) }
	})
}

// anyCall is for a gate that holds every call.
func anyCall(faultstore.Op) bool { return true }

func TestNoMoreCallsThanTheLimitAreUnderWayAndTheOthersWaitInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := faultstore.NewGate(anyCall)
		limit := objstore.NewLimit(3)
		s := objstore.Limited(faultstore.New(mem.New(), gate.Inject), limit, limit)
		var calls sync.WaitGroup
		for i := range 9 {
			calls.Go(func() { _, _ = s.Head(t.Context(), fmt.Sprint(i)) })
			synctest.Wait() // so that they come in this order
		}
		for next := 3; next <= 9; next++ {
			held, err := gate.Held(t.Context(), 3)
			require.NoError(t, err)
			var keys []string
			for _, op := range held {
				keys = append(keys, op.Key)
			}
			slices.Sort(keys)
			require.Equal(t, []string{fmt.Sprint(next - 3), fmt.Sprint(next - 2), fmt.Sprint(next - 1)}, keys)
			require.Equal(t, []int{3, 9 - next}, []int{limit.UnderWay(), limit.Waiting()})
			if next < 9 {
				gate.Release(slices.MinFunc(held, func(a, b faultstore.Op) int { return a.Index - b.Index }))
				synctest.Wait()
			}
		}
		gate.Open()
		calls.Wait()
		require.Equal(t, []int{0, 0}, []int{limit.UnderWay(), limit.Waiting()})
	})
}

func TestPutsOfALogDoNotWaitBehindAThousandReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := faultstore.NewGate(func(op faultstore.Op) bool { return op.Kind == objstore.OpGet })
		base := faultstore.New(mem.New(), gate.Inject)
		bulk := objstore.NewLimit(50)
		data, log := objstore.Limited(base, bulk, bulk), objstore.Limited(base, objstore.NewLimit(4), bulk)
		var reads sync.WaitGroup
		for range 1000 {
			reads.Go(func() { _, _ = data.Get(t.Context(), "k") })
		}
		synctest.Wait()
		require.Equal(t, []int{50, 950, 50}, []int{bulk.UnderWay(), bulk.Waiting(), base.Count(objstore.OpGet)})
		began := time.Now()
		require.NoError(t, log.PutIfAbsent(t.Context(), "wal/0", []byte("x")))
		require.Zero(t, time.Since(began))
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, data.Put(soon, "object", nil), context.DeadlineExceeded, "an upload waits its turn")
		_, err := log.Get(soon, "wal/0")
		require.ErrorIs(t, err, context.DeadlineExceeded, "and so do reads of the log")
		gate.Open()
		reads.Wait()
	})
}

func TestACallThatGivesUpItsPlaceWasNeverSentAndLeavesNoHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := faultstore.NewGate(func(op faultstore.Op) bool { return op.Key == "held" })
		base := faultstore.New(mem.New(), gate.Inject)
		limit := objstore.NewLimit(1)
		s := objstore.Limited(base, limit, limit)
		var calls sync.WaitGroup
		calls.Go(func() { _, _ = s.Head(t.Context(), "held") })
		synctest.Wait()
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		failed := map[objstore.Op]error{}
		var mu sync.Mutex
		try := func(op objstore.Op, call func() error) {
			calls.Go(func() {
				err := call()
				mu.Lock()
				defer mu.Unlock()
				failed[op] = err
			})
		}
		try(objstore.OpPut, func() error { return s.Put(soon, "k", nil) })
		try(objstore.OpPutIfAbsent, func() error { return s.PutIfAbsent(soon, "k", nil) })
		try(objstore.OpReadRange, func() error { return s.ReadRange(soon, "k", make([]byte, 1), 0) })
		try(objstore.OpDelete, func() error { return s.Delete(soon, "k", "l") })
		try(objstore.OpGet, func() error { _, err := s.Get(soon, "k"); return err })
		try(objstore.OpHead, func() error { _, err := s.Head(soon, "k"); return err })
		try(objstore.OpList, func() error { _, err := s.List(soon, objstore.ListRequest{Prefix: "k"}); return err })
		try(objstore.OpCreate, func() error { _, err := s.Create(soon, "k"); return err })
		<-soon.Done()
		synctest.Wait()
		require.Len(t, failed, 8)
		for op, err := range failed {
			var e *objstore.Error
			require.ErrorIs(t, err, context.DeadlineExceeded, op)
			require.ErrorAs(t, err, &e)
			require.Equal(t, []any{op, "k", false}, []any{e.Op, e.Key, objstore.Retriable(err)})
		}
		require.Equal(t, 1, base.Calls())
		gate.Open()
		calls.Wait()
		require.NoError(t, s.Put(t.Context(), "k", nil))
		require.Equal(t, []int{0, 0}, []int{limit.UnderWay(), limit.Waiting()})
	})
}

// Who reads one object to write another holds no room of the upload's while it reads: with a limit of one that goes too.
func TestAnUploadCountsOnlyWhileItSends(t *testing.T) {
	limit := objstore.NewLimit(1)
	base := faultstore.New(mem.New(), nil)
	s := objstore.Limited(base, limit, limit)
	ctx := t.Context()
	require.NoError(t, s.Put(ctx, "from", []byte("abc")))
	up, err := s.Create(ctx, "to")
	require.NoError(t, err)
	data, err := s.Get(ctx, "from")
	require.NoError(t, err)
	_, err = up.Write(data)
	require.NoError(t, err)
	require.NoError(t, up.Finish())
	data, err = s.Get(ctx, "to")
	require.NoError(t, err)
	require.Equal(t, "abc", string(data))

	ending, cancel := context.WithCancel(ctx)
	up, err = s.Create(ending, "never")
	require.NoError(t, err)
	cancel()
	_, err = up.Write(data)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, up.Finish(), context.Canceled)
	require.NoError(t, up.Abort())
	require.Zero(t, limit.UnderWay())
}

// abortedUploads is a store that counts what is given up.
type abortedUploads struct {
	objstore.Store
	aborted int
}

func (a *abortedUploads) Create(ctx context.Context, key string) (objstore.Upload, error) {
	up, err := a.Store.Create(ctx, key)
	return &abortedUpload{up, a}, err
}

type abortedUpload struct {
	objstore.Upload
	of *abortedUploads
}

func (u *abortedUpload) Abort() error {
	u.of.aborted++
	return u.Upload.Abort()
}

// TestAnUploadThatFindsNoRoomToFinishIsGivenUp: after an error of Finish an upload is over, and nobody calls Abort.
func TestAnUploadThatFindsNoRoomToFinishIsGivenUp(t *testing.T) {
	limit := objstore.NewLimit(1)
	base := &abortedUploads{Store: mem.New()}
	s := objstore.Limited(base, limit, limit)
	ctx, cancel := context.WithCancel(t.Context())
	up, err := s.Create(ctx, "k")
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, up.Finish(), context.Canceled)
	require.Equal(t, 1, base.aborted)
	_, err = up.Write([]byte("x"))
	require.Error(t, err)
}

func TestACallThatFailsOrPanicsGivesItsRoomBack(t *testing.T) {
	limit := objstore.NewLimit(1)
	s := objstore.Limited(faultstore.New(mem.New(), func(op faultstore.Op) faultstore.Fault {
		if op.Kind == objstore.OpGet {
			return faultstore.Fault{Hook: func(context.Context) { panic("broken driver") }}
		}
		return faultstore.Fault{Err: errors.New("broken")}
	}), limit, limit)
	require.Error(t, s.Put(t.Context(), "k", nil))
	require.Panics(t, func() { _, _ = s.Get(t.Context(), "k") })
	require.Zero(t, limit.UnderWay())
}
