package catalogtest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

func testPrepare(s *suite) {
	n := s.node(1)
	first := s.prepare(n, 3)
	next, err := s.PrepareObjects(s.Context(), n, catalog.MaxPrepared, -time.Hour)
	require.NoError(s, err)
	require.Equal(s, first+3, next)
	require.True(s, s.View().IsPrepared(first+2))
	require.Equal(s, next+catalog.MaxPrepared, s.View().NextObject())
	require.False(s, s.View().IsPrepared(s.View().NextObject()))
	for _, count := range []int{0, -1, catalog.MaxPrepared + 1} {
		s.refused(catalog.ErrInvalidArgument, func() error {
			_, err := s.PrepareObjects(s.Context(), n, count, time.Hour)
			return err
		})
	}
}

func testUpload(s *suite) {
	n := s.node(1)
	ids := s.streams(n, 3)
	first := s.prepare(n, 2)
	c := catalog.Commit{
		Object: first, Size: 300, Ranges: []catalog.Range{span(ids[0], 0, 10), span(ids[1], 0, 5)},
		StreamObjects: []catalog.StreamObject{object(first+1, ids[2], 0, 1000)},
	}
	require.NoError(s, s.Commit(s.Context(), n, c))
	require.Equal(s, []int64{10, 5, 1000}, []int64{s.stream(ids[0]).End, s.stream(ids[1]).End, s.stream(ids[2]).End})
	require.ErrorIs(s, s.Commit(s.Context(), n, c), catalog.ErrRedundant)
	now := s.clock.Load()
	for set := range s.View().StreamSets() {
		require.Equal(s, catalog.StreamSetState{
			Object: first, Node: 1, Size: 300, Ranges: c.Ranges, CommittedMs: now, DataMs: now,
		}, set)
	}
	require.Equal(s, []catalog.StreamObjectState{{StreamObject: c.StreamObjects[0], DataMs: now}},
		s.View().StreamObjects(ids[2]))
	require.False(s, s.View().IsPrepared(first))

	// Stream objects alone: redundant once all of them are in.
	alone := catalog.Commit{Object: catalog.NoObject, StreamObjects: []catalog.StreamObject{
		object(s.prepare(n, 1), ids[0], 10, 20), object(s.prepare(n, 1), ids[1], 5, 6),
	}}
	require.NoError(s, s.Commit(s.Context(), n, alone))
	require.ErrorIs(s, s.Commit(s.Context(), n, alone), catalog.ErrRedundant)
}

func testUploadRefused(s *suite) {
	a, b := s.node(1), s.node(2)
	ids := s.streams(a, 3)
	foreign := s.streams(b, 1)[0]
	require.NoError(s, s.CloseStream(s.Context(), a, ids[2], 1))
	s.uploadSet(a, span(ids[0], 0, 10))
	id := s.prepare(a, 2)
	upload := func(ranges ...catalog.Range) catalog.Commit { return catalog.Commit{Object: id, Ranges: ranges} }
	staleEpoch := span(ids[0], 10, 20)
	staleEpoch.Epoch = 0
	twice := upload(span(ids[0], 10, 20))
	twice.StreamObjects = []catalog.StreamObject{object(id+1, ids[0], 20, 30)}
	sameID := upload(span(ids[0], 10, 20))
	sameID.StreamObjects = []catalog.StreamObject{object(id, ids[1], 0, 5)}
	unprepared := upload(span(ids[0], 10, 20))
	unprepared.Object = id + 100
	for name, c := range map[string]struct {
		commit catalog.Commit
		want   error
	}{
		"a gap":                    {upload(span(ids[0], 11, 20)), catalog.ErrNotContiguous},
		"an overlap":               {upload(span(ids[0], 9, 20)), catalog.ErrNotContiguous},
		"one of two is wrong":      {upload(span(ids[1], 0, 5), span(ids[0], 11, 20)), catalog.ErrNotContiguous},
		"empty range":              {upload(span(ids[0], 10, 10)), catalog.ErrInvalidArgument},
		"no such stream":           {upload(span(9999, 0, 1)), catalog.ErrStreamNotExist},
		"closed stream":            {upload(span(ids[2], 0, 1)), catalog.ErrStreamNotOpened},
		"another node's stream":    {upload(span(foreign, 0, 1)), catalog.ErrStreamFenced},
		"another epoch":            {upload(staleEpoch), catalog.ErrExpiredEpoch},
		"a stream twice":           {twice, catalog.ErrInvalidArgument},
		"one id for two objects":   {sameID, catalog.ErrObjectIDInUse},
		"an id that is not ours":   {unprepared, catalog.ErrObjectNotPrepared},
		"nothing":                  {catalog.Commit{Object: catalog.NoObject}, catalog.ErrInvalidArgument},
		"an object of nothing":     {upload(), catalog.ErrInvalidArgument},
		"nothing to put ranges in": {catalog.Commit{Object: catalog.NoObject, Ranges: []catalog.Range{span(ids[0], 10, 20)}}, catalog.ErrInvalidArgument},
	} {
		s.Run(name, func() { s.refused(c.want, func() error { return s.Commit(s.Context(), a, c.commit) }) })
	}
	require.True(s, s.View().IsPrepared(id))
}

