package stream

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
)

// inBlocks leaves a log of nine rows, which recovery commits three at a time.
func inBlocks(c *cluster) *Stream {
	c.config.WALRecoverBlock = 10
	p := c.start(5)
	s := p.stream()
	c.appendMany(s, 9)
	p.kill()
	return s
}

func TestUP2_RecoveryWritesTwoBlocksAtOnceAndCommitsThemInTheirOrder(t *testing.T) {
	runCluster(t, func(c *cluster) {
		s := inBlocks(c)
		next := c.prepare()
		gate := faultstore.NewGate(func(op faultstore.Op) bool { return op.Kind == objstore.OpPutIfAbsent })
		next.data.SetInjector(gate.Inject)
		opened := make(chan error, 1)
		go func() { opened <- next.open(5) }()
		held, err := gate.Held(c.Context(), 2)
		require.NoError(c, err)
		synctest.Wait()
		again, _ := gate.Held(c.Context(), 2)
		require.Len(c, again, 2, "no more than two are under way")
		slices.SortFunc(held, func(a, b faultstore.Op) int { return strings.Compare(a.Key, b.Key) }) // by their ids
		gate.Release(held[1])
		synctest.Wait()
		row, _ := c.catalog.View().Stream(s.ID())
		require.Zero(c, row.End, "the second is not committed before the first")
		gate.Open()
		require.NoError(c, <-opened)
		require.Equal(c, 9, next.events.recovered().Records)
		require.Equal(c, named(s, 0, 9), c.rows(next.reopen(s.ID())))
		next.close()
	})
}

func TestWAL30_ABlockThatCannotBeWrittenEndsTheRecoveryAndTheNextOneGoesOn(t *testing.T) {
	for block := range 3 {
		runCluster(t, func(c *cluster) {
			s := inBlocks(c)
			next := c.prepare()
			puts := func(op faultstore.Op) bool { return op.Kind == objstore.OpPutIfAbsent }
			next.data.SetInjector(faultstore.When(puts, faultstore.FailNth(block, objstore.ErrDenied)))
			require.ErrorIs(c, next.open(5), objstore.ErrDenied)
			row, _ := c.catalog.View().Stream(s.ID())
			require.LessOrEqual(c, row.End, int64(6), "what comes behind it is not committed")

			p := c.start(5)
			require.Equal(c, int(9-row.End), p.events.recovered().Records)
			require.Equal(c, named(s, 0, 9), c.rows(p.reopen(s.ID())))
			require.Zero(c, strings.Count(p.events.String(), "failed"))
			p.close()
		})
	}
}
