package meta_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/metatest"
)

// full is a backend that has no room while it is told so.
type full struct {
	meta.Backend
	entries, snapshots atomic.Bool
	refused            atomic.Int32 // snapshots
}

var errFull = fmt.Errorf("%w: %w", meta.ErrNoSpace, syscall.ENOSPC)

func (f *full) Append(ctx context.Context, index uint64, entry []byte) error {
	if f.entries.Load() {
		return errFull
	}
	return f.Backend.Append(ctx, index, entry)
}

func (f *full) PutSnapshot(ctx context.Context, index uint64, data []byte) error {
	if f.snapshots.Load() {
		f.refused.Add(1)
		return errFull
	}
	return f.Backend.PutSnapshot(ctx, index, data)
}

func openFull(t *testing.T, o meta.Options) (*full, *meta.Log) {
	t.Helper()
	b, err := metatest.NewMemory("c").Open()
	require.NoError(t, err)
	f := &full{Backend: b}
	return f, open(t, f, o)
}

func TestACommandWithoutRoomIsRefusedAndTheNextOneIsNot(t *testing.T) {
	f, l := openFull(t, meta.Options{})
	_, err := l.Do(background, put("a", "1"))
	require.NoError(t, err)
	f.entries.Store(true)
	for range 3 {
		_, err = l.Do(background, put("b", "2"))
		require.ErrorIs(t, err, meta.ErrNoSpace)
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.NotErrorIs(t, err, meta.ErrOutcomeUnknown)
	}
	f.entries.Store(false)
	_, err = l.Do(background, put("c", "3"))
	require.NoError(t, err)
	require.NoError(t, l.Err())
	require.Equal(t, uint64(2), l.View().Index())
	_, there := l.View().Get("b")
	require.False(t, there)
}

func TestASnapshotWithoutRoomIsTakenLater(t *testing.T) {
	f, l := openFull(t, meta.Options{SnapshotEvery: 8})
	f.snapshots.Store(true)
	for f.refused.Load() < 2 {
		_, err := l.Do(background, put("a", "1"))
		require.NoError(t, err)
	}
	f.snapshots.Store(false)
	for index := uint64(0); index == 0; {
		_, err := l.Do(background, put("a", "1"))
		require.NoError(t, err)
		index, _, err = f.Snapshot(background)
		require.NoError(t, err)
	}
	require.NoError(t, l.Err())
}
