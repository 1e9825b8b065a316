package stream

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// TestF10 fails the k-th call to the log's store in every way. Rows that failed are appended again, after a reopen if the
// engine has failed: every acknowledged row is at its offset, and there is no gap and no offset with two rows.
func TestF10_AFailedWriteLeavesNoHalfChangedState(t *testing.T) {
	for _, fault := range []faultstore.Fault{
		{Err: objstore.ErrTransient}, {Err: objstore.ErrTransient, After: true}, {Err: objstore.ErrThrottled},
		{Err: objstore.ErrDenied}, {Err: objstore.ErrDenied, After: true}, {Err: objstore.ErrClosed},
	} {
		for k := range 8 {
			runCluster(t, func(c *cluster) {
				p := c.start(5)
				s := p.stream()
				inject := faultstore.FailNth(k, fault.Err)
				if fault.After {
					inject = faultstore.LoseReply(k, fault.Err)
				}
				p.wal.SetInjector(inject)
				acknowledged := map[int64]string{}
				for i := 0; i < 10; {
					row := fmt.Sprintf("row %d", i)
					base, err := s.Append(c.Context(), 1, []byte(row))
					if err == nil {
						require.NotContains(c, acknowledged, base)
						acknowledged[base] = row
						i++
						continue
					}
					require.ErrorIs(c, err, ErrWALFailed)
					p, s = c.reopenAfter(p, s)
				}
				rows := c.rows(s)
				for base, row := range acknowledged {
					require.Equal(c, row, rows[base])
				}
				require.LessOrEqual(c, len(rows), 11, "at most the row whose outcome was unknown appears twice")
				next, again := c.reopenAfter(p, s)
				require.Equal(c, rows, c.rows(again), "a restart gives the same")
				next.close()
			})
		}
	}
}

// TestF36 asks for the offsets after every change while rows are appended, uploaded and trimmed, and the owner changes.
func TestF36_OffsetsNeverMoveBackwards(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		id := s.ID()
		var start, confirm, committed int64
		look := func() {
			row, _ := c.catalog.View().Stream(id)
			now := []int64{s.Start(), s.Confirm(), row.End}
			require.GreaterOrEqual(c, now[0], start)
			require.GreaterOrEqual(c, now[1], confirm)
			require.GreaterOrEqual(c, now[2], committed)
			require.True(c, now[0] <= row.End && row.End <= now[1] && now[1] <= s.Next(), "%v", now)
			start, confirm, committed = now[0], now[1], now[2]
		}
		for round := range 12 {
			unwatch := s.Watch(look)
			c.appendMany(s, 5)
			switch round % 4 {
			case 0:
				require.NoError(c, p.Upload(c.Context()))
			case 1:
				require.NoError(c, s.Trim(c.Context(), s.Start()+3))
			case 2:
				unwatch()
				p, s = c.reopenAfter(p, s)
			case 3:
				survivor := c.start(catalog.NodeID(10 + round))
				unwatch()
				p.kill()
				require.NoError(c, survivor.Failover(c.Context(), p.Node().ID))
				survivor.close()
				p = c.start(5)
				s = p.reopen(id)
			}
			look()
			unwatch()
		}
		require.Equal(c, named(s, start, confirm), c.rows(s))
		p.close()
	})
}

// TestF42 appends records around every limit while reserving object ids fails once.
func TestF42_LargeAppendsEndInAnAnswer(t *testing.T) {
	const limit = 3 << 20 // of what is on its way, and of the log cache
	runCluster(t, func(c *cluster) {
		c.config.WALMaxUnflushed, c.config.CacheWALSize, c.config.WALBatchBytes = limit, limit, 1<<20
		p := c.start(5)
		s := p.stream()
		failed := false
		p.catalog.set(func(call string) error {
			if call == "prepare" && !failed {
				failed = true
				return catalog.ErrUnavailable
			}
			return nil
		}, nil)
		begun := time.Now()
		var sizes []int
		for _, size := range []int{limit / 2, limit - 1, limit, limit + 1, 3 * limit, 10, limit} {
			_, err := s.Append(c.Context(), 1, make([]byte, size))
			require.NoError(c, err)
			sizes = append(sizes, size)
		}
		require.True(c, failed)
		require.Less(c, time.Since(begun), time.Minute)
		for i, size := range sizes {
			f, err := s.Fetch(c.Context(), FetchRequest{Start: int64(i), End: int64(i) + 1})
			require.NoError(c, err)
			require.Len(c, f.Records[0].Payload, size)
		}
		p.close()
	})
}

