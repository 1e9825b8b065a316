package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/stream/catalog"
	"github.com/tidemark-io/tidemark/stream/catalog/catalogtest"
)

// The rows F12 to F23 of the failure matrix 10.1.

// steps numbers the calls of a process, to its stores and to the catalog together, and stops it at one of them.
type steps struct {
	stopAt int
	after  bool                            // the call takes effect before the process stops
	stop   func(ctx context.Context) error // what stopping is

	mu   sync.Mutex
	seen int
	gone bool
	name string // of the call where it stopped
}

var errGone = errors.New("the process is dead")

// next counts a call and reports whether the process stops at it.
func (s *steps) next(name string) (stops, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen++
	if s.seen-1 == s.stopAt {
		s.name = name
		return true, false
	}
	return false, s.gone
}

func (s *steps) die() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	return errGone
}

func (s *steps) reached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name != ""
}

// stopAt has a process stopped at its n-th call, before the call or after it took effect.
func (p *process) stopAt(n int, after bool, stop func(ctx context.Context) error) *steps {
	s := &steps{stopAt: n, after: after}
	s.stop = stop
	if stop == nil {
		s.stop = func(context.Context) error { return s.die() }
	}
	inject := func(op faultstore.Op) faultstore.Fault {
		stops, gone := s.next(op.String())
		switch {
		case gone:
			return faultstore.Fault{Err: errGone}
		case stops && stop == nil:
			return faultstore.Fault{Err: s.stop(nil), After: after}
		case stops:
			return faultstore.Fault{Hook: func(ctx context.Context) { _ = s.stop(ctx) }, After: after}
		}
		return faultstore.Fault{}
	}
	p.wal.SetInjector(inject)
	p.data.SetInjector(inject)
	p.catalog.setAround(func(call string, do func() error) error {
		stops, gone := s.next(call)
		if gone {
			return errGone
		}
		if stops && !after {
			if err := s.stop(p.c.Context()); err != nil {
				return err
			}
		}
		err := do()
		if stops && after && err == nil {
			err = s.stop(p.c.Context())
		}
		return err
	})
	return s
}

// written is a node with some of everything in its log: rows that are committed and trimmed, rows that are not, two streams.
// It crashes.
func (c *cluster) written(node catalog.NodeID) []*Stream {
	c.Helper()
	p := c.start(node)
	a, b := p.stream(), p.stream()
	c.appendMany(a, 3)
	c.appendMany(b, 2)
	require.NoError(c, p.Upload(c.Context()))
	c.pass(2 * time.Second) // the trim offset is persisted, objects are deleted
	c.appendMany(a, 2)
	c.appendMany(b, 2)
	p.kill()
	return []*Stream{a, b}
}

// holdsAll reads the streams on a process and checks that each has its rows.
func (c *cluster) holdsAll(p *process, streams []*Stream) {
	c.Helper()
	for i, want := range []int64{5, 4} {
		require.Equal(c, named(streams[i], 0, want), c.rows(p.reopen(streams[i].ID())))
	}
	require.Empty(c, catalog.Check(c.catalog.View()))
}

func TestF12_F34_AWriterThatWasPausedAcknowledgesNothingAfterATakeover(t *testing.T) {
	runCluster(t, func(c *cluster) {
		old := c.start(5)
		s := old.stream()
		c.appendMany(s, 3)
		gate := old.hold()
		acks := c.submitApart(s, 5)
		next := c.start(5)
		again := next.reopen(s.ID())
		c.appendMany(again, 50)
		require.NoError(c, next.Upload(c.Context()))
		c.pass(time.Minute)
		before := c.bytesOf(5)
		gate.Open()
		require.Equal(c, "failed failed failed failed failed", acked(acks))
		var fenced *WALFencedError
		require.ErrorAs(c, acks[0].Err(), &fenced)
		require.EqualValues(c, 2, fenced.ByEpoch)
		require.Equal(c, named(s, 0, 53), c.rows(again))
		after := c.bytesOf(5)
		for key, data := range before {
			require.Equal(c, data, after[key], "the new writer's objects are as they were")
		}
		next.close()
	})
}

// bytesOf are all objects of a node's WAL.
func (c *cluster) bytesOf(node catalog.NodeID) map[string][]byte {
	c.Helper()
	store, all := c.wal.Open(), map[string][]byte{}
	listed, err := listAll(c.Context(), store, WALPrefix{Cluster: "tm-1", Node: node}.String())
	require.NoError(c, err)
	for _, o := range listed {
		all[o.Key], err = store.Get(c.Context(), o.Key)
		require.NoError(c, err)
	}
	return all
}

