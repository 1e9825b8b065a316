package faultstore_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/objstore/objstoretest"
	"time"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWithoutFaultsItPassesTheSuite(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstoretest.Opener {
		bucket := mem.NewBucket(time.Now)
		return func(t *testing.T) objstore.Store { return faultstore.New(bucket.Open(), nil) }
	})
}

func TestTheTraceIsTheExactListOfCalls(t *testing.T) {
	s := faultstore.New(mem.New(), nil)
	trace, writes := s.Trace(nil), s.Trace(faultstore.Writes)
	ctx := t.Context()
	require.NoError(t, s.PutIfAbsent(ctx, "wal/0", []byte("tide")))
	require.Error(t, s.PutIfAbsent(ctx, "wal/0", []byte("mark!")))
	require.NoError(t, s.ReadRange(ctx, "wal/0", make([]byte, 2), 1))
	_, err := s.List(ctx, objstore.ListRequest{Prefix: "w", Limit: 7, Token: "wa"})
	require.NoError(t, err)
	_, err = s.Get(ctx, "missing")
	require.Error(t, err)
	up, err := s.Create(ctx, "up")
	require.NoError(t, err)
	_, err = up.Write(make([]byte, 3))
	require.NoError(t, err)
	require.NoError(t, up.Finish())
	require.NoError(t, s.Delete(ctx, "wal/0", "up"))

	golden, err := os.ReadFile("testdata/trace.golden")
	require.NoError(t, err)
	require.Equal(t, string(golden), trace.String())
	require.Equal(t, 9, s.Calls())
	require.Equal(t, 2, s.Count(objstore.OpPutIfAbsent))
	require.NotContains(t, writes.String(), "get missing")
	trace.Reset()
	require.Empty(t, trace.String())
}

func TestFaultsHaveTheirClassAndALostReplyItsEffect(t *testing.T) {
	base := mem.New()
	s := faultstore.New(base, nil)
	ctx := t.Context()
	for _, class := range []error{objstore.ErrThrottled, objstore.ErrTransient, objstore.ErrDenied} {
		s.SetInjector(faultstore.When(faultstore.Writes, faultstore.FailNth(0, class)))
		err := s.Put(ctx, "k", []byte("lost"))
		require.ErrorIs(t, err, class)
		var e *objstore.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "k", e.Key)
		_, err = base.Head(ctx, "k")
		require.ErrorIs(t, err, objstore.ErrNotFound)
	}
	s.SetInjector(faultstore.LoseReply(0, objstore.ErrTransient))
	require.ErrorIs(t, s.PutIfAbsent(ctx, "k", []byte("stored")), objstore.ErrTransient)
	require.ErrorIs(t, s.PutIfAbsent(ctx, "k", []byte("stored")), objstore.ErrExists)
	s.SetInjector(faultstore.FailFrom(1, objstore.ErrTransient))
	_, err := s.Head(ctx, "k")
	require.NoError(t, err)
	for range 3 {
		_, err = s.Head(ctx, "k")
		require.ErrorIs(t, err, objstore.ErrTransient)
	}
}

func TestAnUploadThatIsMadeToFailLeavesNothing(t *testing.T) {
	for n, kind := range []objstore.Op{objstore.OpCreate, objstore.OpWrite, objstore.OpFinish, objstore.OpAbort} {
		base := mem.New()
		s := faultstore.New(base, faultstore.When(faultstore.Matching(kind, "k"), faultstore.FailNth(0, objstore.ErrTransient)))
		var failures int
		count := func(err error) {
			if err != nil {
				failures++
			}
		}
		up, err := s.Create(t.Context(), "k")
		count(err)
		if err == nil {
			_, err = up.Write([]byte("x"))
			count(err)
			if n != 3 {
				count(up.Finish())
			}
			count(up.Abort())
		}
		require.NotZero(t, failures)
		_, err = base.Head(t.Context(), "k")
		require.ErrorIs(t, err, objstore.ErrNotFound)
	}
}

