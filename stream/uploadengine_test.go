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

// TestF45_AnEngineOutlivesAStreamThatWasDeleted: while its upload is held at the commit. Who has the old stream is told, what
// was appended to it is nowhere, and a new stream and all others go on, also after a crash.
func TestF45_AnEngineOutlivesAStreamThatWasDeleted(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		old, other := p.stream(), p.stream()
		c.appendMany(old, 3)
		c.appendMany(other, 2)
		held, release := make(chan struct{}), make(chan struct{})
		p.catalog.set(func(call string) error {
			if call == "commit" {
				close(held)
				<-release
				p.catalog.set(nil, nil)
			}
			return nil
		}, nil)
		uploaded := make(chan error, 1)
		go func() { uploaded <- p.Upload(c.Context()) }()
		<-held
		require.NoError(c, c.catalog.CloseStream(c.Context(), p.Node(), old.ID(), old.Epoch()))
		require.NoError(c, c.catalog.DeleteStream(c.Context(), p.Node(), old.ID(), old.Epoch()))
		again := p.stream()
		c.appendMany(again, 1)
		reads := make(chan error, 1)
		go func() { reads <- c.untilWoken(old) }()
		synctest.Wait()
		close(release)
		require.NoError(c, <-uploaded)
		require.ErrorIs(c, <-reads, catalog.ErrStreamNotExist, "who waits for it wakes up")

		_, err := old.Append(c.Context(), 1, []byte("late"))
		require.ErrorIs(c, err, catalog.ErrStreamNotExist)
		require.ErrorContains(c, err, "was deleted")
		_, err = old.Fetch(c.Context(), FetchRequest{Start: 0, End: 3, MaxBytes: 100})
		require.ErrorIs(c, err, catalog.ErrStreamNotExist)
		require.ErrorIs(c, old.Trim(c.Context(), 1), catalog.ErrStreamNotExist)
		require.NoError(c, old.Destroy(c.Context()), "as it wanted")
		require.NoError(c, p.Err())
		require.NoError(c, p.Upload(c.Context()))
		c.appendMany(again, 1)
		c.appendMany(other, 1)
		require.NoError(c, p.Compact(c.Context()))
		require.Equal(c, named(again, 0, 2), c.rows(again))
		require.Equal(c, named(other, 0, 3), c.rows(other))
		p.kill()
		next := c.start(5)
		require.Equal(c, named(again, 0, 2), c.rows(next.reopen(again.ID())))
		require.Equal(c, named(other, 0, 3), c.rows(next.reopen(other.ID())))
		next.close()
	})
}

// untilWoken waits until a stream takes no more appends, and returns why.
func (c *cluster) untilWoken(s *Stream) error {
	woken := make(chan struct{}, 1)
	defer s.Watch(func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})()
	for s.Err() == nil {
		<-woken
	}
	return s.Err()
}

// TestF45_ADestroyWaitsForTheUploadThatIsUnderWay: dropped as it should be, nothing has to be left out.
func TestF45_ADestroyWaitsForTheUploadThatIsUnderWay(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		old, other := p.stream(), p.stream()
		c.appendMany(old, 3)
		c.appendMany(other, 2)
		release := make(chan struct{})
		p.catalog.set(func(call string) error {
			if call == "commit" {
				<-release
			}
			return nil
		}, nil)
		go func() { _ = p.Upload(c.Context()) }()
		c.pass(time.Second)
		destroyed := make(chan error, 1)
		go func() { destroyed <- old.Destroy(c.Context()) }()
		c.pass(time.Second)
		_, err := old.Append(c.Context(), 1, []byte("late"))
		require.ErrorIs(c, err, ErrClosed)
		require.Empty(c, destroyed)
		c.appendMany(other, 1)
		close(release)
		require.NoError(c, <-destroyed)
		_, exists := c.catalog.View().Stream(old.ID())
		require.False(c, exists)
		require.Equal(c, named(other, 0, 3), c.rows(other))
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