func TestF12_ASleeperAcknowledgesNothingEvenWhenFencesAreGone(t *testing.T) {
	runCluster(t, func(c *cluster) {
		old := c.prepare()
		options := old.options(5)
		proof := time.Now()
		options.Proof = func() time.Time { return proof }
		var err error
		old.Engine, err = Open(c.Context(), options)
		require.NoError(c, err)
		s := old.stream()
		c.appendMany(s, 1)
		gate := old.hold()
		acks := c.submitApart(s, 1)
		next := c.start(5)
		require.Contains(c, c.walKeys(5), "1/1")
		next.close()
		c.pass(8 * 24 * time.Hour)
		c.start(5).close()
		c.pass(time.Minute)
		require.NotContains(c, c.walKeys(5), "1/1", "the fence is old and gone")
		gate.Open()
		require.Equal(c, "failed", acked(acks), "WAL-12")
	})
}

func TestF13_AnOpenerThatWasPausedAnywhereIsRefusedWhenItResumes(t *testing.T) {
	for step, done := 0, false; !done; step++ {
		runCluster(t, func(c *cluster) {
			streams := c.written(5)
			older := c.prepare()
			resume := make(chan struct{})
			s := older.stopAt(step, false, func(context.Context) error { <-resume; return nil })
			opened := make(chan error, 1)
			go func() { opened <- older.open(5) }()
			synctest.Wait()
			if done = !s.reached(); done {
				require.NoError(c, <-opened)
				close(resume)
				return
			}
			newer := c.start(5)
			c.holdsAll(newer, streams)
			mine := newer.stream()
			c.appendMany(mine, 2)
			close(resume)
			err := <-opened
			c.pass(time.Minute)
			if s.name == "register" { // it had done nothing yet: it is the newer one
				require.NoError(c, err)
				_, err := mine.Append(c.Context(), 1, nil)
				require.ErrorIs(c, err, ErrFenced)
				return
			}
			if older.Engine == nil { // otherwise it had done everything
				require.Error(c, err, s.name)
			}
			c.appendMany(mine, 1)
			require.Equal(c, named(mine, 0, 3), c.rows(mine))
			third := c.start(5)
			c.holdsAll(third, streams)
			require.Equal(c, named(mine, 0, 3), c.rows(third.reopen(mine.ID())))
			third.close()
		})
	}
}

func TestF14_OfTwoSurvivorsOneTakesANodeOver(t *testing.T) {
	runCluster(t, func(c *cluster) {
		streams := c.written(5)
		first, second := c.start(1), c.start(2)
		ready := make(chan struct{})
		second.catalog.set(func(call string) error {
			if call == "register" {
				<-ready
			}
			return nil
		}, nil)
		lost := make(chan error, 1)
		go func() { lost <- second.Failover(c.Context(), 5) }()
		synctest.Wait() // it has looked at the node's epoch
		require.NoError(c, first.Failover(c.Context(), 5))
		trace := second.wal.Trace(nil)
		close(ready)
		require.ErrorIs(c, <-lost, catalog.ErrNodeEpochMismatch)
		require.Empty(c, trace.String(), "it touches nothing")
		c.holdsAll(second, streams)
		require.NoError(c, first.Failover(c.Context(), 5), "again, there is nothing to do")
		first.close()
		second.close()
	})
}

func TestF15_ASurvivorThatCrashesAnywhereIsFollowedByAnother(t *testing.T) {
	for _, after := range []bool{false, true} {
		for step, done := 0, false; !done; step++ {
			runCluster(t, func(c *cluster) {
				streams := c.written(5)
				survivor := c.start(1)
				c.pass(time.Second)
				s := survivor.stopAt(step, after, nil)
				err := survivor.Failover(c.Context(), 5)
				if done = !s.reached(); done {
					require.NoError(c, err)
					return
				}
				survivor.kill()
				third := c.start(2)
				require.NoError(c, third.Failover(c.Context(), 5), s.name)
				c.holdsAll(third, streams)
				third.close()
			})
		}
	}
}

func TestF15_AnOpenerThatCrashesAnywhereIsFollowedByAnother(t *testing.T) {
	for _, after := range []bool{false, true} {
		for step, done := 0, false; !done; step++ {
			runCluster(t, func(c *cluster) {
				streams := c.written(5)
				p := c.prepare()
				s := p.stopAt(step, after, nil)
				err := p.open(5)
				c.pass(time.Minute)
				if done = !s.reached(); done {
					require.NoError(c, err)
					return
				}
				if p.Engine != nil {
					p.kill()
				}
				next := c.start(5)
				c.holdsAll(next, streams)
				next.close()
			})
		}
	}
}

