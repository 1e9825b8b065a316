package stream

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

func TestF61_ACleanCloseUnderLoadLeavesNothingToRecover(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		streams := []*Stream{p.stream(), p.stream(), p.stream()}
		var acks []*Ack
		for i := range 300 {
			acks = append(acks, c.submit(streams[i%3], fmt.Sprintf("%d@%d", streams[i%3].ID(), streams[i%3].Next())))
		}
		waits := make(chan error, 1)
		go func() { // one appends on and on
			for {
				if _, err := streams[0].Append(c.Context(), 1, []byte("on and on")); err != nil {
					waits <- err
					return
				}
			}
		}()
		c.pass(time.Second)
		p.close()
		require.ErrorIs(c, <-waits, ErrClosed)
		require.NotContains(c, acked(acks), "failed")
		require.NotContains(c, acked(acks), "open")
		state, _ := c.catalog.View().Node(5)
		require.EqualValues(c, -1, state.WALEpoch)

		trace := p.wal.Trace(nil)
		require.NoError(c, p.Close(c.Context()), "closed twice")
		for _, err := range []error{p.Err(), streams[0].Err()} {
			require.ErrorIs(c, err, ErrClosed)
			require.NotErrorIs(c, err, ErrWALFailed)
		}
		_, err := p.CreateStreams(c.Context(), 1)
		require.ErrorIs(c, err, ErrClosed)
		require.Empty(c, trace.String())

		next := c.start(5)
		require.Zero(c, next.events.recovered())
		for _, s := range streams {
			again := next.reopen(s.ID())
			require.Equal(c, s.Confirm(), again.Next())
			require.Equal(c, named(s, 0, 100), c.rows(again)[:100])
		}
		require.Empty(c, c.walKeys(5), "and what the last epoch left is removed")
		next.close()
	})
}

func TestACleanOpenCostsAListingAndNoReads(t *testing.T) {
	runCluster(t, func(c *cluster) {
		c.start(5).close()
		p := c.prepare()
		trace, data := p.wal.Trace(nil), p.data.Trace(nil)
		require.NoError(c, p.open(5))
		prefix := WALPrefix{Cluster: "tm-1", Node: 5}.String()
		require.True(c, strings.HasPrefix(trace.String(), "list "+prefix+"*\n"))
		synctest.Wait()
		require.Equal(c, strings.Repeat("list "+prefix+"*\n", 2), trace.String(), "and one in the background")
		require.Empty(c, data.String())
		p.close()
	})
}

func TestACloseThatCannotFinishEndsAsACrash(t *testing.T) {
	for name, breaks := range map[string]func(p *process){
		"log":     func(p *process) { p.wal.SetInjector(faultstore.Always(faultstore.Fault{Err: objstore.ErrTransient})) },
		"data":    func(p *process) { p.data.SetInjector(faultstore.Always(faultstore.Fault{Err: objstore.ErrTransient})) },
		"catalog": func(p *process) { p.catalog.fail(catalog.ErrUnavailable) },
	} {
		runCluster(t, func(c *cluster) {
			p := c.start(5)
			s := p.stream()
			c.appendMany(s, 2)
			breaks(p)
			ack := c.submit(s, "2")
			ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
			defer cancel()
			require.ErrorIs(c, p.Close(ctx), context.DeadlineExceeded, name)
			<-ack.Done()
			next := c.start(5)
			rows := c.rows(next.reopen(s.ID()))
			require.Equal(c, named(s, 0, 2), rows[:2])
			require.Equal(c, ack.Err() == nil, len(rows) == 3, name)
			next.close()
		})
	}
}

func TestCloseAtEachStepThatCrashesLosesNothing(t *testing.T) {
	for _, after := range []bool{false, true} {
		for step, done := 0, false; !done; step++ {
			runCluster(t, func(c *cluster) {
				p := c.start(5)
				a, b := p.stream(), p.stream()
				c.appendMany(a, 3)
				c.appendMany(b, 2)
				ack := c.submit(a, fmt.Sprintf("%d@3", a.ID()))
				s := p.stopAt(step, after, nil)
				err := p.Close(c.Context())
				done = !s.reached()
				require.Equal(c, done, err == nil, s.name)
				next := c.start(5)
				rows := c.rows(next.reopen(a.ID()))
				require.Contains(c, []int{3, 4}, len(rows))
				require.Equal(c, named(a, 0, int64(len(rows))), rows)
				if <-ack.Done(); ack.Err() == nil {
					require.Len(c, rows, 4)
				}
				require.Equal(c, named(b, 0, 2), c.rows(next.reopen(b.ID())))
				next.close()
			})
		}
	}
}

// A store that lists what it does not have is asked again with pauses, as long as the context allows.
func TestAnObjectThatIsListedAndNeverThereDoesNotSpin(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		c.appendMany(p.stream(), 1)
		p.kill()
		next := c.prepare()
		next.wal.SetInjector(faultstore.When(func(op faultstore.Op) bool { return op.Kind == objstore.OpReadRange },
			faultstore.Always(faultstore.Fault{Err: objstore.ErrNotFound})))
		ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
		defer cancel()
		_, err := Open(ctx, next.options(5))
		require.ErrorIs(c, err, context.DeadlineExceeded)
		require.LessOrEqual(c, next.wal.Calls(), 130)
	})
}
