package catalogtest

import (
	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

func testCreate(s *suite) {
	n := s.node(1)
	first, err := s.CreateStreams(s.Context(), n, 3)
	require.NoError(s, err)
	next, err := s.CreateStreams(s.Context(), n, catalog.MaxStreams)
	require.NoError(s, err)
	require.Equal(s, first+3, next)
	require.Equal(s, catalog.Stream{ID: first, Epoch: -1, Node: -1}, s.stream(first))
	for _, count := range []int{0, -1, catalog.MaxStreams + 1} {
		s.refused(catalog.ErrInvalidArgument, func() error { _, err := s.CreateStreams(s.Context(), n, count); return err })
	}
}

func testOpen(s *suite) {
	a, b := s.node(1), s.node(2)
	id, err := s.CreateStreams(s.Context(), a, 1)
	require.NoError(s, err)
	open := func(n catalog.Node, epoch int64) error { _, err := s.OpenStream(s.Context(), n, id, epoch); return err }
	require.NoError(s, open(a, 4))
	require.NoError(s, open(a, 4), "again")
	s.refused(catalog.ErrStreamFenced, func() error { return open(b, 4) })
	s.refused(catalog.ErrStreamFenced, func() error { return open(b, 3) })
	s.refused(catalog.ErrStreamNotClosed, func() error { return open(b, 5) })
	s.refused(catalog.ErrStreamNotClosed, func() error { return open(a, 5) })
	require.NoError(s, s.CloseStream(s.Context(), a, id, 4))
	s.refused(catalog.ErrStreamFenced, func() error { return open(a, 4) })
	row, err := s.OpenStream(s.Context(), b, id, 9)
	require.NoError(s, err)
	require.Equal(s, s.stream(id), row)
	require.Equal(s, []any{catalog.NodeID(2), int64(9), true}, []any{row.Node, row.Epoch, row.Opened})
	id += 100
	s.refused(catalog.ErrStreamNotExist, func() error { return open(a, 1) })
}

func testEpochs(s *suite) {
	n := s.node(1)
	id := s.streams(n, 1)[0]
	s.uploadObject(n, id, 0, 10)
	reopen := func(epoch int64) {
		require.NoError(s, s.CloseStream(s.Context(), n, id, s.stream(id).Epoch))
		_, err := s.OpenStream(s.Context(), n, id, epoch)
		require.NoError(s, err)
	}
	reopen(3)
	o := object(s.prepare(n, 1), id, 10, 20)
	o.Epoch = 3
	require.NoError(s, s.Commit(s.Context(), n, catalog.Commit{
		Object: catalog.NoObject, StreamObjects: []catalog.StreamObject{o},
	}))
	reopen(7)
	require.Equal(s, []catalog.EpochStart{{Epoch: 1}, {Epoch: 3, Start: 10}, {Epoch: 7, Start: 20}}, s.stream(id).Epochs)
	require.NoError(s, s.TrimStream(s.Context(), n, id, 7, 9))
	require.Len(s, s.stream(id).Epochs, 3)
	require.NoError(s, s.TrimStream(s.Context(), n, id, 7, 15))
	require.Equal(s, []catalog.EpochStart{{Epoch: 3, Start: 10}, {Epoch: 7, Start: 20}}, s.stream(id).Epochs)
}

func testTrim(s *suite) {
	a, b := s.node(1), s.node(2)
	ids := s.streams(a, 2)
	s.uploadObject(a, ids[0], 0, 100)
	trim := func(n catalog.Node, epoch, start int64) error {
		return s.TrimStream(s.Context(), n, ids[0], epoch, start)
	}
	require.NoError(s, trim(a, 1, 60))
	require.NoError(s, trim(a, 1, 40), "down is no change")
	require.EqualValues(s, 60, s.stream(ids[0]).Start)
	s.refused(catalog.ErrOffsetOutOfRange, func() error { return trim(a, 1, 101) })
	s.refused(catalog.ErrExpiredEpoch, func() error { return trim(a, 2, 70) })
	s.refused(catalog.ErrStreamFenced, func() error { return trim(b, 1, 70) })
	require.NoError(s, trim(a, 1, 100))
	require.NoError(s, s.CloseStream(s.Context(), a, ids[0], 1))
	s.refused(catalog.ErrStreamNotOpened, func() error { return trim(a, 1, 100) })
	s.refused(catalog.ErrStreamNotExist, func() error { return s.TrimStream(s.Context(), a, 999, 1, 0) })
}

func testClose(s *suite) {
	a, b := s.node(1), s.node(2)
	id := s.streams(a, 1)[0]
	closeAt := func(n catalog.Node, epoch int64) error { return s.CloseStream(s.Context(), n, id, epoch) }
	s.refused(catalog.ErrExpiredEpoch, func() error { return closeAt(a, 2) })
	s.refused(catalog.ErrStreamFenced, func() error { return closeAt(b, 1) })
	require.NoError(s, closeAt(a, 1))
	require.NoError(s, closeAt(a, 1), "again")
	s.refused(catalog.ErrStreamNotOpened, func() error { return closeAt(a, 2) })
	require.Equal(s, catalog.NodeID(1), s.stream(id).Node, "the node is kept for placement")
}

func testDelete(s *suite) {
	n := s.node(1)
	ids := s.streams(n, 2)
	set := s.uploadSet(n, span(ids[0], 0, 10), span(ids[1], 0, 10))
	plain := s.uploadObject(n, ids[0], 10, 20)
	composite := object(s.prepare(n, 1), ids[0], 20, 30)
	composite.Attributes = catalog.NewAttributes(true, 0, false)
	require.NoError(s, s.Commit(s.Context(), n, catalog.Commit{
		Object: catalog.NoObject, StreamObjects: []catalog.StreamObject{composite},
	}))

	remove := func(id catalog.StreamID, epoch int64) error { return s.DeleteStream(s.Context(), n, id, epoch) }
	s.refused(catalog.ErrStreamNotClosed, func() error { return remove(ids[0], 1) })
	require.NoError(s, s.CloseStream(s.Context(), n, ids[0], 1))
	s.refused(catalog.ErrExpiredEpoch, func() error { return remove(ids[0], 2) })
	require.NoError(s, remove(ids[0], 1))
	require.NoError(s, remove(ids[0], 1), "again")
	require.Equal(s, map[catalog.ObjectID]catalog.Operation{
		plain: catalog.Delete, composite.Object: catalog.DeepDelete,
	}, s.destroyed(), "the stream-set object holds another stream")

	require.NoError(s, s.CloseStream(s.Context(), n, ids[1], 1))
	require.NoError(s, remove(ids[1], 1))
	require.Equal(s, catalog.Delete, s.destroyed()[set])
	require.Len(s, s.destroyed(), 3)
}
