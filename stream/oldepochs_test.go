package stream

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
)

// TestWhatIsLeftOfALogIsCleanedByWhoeverAsks: the engine that took the node over ends before the fence is old.
func TestWhatIsLeftOfALogIsCleanedByWhoeverAsks(t *testing.T) {
	runCluster(t, func(c *cluster) {
		dead := c.start(5)
		c.appendMany(dead.stream(), 2)
		dead.kill()
		heir := c.start(6)
		o := CleanLogOptions{Catalog: c.catalog, WAL: c.wal.Open(), Cluster: "tm-1", Node: 5}
		before := c.bytesOf(5)
		again, err := CleanLog(c.Context(), o)
		require.NoError(c, err)
		require.Zero(c, again)
		require.Equal(c, before, c.bytesOf(5), "it is not closed: all of it is needed")
		require.NoError(c, heir.Failover(c.Context(), 5))
		placed := time.Now()
		heir.close()

		require.Equal(c, []string{"1/2"}, c.walKeys(5), "the fence")
		again, err = CleanLog(c.Context(), o)
		require.NoError(c, err)
		require.Equal(c, placed.Add(c.config.WALFenceRetention), again)
		require.Equal(c, []string{"1/2"}, c.walKeys(5))
		c.pass(time.Until(again) + time.Second)
		o.WAL = faultstore.New(c.wal.Open(), faultstore.When(func(op faultstore.Op) bool { return op.Kind == objstore.OpDelete }, faultstore.Always(faultstore.Fault{Err: objstore.ErrTransient})))
		_, err = CleanLog(c.Context(), o)
		require.ErrorIs(c, err, objstore.ErrTransient)
		o.WAL = c.wal.Open()
		again, err = CleanLog(c.Context(), o)
		require.NoError(c, err)
		require.Zero(c, again)
		require.Empty(c, c.walKeys(5))

		back := c.start(5)
		c.appendMany(back.stream(), 1)
		keys := c.walKeys(5)
		_, err = CleanLog(c.Context(), o)
		require.NoError(c, err)
		require.Equal(c, keys, c.walKeys(5), "it is in use again")
		back.close()
		o.Node = 9
		_, err = CleanLog(c.Context(), o)
		require.NoError(c, err, "nobody knows it")
	})
}

// TestF34_F37_AFenceIsKeptUntilItIsOldByTheStoresClockToo: the clock of a machine that takes a node over is ten days ahead. The
// writer that it has fenced still runs, and must meet the fence.
func TestF34_F37_AFenceIsKeptUntilItIsOldByTheStoresClockToo(t *testing.T) {
	runCluster(t, func(c *cluster) {
		c.wal = mem.NewBucket(func() time.Time { return time.Now().Add(-10 * 24 * time.Hour) })
		old := c.start(5)
		s := old.stream()
		c.appendMany(s, 2)
		gate := old.hold()
		acks := c.submitApart(s, 1)
		heir := c.start(6)
		require.NoError(c, heir.Failover(c.Context(), 5))
		c.pass(time.Minute)
		require.Equal(c, []string{"1/2"}, c.walKeys(5), "the fence")
		gate.Open()
		require.Equal(c, "failed", acked(acks), "it would be in no log")
		c.pass(c.config.WALFenceRetention - 2*time.Minute)
		require.Equal(c, []string{"1/2"}, c.walKeys(5))
		c.pass(3 * time.Minute)
		require.Empty(c, c.walKeys(5))
		require.Equal(c, named(s, 0, 2), c.rows(heir.reopen(s.ID())))
		heir.close()
	})
}

// TestF60_ALogIsCleanedNoLongerThanIsAskedFor: the store does not answer any more when what the time was read from is removed.
func TestF60_ALogIsCleanedNoLongerThanIsAskedFor(t *testing.T) {
	runCluster(t, func(c *cluster) {
		dead := c.start(5)
		c.appendMany(dead.stream(), 2)
		dead.kill()
		heir := c.start(6)
		require.NoError(c, heir.Failover(c.Context(), 5))
		heir.close()
		c.pass(c.config.WALFenceRetention + time.Hour)
		silent := faultstore.NewGate(func(op faultstore.Op) bool { return op.Kind == objstore.OpDelete })
		ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		_, err := CleanLog(ctx, CleanLogOptions{
			Catalog: c.catalog, WAL: faultstore.New(c.wal.Open(), silent.Inject), Cluster: "tm-1", Node: 5,
		})
		require.ErrorIs(c, err, context.DeadlineExceeded)
		require.LessOrEqual(c, time.Since(begun), time.Minute+time.Second)
		silent.Open()
		_, err = CleanLog(c.Context(), CleanLogOptions{Catalog: c.catalog, WAL: c.wal.Open(), Cluster: "tm-1", Node: 5})
		require.NoError(c, err)
		require.Empty(c, c.walKeys(5))
	})
}
