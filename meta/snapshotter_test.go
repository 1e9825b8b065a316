package meta_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/metatest"
)

// slowSnapshots is a backend that stores no snapshot before it is let.
type slowSnapshots struct {
	meta.Backend
	began chan uint64
	let   chan error
}

func (s slowSnapshots) PutSnapshot(ctx context.Context, index uint64, data []byte) error {
	select {
	case s.began <- index:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-s.let:
		if err != nil {
			return err
		}
		return s.Backend.PutSnapshot(ctx, index, data)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// large fills a log with 10 MiB, which is the state's size then.
func large(t *testing.T, l *meta.Log) {
	t.Helper()
	value := string(make([]byte, meta.MaxValueBytes))
	for i := range 20 {
		_, err := l.Do(background, put(fmt.Sprint("large-", i), value))
		require.NoError(t, err)
	}
}

func TestWhileALargeSnapshotIsStoredEntriesGoOn(t *testing.T) {
	storage := metatest.NewMemory("c")
	filler := open(t, storage.Join(), meta.Options{SnapshotEvery: 1 << 60})
	large(t, filler)
	require.NoError(t, filler.Close())

	b := slowSnapshots{storage.Join(), make(chan uint64), make(chan error)}
	snapped := make(chan meta.SnapshotEvent, 10)
	events := meta.Events{Snapshotted: func(e meta.SnapshotEvent) { snapped <- e }}
	l := open(t, b, meta.Options{SnapshotEvery: 10, Events: events})
	step := func(n int) {
		for i := range n {
			_, err := l.Do(background, put("small", fmt.Sprint(i)))
			require.NoError(t, err)
		}
	}
	step(1)
	require.EqualValues(t, 21, <-b.began)
	at21 := l.View().EncodeSnapshot()
	step(30)
	require.EqualValues(t, 51, l.View().Index(), "nobody waited for the snapshot")
	b.let <- fmt.Errorf("%w: for a moment", meta.ErrNoSpace)
	var second uint64
	for second == 0 { // it is put off, and taken again after some entries
		step(1)
		select {
		case second = <-b.began:
		default:
		}
	}
	atSecond, err := l.WaitApplied(background, second)
	require.NoError(t, err)
	b.let <- nil
	require.Equal(t, second, (<-snapped).Index)
	require.GreaterOrEqual(t, atSecond.Index(), second)

	index, data, err := b.Snapshot(background)
	require.NoError(t, err)
	require.Equal(t, second, index)
	s, err := meta.DecodeSnapshot(data)
	require.NoError(t, err)
	require.Equal(t, second, s.Index(), "the state is that of its index, whatever was applied since")
	old, err := meta.DecodeSnapshot(at21)
	require.NoError(t, err)
	require.EqualValues(t, 21, old.Index())
	require.NoError(t, l.Close())
	again := open(t, storage.Join(), meta.Options{})
	require.Equal(t, l.View().EncodeSnapshot(), again.View().EncodeSnapshot())
}

func TestCloseEndsASnapshotThatIsBeingStored(t *testing.T) {
	storage := metatest.NewMemory("c")
	filler := open(t, storage.Join(), meta.Options{SnapshotEvery: 1 << 60})
	large(t, filler)
	require.NoError(t, filler.Close())
	b := slowSnapshots{storage.Join(), make(chan uint64), make(chan error)}
	l := open(t, b, meta.Options{SnapshotEvery: 10})
	_, err := l.Do(background, put("k", "v"))
	require.NoError(t, err)
	<-b.began
	require.NoError(t, l.Close())
	index, _, err := b.Snapshot(background)
	require.NoError(t, err)
	require.Zero(t, index)
}

func TestASnapshotThatCannotBeStoredAsideStopsTheLog(t *testing.T) {
	storage := metatest.NewMemory("c")
	filler := open(t, storage.Join(), meta.Options{SnapshotEvery: 1 << 60})
	large(t, filler)
	require.NoError(t, filler.Close())
	b := slowSnapshots{storage.Join(), make(chan uint64), make(chan error)}
	l := open(t, b, meta.Options{SnapshotEvery: 10})
	_, err := l.Do(background, put("k", "v"))
	require.NoError(t, err)
	<-b.began
	broken := fmt.Errorf("broken for good")
	b.let <- broken
	<-l.Done()
	require.ErrorIs(t, l.Err(), broken)
	require.ErrorIs(t, l.Close(), broken)
}