func TestF15_AFailoverWhoseRepliesAreLostSucceeds(t *testing.T) {
	for step, done := 0, false; !done; step++ {
		runCluster(t, func(c *cluster) {
			streams := c.written(5)
			survivor := c.start(1)
			c.pass(time.Second)
			lost := func(context.Context) error { return catalog.ErrUnavailable }
			s := survivor.stopAt(step, true, lost)
			require.NoError(c, survivor.Failover(c.Context(), 5))
			done = !s.reached()
			c.holdsAll(survivor, streams)
			survivor.close()
		})
	}
}

func TestF16_AnEpochThatIsHandedOutAgainIsRefused(t *testing.T) {
	runCluster(t, func(c *cluster) {
		c.written(5)
		before := c.bytesOf(5)
		c.damages = []FindingKind{FoundFutureObject} // the node's epoch is given out again
		c.catalog = catalogtest.NewMemory(time.Now)  // restored from a backup older than the node
		p := c.prepare()
		err := p.open(5)
		var taken *EpochTakenError
		require.ErrorAs(c, err, &taken)
		require.EqualValues(c, 1, taken.Epoch)
		require.Contains(c, before, taken.Key)
		require.Equal(c, before, c.bytesOf(5))
		require.Nil(c, p.Engine)
	})
}

func TestF17_F15_ANeededObjectThatIsLostIsAGap(t *testing.T) {
	runCluster(t, func(c *cluster) {
		c.damages = []FindingKind{FoundWALGap}
		p := c.start(5)
		s := p.stream()
		for range 70 {
			c.appendMany(s, 1)
			c.pass(c.config.WALBatchInterval)
		}
		p.kill()
		require.NoError(c, c.wal.Open().Delete(c.Context(), walKey(5, 1, 3)))
		before := c.bytesOf(5)
		require.Len(c, before, 69)
		next := c.prepare()
		begun := time.Now()
		err := next.open(5)
		var gap *WALGapError
		require.ErrorAs(c, err, &gap)
		require.Equal(c, WALGapError{Want: walKey(5, 1, 3), Next: walKey(5, 1, 67)}, *gap)
		require.Equal(c, 5*time.Second, time.Since(begun), "after five more looks")
		require.Equal(c, before, c.bytesOf(5), "nothing is placed or deleted")
		row, _ := c.catalog.View().Stream(s.ID())
		require.Zero(c, row.End)
	})
}

func TestF18_F04_OneBitFlippedInANeededObjectRefusesTheOpen(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		c.append(s, "makes the log busy")
		c.submit(s, "one")
		c.submit(s, "two")
		c.pass(time.Second)
		c.append(s, "later")
		p.kill()
		key := walKey(5, 1, 1)
		whole, err := c.wal.Open().Get(c.Context(), key)
		require.NoError(c, err)
		for i := range len(whole) {
			if i >= 20 && i < 28 {
				continue // sticky_len is ignored on read
			}
			damaged := bytes.Clone(whole)
			damaged[i] ^= 1 << (i % 8)
			require.NoError(c, c.wal.Open().Put(c.Context(), key, damaged))
			err := c.prepare().open(5)
			var corrupt *CorruptError
			var version *VersionError
			require.True(c, errors.As(err, &corrupt) || errors.As(err, &version), "byte %d: %v", i, err)
			require.ErrorContains(c, err, key)
			row, _ := c.catalog.View().Stream(s.ID())
			require.LessOrEqual(c, row.End, int64(1))
		}
		require.NoError(c, c.wal.Open().Put(c.Context(), key, whole))
		next := c.start(5)
		require.Equal(c, []string{"makes the log busy", "one", "two", "later"}, c.rows(next.reopen(s.ID())))
		next.close()
	})
}

func TestF19_WhatIsUnknownUnderThePrefixRefusesTheOpen(t *testing.T) {
	v0 := WALHeader{Version: 0, Start: 9 * Window, Node: 5, Epoch: 1}.AppendTo(nil)
	unknown := EncodeWALObject(WALHeader{Start: 9 * Window, Node: 5, Epoch: 1, Trim: -1}, []Record{Sentinel()})
	unknown[0] = 0x77
	prefix := WALPrefix{Cluster: "tm-1", Node: 5}
	for name, object := range map[string]struct {
		key  string
		data []byte
		want string
		kind FindingKind
	}{
		"key":       {prefix.String() + "1/wall/0-67108864", nil, "is unknown, want", FoundUnknownKey},
		"key below": {prefix.String() + "README", nil, "is unknown, want", FoundUnknownKey},
		"version 0": {
			prefix.Key(WALKey{Epoch: 1, Start: 9 * Window}), v0, "version 0, this program knows 1", FoundUnknownVersion,
		},
		"magic": {
			prefix.Key(WALKey{Epoch: 1, Start: 9 * Window}), unknown, "version 0x77cba987, this program knows 0",
			FoundUnknownVersion,
		},
	} {
		runCluster(t, func(c *cluster) {
			c.damages = []FindingKind{object.kind}
			c.written(5)
			require.NoError(c, c.wal.Open().Put(c.Context(), object.key, object.data))
			before := c.bytesOf(5)
			err := c.prepare().open(5)
			require.ErrorContains(c, err, object.want, name)
			require.ErrorContains(c, err, object.key, name)
			require.Equal(c, before, c.bytesOf(5))
		})
	}
}

