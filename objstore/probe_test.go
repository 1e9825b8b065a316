package objstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// unconditional is a store of the kind that ignores If-None-Match.
type unconditional struct{ objstore.Store }

func (u unconditional) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return u.Store.Put(ctx, key, data)
}

// stale lists what was there before the last put.
type stale struct{ objstore.Store }

func (s stale) List(context.Context, objstore.ListRequest) (objstore.Page, error) {
	return objstore.Page{}, nil
}

// whole answers every range with the object's front.
type whole struct{ objstore.Store }

func (w whole) ReadRange(ctx context.Context, key string, p []byte, _ int64) error {
	return w.Store.ReadRange(ctx, key, p, 0)
}

func TestF08_TheProbeNamesTheStoreAndWhatItLacks(t *testing.T) {
	for feature, lacking := range map[objstore.Feature]func(objstore.Store) objstore.Store{
		objstore.FeaturePutIfAbsent: func(s objstore.Store) objstore.Store { return unconditional{s} },
		objstore.FeatureList:        func(s objstore.Store) objstore.Store { return stale{s} },
		objstore.FeatureRange:       func(s objstore.Store) objstore.Store { return whole{s} },
	} {
		base := mem.New()
		err := objstore.Probe(t.Context(), lacking(base))
		var lack *objstore.ProbeError
		require.ErrorAs(t, err, &lack)
		require.Equal(t, feature, lack.Feature)
		require.Equal(t, "mem://", lack.Store)
		require.ErrorContains(t, err, "object store mem:// lacks "+string(feature))
		requireEmpty(t, base)
	}
}

// TestTheProbeFailsWithAnyOfItsCalls also proves that each of its calls is needed: no failure goes unnoticed.
func TestTheProbeFailsWithAnyOfItsCalls(t *testing.T) {
	for n := 0; ; n++ {
		base := mem.New()
		s := faultstore.New(base, faultstore.FailNth(n, objstore.ErrDenied))
		err := objstore.Probe(t.Context(), s)
		if err == nil {
			require.GreaterOrEqual(t, n, 12)
			return
		}
		require.False(t, objstore.Retriable(err))
		require.ErrorIs(t, err, objstore.ErrDenied)
	}
}

// TestAProbeRemovesWhatWasLeftADayAgo: a store that died between a put and its delete, say.
func TestAProbeRemovesWhatWasLeftADayAgo(t *testing.T) {
	now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	s := mem.NewBucket(func() time.Time { return now }).Open()
	keys := func() (keys []string) {
		page, err := s.List(t.Context(), objstore.ListRequest{})
		require.NoError(t, err)
		for _, o := range page.Objects {
			keys = append(keys, o.Key)
		}
		return keys
	}
	const old, young, other = objstore.ProbePrefix + "A-clock", objstore.ProbePrefix + "B", "tidemark-bucket/C"
	require.NoError(t, s.Put(t.Context(), old, nil))
	require.NoError(t, s.Put(t.Context(), other, nil))
	now = now.Add(2 * time.Hour)
	require.NoError(t, s.Put(t.Context(), young, nil))
	now = now.Add(22 * time.Hour)
	require.NoError(t, objstore.Probe(t.Context(), s))
	require.Equal(t, []string{other, old, young}, keys(), "a day is not over")
	now = now.Add(time.Second)
	require.NoError(t, objstore.Probe(t.Context(), s))
	require.Equal(t, []string{other, young}, keys())

	now = now.Add(24 * time.Hour)
	failing := faultstore.New(s, faultstore.When(faultstore.Matching(objstore.OpList, objstore.ProbePrefix),
		faultstore.Always(faultstore.Fault{Err: objstore.ErrDenied})))
	require.NoError(t, objstore.Probe(t.Context(), failing), "which is no reason to refuse a store")
	require.Equal(t, []string{other, young}, keys())
}

func requireEmpty(t *testing.T, s objstore.Store) {
	t.Helper()
	page, err := s.List(t.Context(), objstore.ListRequest{})
	require.NoError(t, err)
	require.Empty(t, page.Objects)
}

func TestRetriable(t *testing.T) {
	fail := func(class error) *objstore.Error {
		return &objstore.Error{Op: objstore.OpDelete, Key: "k", Class: class}
	}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("other"), false},
		{context.DeadlineExceeded, false},
		{fail(objstore.ErrTransient), true},
		{fmt.Errorf("flush: %w", fail(objstore.ErrThrottled)), true},
		{fail(objstore.ErrDenied), false},
		{fail(objstore.ErrExists), false},
		{&objstore.DeleteError{Failed: []*objstore.Error{fail(objstore.ErrThrottled)}}, true},
		{&objstore.DeleteError{Failed: []*objstore.Error{fail(objstore.ErrThrottled), fail(objstore.ErrDenied)}}, false},
	} {
		require.Equal(t, c.want, objstore.Retriable(c.err), "%v", c.err)
	}
}

func TestErrorsSayWhatHappenedWhere(t *testing.T) {
	err := &objstore.Error{
		Op: objstore.OpPutIfAbsent, Store: "s3://b", Key: "wal/0", Class: objstore.ErrThrottled, Err: errors.New("503 SlowDown"),
	}
	require.EqualError(t, err, `object store s3://b: put-if-absent "wal/0": object store is throttling: 503 SlowDown`)
	many := &objstore.DeleteError{Failed: []*objstore.Error{err, err}}
	require.EqualError(t, many, "2 objects were not deleted, the first: "+err.Error())
}

func ExampleProbe() {
	err := objstore.Probe(context.Background(), mem.New())
	fmt.Println(err)
	// Output: <nil>
}

func TestF60_AProbeOfAStoreThatDoesNotAnswerEndsSoonAfterItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := faultstore.NewGate(func(faultstore.Op) bool { return true })
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		require.ErrorIs(t, objstore.Probe(ctx, faultstore.New(mem.New(), silent.Inject)), context.DeadlineExceeded)
	})
}
