package faults

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/interop/server"
)

func TestF60_SIGTERMEndsInOrderWhateverTheServerIsDoing(t *testing.T) {
	h := process(t, server.TidemarkOptions{Dir: t.TempDir()})
	require.NoError(t, h.Start(within(t)))
	require.NoError(t, h.Stop(within(t)), "idle")

	require.NoError(t, h.Start(within(t)))
	l, load := load(t, h)
	for round := range 3 {
		require.NoError(t, l.WaitAcks(within(t), l.Acks()+300))
		require.NoError(t, h.Stop(within(t)), "under load, round %d", round)
		require.Contains(t, h.Output(), "msg=closed")
		require.NoError(t, h.Start(within(t)))
		require.NotContains(t, h.Output(), "the last stop was not clean", "the next start has nothing to check")
	}

	// Twice: the second one ends it at once, unless it has just ended.
	for range 2 {
		require.NoError(t, syscall.Kill(h.PID(), syscall.SIGTERM))
	}
	code, err := h.Wait(within(t))
	require.NoError(t, err)
	require.Contains(t, []int{0, 1}, code, "%s", h.Output())
	require.NoError(t, h.Start(within(t)))

	// In the middle of a start that has logs to check, each time a little later.
	for round := range 5 {
		require.NoError(t, l.WaitAcks(within(t), l.Acks()+100))
		require.NoError(t, h.Kill())
		require.NoError(t, h.Launch())
		require.Eventually(t, func() bool { return h.Output() != "" }, patience, time.Millisecond)
		<-time.After(2 * time.Duration(round) * time.Millisecond)
		require.NoError(t, syscall.Kill(h.PID(), syscall.SIGTERM))
		code, err := h.Wait(within(t))
		require.NoError(t, err)
		require.Contains(t, []int{0, 1}, code, "%s", h.Output())
		require.NoError(t, h.Start(within(t)))
	}
	require.NoError(t, load.Stop(within(t)))
	verify(t, h, l, "at the end")
	require.NoError(t, h.Stop(within(t)))
}