func TestF20_WhateverDeletesWereDoneTheLogIsRecovered(t *testing.T) {
	const objects = 6 // all but the last of which may be deleted, in any subset
	for subset := range 1 << (objects - 1) {
		runCluster(t, func(c *cluster) {
			p := c.start(5)
			s := p.stream()
			p.wal.SetInjector(faultstore.When(func(op faultstore.Op) bool { return op.Kind == objstore.OpDelete },
				faultstore.Always(faultstore.Fault{Err: objstore.ErrTransient})))
			for range objects - 1 {
				c.appendMany(s, 1)
				c.pass(c.config.WALBatchInterval)
			}
			require.NoError(c, p.Upload(c.Context()))
			c.pass(100 * time.Millisecond)
			c.appendMany(s, 1) // carries the trim offset
			c.pass(time.Minute)
			require.Contains(c, p.events.String(), "delete failed")
			require.Len(c, c.walKeys(5), objects)
			p.kill()
			for i := range objects - 1 {
				if subset&(1<<i) != 0 {
					require.NoError(c, c.wal.Open().Delete(c.Context(), walKey(5, 1, int64(i))))
				}
			}
			next := c.start(5)
			require.Equal(c, 1, next.events.recovered().Records)
			require.Equal(c, named(s, 0, objects), c.rows(next.reopen(s.ID())))
			next.close()
		})
	}
}

func TestF20_F15_DeletesThatRaceAnOpenerHaveItLookAgain(t *testing.T) {
	for step, done := 0, false; !done; step++ {
		runCluster(t, func(c *cluster) {
			old := c.start(5)
			s := old.stream()
			c.appendMany(s, 3)
			c.pass(time.Second)
			deletes := faultstore.NewGate(func(op faultstore.Op) bool { return op.Kind == objstore.OpDelete })
			old.wal.SetInjector(deletes.Inject)
			require.NoError(c, old.Upload(c.Context()))
			c.pass(2 * time.Second)
			c.appendMany(s, 1)
			require.Len(c, c.walKeys(5), 5)

			next := c.prepare()
			resume := make(chan struct{})
			stop := next.stopAt(step, false, func(context.Context) error { <-resume; return nil })
			opened := make(chan error, 1)
			go func() { opened <- next.open(5) }()
			synctest.Wait()
			deletes.Open()
			synctest.Wait()
			close(resume)
			require.NoError(c, <-opened, stop.name)
			done = !stop.reached()
			require.Equal(c, named(s, 0, 4), c.rows(next.reopen(s.ID())))
			next.close()
		})
	}
}

func TestF21_F15_WhatStandsAboveTheFenceIsDeadAndOlderEpochsAreRemoved(t *testing.T) {
	runCluster(t, func(c *cluster) {
		old := c.start(5)
		s := old.stream()
		c.appendMany(s, 2)
		gate := faultstore.NewGate(faultstore.Matching(objstore.OpPutIfAbsent, walKey(5, 1, 2)))
		old.wal.SetInjector(gate.Inject)
		c.submitApart(s, 3)
		require.Equal(c, []string{"1/0", "1/1", "1/3", "1/4"}, c.walKeys(5))
		zombie, err := c.wal.Open().Get(c.Context(), walKey(5, 1, 0))
		require.NoError(c, err)

		next := c.start(5)
		again := next.reopen(s.ID())
		require.Equal(c, named(s, 0, 2), c.rows(again))
		c.appendMany(again, 1)
		c.pass(time.Minute)
		require.Equal(c, []string{"1/2", "1/3", "1/4", "2/3"}, c.walKeys(5), "the fence stays, and what lies above it")
		next.kill()

		// A put that was on its way for long, and one that was deleted, appear again.
		require.NoError(c, c.wal.Open().Put(c.Context(), walKey(5, 1, 0), zombie))
		require.NoError(c, c.wal.Open().Put(c.Context(), walKey(5, 1, 3), zombieAt(3)))
		third := c.start(5)
		require.Equal(c, named(s, 0, 3), c.rows(third.reopen(s.ID())))
		c.pass(time.Minute)
		require.Equal(c, []string{"1/2", "1/3", "1/4", "2/4"}, c.walKeys(5))
		c.pass(c.config.WALFenceRetention)
		require.Empty(c, c.walKeys(5), "fences grow old, and with them what lies above")
		third.close()
	})
}

