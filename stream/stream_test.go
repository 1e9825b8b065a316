package stream

import (
	"context"
	"errors"
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

func TestSTR1_ARefusedAppendSpendsNoOffsetAndLeavesTheStreamOpen(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		a, err := p.Admit(c.Context(), 1, 10)
		require.NoError(c, err)
		_, err = s.Submit(a, 1, make([]byte, 11))
		require.ErrorIs(c, err, ErrOverCapacity, "more than was admitted")
		_, err = s.Submit(a, 0, nil)
		require.ErrorIs(c, err, ErrBadCount)
		require.Zero(c, s.Next())
		ack, err := s.Submit(a, 7, make([]byte, 10))
		require.NoError(c, err)
		a.Release()
		require.NoError(c, ack.Wait(c.Context()))
		require.Equal(c, []int64{0, 7, 7, 7}, []int64{ack.Base(), ack.End(), s.Confirm(), s.Next()})
		require.Zero(c, p.admitted())
		p.close()
	})
}

func TestSTR2_FetchBounds(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		c.appendMany(s, 10)
		require.NoError(c, s.Trim(c.Context(), 4))
		gate := p.hold()
		c.submitApart(s, 2) // 10 and 11 are not durable
		type answer struct {
			bases string
			err   string
		}
		ask := func(r FetchRequest) answer {
			f, err := s.Fetch(c.Context(), r)
			var bad *OffsetRangeError
			if errors.As(err, &bad) {
				require.ErrorIs(c, err, ErrOffsetOutOfRange)
				return answer{err: fmt.Sprintf("%d not in %d..%d", bad.Want, bad.Low, bad.High)}
			}
			require.NoError(c, err)
			require.Equal(c, []int64{4, 10, 12}, []int64{f.Start, f.Confirm, f.Next})
			var bases []string
			for _, record := range f.Records {
				bases = append(bases, fmt.Sprint(record.Base))
			}
			return answer{bases: strings.Join(bases, " ")}
		}
		const all = 1 << 20
		for _, test := range []struct {
			request FetchRequest
			want    answer
		}{
			{FetchRequest{Start: 4, End: 6, MaxBytes: all}, answer{bases: "4 5"}},
			{FetchRequest{Start: 8, End: 99, MaxBytes: all}, answer{bases: "8 9"}},
			{FetchRequest{Start: 8, End: 99, MaxBytes: all, Bound: Appended}, answer{bases: "8 9 10 11"}},
			{FetchRequest{Start: 8, End: 11, MaxBytes: all, Bound: Appended}, answer{bases: "8 9 10"}},
			{FetchRequest{Start: 10, End: 99, MaxBytes: all}, answer{}},
			{FetchRequest{Start: 10, End: 99, MaxBytes: all, Bound: Appended}, answer{bases: "10 11"}},
			{FetchRequest{Start: 11, End: 99, MaxBytes: all, Bound: Appended}, answer{bases: "11"}},
			{FetchRequest{Start: 12, End: 99, MaxBytes: all, Bound: Appended}, answer{}},
			{FetchRequest{Start: 5, End: 5, MaxBytes: all}, answer{}},
			{FetchRequest{Start: 5, End: 4, MaxBytes: all}, answer{}},
			{FetchRequest{Start: 5, End: 99}, answer{bases: "5"}},
			{FetchRequest{Start: 10, End: 99, Bound: Appended}, answer{bases: "10"}},
			{FetchRequest{Start: 5, End: 99, MaxBytes: 9}, answer{bases: "5 6 7"}},
			{FetchRequest{Start: 8, End: 99, MaxBytes: 10, Bound: Appended}, answer{bases: "8 9 10"}},
			{FetchRequest{Start: 8, End: 99, MaxBytes: 9, Bound: Appended}, answer{bases: "8 9"}},
			{FetchRequest{Start: 3, End: 99}, answer{err: "3 not in 4..10"}},
			{FetchRequest{Start: 11, End: 99}, answer{err: "11 not in 4..10"}},
			{FetchRequest{Start: 13, End: 99, Bound: Appended}, answer{err: "13 not in 4..12"}},
		} {
			require.Equal(c, test.want, ask(test.request), "%+v", test.request)
		}
		gate.Open()
		p.close()
	})
}

