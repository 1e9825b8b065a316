package stream

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
)

// markOf is what an object of a log says about how far that was acknowledged, -1 if it says nothing.
func (c *cluster) markOf(key string) int64 {
	c.Helper()
	whole, err := c.wal.Open().Get(c.Context(), key)
	require.NoError(c, err)
	h, frames, err := DecodeWALObject(key, whole)
	require.NoError(c, err)
	acked, says, err := readMark(c.Context(), c.wal.Open(), walObject{key: key, size: int64(len(whole)), header: h})
	require.NoError(c, err)
	for _, f := range frames[:len(frames)-1] {
		require.False(c, f.Record.IsMark(), "it is the last frame")
	}
	require.Equal(c, says, frames[len(frames)-1].Record.IsMark())
	if !says {
		return -1
	}
	return acked / Window
}

func TestF15_EachObjectSaysUpToWhereTheLogWasAcknowledgedWhenItWasSealed(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		gate := p.hold()
		first := c.submitApart(s, 2)
		gate.Open()
		require.Equal(c, "acked acked", acked(first))
		p.wal.SetInjector(nil)
		c.appendMany(s, 1)
		gate = p.hold()
		second := c.submitApart(s, 2)
		gate.Open()
		require.Equal(c, "acked acked", acked(second))
		var marks []int64
		for window := range int64(5) {
			marks = append(marks, c.markOf(walKey(5, 1, window)))
		}
		require.Equal(c, []int64{-1, -1, 2, 3, 3}, marks)
		p.wal.SetInjector(nil)
		p.close()
	})
}

// TestAMarkIsPassedOver: by a recovery, and by a check of every record; what it costs is its frame.
func TestAMarkIsPassedOver(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		c.appendMany(s, 3)
		require.EqualValues(c, 2, c.markOf(walKey(5, 1, 2)))
		info, err := c.wal.Open().Head(c.Context(), walKey(5, 1, 2))
		require.NoError(c, err)
		require.EqualValues(c, walHeaderSizeV1+FrameLen(Record{Payload: []byte("0@2")})+markSize, info.Size)
		c.check()
		p.kill()
		next := c.start(5)
		found := next.events.recovered()
		require.Equal(c, []any{3, Dropped{}}, []any{found.Records, found.Dropped})
		require.Equal(c, named(s, 0, 3), c.rows(next.reopen(s.ID())))
		next.close()
	})
}

// TestALogWithoutMarksIsReadAsBefore: an older version wrote it, or another program. Should one of them read a log with marks it
// passes over them, as over records of a stream that does not exist.
func TestALogWithoutMarksIsReadAsBefore(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		p.kill()
		for window, base := range map[int64]int64{0: 0, 1: 1, 3: 3} { // 2 never arrived
			key := walKey(5, 1, window)
			r := Record{Stream: s.ID(), Epoch: s.Epoch(), Base: base, Count: 1, Payload: []byte(named(s, base, base+1)[0])}
			object := EncodeWALObject(WALHeader{Start: window * Window, Node: 5, Epoch: 1, Trim: -1}, []Record{r})
			require.NoError(c, c.wal.Open().Put(c.Context(), key, object))
		}
		next := c.start(5)
		require.Equal(c, named(s, 0, 2), c.rows(next.reopen(s.ID())))
		next.close()
	})
}

// TestAMarkIsNoRecordOfAStream: nothing that can be appended looks like one, and it fits into any window or is left out.
func TestAMarkIsNoRecordOfAStream(t *testing.T) {
	require.True(t, walMark(0).IsMark())
	require.NoError(t, walMark(math.MaxInt64-math.MaxInt64%Window).CheckAppend())
	for _, r := range []Record{
		Sentinel(), {Stream: markStream, Epoch: 1, Count: 1}, {Stream: markStream, Epoch: -1, Base: 1, Count: 1},
		{Stream: markStream, Epoch: -1, Count: 2}, {Stream: markStream, Epoch: -1, Count: 1, Payload: []byte("x")},
		{Stream: 7, Epoch: -1, Count: 1},
	} {
		require.False(t, r.IsMark())
	}
	full := walGroup{acked: Window, size: Window - markSize + 1}
	require.Empty(t, full.object())
	full.size--
	require.Equal(t, []Record{walMark(Window)}, full.object())
}

