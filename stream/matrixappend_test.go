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
)

// The rows F1 to F11 of the failure matrix 10.1, over the whole engine.

// hold holds the PUTs of the WAL from now on.
func (p *process) hold() *faultstore.Gate {
	gate := faultstore.NewGate(isPut)
	p.wal.SetInjector(gate.Inject)
	return gate
}

func isPut(op faultstore.Op) bool { return op.Kind == objstore.OpPutIfAbsent }

// submitApart submits rows each of which goes into a WAL object of its own.
func (c *cluster) submitApart(s *Stream, count int) []*Ack {
	c.Helper()
	var acks []*Ack
	for range count {
		acks = append(acks, c.submit(s, fmt.Sprintf("%d@%d", s.ID(), s.Next())))
		c.pass(c.config.WALBatchInterval)
	}
	return acks
}

// acked says of each record whether it was acknowledged, failed, or neither.
func acked(acks []*Ack) string {
	synctest.Wait()
	var said []string
	for _, a := range acks {
		select {
		case <-a.Done():
			said = append(said, map[bool]string{true: "acked", false: "failed"}[a.Err() == nil])
		default:
			said = append(said, "open")
		}
	}
	return strings.Join(said, " ")
}

// reopenAfter ends a process as a crash does, and reads a stream in a new one.
func (c *cluster) reopenAfter(p *process, s *Stream) (*process, *Stream) {
	c.Helper()
	p.kill()
	next := c.start(5)
	return next, next.reopen(s.ID())
}

func TestF1_ACrashBeforeThePutLosesOnlyWhatWasNotAcknowledged(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		c.appendMany(s, 3)
		p.hold()
		acks := c.submitApart(s, 2)
		require.Equal(c, "open open", acked(acks))
		next, again := c.reopenAfter(p, s)
		require.Equal(c, "failed failed", acked(acks))
		require.ErrorIs(c, acks[0].Err(), ErrWALFailed)
		require.Equal(c, named(s, 0, 3), c.rows(again))
		c.appendMany(again, 1)
		require.Equal(c, named(s, 0, 4), c.rows(again), "and their offsets are used by the next one")
		next.close()
	})
}

func TestF2_ACrashBetweenPutAndAcknowledgementKeepsOneCopy(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		c.appendMany(s, 3)
		p.wal.SetInjector(faultstore.NewReplyGate(isPut).Inject)
		acks := c.submitApart(s, 1)
		require.Equal(c, "open", acked(acks))
		next, again := c.reopenAfter(p, s)
		require.Equal(c, named(s, 0, 4), c.rows(again))
		next.close()
	})
}

func TestF3_APutThatLandedBehindOneThatDidNotIsNotRecovered(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		c.appendMany(s, 2)
		gate := faultstore.NewGate(faultstore.Matching(objstore.OpPutIfAbsent, walKey(5, 1, 2)))
		p.wal.SetInjector(gate.Inject)
		acks := c.submitApart(s, 2)
		require.Equal(c, []string{"1/0", "1/1", "1/3"}, c.walKeys(5))
		require.Equal(c, "open open", acked(acks))
		next, again := c.reopenAfter(p, s)
		require.Equal(c, named(s, 0, 2), c.rows(again))
		require.EqualValues(c, 2, next.events.recovered().Records)
		next.close()
	})
}

func TestF4_TheConfirmOffsetWaitsForTheFirstGroupAndThenPassesBoth(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		gate := p.hold()
		var seen []int64
		defer s.Watch(func() { seen = append(seen, s.Confirm()) })()
		acks := c.submitApart(s, 2)
		held, err := gate.Held(c.Context(), 2)
		require.NoError(c, err)
		gate.Release(held[1])
		require.Equal(c, "open open", acked(acks))
		require.Empty(c, seen)
		require.Equal(c, named(s, 0, 2), c.rowsUpTo(s, Appended), "only a read up to the log end sees them")
		require.Empty(c, c.rows(s))
		gate.Release(held[0])
		require.Equal(c, "acked acked", acked(acks))
		require.Equal(c, []int64{1, 2}, seen)
		p.close()
	})
}

func TestF5_AnEngineRecognisesItsOwnObjectWhenTheReplyWasLost(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		p.wal.SetInjector(faultstore.When(isPut, faultstore.LoseReply(0, objstore.ErrTransient)))
		trace := p.wal.Trace(nil)
		c.appendMany(s, 1)
		require.Equal(c, 1, strings.Count(trace.String(), "get "))
		require.Equal(c, []string{"1/0"}, c.walKeys(5))
		require.Equal(c, "put again", p.events.String())
		require.Equal(c, named(s, 0, 1), c.rows(s))
		p.close()
	})
}