func TestSTR3_TheFirstRecordHoldsTheOffsetThatWasAskedFor(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		for _, count := range []int32{3, 5, 1} {
			_, err := s.Append(c.Context(), count, fmt.Appendf(nil, "%d rows", count))
			require.NoError(c, err)
		}
		for range 2 { // from memory, and from objects
			f, err := s.Fetch(c.Context(), FetchRequest{Start: 5, End: 6, MaxBytes: 1})
			require.NoError(c, err)
			require.Len(c, f.Records, 1)
			require.Equal(c, []int64{3, 8}, []int64{f.Records[0].Base, f.Records[0].End()})
			require.NoError(c, s.Close(c.Context()))
			p.close()
			p = c.start(5)
			s = p.reopen(s.ID())
		}
		p.close()
	})
}

func TestSTR5_CloseWaitsForWhatWasSubmittedAndUploadsIt(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s, other := p.stream(), p.stream()
		c.appendMany(s, 1)
		gate := p.hold()
		acks := c.submitApart(s, 2)
		late, err := p.Admit(c.Context(), 1, 1)
		require.NoError(c, err)
		var woken int
		defer s.Watch(func() { woken++ })()
		closed := make(chan error, 1)
		go func() { closed <- s.Close(c.Context()) }()
		synctest.Wait()
		require.Equal(c, 1, woken, "those who wait for rows are told that none will come")
		require.ErrorIs(c, s.Err(), ErrClosed)
		_, err = s.Submit(late, 1, nil)
		require.ErrorIs(c, err, ErrClosed)
		late.Release()
		_, err = s.Append(c.Context(), 1, nil)
		require.ErrorIs(c, err, ErrClosed)
		row, _ := c.catalog.View().Stream(s.ID())
		require.True(c, row.Opened)
		gate.Open()
		require.NoError(c, <-closed)
		require.Equal(c, "acked acked", acked(acks))
		row, _ = c.catalog.View().Stream(s.ID())
		require.Equal(c, []any{false, int64(3)}, []any{row.Opened, row.End})
		require.NoError(c, s.Close(c.Context()), "twice")
		c.appendMany(other, 1)

		elsewhere := c.start(6)
		theirs := elsewhere.reopen(s.ID())
		require.Equal(c, []int64{3, 3}, []int64{theirs.Confirm(), theirs.Next()})
		c.appendMany(theirs, 1)
		require.Equal(c, named(s, 0, 4), c.rows(theirs))
		require.NoError(c, theirs.Close(c.Context()))
		back := p.reopen(s.ID())
		c.appendMany(back, 1)
		require.Equal(c, named(s, 0, 5), c.rows(back), "the cache has what came before and after the other owner")
		elsewhere.close()
		p.close()
	})
}

func TestSTR5_CloseWaitsTenSecondsForReads(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		c.appendMany(s, 1)
		p.close()
		p = c.start(5)
		s = p.reopen(s.ID())
		reads := faultstore.NewGate(func(op faultstore.Op) bool { return !op.IsWrite() })
		p.data.SetInjector(reads.Inject)
		read := make(chan error, 1)
		go func() {
			_, err := s.Fetch(c.Context(), FetchRequest{End: 1, MaxBytes: 1})
			read <- err
		}()
		synctest.Wait()
		begun := time.Now()
		require.NoError(c, s.Close(c.Context()))
		require.Equal(c, 10*time.Second, time.Since(begun))
		require.ErrorIs(c, <-read, ErrClosed)
		p.close()
	})
}

func TestSTR5_AStreamWhoseUploadFailsIsNotClosed(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		c.appendMany(s, 1)
		p.data.SetInjector(faultstore.Always(faultstore.Fault{Err: objstore.ErrTransient}))
		ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(c, s.Close(ctx), context.DeadlineExceeded)
		row, _ := c.catalog.View().Stream(s.ID())
		require.True(c, row.Opened)
		p.data.SetInjector(nil)
		require.NoError(c, s.Close(c.Context()), "it may be tried again")
		row, _ = c.catalog.View().Stream(s.ID())
		require.Equal(c, []any{false, int64(1)}, []any{row.Opened, row.End})
		p.close()
	})
}

func TestSTR6_F78_DestroyLeavesNothing(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		c.appendMany(s, 3)
		require.NoError(c, p.Upload(c.Context()))
		c.appendMany(s, 3)
		p.catalog.set(func(call string) error {
			if call == "delete stream" {
				return errGone
			}
			return nil
		}, nil)
		require.ErrorIs(c, s.Destroy(c.Context()), errGone)
		p.catalog.set(nil, nil)
		require.NoError(c, s.Destroy(c.Context()), "it may be repeated")
		require.NoError(c, p.DeleteStream(c.Context(), s.ID(), s.Epoch()), "and that too")
		_, known := c.catalog.View().Stream(s.ID())
		require.False(c, known)
		c.pass(c.config.GCGrace)
		require.NoError(c, p.Clean(c.Context()))
		left, err := listAll(c.Context(), c.data.Open(), "")
		require.NoError(c, err)
		require.Empty(c, left)
		require.Empty(c, c.catalog.View().Destroyed(1))
		p.close()
	})
}