// TestF15_AnAcknowledgedObjectThatIsGoneIsAGap: the mark of a later object says that it was acknowledged. With the object back
// under its key everything is there.
func TestF15_AnAcknowledgedObjectThatIsGoneIsAGap(t *testing.T) {
	for lost := range int64(4) {
		for _, failover := range []bool{false, true} {
			runCluster(t, func(c *cluster) {
				p := c.start(5)
				s := p.stream()
				for range 5 {
					c.appendMany(s, 1)
					c.pass(c.config.WALBatchInterval)
				}
				p.kill()
				key := walKey(5, 1, lost)
				whole, err := c.wal.Open().Get(c.Context(), key)
				require.NoError(c, err)
				require.NoError(c, c.wal.Open().Delete(c.Context(), key))
				before := c.bytesOf(5)

				end := func() (*process, error) {
					next := c.prepare()
					if !failover {
						return next, next.open(5)
					}
					require.NoError(c, next.open(6))
					return next, next.Failover(c.Context(), 5)
				}
				next, err := end()
				var gap *WALGapError
				require.ErrorAs(c, err, &gap)
				require.Equal(c, WALGapError{Want: key, Next: walKey(5, 1, 4)}, *gap)
				require.Equal(c, before, c.bytesOf(5), "nothing is placed or deleted")
				if next.Engine != nil {
					next.close()
				}
				require.NoError(c, c.wal.Open().Put(c.Context(), key, whole))
				next, err = end()
				require.NoError(c, err)
				require.Equal(c, named(s, 0, 5), c.rows(next.reopen(s.ID())))
				next.close()
			})
		}
	}
}

// TestF15_AnObjectThatIsGoneAtTheFenceOfAnEarlierTakeoverIsAGap: that one, of an older version, did not look at marks.
func TestF15_AnObjectThatIsGoneAtTheFenceOfAnEarlierTakeoverIsAGap(t *testing.T) {
	runCluster(t, func(c *cluster) {
		c.damages = []FindingKind{FoundWALGap}
		p := c.start(5)
		s := p.stream()
		for range 4 {
			c.appendMany(s, 1)
			c.pass(c.config.WALBatchInterval)
		}
		p.kill()
		key := walKey(5, 1, 2)
		fence := EncodeWALObject(WALHeader{Start: 2 * Window, Node: 5, Epoch: 2, Trim: -1}, []Record{Sentinel()})
		require.NoError(c, c.wal.Open().Put(c.Context(), key, fence))
		err := c.prepare().open(5)
		var gap *WALGapError
		require.ErrorAs(c, err, &gap)
		require.Equal(c, WALGapError{Want: key, Next: walKey(5, 1, 3)}, *gap)
	})
}

// TestF15_AHoleOfWhichNoLaterObjectTellsIsTold: all that lie above were sealed before the missing one was acknowledged. The
// limit is that the start goes on; but it says which objects are left above the hole, and keeps them. Whoever puts the
// missing one back under its key, and the metadata as they were, has everything again.
func TestF15_AHoleOfWhichNoLaterObjectTellsIsTold(t *testing.T) {
	for _, failover := range []bool{false, true} {
		runCluster(t, func(c *cluster) {
			p := c.start(5)
			s := p.stream()
			for range 2 {
				c.appendMany(s, 1)
				c.pass(c.config.WALBatchInterval)
			}
			gate := p.hold()
			acks := c.submitApart(s, 3)
			gate.Open()
			require.Equal(c, "acked acked acked", acked(acks))
			p.kill()
			lost := walKey(5, 1, 2)
			require.NoError(c, c.wal.Open().Delete(c.Context(), lost))
			above := []string{walKey(5, 1, 3), walKey(5, 1, 4)}
			before := c.bytesOf(5)

			node := catalog.NodeID(5)
			if failover {
				node = 6
			}
			next := c.start(node)
			if failover {
				require.NoError(c, next.Failover(c.Context(), 5))
			}
			found := next.events.recovered()
			require.Equal(c, above, found.Dead, "they are named")
			require.Equal(c, 2*Window, int(found.To), "the fence stands in the hole")
			require.Equal(c, 2, found.Records)
			require.Equal(c, named(s, 0, 2), c.rows(next.reopen(s.ID())))
			c.pass(c.config.WALFenceRetention - time.Second)
			now := c.bytesOf(5)
			for _, key := range above {
				require.Equal(c, before[key], now[key], "they are kept")
			}
			c.pass(2 * time.Second)
			require.Empty(c, c.walKeys(5), "as long as the fence")
			next.close()
		})
	}
}