// Run is a subtest that shares the catalog.
func (s *suite) Run(name string, test func()) {
	s.Helper()
	s.Log(name)
	test()
}

func testCompaction(s *suite) {
	n := s.node(1)
	ids := s.streams(n, 2)
	one := s.uploadSet(n, span(ids[0], 0, 10), span(ids[1], 0, 5))
	s.wait(time.Minute)
	two := s.uploadSet(n, span(ids[0], 10, 30))
	s.wait(time.Minute)
	first := s.prepare(n, 2)
	c := catalog.Commit{
		Object: first, Size: 7, Ranges: []catalog.Range{{Stream: ids[1], Epoch: -1, End: 5, Size: 5}},
		StreamObjects: []catalog.StreamObject{{Object: first + 1, Size: 30, Stream: ids[0], Epoch: -1, End: 30}},
		Compacted:     []catalog.ObjectID{one, two},
	}
	require.NoError(s, s.Commit(s.Context(), s.node(2), c), "of whatever node")
	require.Equal(s, map[catalog.ObjectID]catalog.Operation{one: catalog.Delete, two: catalog.Delete}, s.destroyed())
	oldest := s.clock.Load() - 2*time.Minute.Milliseconds()
	require.Equal(s, oldest, s.View().StreamObjects(ids[0])[0].DataMs, "the oldest of the sources")
	for set := range s.View().StreamSets() {
		require.Equal(s, []int64{oldest, s.clock.Load()}, []int64{set.DataMs, set.CommittedMs})
	}
	require.ErrorIs(s, s.Commit(s.Context(), n, c), catalog.ErrRedundant)
}

