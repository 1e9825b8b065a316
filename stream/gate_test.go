package stream

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// gateTest is a gate of 100 bytes in front of a cache of 1000.
type gateTest struct {
	*gate
	cost    int64
	pressed int

	mutex   sync.Mutex
	entered []string
}

func runGate(t *testing.T, test func(t *testing.T, g *gateTest)) {
	synctest.Test(t, func(t *testing.T) {
		g := &gateTest{}
		g.gate = newGate(100, 1000, func(int64) int64 { return g.cost }, func() { g.pressed++ })
		test(t, g)
	})
}

// come enters in the background and notes it.
func (g *gateTest) come(ctx context.Context, name string, bytes int64) {
	go func() {
		if err := g.enter(ctx, bytes); err != nil {
			name += ": " + err.Error()
		}
		g.mutex.Lock()
		defer g.mutex.Unlock()
		g.entered = append(g.entered, name)
	}()
	synctest.Wait()
}

func TestWAL10_ASmallRecordDoesNotOvertakeALargeOneThatWaits(t *testing.T) {
	runGate(t, func(t *testing.T, g *gateTest) {
		g.come(t.Context(), "first", 90)
		g.come(t.Context(), "large", 50)
		g.come(t.Context(), "small", 1)
		require.Equal(t, []string{"first"}, g.entered)
		require.ErrorIs(t, g.tryEnter(1), ErrOverCapacity, "nor does one that does not wait")
		g.leave(90)
		synctest.Wait()
		require.ElementsMatch(t, []string{"first", "large", "small"}, g.entered)
		require.NoError(t, g.tryEnter(49))
		require.ErrorIs(t, g.tryEnter(1), ErrOverCapacity)
	})
}

func TestWAL10_WaitingHonoursItsContext(t *testing.T) {
	runGate(t, func(t *testing.T, g *gateTest) {
		g.come(t.Context(), "first", 90)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g.come(ctx, "large", 50)
		g.come(t.Context(), "small", 10)
		<-ctx.Done()
		synctest.Wait()
		require.ElementsMatch(t, []string{"first", "large: context deadline exceeded", "small"}, g.entered)
		g.leave(90)
		g.leave(10)
		require.Zero(t, g.mu.reserved, "the one that gave up holds nothing")
		require.ErrorIs(t, g.enter(ctx, 1), context.DeadlineExceeded)
	})
}

func TestLC7_AFullCacheHoldsAppendsAndAsksForAnUpload(t *testing.T) {
	runGate(t, func(t *testing.T, g *gateTest) {
		g.cost = 1000
		g.come(t.Context(), "waits", 10)
		require.Empty(t, g.entered)
		require.Equal(t, 1, g.pressed)
		g.cost = 950
		g.recheck()
		synctest.Wait()
		require.Equal(t, []string{"waits"}, g.entered)
		g.come(t.Context(), "fills", 45)
		g.come(t.Context(), "behind", 1)
		require.Equal(t, []string{"waits", "fills"}, g.entered, "what is on its way will be in the cache (F-62)")
		g.cost += 10
		g.leave(10)
		g.recheck()
		synctest.Wait()
		require.Equal(t, []string{"waits", "fills"}, g.entered)
		g.cost = 0
		g.recheck()
		synctest.Wait()
		require.Equal(t, []string{"waits", "fills", "behind"}, g.entered)
	})
}

func TestF42_MoreThanTheGateHasRoomForPassesAlone(t *testing.T) {
	for _, bytes := range []int64{50, 99, 100, 101, 300} { // L/2, L-1, L, L+1, 3L
		runGate(t, func(t *testing.T, g *gateTest) {
			g.come(t.Context(), "before", 10)
			g.come(t.Context(), "it", bytes)
			g.leave(10)
			synctest.Wait()
			require.Equal(t, []string{"before", "it"}, g.entered)
			g.come(t.Context(), "behind", 100)
			g.leave(bytes)
			synctest.Wait()
			require.Equal(t, []string{"before", "it", "behind"}, g.entered)
		})
	}
}

func TestAFailedGateTellsEverybody(t *testing.T) {
	runGate(t, func(t *testing.T, g *gateTest) {
		broken := errors.New("broken")
		g.come(t.Context(), "first", 100)
		g.come(t.Context(), "waits", 100)
		g.fail(broken)
		g.fail(errors.New("later"))
		synctest.Wait()
		require.Equal(t, []string{"first", "waits: broken"}, g.entered)
		require.ErrorIs(t, g.enter(t.Context(), 1), broken)
		require.ErrorIs(t, g.tryEnter(1), broken)
	})
}

func TestAnAdmissionGivesBackWhatWasNotUsed(t *testing.T) {
	runGate(t, func(t *testing.T, g *gateTest) {
		require.NoError(t, g.tryEnter(100))
		a := &Admission{gate: g.gate, left: 100}
		require.True(t, a.take(60))
		require.False(t, a.take(60))
		a.Release()
		a.Release()
		require.EqualValues(t, 60, g.mu.reserved)
	})
}
