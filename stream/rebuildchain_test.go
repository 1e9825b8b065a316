package stream

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// held is a stream with runs in objects, each as object, start, end.
func held(runs ...[3]int64) *foundStream {
	s := &foundStream{epoch: 1}
	for _, r := range runs {
		s.runs = append(s.runs, &foundRun{object: &foundObject{id: catalog.ObjectID(r[0])}, start: r[1], end: r[2]})
	}
	s.sortRuns()
	return s
}

// logged gives a stream a log.
func (s *foundStream) logged(epoch, from, to int64, torn ...int64) *foundStream {
	s.log = &foundLog{epoch: epoch, from: from, to: to, torn: map[int64]bool{}}
	for _, end := range torn {
		s.log.torn[end] = true
	}
	return s
}

func TestTheChainOfAStreamReachesDownAsFarAsAny(t *testing.T) {
	for name, c := range map[string]struct {
		of    *foundStream
		want  []int64 // objects
		start int64
		end   int64
	}{
		"one object after the other":           {held([3]int64{1, 0, 10}, [3]int64{2, 10, 20}), []int64{1, 2}, 0, 20},
		"sources beside their result":          {held([3]int64{1, 0, 10}, [3]int64{2, 10, 20}, [3]int64{3, 0, 20}), []int64{3}, 0, 20},
		"a result whose source is gone":        {held([3]int64{1, 0, 10}, [3]int64{3, 0, 20}), []int64{3}, 0, 20},
		"what was cut in two ways":             {held([3]int64{1, 0, 10}, [3]int64{2, 10, 20}, [3]int64{3, 0, 12}, [3]int64{4, 12, 20}), []int64{3, 4}, 0, 20},
		"a second way of which a part is gone": {held([3]int64{1, 0, 10}, [3]int64{2, 10, 20}, [3]int64{4, 12, 20}), []int64{1, 2}, 0, 20},
		"a gap below":                          {held([3]int64{1, 0, 10}, [3]int64{2, 12, 20}), []int64{2}, 12, 20},
		"a dead head that was cut off":         {held([3]int64{1, 0, 10}, [3]int64{3, 4, 20}), []int64{3}, 4, 20},
		"a log that goes on":                   {held([3]int64{1, 0, 10}).logged(1, 10, 15), []int64{1}, 0, 10},
		"a log that begins in an object":       {held([3]int64{1, 0, 10}).logged(1, 5, 15), []int64{1}, 0, 10},
		"an object that a log reaches over":    {held([3]int64{1, 0, 10}, [3]int64{9, 12, 15}).logged(1, 8, 15), []int64{1}, 0, 10},
		"an object that ends in a record":      {held([3]int64{1, 0, 10}, [3]int64{2, 10, 13}).logged(1, 10, 15, 13), []int64{1}, 0, 10},
		"nothing in objects":                   {held().logged(3, 7, 9), nil, 7, 7},
		"everything below is trimmed":          {held([3]int64{1, 0, 10}).logged(1, 12, 15), nil, 12, 12},
		"a log of an earlier epoch":            {held([3]int64{1, 0, 10}, [3]int64{2, 12, 20}).logged(0, 8, 10), []int64{2}, 12, 20},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := c.of.chain(nil)
			require.True(t, ok)
			var objects []int64
			for _, r := range got.runs {
				objects = append(objects, int64(r.object.id))
			}
			require.Equal(t, []any{c.want, c.start, c.end}, []any{objects, got.start, got.end})
		})
	}
}

// objectsOfRuns makes objects of runs, each as object, stream, start, end.
func objectsOfRuns(runs ...[4]int64) *rebuilder {
	b := &rebuilder{
		made: &Rebuilt{LogEnds: map[catalog.StreamID]int64{}}, objects: map[catalog.ObjectID]*foundObject{},
		streams: map[catalog.StreamID]*foundStream{}, highestStream: -1,
	}
	for _, r := range runs {
		id := catalog.ObjectID(r[0])
		if b.objects[id] == nil {
			b.objects[id] = &foundObject{id: id}
		}
		o := b.objects[id]
		o.runs = append(o.runs, &foundRun{object: o, stream: catalog.StreamID(r[1]), start: r[2], end: r[3]})
		b.highestObject = max(b.highestObject, id)
	}
	b.shareRuns()
	for _, s := range b.streams {
		s.epoch = 1
	}
	b.choose()
	return b
}

