package parallel_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/internal/parallel"
)

func TestEachNumberIsCalledOnce(t *testing.T) {
	var calls [100]atomic.Int32
	require.NoError(t, parallel.Each(t.Context(), len(calls), 7, func(i int) { calls[i].Add(1) }))
	for i := range calls {
		require.Equal(t, int32(1), calls[i].Load(), "number %d", i)
	}
	require.NoError(t, parallel.Each(t.Context(), 0, 7, func(int) { t.Error("there is nothing to do") }))
}

func TestWhatIsLeftOutWhenTheContextEndsIsTold(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var calls atomic.Int32
	err := parallel.Each(ctx, 1000, 2, func(int) {
		if calls.Add(1) == 10 {
			cancel(stop)
		}
	})
	require.ErrorIs(t, err, stop)
	require.Less(t, calls.Load(), int32(1000))
}
