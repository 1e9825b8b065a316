package memfs_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

func TestTheSameSeedLeavesTheSameBytes(t *testing.T) {
	history := func() machine {
		m := newMachine(t).durable(map[string]string{"d/f": "x"})
		for i := range 20 {
			m.write(fmt.Sprintf("d/%d", i), strings.Repeat("y", 300*i), 0)
		}
		m.rename("d/3", "d/f")
		m.remove("d/4")
		return m
	}
	one, two := history(), history()
	for seed := range uint64(20) {
		o := memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.6, Torn: true}
		require.Equal(t, tree(t, one.Crash(o)), tree(t, two.Crash(o)))
	}
}

func TestACrashCopyAndItsOriginalAreIndependent(t *testing.T) {
	m := newMachine(t).durable(map[string]string{"d/f": strings.Repeat("o", 5_000)})
	m.write("d/f", "unsynced", 5_000)
	live := m.open("d/f", vfs.ReadWrite)
	before := tree(t, m)
	copies := []machine{
		{m.CrashClean(), t},
		{m.Crash(memfs.CrashOptions{KeepUnsynced: 1}), t},
		{m.Crash(memfs.CrashOptions{KeepUnsynced: 0.5, Seed: 3}), t},
	}
	for i, c := range copies {
		kept := tree(t, c)
		c.write("d/f", strings.Repeat("c", 6_000), 0)
		c.write("d/new", "c", 0)
		c.sync("d/f")
		require.Equal(t, before, tree(t, m), "copy %d", i)
		c.truncate("d/f", 0)
		_, err := live.WriteAt(bytes.Repeat([]byte("L"), 6_000), 0)
		require.NoError(t, err)
		require.NoError(t, live.Sync())
		require.Equal(t, "", content("d/f")(c))
		before = tree(t, m)
		require.NotEqual(t, kept, before)
	}
}

func TestWhatATruncationCutNeverComesBackAsAHole(t *testing.T) {
	m := newMachine(t).durable(map[string]string{"d/f": strings.Repeat("x", 20_000)})
	m.truncate("d/f", 5_000)
	m.sync("d/f")
	m.truncate("d/f", 20_000)
	m.sync("d/f")
	require.True(t, content("d/f")(m.CrashClean()) == strings.Repeat("x", 5_000)+strings.Repeat("\x00", 15_000))
}

func TestASecondCrashTakesWhatWasWrittenSinceTheFirst(t *testing.T) {
	m := newMachine(t).durable(map[string]string{"d/f": "durable"})
	m.write("d/f", "DUR", 0)
	after := machine{m.Crash(memfs.CrashOptions{KeepUnsynced: 1}), t}
	after.write("d/f", "xxxxxxx", 0)
	require.Equal(t, "DURable", content("d/f")(after.CrashClean()))
	require.Equal(t, "DURable", content("d/f")(m))
}

func TestLocksDoNotSurviveACrash(t *testing.T) {
	m := newMachine(t).durable(map[string]string{"d/.lock": ""})
	held, err := m.Lock("d/.lock")
	require.NoError(t, err)
	after := m.CrashClean()
	_, err = after.Lock("d/.lock")
	require.NoError(t, err)
	_, err = m.Lock("d/.lock")
	require.ErrorIs(t, err, vfs.ErrLocked)
	require.NoError(t, held.Close())
}

func TestAKilledFileSystemDoesNothingMore(t *testing.T) {
	m := newMachine(t).durable(map[string]string{"d/f": "x"})
	f := m.open("d/f", vfs.ReadWrite)
	held, err := m.Lock("d/.lock")
	require.NoError(t, err)
	m.Kill()
	_, openErr := m.Open("d/f", vfs.ReadOnly)
	_, listErr := m.List("d")
	_, statErr := m.Stat("d/f")
	_, lockErr := m.Lock("d/other")
	_, readErr := f.ReadAt(make([]byte, 1), 0)
	_, writeErr := f.WriteAt([]byte("y"), 0)
	_, vectorErr := f.(vfs.VectorWriter).WriteVectorAt([][]byte{{1}}, 0)
	_, fileStatErr := f.Stat()
	for _, err := range []error{
		openErr, listErr, statErr, lockErr, readErr, writeErr, vectorErr, fileStatErr,
		m.Remove("d/f"), m.Rename("d/f", "d/g"), m.Link("d/f", "d/g"), m.MkdirAll("e"), m.SyncDir("d"),
		m.Chtimes("d/f", time.Now()), f.Truncate(0), f.Sync(),
	} {
		require.ErrorIs(t, err, memfs.ErrKilled)
	}
	require.NoError(t, f.Close())
	require.NoError(t, held.Close())
	require.Equal(t, "x", content("d/f")(m.CrashClean()))
}

// What was acknowledged before a crash began is in its copy, whatever runs at the same time.
func TestACrashSeesOneMomentOfAllFiles(t *testing.T) {
	const writers = 4
	m := newMachine(t)
	require.NoError(t, vfs.EnsureDir(m, "d"))
	var acked [writers]atomic.Int64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			f, err := m.Open(fmt.Sprintf("d/%d", w), vfs.Create)
			if err != nil || m.SyncDir("d") != nil {
				return
			}
			for i := int64(0); ; i++ {
				if _, err := f.WriteAt([]byte{byte(i)}, i); err != nil {
					return
				}
				if f.Sync() != nil {
					return
				}
				acked[w].Store(i + 1)
			}
		})
	}
	for seed := range uint64(50) {
		var before [writers]int64
		for w := range writers {
			before[w] = acked[w].Load()
		}
		after := m.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.5, Torn: true})
		for w := range writers {
			if before[w] == 0 {
				continue
			}
			data, err := vfs.ReadFile(after, fmt.Sprintf("d/%d", w))
			require.NoError(t, err)
			require.GreaterOrEqual(t, int64(len(data)), before[w])
			for i := range before[w] {
				require.Equal(t, byte(i), data[i])
			}
		}
	}
	m.Kill()
	wg.Wait()
}

func TestModificationTimesComeFromTheClockAndFromSyncs(t *testing.T) {
	now := time.UnixMilli(1_000)
	m := machine{memfs.New(memfs.WithClock(func() time.Time { return now })), t}.durable(map[string]string{"d/f": "x"})
	mtime := func(fsys vfs.FS) int64 {
		info, err := fsys.Stat("d/f")
		require.NoError(t, err)
		return info.ModTime().UnixMilli()
	}
	require.Equal(t, int64(1_000), mtime(m))
	now = time.UnixMilli(2_000)
	m.write("d/f", "y", 0)
	require.Equal(t, int64(2_000), mtime(m))
	require.Equal(t, int64(1_000), mtime(m.CrashClean()))
	require.NoError(t, m.Chtimes("d/f", time.UnixMilli(5)))
	m.sync("d/f")
	require.Equal(t, int64(5), mtime(m.CrashClean()))
}

func TestAFileCannotOutgrowTheMemory(t *testing.T) {
	m := newMachine(t)
	f := m.open("f", vfs.Create)
	_, err := f.WriteAt([]byte("x"), 1<<50)
	require.ErrorContains(t, err, "too large")
	require.Error(t, f.Truncate(1<<50))
	require.NoError(t, f.Truncate(1<<33), "a hole costs nothing")
	info, err := f.Stat()
	require.NoError(t, err)
	require.Equal(t, int64(1<<33), info.Size())
}
