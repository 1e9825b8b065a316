package kafkalog

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// tailOf is the tail without what a test cannot compare.
func tailOf(t *testing.T, l *Log) (Tail, []byte) {
	t.Helper()
	tail, ok := l.UnsyncedTail()
	require.True(t, ok)
	held, err := tail.AppendTo(nil)
	require.NoError(t, err)
	tail.segment = nil
	return tail, held
}

func TestTheUnsyncedTailIsWhatNoSyncCovered(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{})
	mustAppend(t, l, data{})
	_, ok := l.UnsyncedTail()
	require.False(t, ok, "the name of the file is not durable yet")

	_, err := l.SyncTo()
	require.NoError(t, err)
	synced := l.Size()
	tail, held := tailOf(t, l)
	require.Equal(t, Tail{Position: synced, End: 1}, tail)
	require.Empty(t, held)

	mustAppend(t, l, data{})
	mustAppend(t, l, data{})
	tail, held = tailOf(t, l)
	require.Equal(t, Tail{Position: synced, Size: l.Size() - synced, End: 3}, tail)
	whole, err := vfs.ReadFile(b.fs, fmt.Sprintf("%s/%020d.log", testDir, 0))
	require.NoError(t, err)
	require.Equal(t, whole[synced:], held)

	half := tail.From(synced + tail.Size/2)
	require.Equal(t, Tail{Position: synced + tail.Size/2, Size: tail.Size / 2, End: 3}, half)
	require.Equal(t, tail, tail.From(0), "what lies below is synced")
}

func TestThereIsNoUnsyncedTailWhileMoreThanOneFileIsToBeSynced(t *testing.T) {
	disk := faultfs.New(memfs.New(), nil)
	b := newBenchOn(t, disk)
	l := b.open(Options{})
	mustAppend(t, l, data{})
	require.NoError(t, l.Sync())
	looked := make(chan struct{}) // until it is closed the sealed file is not synced in the background
	look := sync.OnceFunc(func() { close(looked) })
	defer look()
	disk.SetInjector(faultfs.When(faultfs.Matching(faultfs.OpSync, "*.log"), faultfs.Always(faultfs.Fault{
		Hook: func() { <-looked },
	})))
	mustAppend(t, l, data{})
	rolled, err := l.Roll()
	require.NoError(t, err)
	require.True(t, rolled)
	mustAppend(t, l, data{})
	_, ok := l.UnsyncedTail()
	look()
	require.False(t, ok, "the new file's name is not durable, nor perhaps the old file")

	_, err = l.SyncTo()
	require.NoError(t, err)
	tail, _ := tailOf(t, l)
	require.Equal(t, Tail{Base: 2, Position: l.Size() / 3, End: 3}, tail)

	l.Fence()
	_, ok = l.UnsyncedTail()
	require.False(t, ok)
}

func TestWhatWasThereWhenALogWasOpenedIsSynced(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{})
	mustAppend(t, l, data{})
	l = b.reopen(l, Options{Clean: true})
	mustAppend(t, l, data{})
	tail, _ := tailOf(t, l)
	require.Equal(t, Tail{Position: l.Size() / 2, Size: l.Size() / 2, End: 2}, tail)
}

func TestTheTailIsWrittenBackOnlyWhereTheFileSystemCan(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{})
	mustAppend(t, l, data{})
	require.NoError(t, l.Sync())
	mustAppend(t, l, data{})
	tail, ok := l.UnsyncedTail()
	require.True(t, ok)
	require.NoError(t, tail.WriteBack(), "a file in memory is no WriteBacker")
	require.Equal(t, tail.Position, l.Size()-tail.Size, "and the tail is no more synced than before")
}