// TestAFenceOutlivesWhatItHasMadeDead: without it, that would look like the log of an epoch that nobody has ended.
func TestAFenceOutlivesWhatItHasMadeDead(t *testing.T) {
	runCluster(t, func(c *cluster) {
		old := c.start(5)
		s := old.stream()
		c.appendMany(s, 2)
		gate := faultstore.NewGate(faultstore.Matching(objstore.OpPutIfAbsent, walKey(5, 1, 2)))
		old.wal.SetInjector(gate.Inject)
		c.submitApart(s, 2)
		next := c.start(5)
		c.pass(time.Minute)
		require.Equal(c, []string{"1/2", "1/3"}, c.walKeys(5))
		next.wal.SetInjector(func(op faultstore.Op) faultstore.Fault {
			if op.Kind == objstore.OpDelete && slices.Contains(op.Keys, walKey(5, 1, 3)) {
				return faultstore.Fault{Keys: map[string]error{walKey(5, 1, 3): objstore.ErrTransient}}
			}
			return faultstore.Fault{}
		})
		c.pass(c.config.WALFenceRetention)
		require.Equal(c, []string{"1/2", "1/3"}, c.walKeys(5))
		next.wal.SetInjector(nil)
		c.pass(time.Hour)
		require.Empty(c, c.walKeys(5))
		next.close()
	})
}

func TestWhatAnEndedEpochMayLose(t *testing.T) {
	now := time.Now()
	object := func(window int64, age time.Duration) endedObject {
		return endedObject{objstore.Info{Key: fmt.Sprint(window), Modified: now.Add(-age)}, window * Window}
	}
	for name, test := range map[string]struct {
		epoch  endedEpoch
		own    []string
		fences []string
		young  time.Duration // 0 for no fence that stays
	}{
		"an epoch that was closed cleanly":     {endedEpoch{own: []endedObject{object(3, 1)}}, []string{"3"}, nil, 0},
		"a young fence, and objects around it": {endedEpoch{own: []endedObject{object(1, 9), object(3, 9)}, fences: []endedObject{object(2, 1)}}, []string{"1"}, nil, 1},
		"an old fence, and objects around it":  {endedEpoch{own: []endedObject{object(1, 9), object(3, 9)}, fences: []endedObject{object(2, 6)}}, []string{"1", "3"}, []string{"2"}, 0},
		"a stale fence below the one that counts": {
			endedEpoch{own: []endedObject{object(2, 1), object(4, 1)}, fences: []endedObject{object(1, 2), object(3, 1)}, trim: 2 * Window},
			[]string{"2"}, nil, 1,
		},
		"the youngest of two fences": {endedEpoch{own: []endedObject{object(5, 1)}, fences: []endedObject{object(1, 1), object(2, 3)}}, nil, nil, 1},
	} {
		own, fences, young := test.epoch.removable(now.Add(-5))
		require.Equal(t, [][]string{test.own, test.fences}, [][]string{own, fences}, name)
		want := time.Time{}
		if test.young > 0 {
			want = now.Add(-test.young)
		}
		require.Equal(t, want, young, name)
	}
}

// zombieAt is an object of epoch 1 with a row that nobody was promised.
func zombieAt(window int64) []byte {
	return EncodeWALObject(WALHeader{Start: window * Window, Node: 5, Epoch: 1, Trim: -1},
		[]Record{{Stream: 0, Epoch: 0, Base: 2, Count: 1, Payload: []byte("zombie")}})
}

func TestF22_RowsOfStreamsThatAreGoneOrElsewhereAreDropped(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		kept, destroyed, moved := p.stream(), p.stream(), p.stream()
		deletes := faultstore.Always(faultstore.Fault{Err: objstore.ErrTransient})
		p.wal.SetInjector(faultstore.When(func(op faultstore.Op) bool { return op.Kind == objstore.OpDelete }, deletes))
		c.appendMany(kept, 1)
		c.appendMany(destroyed, 2)
		c.appendMany(moved, 3)
		require.NoError(c, destroyed.Destroy(c.Context()))
		require.NoError(c, moved.Close(c.Context()))
		other := c.start(6)
		theirs := other.reopen(moved.ID())
		c.appendMany(theirs, 1)
		c.pass(c.config.WALBatchInterval)
		c.appendMany(kept, 1)
		p.kill()
		next := c.start(5)
		require.Equal(c, 1, next.events.recovered().Records)
		require.Equal(c, named(kept, 0, 2), c.rows(next.reopen(kept.ID())))
		require.Equal(c, named(moved, 0, 4), c.rows(theirs))
		next.close()
		other.close()
	})
}

