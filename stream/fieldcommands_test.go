package stream

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// Field reports on commands of the metadata that are applied twice, or not at all, around a crash.

// die ends a process from within one of its own calls, as kill -9 does. Its Close comes later, with kill.
func (p *process) die() error {
	gone := errors.New("the process is dead")
	for _, s := range []*faultstore.Store{p.wal, p.data} {
		s.SetInjector(faultstore.Always(faultstore.Fault{Err: gone}))
	}
	p.catalog.fail(gone)
	return gone
}

// history is what the clients of a node know of its streams: what was acknowledged, and what was asked for.
type history struct {
	*cluster
	seed   uint64
	random *rand.Rand
	rows   map[catalog.StreamID]map[int64]string // acknowledged
	trims  map[catalog.StreamID][2]int64         // the start that was acknowledged, and the highest that was asked for
	doomed map[catalog.StreamID]bool             // to be destroyed, without an answer

	asked    int // for streams
	tries    int // to append, each of another row
	commands atomic.Int64
	dead     atomic.Bool
}

// begin starts a process and holds every stream against what is known. Faults begin behind it.
func (h *history) begin() (*process, []*Stream) {
	p := h.start(5)
	var open []*Stream
	for id, acknowledged := range h.rows {
		row, exists := h.catalog.View().Stream(id)
		if !exists {
			require.True(h, h.doomed[id], "stream %d is gone", id)
			delete(h.rows, id)
			continue
		}
		delete(h.doomed, id)
		s := p.reopen(id)
		require.GreaterOrEqual(h, row.Start, h.trims[id][0], "a trim is undone")
		require.LessOrEqual(h, row.Start, h.trims[id][1], "a trim goes further than asked")
		h.trims[id] = [2]int64{row.Start, row.Start}
		rows := h.rowsUpTo(s, Confirmed)
		for offset, want := range acknowledged {
			if offset >= row.Start {
				require.Equal(h, want, rows[offset-row.Start], "stream %d at %d", id, offset)
			}
		}
		sorted := slices.Sorted(slices.Values(rows))
		require.Equal(h, len(rows), len(slices.Compact(sorted)), "a row appears twice")
		open = append(open, s)
	}
	for s := range h.catalog.View().Streams() {
		require.Less(h, int(s.ID), h.asked, "more streams than were asked for")
	}
	h.dead.Store(false)
	p.catalog.setAround(func(call string, do func() error) error { return h.fault(p, do) })
	return p, open
}

// fault makes a call of the catalog: most do well, some lose their reply or never arrive, and at some the process dies,
// before or after they are applied.
func (h *history) fault(p *process, do func() error) error {
	n := h.commands.Add(1)
	lucky := rand.New(rand.NewPCG(h.seed, uint64(n))) // calls come from several goroutines
	switch dice := lucky.IntN(100); {
	case dice < 8:
		return catalog.ErrUnavailable
	case dice < 16:
		return errors.Join(do(), catalog.ErrUnavailable)
	case dice < 18:
		h.dead.Store(true)
		return p.die()
	case dice < 20:
		_ = do()
		h.dead.Store(true)
		return p.die()
	}
	return do()
}

// step does something that changes metadata, and notes what was acknowledged.
func (h *history) step(p *process, open []*Stream) []*Stream {
	if len(open) == 0 || h.random.IntN(8) == 0 {
		h.asked++
		id, err := p.CreateStreams(h.Context(), 1)
		if err != nil {
			return open
		}
		h.rows[id] = map[int64]string{}
		if s, err := p.OpenStream(h.Context(), id, 1); err == nil {
			open = append(open, s)
		}
		return open
	}
	i := h.random.IntN(len(open))
	s := open[i]
	switch h.random.IntN(7) {
	case 0, 1, 2:
		h.tries++
		row := fmt.Sprintf("try %d", h.tries)
		if base, err := s.Append(h.Context(), 1, []byte(row)); err == nil {
			require.NotContains(h, h.rows[s.ID()], base, "an offset is acknowledged twice")
			h.rows[s.ID()][base] = row
		}
	case 3:
		to := s.Start() + h.random.Int64N(s.Confirm()-s.Start()+1)
		known := h.trims[s.ID()]
		h.trims[s.ID()] = [2]int64{known[0], max(known[1], to)}
		if s.Trim(h.Context(), to) == nil {
			h.trims[s.ID()] = [2]int64{max(known[0], to), max(known[1], to)}
		}
	case 4:
		_ = p.Upload(h.Context())
	case 5:
		_ = p.Compact(h.Context())
	default:
		h.doomed[s.ID()] = true
		if s.Destroy(h.Context()) == nil {
			_, exists := h.catalog.View().Stream(s.ID())
			require.False(h, exists)
			delete(h.rows, s.ID())
		}
		return slices.Delete(open, i, i+1)
	}
	return open
}