func testCompactionRefused(s *suite) {
	n := s.node(1)
	ids := s.streams(n, 2)
	one := s.uploadSet(n, span(ids[0], 0, 10), span(ids[1], 0, 5))
	two := s.uploadSet(n, span(ids[0], 10, 30))
	plain := s.uploadObject(n, ids[0], 30, 40)
	id := s.prepare(n, 1)
	compact := func(sources []catalog.ObjectID, ranges ...catalog.Range) catalog.Commit {
		return catalog.Commit{Object: id, Ranges: ranges, Compacted: sources}
	}
	both := []catalog.ObjectID{one, two}
	for name, c := range map[string]struct {
		commit catalog.Commit
		want   error
	}{
		"F32 a block is missing":    {compact(both, span(ids[0], 0, 30)), catalog.ErrCompactionLosesData},
		"a hole":                    {compact(both, span(ids[0], 0, 9), span(ids[0], 10, 30), span(ids[1], 0, 5)), catalog.ErrCompactionLosesData},
		"a tail is missing":         {compact([]catalog.ObjectID{two}, span(ids[0], 10, 29)), catalog.ErrCompactionLosesData},
		"past the end":              {compact(both, span(ids[0], 0, 41), span(ids[1], 0, 5)), catalog.ErrOffsetOutOfRange},
		"somebody was faster":       {compact([]catalog.ObjectID{one, 9999}, span(ids[0], 0, 10), span(ids[1], 0, 5)), catalog.ErrInvalidArgument},
		"a stream object as source": {compact([]catalog.ObjectID{plain}, span(ids[0], 30, 40)), catalog.ErrInvalidArgument},
		"a source twice":            {compact([]catalog.ObjectID{two, two}, span(ids[0], 10, 30)), catalog.ErrInvalidArgument},
		"nothing comes out":         {catalog.Commit{Object: catalog.NoObject, Compacted: both}, catalog.ErrCompactionLosesData},
		"nothing to put ranges in": {catalog.Commit{
			Object: catalog.NoObject, Compacted: []catalog.ObjectID{two}, Ranges: []catalog.Range{span(ids[0], 10, 30)},
		}, catalog.ErrInvalidArgument},
		"an empty range": {compact([]catalog.ObjectID{two}, span(ids[0], 10, 30), span(ids[0], 30, 30)), catalog.ErrInvalidArgument},
	} {
		s.Run(name, func() { s.refused(c.want, func() error { return s.Commit(s.Context(), n, c.commit) }) })
	}
	require.Empty(s, s.destroyed())
}

func testCompactionOfTheDead(s *suite) {
	n := s.node(1)
	ids := s.streams(n, 3)
	one := s.uploadSet(n, span(ids[0], 0, 10), span(ids[1], 0, 5), span(ids[2], 0, 5))
	two := s.uploadSet(n, span(ids[0], 10, 20))
	first := s.prepare(n, 3)
	// Planned now; meanwhile a stream is trimmed and another one deleted (F33, F34).
	c := catalog.Commit{
		Object: first, Ranges: []catalog.Range{span(ids[1], 0, 5)},
		StreamObjects: []catalog.StreamObject{object(first+1, ids[0], 0, 20), object(first+2, ids[2], 0, 5)},
		Compacted:     []catalog.ObjectID{one, two},
	}
	require.NoError(s, s.TrimStream(s.Context(), n, ids[1], 1, 5))
	require.NoError(s, s.TrimStream(s.Context(), n, ids[0], 1, 12))
	require.NoError(s, s.CloseStream(s.Context(), n, ids[2], 1))
	require.NoError(s, s.DeleteStream(s.Context(), n, ids[2], 1))
	require.NoError(s, s.Commit(s.Context(), n, c))
	require.Equal(s, map[catalog.ObjectID]catalog.Operation{
		one: catalog.Delete, two: catalog.Delete, first: catalog.Delete, first + 2: catalog.Delete,
	}, s.destroyed(), "what is left of nothing is destroyed too")
	require.Equal(s, []catalog.StreamObjectState{{StreamObject: c.StreamObjects[0], DataMs: s.clock.Load()}},
		s.View().StreamObjects(ids[0]))
}

func testStreamCompaction(s *suite) {
	n := s.node(1)
	id := s.streams(n, 1)[0]
	var sources []catalog.ObjectID
	for i := range int64(4) {
		sources = append(sources, s.uploadObject(n, id, 10*i, 10*i+10))
		s.wait(time.Second)
	}
	require.NoError(s, s.TrimStream(s.Context(), n, id, 1, 15))
	dead := catalog.StreamCompaction{
		Object: catalog.NoObject, Stream: id, Epoch: 1, Sources: sources[:1],
		Operations: []catalog.Operation{catalog.DeepDelete},
	}
	require.NoError(s, s.CompactStream(s.Context(), n, dead))
	require.Equal(s, map[catalog.ObjectID]catalog.Operation{sources[0]: catalog.DeepDelete}, s.destroyed())

	c := catalog.StreamCompaction{
		Object: s.prepare(n, 1), Size: 25, Stream: id, Epoch: 1, Start: 12, End: 40, // from 10 on, less a dead head
		Attributes: catalog.NewAttributes(true, 0, false), Sources: sources[1:],
		Operations: []catalog.Operation{catalog.KeepData, catalog.KeepData, catalog.Delete},
	}
	require.NoError(s, s.CompactStream(s.Context(), n, c))
	require.ErrorIs(s, s.CompactStream(s.Context(), n, c), catalog.ErrRedundant)
	require.Equal(s, map[catalog.ObjectID]catalog.Operation{
		sources[0]: catalog.DeepDelete, sources[3]: catalog.Delete,
	}, s.destroyed(), "data that is kept is never marked")
	require.Equal(s, []catalog.StreamObjectState{{
		StreamObject: catalog.StreamObject{
			Object: c.Object, Size: 25, Stream: id, Epoch: 1, Start: 12, End: 40, Attributes: c.Attributes,
		},
		DataMs: s.clock.Load() - 3000,
	}}, s.View().StreamObjects(id))
}