func TestF22_RecordsAreJudgedByTheirStream(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		a, b, d := p.stream(), p.stream(), p.stream()
		require.NoError(c, b.Close(c.Context()))
		other := c.start(6)
		other.reopen(b.ID())
		p.kill()
		epochs := []int64{a.Epoch(), b.Epoch(), d.Epoch()}
		records := []Record{
			{Stream: a.ID(), Epoch: epochs[0], Base: 0, Count: 2, Payload: []byte("kept")},
			{Stream: a.ID(), Epoch: epochs[0] + 1, Base: 2, Count: 1, Payload: []byte("another epoch")},
			{Stream: b.ID(), Epoch: epochs[1], Base: 0, Count: 1, Payload: []byte("elsewhere")},
			{Stream: d.ID() + 1, Epoch: 0, Base: 0, Count: 1, Payload: []byte("never made")},
			Sentinel(),
		}
		object := EncodeWALObject(WALHeader{Start: 0, Node: 5, Epoch: 1, Trim: -1}, records)
		require.NoError(c, c.wal.Open().Put(c.Context(), walKey(5, 1, 0), object))
		next := c.start(5)
		require.Equal(c, RecoveredEvent{
			Node: catalog.Node{ID: 5, Epoch: 2}, Epoch: 1, From: 0, To: Window, Objects: 1, Records: 1, Bytes: 4,
			Dropped: Dropped{Foreign: 3},
		}, next.events.recovered())
		require.Equal(c, []string{"kept"}, c.rows(next.reopen(a.ID())))
		next.close()
		other.close()
	})
}

func TestWAL29_AGapOrAnOverlapRefusesTheOpen(t *testing.T) {
	for want, second := range map[string]Record{
		"a gap":                 {Base: 3, Count: 1},
		"an overlap":            {Base: 1, Count: 2},
		"link records are not":  {Base: 2, Count: -1},
		"bad record count":      {Base: 2, Count: 0, Payload: []byte("no sentinel")},
		"bad record count: 1 r": {Base: 1<<63 - 1, Count: 1},
	} {
		runCluster(t, func(c *cluster) {
			c.damages = []FindingKind{FoundBadRecovery}
			if second.CheckAppend() != nil {
				c.damages = []FindingKind{FoundBadWAL}
			}
			p := c.start(5)
			s := p.stream()
			p.kill()
			second.Stream, second.Epoch = s.ID(), s.Epoch()
			first := Record{Stream: s.ID(), Epoch: s.Epoch(), Base: 0, Count: 2}
			object := EncodeWALObject(WALHeader{Start: 0, Node: 5, Epoch: 1, Trim: -1}, []Record{first, second})
			require.NoError(c, c.wal.Open().Put(c.Context(), walKey(5, 1, 0), object))
			err := c.prepare().open(5)
			require.ErrorContains(c, err, want)
			require.ErrorContains(c, err, walKey(5, 1, 0))
			row, _ := c.catalog.View().Stream(s.ID())
			require.Zero(c, row.End)
			require.True(c, row.Opened)
		})
	}
}

// paged is a store whose pages hold one object, and that does something between two pages.
type paged struct {
	objstore.Store
	between func(page int)
	pages   int
}

func (p *paged) List(ctx context.Context, r objstore.ListRequest) (objstore.Page, error) {
	if r.Token != "" {
		p.pages++
		p.between(p.pages)
	}
	r.Limit = 1
	return p.Store.List(ctx, r)
}

// The old process has committed 15 windows and deleted none. While the opener lists them, one key a page, it appends: that
// object carries the trim offset, and its key, of window 15, sorts before most others. Then it deletes some of those that
// were not listed yet. A listing that began before is not a snapshot: it may have neither the object that was deleted nor
// the one that says so.
func TestF23_AListingOfManyPagesLosesNothingWhileOthersWriteAndDelete(t *testing.T) {
	for name, victims := range map[string]func(window int64) bool{
		"all": func(int64) bool { return true },
		"one": func(window int64) bool { return window == 1 },
		"odd": func(window int64) bool { return window%2 == 1 },
	} {
		for at := range 20 {
			runCluster(t, func(c *cluster) {
				c.config.WALTrimPersist = time.Hour
				old := c.start(5)
				s := old.stream()
				for range 15 {
					c.appendMany(s, 1)
					c.pass(c.config.WALBatchInterval)
				}
				kept := map[string]error{}
				for window := range int64(15) {
					if !victims(window) {
						kept[walKey(5, 1, window)] = objstore.ErrTransient
					}
				}
				old.wal.SetInjector(faultstore.When(func(op faultstore.Op) bool { return op.Kind == objstore.OpDelete },
					faultstore.Always(faultstore.Fault{Keys: kept})))
				require.NoError(c, old.Upload(c.Context()))
				c.pass(time.Second)

				var late []*Ack
				next := c.prepare()
				options := next.options(5)
				options.WAL = &paged{Store: next.wal, between: func(page int) {
					if page != at {
						return
					}
					for range 2 {
						if ack, err := old.trySubmit(s, fmt.Sprintf("%d@%d", s.ID(), s.Next())); err == nil {
							late = append(late, ack)
						}
						c.pass(c.config.WALBatchInterval)
					}
				}}
				var err error
				next.Engine, err = Open(c.Context(), options)
				require.NoError(c, err)
				rows := c.rows(next.reopen(s.ID()))
				want := 15 + int64(strings.Count(acked(late), "acked"))
				require.Equal(c, named(s, 0, want), rows, "%s at %d", name, at)
				require.Positive(c, options.WAL.(*paged).pages)
				next.close()
			})
		}
	}
}