func TestF6_F08_AnotherWritersObjectFailsAllWaiters(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		c.appendMany(s, 1)
		fence := EncodeWALObject(WALHeader{Start: Window, Node: 5, Epoch: 9, Trim: -1}, []Record{Sentinel()})
		require.NoError(c, c.wal.Open().Put(c.Context(), walKey(5, 1, 1), fence))
		gate := p.hold()
		acks := c.submitApart(s, 3)
		gate.Open()
		require.Equal(c, "failed failed failed", acked(acks))
		for _, a := range acks {
			var fenced *WALFencedError
			require.ErrorAs(c, a.Err(), &fenced)
			require.Equal(c, WALFencedError{Key: walKey(5, 1, 1), ByEpoch: 9}, *fenced)
			require.ErrorIs(c, a.Err(), ErrWALFailed)
			require.ErrorIs(c, a.Err(), ErrFenced)
		}
		_, err := s.Append(c.Context(), 1, nil)
		require.ErrorIs(c, err, ErrFenced)
		_, err = s.Fetch(c.Context(), FetchRequest{End: 1})
		require.ErrorIs(c, err, ErrFenced)
		require.ErrorIs(c, p.Err(), ErrFenced)
		require.Equal(c, 1, strings.Count(p.events.String(), "failed: "), "the node is told once")
		kept, err := c.wal.Open().Get(c.Context(), walKey(5, 1, 1))
		require.NoError(c, err)
		require.Equal(c, fence, kept)
		require.ErrorIs(c, p.Close(c.Context()), ErrFenced)
		require.NoError(c, p.Close(c.Context()), "once")
	})
}

func TestF7_AStoreThatIsDownForFiveMinutesOnlyDelays(t *testing.T) {
	runCluster(t, func(c *cluster) {
		c.config.WALMaxUnflushed = 510
		p := c.start(5)
		s := p.stream()
		p.wal.SetInjector(faultstore.Always(faultstore.Fault{Err: objstore.ErrTransient}))
		acks := c.submitApart(s, 5)
		waited := make(chan error, 1)
		go func() {
			_, err := s.Append(c.Context(), 1, make([]byte, 200))
			waited <- err
		}()
		c.pass(5 * time.Minute)
		require.Equal(c, "open open open open open", acked(acks))
		require.EqualValues(c, 5, s.Next(), "the sixth waits for room and has no offset")
		p.wal.SetInjector(nil)
		require.NoError(c, <-waited)
		require.Equal(c, "acked acked acked acked acked", acked(acks))
		require.Equal(c, append(named(s, 0, 5), string(make([]byte, 200))), c.rows(s))
		// Three were on their way; what came while they were went into one more, and the sixth record into the last.
		require.Equal(c, []string{"1/0", "1/1", "1/2", "1/3", "1/4"}, c.walKeys(5))
		p.close()
	})
}

func TestF8_AStoreThatIsDownForTooLongSendsTheNodeAway(t *testing.T) {
	runCluster(t, func(c *cluster) {
		begun := time.Now()
		p := c.prepare()
		options := p.options(5)
		options.Proof = func() time.Time { return begun }
		var err error
		p.Engine, err = Open(c.Context(), options)
		require.NoError(c, err)
		s := p.stream()
		p.wal.SetInjector(faultstore.Always(faultstore.Fault{Err: objstore.ErrTransient}))
		acks := c.submitApart(s, 2)
		c.pass(c.config.WALMaxPutAge + 2*time.Minute)
		require.Equal(c, "failed failed", acked(acks))
		require.ErrorIs(c, p.Err(), ErrWALFailed)
		require.Contains(c, p.events.String(), "failed: ")
		require.ErrorContains(c, p.Close(c.Context()), "last known to be current")
		next := c.start(5)
		require.EqualValues(c, 2, next.Node().Epoch)
		again := next.reopen(s.ID())
		require.Empty(c, c.rows(again))
		c.appendMany(again, 1)
		next.close()
	})
}

func TestF9_AStoreThatDeniesFailsTheEngineAtOnce(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		p.wal.SetInjector(faultstore.Always(faultstore.Fault{Err: &objstore.Error{
			Op: objstore.OpPutIfAbsent, Store: "s3://tide", Key: walKey(5, 1, 0), Class: objstore.ErrDenied,
		}}))
		begun := time.Now()
		_, err := s.Append(c.Context(), 1, []byte("x"))
		require.ErrorIs(c, err, ErrWALFailed)
		require.ErrorIs(c, err, objstore.ErrDenied)
		require.ErrorContains(c, err, "s3://tide")
		require.ErrorContains(c, err, walKey(5, 1, 0))
		require.Equal(c, begun, time.Now())
		require.ErrorIs(c, p.Close(c.Context()), objstore.ErrDenied)
	})
}

func TestF10_AFullLogMakesTheNextAppendWaitWithoutAnOffset(t *testing.T) {
	runCluster(t, func(c *cluster) {
		c.config.WALMaxUnflushed = 1000
		p := c.start(5)
		s := p.stream()
		gate := p.hold()
		c.submit(s, strings.Repeat("x", 900))
		ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
		defer cancel()
		_, err := s.Append(ctx, 1, make([]byte, 100))
		require.ErrorIs(c, err, context.DeadlineExceeded)
		_, err = p.TryAdmit(1, 100)
		require.ErrorIs(c, err, ErrOverCapacity)
		require.EqualValues(c, 1, s.Next())
		gate.Open()
		require.EqualValues(c, 1, c.append(s, strings.Repeat("y", 100)))
		p.close()
	})
}

func TestF11_ARecordThatIsTooLargeLeavesTheStreamAsItIs(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		_, err := s.Append(c.Context(), 1, make([]byte, MaxPayload+1))
		require.ErrorIs(c, err, ErrRecordTooLarge)
		_, err = s.Append(c.Context(), 0, nil)
		require.ErrorIs(c, err, ErrBadCount)
		_, err = s.Append(c.Context(), -1, nil)
		require.ErrorIs(c, err, ErrLinkRecord)
		require.Zero(c, s.Next())
		c.append(s, "fits")
		require.Equal(c, []string{"fits"}, c.rows(s))
		p.close()
	})
}