func TestSTR7_TrimMovesTheStart(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		c.appendMany(s, 5)
		var bad *OffsetRangeError
		require.ErrorAs(c, s.Trim(c.Context(), 6), &bad)
		require.Equal(c, OffsetRangeError{Stream: s.ID(), Want: 6, Low: 0, High: 5}, *bad)
		require.NoError(c, s.Trim(c.Context(), 3), "that uploads first")
		row, _ := c.catalog.View().Stream(s.ID())
		require.Equal(c, []int64{3, 5}, []int64{row.Start, row.End})
		trace := p.data.Trace(nil)
		require.NoError(c, s.Trim(c.Context(), 2))
		require.NoError(c, s.Trim(c.Context(), 3))
		require.NoError(c, s.Trim(c.Context(), 4))
		require.NoError(c, s.Trim(c.Context(), 5))
		require.Empty(c, trace.String())
		require.Equal(c, []int64{5, 5, 5}, []int64{s.Start(), s.Confirm(), s.Next()})
		require.Empty(c, c.rows(s))
		c.appendMany(s, 1)
		p.kill()
		next := c.start(5)
		require.Equal(c, named(s, 5, 6), c.rows(next.reopen(s.ID())))
		next.close()
	})
}

func TestSTR7_AReadThatRunsWhileItsStartIsTrimmedIsRightOrOutOfRange(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		c.appendMany(s, 5)
		p.close()
		p = c.start(5)
		s = p.reopen(s.ID())
		reads := faultstore.NewGate(func(op faultstore.Op) bool { return !op.IsWrite() })
		p.data.SetInjector(reads.Inject)
		type answer struct {
			Fetched
			err error
		}
		read := make(chan answer, 1)
		go func() {
			f, err := s.Fetch(c.Context(), FetchRequest{End: 5, MaxBytes: 1000})
			read <- answer{f, err}
		}()
		synctest.Wait()
		require.NoError(c, s.Trim(c.Context(), 5))
		reads.Open()
		a := <-read
		if a.err != nil {
			require.ErrorIs(c, a.err, ErrOffsetOutOfRange)
		} else {
			require.Equal(c, "0@0", string(a.Records[0].Payload))
		}
		_, err := s.Fetch(c.Context(), FetchRequest{Start: 4, End: 5})
		require.ErrorIs(c, err, ErrOffsetOutOfRange)
		p.close()
	})
}

func TestWAL7_ACallerThatHasItsAnswerCanReadItsRows(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		var watched []string
		defer s.Watch(func() {
			if s.Err() != nil {
				return
			}
			f, err := s.Fetch(c.Context(), FetchRequest{Start: s.Confirm() - 1, End: s.Confirm(), Fast: true})
			require.NoError(c, err)
			watched = append(watched, string(f.Records[0].Payload))
		})()
		for i := range 5 {
			c.append(s, fmt.Sprint(i))
			f, err := s.Fetch(c.Context(), FetchRequest{Start: int64(i), End: int64(i) + 1, Fast: true})
			require.NoError(c, err)
			require.Equal(c, fmt.Sprint(i), string(f.Records[0].Payload))
		}
		require.Equal(c, []string{"0", "1", "2", "3", "4"}, watched)
		p.close()
	})
}

func TestWAL7_AcknowledgementsComeInTheOrderOfSubmissionOverAllStreams(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		streams := []*Stream{p.stream(), p.stream(), p.stream()}
		var came, want []string
		for _, s := range streams {
			defer s.Watch(func() { came = append(came, fmt.Sprintf("%d@%d", s.ID(), s.Confirm()-1)) })()
		}
		gate := p.hold()
		for i := range 30 { // frames are sorted by stream, acknowledgements are not
			s := streams[(i*i+1)%3]
			want = append(want, fmt.Sprintf("%d@%d", s.ID(), s.Next()))
			c.submit(s, fmt.Sprint(i))
			if i%7 == 0 {
				c.pass(c.config.WALBatchInterval)
			}
		}
		held, err := gate.Held(c.Context(), 3)
		require.NoError(c, err)
		gate.Release(held[2], held[1])
		synctest.Wait()
		require.Empty(c, came)
		gate.Open()
		c.pass(time.Second)
		require.Equal(c, want, came)
		p.close()
	})
}