// TestF42_TwelveMebibytes is the case of the report: 12 records of 1 MiB and room for 5.
func TestF42_TwelveMebibytesThroughALogOfFive(t *testing.T) {
	runCluster(t, func(c *cluster) {
		c.config.WALMaxUnflushed, c.config.CacheWALSize = 5<<20, 5<<20
		p := c.start(5)
		s := p.stream()
		done := make(chan error, 12)
		for range 12 {
			go func() {
				_, err := s.Append(c.Context(), 1, make([]byte, 1<<20))
				done <- err
			}()
		}
		for range 12 {
			require.NoError(c, <-done)
		}
		require.EqualValues(c, 12, s.Confirm())
		p.close()
	})
}

// TestF62 writes tiny records as fast as they are admitted while every PUT takes 5 s: what they cost in memory stays below
// the limit, and nobody gets an error.
func TestF62_TinyRecordsAndASlowStoreAreHeldBack(t *testing.T) {
	runCluster(t, func(c *cluster) {
		const limit = 3 << 20
		c.config.WALMaxUnflushed, c.config.CacheWALSize = 1<<30, limit
		p := c.start(5)
		s := p.stream()
		slow := faultstore.When(faultstore.Writes, func(faultstore.Op) faultstore.Fault {
			return faultstore.Fault{Hook: func(ctx context.Context) { _ = pause(ctx, 5*time.Second) }}
		})
		p.wal.SetInjector(slow)
		p.data.SetInjector(slow)
		const writers, each = 50, 2000
		var most int64
		defer s.Watch(func() { most = max(most, p.cache.cost()) })()
		failed := make(chan error, writers)
		for range writers {
			go func() {
				for range each {
					a, err := p.Admit(c.Context(), 1, 10)
					if err == nil {
						_, err = s.Submit(a, 1, make([]byte, 10))
						a.Release()
					}
					if err != nil {
						failed <- err
						return
					}
				}
				failed <- nil
			}()
		}
		for range writers {
			require.NoError(c, <-failed)
		}
		for s.Confirm() < writers*each {
			c.pass(time.Second)
		}
		require.LessOrEqual(c, most, int64(limit+1000))
		require.Greater(c, most, int64(limit/2))
		p.close()
	})
}

// Free blocks stay in the log cache for readers, up to nine tenths of it. They give way to what is on its way, at once.
func TestLC5_WhatIsCommittedHoldsUpNoAppend(t *testing.T) {
	runCluster(t, func(c *cluster) {
		c.config.CacheWALSize = 10 << 20
		p := c.start(5)
		s := p.stream()
		for range 9 {
			_, err := s.Append(c.Context(), 1, make([]byte, 1<<20))
			require.NoError(c, err)
		}
		require.NoError(c, p.Upload(c.Context()))
		require.Greater(c, p.cache.cost(), int64(5<<20))
		gate := p.hold()
		room, err := p.TryAdmit(8, 8<<20)
		require.NoError(c, err)
		room.Release()
		var acks []*Ack
		for range 8 {
			room, err := p.TryAdmit(1, 1<<20)
			require.NoError(c, err)
			ack, err := s.Submit(room, 1, make([]byte, 1<<20))
			require.NoError(c, err)
			acks = append(acks, ack)
		}
		require.LessOrEqual(c, p.cache.cost(), int64(2<<20))
		gate.Open()
		for _, ack := range acks {
			require.NoError(c, ack.Wait(c.Context()))
		}
		p.close()
	})
}

// TestF15 lets an old PUT of a window take effect 20 s after the object was deleted.
func TestF15_APutThatIsReplayedAfterItsDeleteIsIgnored(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		c.appendMany(s, 3)
		c.pass(time.Second)
		zombie, err := c.wal.Open().Get(c.Context(), walKey(5, 1, 1))
		require.NoError(c, err)
		require.NoError(c, p.Upload(c.Context()))
		c.pass(20 * time.Second)
		require.NotContains(c, c.walKeys(5), "1/1")
		require.NoError(c, c.wal.Open().PutIfAbsent(c.Context(), walKey(5, 1, 1), zombie))
		c.appendMany(s, 1)
		next, again := c.reopenAfter(p, s)
		require.Equal(c, named(s, 0, 4), c.rows(again))
		synctest.Wait()
		require.NotContains(c, c.walKeys(5), "1/1")
		next.close()
	})
}
