package stream

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// Row F27 of the failure matrix.
func TestF27_ARejectedCommitStopsTheEngineAndTheNextOneRecovers(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		c.appendMany(s, 3)
		p.catalog.set(func(call string) error {
			if call == "commit" {
				return catalog.ErrNotContiguous
			}
			return nil
		}, nil)
		err := p.Upload(c.Context())
		require.ErrorIs(c, err, ErrEngineFailed)
		var rejected *CommitRejectedError
		require.ErrorAs(c, err, &rejected)
		require.Equal(c, int64(3), rejected.Commit.StreamObjects[0].End, "the full request")
		require.ErrorIs(c, p.Err(), ErrEngineFailed)
		_, err = s.Append(c.Context(), 1, []byte("more"))
		require.ErrorIs(c, err, ErrWALFailed)
		require.Len(c, c.walKeys(5), 3, "the WAL keeps everything")
		next, again := c.reopenAfter(p, s)
		require.Equal(c, 3, next.events.recovered().Records)
		require.Equal(c, named(s, 0, 3), c.rows(again))
		next.close()
	})
}

// Row F39 of the failure matrix, as far as uploads go: metadata cannot be reached.
func TestF39_AppendsGoOnWithoutMetadataUntilTheLogCacheIsFull(t *testing.T) {
	runCluster(t, func(c *cluster) {
		c.config.CacheWALSize, c.config.UploadThreshold = 4<<20, 1<<20
		p := c.start(5)
		s := p.stream()
		p.catalog.set(func(string) error { return catalog.ErrUnavailable }, nil)
		payload, acked := bytes.Repeat([]byte{7}, 100<<10), 0
		for {
			ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
			_, err := s.Append(ctx, 1, payload)
			cancel()
			if errors.Is(err, context.DeadlineExceeded) {
				break
			}
			require.NoError(c, err)
			acked++
		}
		require.InDelta(c, 4<<20/(100<<10), acked, 2, "back-pressure")
		require.Zero(c, p.admitted())
		st, _ := c.catalog.View().Stream(s.ID())
		require.Zero(c, st.End, "uploads stall")
		require.NoError(c, p.Err())

		waiting := make(chan error)
		go func() {
			_, err := s.Append(c.Context(), 1, payload)
			waiting <- err
		}()
		synctest.Wait()
		p.catalog.set(nil, nil)
		require.NoError(c, <-waiting)
		require.NoError(c, p.Upload(c.Context()))
		st, _ = c.catalog.View().Stream(s.ID())
		require.Equal(c, int64(acked+1), st.End, "it has caught up")
		p.close()
	})
}

// Field report F-26: after trims and a failover the start is an offset that can be read.
func TestF26_TheStartThatANewOwnerShowsCanBeRead(t *testing.T) {
	runCluster(t, func(c *cluster) {
		c.config.UploadStreamSplit = 1
		p := c.start(5)
		s := p.stream()
		for range 5 {
			c.appendMany(s, 10)
			require.NoError(c, p.Upload(c.Context()))
		}
		require.NoError(c, s.Trim(c.Context(), 33))
		c.pass(2 * time.Minute) // a stream is not compacted right after its opening
		require.NoError(c, p.Compact(c.Context()))
		c.pass(c.config.GCGrace + time.Second)
		require.NoError(c, p.Clean(c.Context()))
		p.kill()

		next := c.start(6)
		require.NoError(c, next.Failover(c.Context(), 5))
		again := next.reopen(s.ID())
		require.Equal(c, int64(33), again.Start())
		require.Equal(c, named(s, 33, 50), c.rows(again))
		_, err := again.Fetch(c.Context(), FetchRequest{Start: 32, End: 50, MaxBytes: 100})
		require.ErrorIs(c, err, ErrOffsetOutOfRange)
		next.close()
	})
}