func testStreamCompactionRefused(s *suite) {
	a, b := s.node(1), s.node(2)
	ids := s.streams(a, 2)
	one, two := s.uploadObject(a, ids[0], 0, 10), s.uploadObject(a, ids[0], 10, 20)
	three := s.uploadObject(a, ids[0], 20, 30)
	other := s.uploadObject(a, ids[1], 0, 10)
	good := catalog.StreamCompaction{
		Object: s.prepare(a, 1), Stream: ids[0], Epoch: 1, Start: 0, End: 20, Sources: []catalog.ObjectID{one, two},
		Operations: []catalog.Operation{catalog.Delete, catalog.Delete},
	}
	with := func(change func(c *catalog.StreamCompaction)) catalog.StreamCompaction {
		c := good
		change(&c)
		return c
	}
	for name, c := range map[string]struct {
		compaction catalog.StreamCompaction
		want       error
	}{
		"no such stream":      {with(func(c *catalog.StreamCompaction) { c.Stream = 9999 }), catalog.ErrStreamNotExist},
		"another epoch":       {with(func(c *catalog.StreamCompaction) { c.Epoch = 2 }), catalog.ErrExpiredEpoch},
		"not prepared":        {with(func(c *catalog.StreamCompaction) { c.Object += 100 }), catalog.ErrObjectNotPrepared},
		"a head is missing":   {with(func(c *catalog.StreamCompaction) { c.Start = 5 }), catalog.ErrCompactionLosesData},
		"a tail is missing":   {with(func(c *catalog.StreamCompaction) { c.End = 19 }), catalog.ErrCompactionLosesData},
		"past the end":        {with(func(c *catalog.StreamCompaction) { c.End = 31 }), catalog.ErrOffsetOutOfRange},
		"a gap":               {with(func(c *catalog.StreamCompaction) { c.Sources, c.End = []catalog.ObjectID{one, three}, 30 }), catalog.ErrCompactionLosesData},
		"foreign source":      {with(func(c *catalog.StreamCompaction) { c.Sources = []catalog.ObjectID{one, other} }), catalog.ErrInvalidArgument},
		"too few operations":  {with(func(c *catalog.StreamCompaction) { c.Operations = c.Operations[:1] }), catalog.ErrInvalidArgument},
		"dropping the living": {with(func(c *catalog.StreamCompaction) { c.Object = catalog.NoObject }), catalog.ErrCompactionLosesData},
		"no such operation":   {with(func(c *catalog.StreamCompaction) { c.Operations = []catalog.Operation{0, 3} }), catalog.ErrInvalidArgument},
		"F36 a component in use": {with(func(c *catalog.StreamCompaction) {
			c.DeadComponents = []catalog.ObjectID{three}
		}), catalog.ErrInvalidArgument},
		"F36 a component that is being written": {with(func(c *catalog.StreamCompaction) {
			c.DeadComponents = []catalog.ObjectID{c.Object}
		}), catalog.ErrInvalidArgument},
		"F36 a component that never was": {with(func(c *catalog.StreamCompaction) {
			c.DeadComponents = []catalog.ObjectID{c.Object + 1}
		}), catalog.ErrInvalidArgument},
	} {
		s.Run(name, func() { s.refused(c.want, func() error { return s.CompactStream(s.Context(), a, c.compaction) }) })
	}
	s.refused(catalog.ErrStreamFenced, func() error { return s.CompactStream(s.Context(), b, good) })
	require.NoError(s, s.CompactStream(s.Context(), a, good))
}