// trySubmit submits one row if that is possible.
func (p *process) trySubmit(s *Stream, payload string) (*Ack, error) {
	a, err := p.TryAdmit(1, len(payload))
	if err != nil {
		return nil, err
	}
	defer a.Release()
	return s.Submit(a, 1, []byte(payload))
}

func TestWAL30_RecoveryCommitsInBlocks(t *testing.T) {
	runCluster(t, func(c *cluster) {
		c.config.WALRecoverBlock, c.config.WALReadahead = 10, 1
		p := c.start(5)
		a, b := p.stream(), p.stream()
		c.appendMany(a, 5)
		c.appendMany(b, 5)
		p.kill()
		next := c.start(5)
		require.Equal(c, 10, next.events.recovered().Records)
		require.Equal(c, named(a, 0, 5), c.rows(next.reopen(a.ID())))
		require.Equal(c, named(b, 0, 5), c.rows(next.reopen(b.ID())))
		objects := slices.Collect(c.catalog.View().StreamSets())
		require.GreaterOrEqual(c, len(objects)+len(c.catalog.View().StreamObjects(a.ID()))+len(c.catalog.View().StreamObjects(b.ID())), 4)
		next.close()
	})
}

// TestWAL33_ATakeOverWaitsForNothingAndCommitsWhatFillsABlock: time passes in the bubble when everybody waits, so whatever waits for
// a clock, to gather more or to keep to a rate, would show.
func TestWAL33_ATakeOverWaitsForNothingAndCommitsWhatFillsABlock(t *testing.T) {
	runCluster(t, func(c *cluster) {
		c.config.WALRecoverBlock, c.config.WALReadahead = 10, 1
		dead := c.start(5)
		s := dead.stream()
		c.appendMany(s, 8)
		end := func() int64 {
			row, _ := c.catalog.View().Stream(s.ID())
			return row.End
		}
		require.Zero(c, end(), "all of it is in the log alone")
		dead.kill()
		heir := c.start(6)
		last := walKey(5, 1, 7)
		gate := faultstore.NewGate(func(op faultstore.Op) bool { return op.Kind == objstore.OpGet && op.Key == last })
		heir.wal.SetInjector(gate.Inject)

		began, took := time.Now(), make(chan error, 1)
		go func() { took <- heir.Failover(c.Context(), 5) }()
		_, err := gate.Held(c.Context(), 1)
		require.NoError(c, err)
		synctest.Wait()
		require.Greater(c, end(), int64(0), "blocks are committed while the log is read on")
		gate.Open()
		require.NoError(c, <-took)
		require.Equal(c, began, time.Now(), "nothing waited")
		require.Equal(c, named(s, 0, 8), c.rows(heir.reopen(s.ID())))
		heir.close()
	})
}

func TestOpenRefusesOptionsThatMakeNoSense(t *testing.T) {
	ok := Options{
		Catalog: catalogtest.NewMemory(time.Now), WAL: mem.New(), Data: mem.New(), Cluster: "c", Proof: time.Now,
		Config: DefaultConfig(),
	}
	for want, change := range map[string]func(*Options){
		"no catalog":                    func(o *Options) { o.Catalog = nil },
		"no store for the log":          func(o *Options) { o.WAL = nil },
		"no store for data":             func(o *Options) { o.Data = nil },
		"no proof":                      func(o *Options) { o.Proof = nil },
		"node -1":                       func(o *Options) { o.Node = -1 },
		`cluster "a//b"`:                func(o *Options) { o.Cluster = "a//b" },
		"WALInflight is 65":             func(o *Options) { o.Config.WALInflight = 65 },
		"WALFenceRetention is 1h0m0s":   func(o *Options) { o.Config.WALFenceRetention = time.Hour },
		"WALMaxUnflushed is 0":          func(o *Options) { o.Config.WALMaxUnflushed = 0 },
		"CacheWALSize is -1, want more": func(o *Options) { o.Config.CacheWALSize = -1 },
	} {
		o := ok
		change(&o)
		e, err := Open(t.Context(), o)
		require.ErrorIs(t, err, ErrInvalidOptions)
		require.ErrorContains(t, err, want)
		require.Nil(t, e)
	}
}