func TestTAB10_AnAppendWhoseCallerLeavesIsDurableNevertheless(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		gate := p.hold()
		ctx, cancel := context.WithCancel(c.Context())
		left := make(chan error, 1)
		go func() {
			_, err := s.Append(ctx, 1, []byte("x"))
			left <- err
		}()
		synctest.Wait()
		cancel()
		require.ErrorIs(c, <-left, context.Canceled)
		gate.Open()
		synctest.Wait()
		require.Equal(c, []string{"x"}, c.rows(s))
		require.Zero(c, p.admitted())
		p.close()
	})
}

func TestWatchersThatLeaveAreNotWoken(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		var first, second int
		leave := s.Watch(func() { first++ })
		defer s.Watch(func() { second++ })()
		c.appendMany(s, 2)
		leave()
		leave()
		c.appendMany(s, 1)
		require.Equal(c, []int{2, 3}, []int{first, second})
		p.close()
	})
}

func TestOpeningAStreamTwiceGivesTheSameOne(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		again, err := p.OpenStream(c.Context(), s.ID(), s.Epoch())
		require.NoError(c, err)
		require.Same(c, s, again)
		_, err = p.OpenStream(c.Context(), s.ID(), s.Epoch()+1)
		require.ErrorIs(c, err, catalog.ErrStreamNotClosed)
		_, err = p.OpenStream(c.Context(), s.ID()+1, 1)
		require.ErrorIs(c, err, catalog.ErrStreamNotExist)
		p.close()
		_, err = p.OpenStream(c.Context(), s.ID(), s.Epoch()+1)
		require.ErrorIs(c, err, ErrClosed)
	})
}

func TestANodeThatWasTakenOverFailsWithItsNextCommand_WAL34(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p, survivor := c.start(5), c.start(1)
		s := p.stream()
		c.appendMany(s, 2)
		require.NoError(c, survivor.Failover(c.Context(), 5))
		theirs := survivor.reopen(s.ID())
		require.Equal(c, named(s, 0, 2), c.rows(theirs))
		require.ErrorIs(c, s.Trim(c.Context(), 1), ErrFenced)
		require.ErrorIs(c, p.Err(), ErrFenced)
		_, err := s.Append(c.Context(), 1, nil)
		require.ErrorIs(c, err, ErrWALFailed)
		require.ErrorIs(c, p.Close(c.Context()), ErrFenced)

		back := c.start(5)
		require.EqualValues(c, 3, back.Node().Epoch, "WAL-34: a higher epoch, and it goes on from there")
		require.Zero(c, back.events.recovered(), "nothing was left to recover")
		mine := back.stream()
		c.appendMany(mine, 1)
		back.close()
		survivor.close()
	})
}

// TestUP5_CompactionThatFindsItsNodeTakenOverStopsTheEngine: of all that an engine does only its compaction meets metadata.
func TestUP5_CompactionThatFindsItsNodeTakenOverStopsTheEngine(t *testing.T) {
	runCluster(t, func(c *cluster) {
		c.config.CompactInterval = time.Minute
		p, survivor := c.start(5), c.start(1)
		a, b := p.stream(), p.stream()
		for range 2 {
			c.appendMany(a, 2)
			c.appendMany(b, 2)
			require.NoError(c, p.Upload(c.Context()))
		}
		require.NoError(c, survivor.Failover(c.Context(), 5))
		before, err := listAll(c.Context(), c.data.Open(), "")
		require.NoError(c, err)
		require.NoError(c, p.Err())
		c.pass(2 * time.Minute)
		require.ErrorIs(c, p.Err(), ErrFenced)
		require.Contains(c, p.events.String(), "failed: ", "the node is told")
		after, err := listAll(c.Context(), c.data.Open(), "")
		require.NoError(c, err)
		require.Equal(c, before, after, "nothing was written or deleted")
		require.Equal(c, named(a, 0, 4), c.rows(survivor.reopen(a.ID())))
		require.Equal(c, named(b, 0, 4), c.rows(survivor.reopen(b.ID())))
		survivor.close()
	})
}

func TestFailoverOfANodeThatIsNotThere(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(1)
		require.ErrorIs(c, p.Failover(c.Context(), 77), catalog.ErrNodeEpochMismatch)
		require.ErrorIs(c, p.Failover(c.Context(), 1), catalog.ErrInvalidArgument)
		p.close()
		require.ErrorIs(c, p.Failover(c.Context(), 77), ErrClosed)
	})
}