func testExpiry(s *suite) {
	n := s.node(1)
	short, err := s.PrepareObjects(s.Context(), n, 2, time.Minute)
	require.NoError(s, err)
	long := s.prepare(n, 1)
	expired, err := s.ExpirePrepared(s.Context())
	require.NoError(s, err)
	require.Zero(s, expired)
	s.wait(time.Minute)
	expired, err = s.ExpirePrepared(s.Context())
	require.NoError(s, err)
	require.Equal(s, 2, expired)
	require.False(s, s.View().IsPrepared(short))
	require.True(s, s.View().IsPrepared(long))
	id := s.streams(n, 1)[0]
	s.refused(catalog.ErrObjectNotPrepared, func() error {
		return s.Commit(s.Context(), n, catalog.Commit{Object: short, Ranges: []catalog.Range{span(id, 0, 1)}})
	})
	require.Len(s, s.View().Destroyed(1), 1)
	require.Equal(s, s.clock.Load(), s.View().Destroyed(1)[0].MarkedMs)

	cleaned, err := s.CleanDestroyed(s.Context(), short, short, 9999)
	require.NoError(s, err)
	require.Equal(s, 1, cleaned)
	require.Equal(s, map[catalog.ObjectID]catalog.Operation{short + 1: catalog.Delete}, s.destroyed())
}

func testStronger(s *suite) {
	n := s.node(1)
	id := s.streams(n, 1)[0]
	o := s.uploadObject(n, id, 0, 10)
	require.NoError(s, s.TrimStream(s.Context(), n, id, 1, 10))
	require.NoError(s, s.CompactStream(s.Context(), n, catalog.StreamCompaction{
		Object: catalog.NoObject, Stream: id, Epoch: 1, Sources: []catalog.ObjectID{o},
		Operations: []catalog.Operation{catalog.DeepDelete}, DeadComponents: []catalog.ObjectID{o},
	}))
	require.Equal(s, map[catalog.ObjectID]catalog.Operation{o: catalog.DeepDelete}, s.destroyed())
}

func testLookup(s *suite) {
	n := s.node(1)
	ids := s.streams(n, 2)
	set := s.uploadSet(n, span(ids[0], 0, 10), span(ids[1], 0, 10))
	one := s.uploadObject(n, ids[0], 10, 20)
	two := s.uploadObject(n, ids[0], 20, 30)
	lookup := func(start, end int64, limit int) []catalog.ObjectID {
		var got []catalog.ObjectID
		next := start
		for _, r := range s.View().Objects(ids[0], start, end, limit) {
			require.LessOrEqual(s, r.Start, next)
			require.Equal(s, r.Object == set, r.StreamSet)
			next = r.End
			got = append(got, r.Object)
		}
		return got
	}
	require.Equal(s, []catalog.ObjectID{set, one, two}, lookup(0, 30, 10))
	require.Equal(s, []catalog.ObjectID{set, one}, lookup(5, 30, 2))
	require.Equal(s, []catalog.ObjectID{one}, lookup(15, 20, 10))
	require.Equal(s, []catalog.ObjectID{one, two}, lookup(19, 21, 10))
	require.Empty(s, lookup(30, 40, 10))
	require.Empty(s, lookup(5, 5, 10))
	require.Empty(s, lookup(0, 30, 0))
	require.NoError(s, s.TrimStream(s.Context(), n, ids[0], 1, 15))
	require.Empty(s, lookup(0, 30, 10), "below the start there is nothing")
	require.Equal(s, []catalog.ObjectID{one, two}, lookup(15, 30, 10))
	require.Empty(s, s.View().Objects(9999, 0, 1, 1))
}