// TestAPayloadThatLooksLikeAMarkIsNone: whoever appends could otherwise have a recovery refused, or a hole passed over.
func TestAPayloadThatLooksLikeAMarkIsNone(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		p.kill()
		put := func(window, base int64, tail []byte) {
			payload := append([]byte(named(s, base, base+1)[0]), tail...)
			r := Record{Stream: s.ID(), Epoch: s.Epoch(), Base: base, Count: 1, Payload: payload}
			object := EncodeWALObject(WALHeader{Start: window * Window, Node: 5, Epoch: 1, Trim: -1}, []Record{r})
			require.NoError(c, c.wal.Open().Put(c.Context(), walKey(5, 1, window), object))
		}
		put(0, 0, nil)
		before := FrameLen(Record{Payload: []byte(named(s, 2, 3)[0])}) // where the tail begins; window 1 never arrived
		put(2, 2, AppendFrame(nil, 2*Window+int64(before), walMark(2*Window)))
		next := c.start(5)
		require.Equal(c, named(s, 0, 1), c.rows(next.reopen(s.ID())))
		next.close()
	})
}

// TestF15_ALogWithAHoleIsNotRebuiltSilently: metadata are lost as well, and an object that was acknowledged.
func TestF15_ALogWithAHoleIsNotRebuiltSilently(t *testing.T) {
	w := newWreckage(t)
	w.log(5, 2, 0, row(1, 1, 0))
	w.log(5, 2, 2*Window, row(1, 1, 2), walMark(2*Window))
	_, err := Rebuild(t.Context(), w.options(false))
	require.ErrorContains(t, err, w5(Window))
	made := w.rebuilt(true)
	require.Equal(t, int64(1), made.LogEnds[1], "what lies behind the hole does not follow")
	require.NoError(t, made.Write(t.Context(), w.options(true)))
	kept, err := SalvagedLogs(t.Context(), w.store)
	require.NoError(t, err)
	require.Equal(t, 2, kept[0].Objects, "and is kept")
}

// TestAnOpenThatIsOvertakenByACloseGivesNoOffsetsAgain: two callers open a stream in the same epoch, and one of them appends and
// closes it before the other has its answer.
func TestAnOpenThatIsOvertakenByACloseGivesNoOffsetsAgain(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		id, err := p.CreateStreams(c.Context(), 1)
		require.NoError(c, err)
		answered, release := make(chan struct{}), make(chan struct{})
		p.catalog.set(nil, func(call string) error {
			if call == "open stream" {
				close(answered)
				<-release
			}
			return nil
		})
		late := make(chan error, 1)
		go func() {
			_, err := p.OpenStream(c.Context(), id, 1)
			late <- err
		}()
		<-answered
		p.catalog.set(nil, nil)
		s, err := p.OpenStream(c.Context(), id, 1)
		require.NoError(c, err)
		c.appendMany(s, 3)
		require.NoError(c, s.Close(c.Context()))
		close(release)
		require.Error(c, <-late)
		require.Equal(c, named(s, 0, 3), c.rows(p.reopen(id)))
		p.close()
	})
}

// TestALargeRecordIsOnePutIfAbsent is here for the log's sake: see package objstore/cloud for what a bucket makes of it.
func TestALargeRecordIsOnePutIfAbsent(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		c.append(s, "first")
		c.pass(time.Second)
		trace := p.wal.Trace(func(op faultstore.Op) bool { return op.IsWrite() && op.Kind != objstore.OpDelete })
		base, err := s.Append(c.Context(), 1, make([]byte, 20<<20))
		require.NoError(c, err)
		require.EqualValues(c, 1, base)
		require.Regexp(c, `^put-if-absent \S+ \+\d+\n$`, trace.String())
		p.close()
	})
}