// TestF38_AThousandCommandsAmidCrashesAreAppliedOnce: creates, which are not idempotent, openings, trims, commits,
// compactions and deletions, of which some are asked for again since their reply was lost, and processes that die at any of
// them. Nothing is applied twice, and nothing acknowledged is lost, in metadata and in the records that commits and the WAL
// share.
func TestF38_AThousandCommandsAmidCrashesAreAppliedOnce(t *testing.T) {
	for seed := range uint64(2) {
		runCluster(t, func(c *cluster) {
			h := &history{
				cluster: c, seed: seed, random: rand.New(rand.NewPCG(seed, 38)), rows: map[catalog.StreamID]map[int64]string{},
				trims: map[catalog.StreamID][2]int64{}, doomed: map[catalog.StreamID]bool{},
			}
			lives := 0
			for ; h.commands.Load() < 1000; lives++ {
				p, open := h.begin()
				for steps := 0; steps < 60 && !h.dead.Load(); steps++ {
					open = h.step(p, open)
				}
				if !h.dead.Load() {
					require.NoError(c, p.Err(), "an engine that is not dead goes on")
				}
				p.kill()
			}
			p, _ := h.begin()
			p.catalog.setAround(nil)
			require.Greater(c, lives, 10)
			require.Greater(c, h.tries, 100)
			p.close()
		})
	}
}

// TestF48_FiftyCrashesBetweenTheCommitAndTheTrimDoubleNothing: the process dies when the catalog has applied a commit, before
// it knows, before the trim offset of the WAL is stored, or before the covered objects are deleted, while another stream is
// being destroyed. The next process finds every row once, and the one after it.
func TestF48_FiftyCrashesBetweenTheCommitAndTheTrimDoubleNothing(t *testing.T) {
	runCluster(t, func(c *cluster) {
		c.config.UploadStreamSplit = 1 << 20 // all streams share an object, and a commit
		p := c.start(5)
		kept := []*Stream{p.stream(), p.stream()}
		for round := range 50 {
			doomed := p.stream()
			for _, s := range append(kept, doomed) {
				c.appendMany(s, 3)
			}
			committed := make(chan struct{})
			var once atomic.Bool
			p.catalog.setAround(func(call string, do func() error) error {
				if call != "commit" || once.Swap(true) {
					return do()
				}
				err := do()
				close(committed)
				if round%3 == 0 {
					return p.die() // the reply is lost
				}
				return err
			})
			deletes := func(op faultstore.Op) bool { return op.IsWrite() }
			if round%3 == 1 { // nothing of the trim gets through: neither the header that carries it, nor a delete
				p.wal.SetInjector(faultstore.When(deletes, faultstore.Always(faultstore.Fault{Err: errGone})))
			}
			destroyed := make(chan error, 1)
			go func() { destroyed <- doomed.Destroy(c.Context()) }()
			_ = p.Upload(c.Context())
			<-committed
			if round%3 == 2 { // some of the deletes
				c.pass(c.config.WALTrimPersist)
			}
			p.kill()
			<-destroyed

			p = c.start(5)
			require.Zero(c, p.events.recovered().Records, "round %d: all was committed", round)
			for i, s := range kept {
				kept[i] = p.reopen(s.ID())
				require.Equal(c, named(s, 0, int64(3*round+3)), c.rows(kept[i]), "round %d", round)
			}
			if _, exists := c.catalog.View().Stream(doomed.ID()); exists {
				again := p.reopen(doomed.ID())
				require.Equal(c, named(doomed, 0, 3), c.rows(again))
				require.NoError(c, again.Destroy(c.Context()))
			}
		}
		p.close()
	})
}
