package memfs_test

import (
	"bytes"
	"io/fs"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// A small append with its sync must touch the pages it writes, not the file.
func TestASmallAppendToALargeFileIsCheap(t *testing.T) {
	m := newMachine(t)
	f := m.open("f", vfs.Create)
	const size = 100 << 20
	block := bytes.Repeat([]byte("x"), 1<<20)
	for off := int64(0); off < size; off += int64(len(block)) {
		_, err := f.WriteAt(block, off)
		require.NoError(t, err)
	}
	require.NoError(t, f.Sync())
	const appends = 1_000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range int64(appends) {
		_, err := f.WriteAt([]byte("a small record"), size+14*i)
		require.NoError(t, err)
		require.NoError(t, f.Sync())
	}
	runtime.ReadMemStats(&after)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/appends, uint64(16<<10), "bytes allocated by one append and sync")

	copied := m.Crash(memfs.CrashOptions{KeepUnsynced: 0.5})
	info, err := copied.Stat("f")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Nil(t, info)
}

func BenchmarkAppendAndSync(b *testing.B) {
	m := newMachine(b)
	f := m.open("f", vfs.Create)
	record := bytes.Repeat([]byte("r"), 200)
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i++ {
		if _, err := f.WriteAt(record, 200*i); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	m := newMachine(b)
	f := m.open("f", vfs.Create)
	record := bytes.Repeat([]byte("r"), 200)
	b.ReportAllocs()
	b.SetBytes(200)
	for i := int64(0); b.Loop(); i++ {
		if _, err := f.WriteAt(record, 200*i%(100<<20)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCrash100MiB(b *testing.B) {
	m := newMachine(b)
	f := m.open("f", vfs.Create)
	block := bytes.Repeat([]byte("x"), 1<<20)
	for off := int64(0); off < 100<<20; off += 1 << 20 {
		if _, err := f.WriteAt(block, off); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	m.syncDir("/")
	for b.Loop() {
		m.Crash(memfs.CrashOptions{KeepUnsynced: 0.5})
	}
}