func TestF69_SingleKeysOfADeleteFail(t *testing.T) {
	base := mem.New()
	s := faultstore.New(base, nil)
	ctx := t.Context()
	var keys []string
	for i := range 1000 {
		key := fmt.Sprintf("k%03d", i)
		keys = append(keys, key)
		if i%200 != 7 { // five are missing already
			require.NoError(t, s.Put(ctx, key, nil))
		}
	}
	denied := []string{"k100", "k101", "k102"}
	throttled := []string{"k500", "k900"}
	faults := map[string]error{}
	for _, key := range denied {
		faults[key] = objstore.ErrDenied
	}
	for _, key := range throttled {
		faults[key] = objstore.ErrThrottled
	}
	s.SetInjector(faultstore.When(faultstore.Matching(objstore.OpDelete, "k1*"), faultstore.Always(faultstore.Fault{Keys: faults})))
	err := s.Delete(ctx, keys...)
	var failed *objstore.DeleteError
	require.ErrorAs(t, err, &failed)
	var got, again []string
	for _, f := range failed.Failed {
		got = append(got, f.Key)
		if objstore.Retriable(f) {
			again = append(again, f.Key)
		}
	}
	require.Equal(t, append(denied, throttled...), got)
	require.Equal(t, throttled, again)
	page, err := base.List(ctx, objstore.ListRequest{})
	require.NoError(t, err)
	require.Len(t, page.Objects, 5)
}

func TestAGateReordersCalls(t *testing.T) {
	base := mem.New()
	gate := faultstore.NewGate(faultstore.Writes)
	s := faultstore.New(base, gate.Inject)
	trace := s.Trace(nil)
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			if err := s.PutIfAbsent(t.Context(), "k", make([]byte, i)); err == nil && i != 2 {
				t.Error("an earlier put won")
			}
		})
		_, err := gate.Held(t.Context(), i+1)
		require.NoError(t, err)
	}
	held, err := gate.Held(t.Context(), 3)
	require.NoError(t, err)
	for _, i := range []int{2, 0} {
		before := trace.String()
		gate.Release(held[i])
		require.Eventually(t, func() bool { return trace.String() != before }, time.Minute, time.Millisecond)
	}
	gate.Open()
	all.Wait()
	require.Equal(t, "put-if-absent k +2\nput-if-absent k +0: object exists\nput-if-absent k +1: object exists\n",
		trace.String())
	require.NoError(t, s.Put(t.Context(), "k", nil), "an open gate holds nothing")
}

func TestAGateHoldsReplies(t *testing.T) {
	base := mem.New()
	gate := faultstore.NewReplyGate(faultstore.Writes)
	s := faultstore.New(base, gate.Inject)
	done := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- s.Put(ctx, "k", []byte("x")) }()
	_, err := gate.Held(t.Context(), 1)
	require.NoError(t, err)
	_, err = base.Head(t.Context(), "k")
	require.NoError(t, err, "the call has happened")
	cancel()
	require.NoError(t, <-done)
}

func TestAnAllowanceThrottles(t *testing.T) {
	allowance := faultstore.NewAllowance(2)
	s := faultstore.New(mem.New(), allowance.Inject)
	ctx := t.Context()
	require.NoError(t, s.Put(ctx, "a", nil))
	require.NoError(t, s.Put(ctx, "b", nil))
	require.ErrorIs(t, s.Put(ctx, "c", nil), objstore.ErrThrottled)
	allowance.Grant(1)
	require.NoError(t, s.Put(ctx, "c", nil))
	require.ErrorIs(t, s.Delete(ctx, "c"), objstore.ErrThrottled)
}

func Example() {
	s := faultstore.New(mem.New(), faultstore.LoseReply(0, objstore.ErrTransient))
	trace := s.Trace(nil)
	ctx := context.Background()
	for s.PutIfAbsent(ctx, "wal/0", []byte("tide")) != nil {
		if _, err := s.Get(ctx, "wal/0"); err == nil {
			break // the first try landed
		}
	}
	fmt.Print(trace)
	// Output:
	// put-if-absent wal/0 +4: object store failed for now
	// get wal/0
}
