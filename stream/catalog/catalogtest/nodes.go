package catalogtest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

func testRegister(s *suite) {
	register := func(r catalog.Registration) (int64, error) { return s.RegisterNode(s.Context(), r) }
	first := catalog.Registration{ID: 5, Expected: -1, Incarnation: [16]byte{1}, Address: "a:1", Slots: 2}
	epoch, err := register(first)
	require.NoError(s, err)
	require.EqualValues(s, 1, epoch)

	first.Address, first.Slots = "a:2", 3
	epoch, err = register(first)
	require.NoError(s, err)
	require.EqualValues(s, 1, epoch, "the same incarnation keeps its epoch")
	state, ok := s.View().Node(5)
	require.True(s, ok)
	require.Equal(s, catalog.NodeState{
		ID: 5, Epoch: 1, Incarnation: [16]byte{1}, Address: "a:2", Slots: 3, WALEpoch: -1,
	}, state)

	epoch, err = register(catalog.Registration{ID: 5, Expected: 1, Incarnation: [16]byte{2}})
	require.NoError(s, err)
	require.EqualValues(s, 2, epoch)
	state, _ = s.View().Node(5)
	require.Equal(s, "a:2", state.Address, "an empty address keeps the old one")

	_, err = register(catalog.Registration{ID: 5, Expected: 1, Incarnation: [16]byte{3}})
	require.ErrorIs(s, err, catalog.ErrNodeEpochMismatch, "of two survivors one wins")
	_, err = register(catalog.Registration{ID: 6, Expected: 0, Incarnation: [16]byte{3}})
	require.ErrorIs(s, err, catalog.ErrNodeEpochMismatch, "there is no such node")
	_, err = register(catalog.Registration{ID: -1, Expected: -1})
	require.ErrorIs(s, err, catalog.ErrInvalidArgument)
}

func testNodeEpoch(s *suite) {
	n := s.node(1)
	id := s.streams(n, 1)[0]
	ctx := s.Context()
	for _, stale := range []catalog.Node{{ID: 1, Epoch: n.Epoch - 1}, {ID: 1, Epoch: n.Epoch + 1}, {ID: 2, Epoch: 1}} {
		for name, call := range map[string]func() error{
			"open log":       func() error { return s.OpenWAL(ctx, stale, 0) },
			"close log":      func() error { return s.CloseWAL(ctx, stale, 0) },
			"create":         func() error { _, err := s.CreateStreams(ctx, stale, 1); return err },
			"open":           func() error { _, err := s.OpenStream(ctx, stale, id, 2); return err },
			"trim":           func() error { return s.TrimStream(ctx, stale, id, 1, 0) },
			"close":          func() error { return s.CloseStream(ctx, stale, id, 1) },
			"delete":         func() error { return s.DeleteStream(ctx, stale, 99, 1) },
			"prepare":        func() error { _, err := s.PrepareObjects(ctx, stale, 1, time.Hour); return err },
			"commit":         func() error { return s.Commit(ctx, stale, catalog.Commit{Object: catalog.NoObject}) },
			"compact stream": func() error { return s.CompactStream(ctx, stale, catalog.StreamCompaction{}) },
		} {
			require.ErrorIs(s, call(), catalog.ErrNodeEpochMismatch, name)
		}
	}
}

func testWAL(s *suite) {
	n := s.node(1)
	ctx := s.Context()
	require.NoError(s, s.OpenWAL(ctx, n, 2*catalog.Window))
	require.NoError(s, s.OpenWAL(ctx, n, 2*catalog.Window), "again")
	state, _ := s.View().Node(1)
	require.Equal(s, []int64{n.Epoch, 2 * catalog.Window}, []int64{state.WALEpoch, state.WALStart})
	s.refused(catalog.ErrInvalidArgument, func() error { return s.OpenWAL(ctx, n, catalog.Window) })
	s.refused(catalog.ErrInvalidArgument, func() error { return s.OpenWAL(ctx, n, 3*catalog.Window+1) })

	id := s.streams(n, 1)[0]
	s.refused(catalog.ErrStreamNotClosed, func() error { return s.CloseWAL(ctx, n, 3*catalog.Window) })
	require.NoError(s, s.CloseStream(ctx, n, id, 1))
	require.NoError(s, s.CloseWAL(ctx, n, 3*catalog.Window))
	state, _ = s.View().Node(1)
	require.Equal(s, []int64{-1, 3 * catalog.Window}, []int64{state.WALEpoch, state.WALStart})
}

func testViews(s *suite) {
	n := s.node(1)
	before := s.View()
	waited := make(chan error, 1)
	go func() {
		_, err := s.Wait(s.Context(), before.Index()+1)
		waited <- err
	}()
	id := s.streams(n, 1)[0]
	require.NoError(s, <-waited)
	_, known := before.Stream(id)
	require.False(s, known)
	require.Greater(s, s.View().Index(), before.Index())
	v, err := s.Wait(s.Context(), s.View().Index())
	require.NoError(s, err)
	_, known = v.Stream(id)
	require.True(s, known)
	ended, cancel := context.WithCancel(s.Context())
	cancel()
	_, err = s.Wait(ended, s.View().Index()+1000)
	require.ErrorIs(s, err, context.Canceled)
	require.Error(s, s.TrimStream(ended, n, id, 1, 0))
}
