package budget

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestBudgetServesInOrderAndForgetsWhoLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(10)
		background := context.Background()
		require.NoError(t, b.Acquire(background, 8))

		ctx, leave := context.WithCancel(background)
		left := make(chan error, 1)
		go func() { left <- b.Acquire(ctx, 5) }()
		synctest.Wait()
		served := make(chan int64, 2)
		for _, n := range []int64{2, 9} {
			go func() {
				require.NoError(t, b.Acquire(background, n))
				served <- n
			}()
			synctest.Wait()
		}
		require.Empty(t, served, "who came first goes first")

		leave()
		require.ErrorIs(t, <-left, context.Canceled)
		require.Equal(t, int64(2), <-served, "it fits once the first has left the line")
		synctest.Wait()
		held, waiting := b.Used()
		require.Equal(t, []int64{10, 1}, []int64{held, int64(waiting)})

		b.Release(8)
		b.Release(2)
		require.Equal(t, int64(9), <-served)
		b.Release(9)
		held, waiting = b.Used()
		require.Equal(t, []int64{0, 0}, []int64{held, int64(waiting)})
	})
}

func TestBudgetTakesBackAShareThatWasGrantedTooLate(t *testing.T) {
	b := New(10)
	w := &waiter{n: 7, granted: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.held = 10
	b.Release(10) // grants the seven
	held, _ := b.Used()
	require.Equal(t, int64(7), held)
	b.abandon(w)
	held, _ = b.Used()
	require.Zero(t, held)
}