// TestACompactionThatWasNotWholeIsNotTaken has a stream-set object of a compaction whose other objects were not written.
func TestACompactionThatWasNotWholeIsNotTaken(t *testing.T) {
	b := objectsOfRuns(
		[4]int64{1, 1, 0, 10}, [4]int64{1, 3, 0, 10}, // sources of streams 1 and 3
		[4]int64{2, 1, 10, 20}, [4]int64{2, 2, 0, 10},
		[4]int64{9, 1, 0, 20}, [4]int64{9, 2, 0, 10}, // without stream 3
	)
	require.Empty(t, b.made.Copies)
	require.Equal(t, []catalog.ObjectID{9}, b.made.Replaced)
	require.Len(t, b.made.Sets, 2)
}

// TestAnObjectOfWhichAPartIsNeededIsCopied has a source beside its result, in which a run is that the result has not.
func TestAnObjectOfWhichAPartIsNeededIsCopied(t *testing.T) {
	b := objectsOfRuns(
		[4]int64{1, 1, 0, 10}, [4]int64{1, 4, 0, 10}, // stream 4 was trimmed to 10
		[4]int64{9, 1, 0, 20}, [4]int64{9, 4, 10, 20},
	)
	require.Equal(t, []RebuildCopy{{
		From: 1, To: 10 + skippedObjects, Ranges: []catalog.Range{{Stream: 4, Epoch: -1, Start: 0, End: 10}},
	}}, b.made.Copies)
	require.Equal(t, []catalog.ObjectID{1}, b.made.Replaced)
	require.Equal(t, []catalog.Stream{{ID: 1, Epoch: 1, End: 20}, {ID: 4, Epoch: 1, End: 20}}, b.made.Streams)
	require.EqualValues(t, 11+skippedObjects, b.made.NextObject)
}

func TestWhatLiesBelowAGapIsToldAndLeftAlone(t *testing.T) {
	b := objectsOfRuns([4]int64{1, 1, 0, 10}, [4]int64{2, 1, 12, 20})
	b.tell()
	require.Empty(t, b.made.Replaced)
	require.Equal(t, "stream 1: it begins at 12; runs of records from 0 on (1) do not join what follows, so they were trimmed, or an "+
		"object is lost: they are left alone", b.made.Findings[0].String())
	require.NoError(t, b.stopped())
}

// TestALogBehindAGapThatMayNeverHaveBeenAcknowledgedStops has a log of which the first objects may be missing.
func TestALogBehindAGapThatMayNeverHaveBeenAcknowledgedStops(t *testing.T) {
	for name, c := range map[string]struct {
		of      *foundStream
		proved  bool
		unclear bool
	}{
		"of which it is not known":         {of: held([3]int64{1, 0, 10}).logged(1, 12, 15), unclear: true},
		"whose first object is there":      {of: held([3]int64{1, 0, 10}).logged(1, 12, 15), proved: true},
		"of which an object holds records": {of: held([3]int64{1, 0, 10}, [3]int64{2, 12, 14}).logged(1, 12, 15)},
		"of an epoch that others went on":  {of: held([3]int64{1, 0, 10}, [3]int64{2, 20, 30}).logged(0, 12, 15)},
		"of a stream that no object holds": {of: held().logged(1, 12, 15)},
		"that is no gap":                   {of: held([3]int64{1, 0, 10}).logged(1, 10, 15)},
	} {
		t.Run(name, func(t *testing.T) {
			c.of.log.proved = c.proved
			b := &rebuilder{made: &Rebuilt{}}
			b.leaveUnclear([]*foundStream{c.of})
			require.Equal(t, []bool{c.unclear, c.unclear}, []bool{b.stopped() != nil, c.of.log == nil})
		})
	}
}
