package overlay_test

import (
	"bytes"
	"io/fs"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
	"github.com/tidemark-io/tidemark/vfs/overlay"
	"github.com/tidemark-io/tidemark/vfs/vfstest"
)

func TestItIsAFileSystem(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) {
		base := memfs.New()
		require.NoError(t, base.MkdirAll("/test"))
		return overlay.New(base), "/test"
	})
}

// TestToWriteWhatIsThereTakesNoMemory has bytes written over themselves, as the recovery of a log does it with all that may not
// have been flushed.
func TestToWriteWhatIsThereTakesNoMemory(t *testing.T) {
	base := memfs.New()
	require.NoError(t, base.MkdirAll("d"))
	data := bytes.Repeat([]byte("0123456789"), 1<<20)
	require.NoError(t, vfs.WriteFileAtomic(base, "d/log", data))
	f, err := overlay.New(base).Open("d/log", vfs.ReadWrite)
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = f.WriteAt(data[5000:], 5000)
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))

	data[7_000_000] = 'x'
	_, err = f.WriteAt(data[6_000_000:8_000_000], 6_000_000)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("\x00\x00y"), int64(len(data)))
	require.NoError(t, err)
	read := make([]byte, len(data)+3)
	_, err = f.ReadAt(read, 0)
	require.NoError(t, err)
	require.True(t, bytes.Equal(append(data, 0, 0, 'y'), read))
	require.NoError(t, f.Close())
}

func TestTheFilesBelowStayAsTheyAre(t *testing.T) {
	base := memfs.New()
	require.NoError(t, base.MkdirAll("d/sub"))
	require.NoError(t, vfs.WriteFileAtomic(base, "d/log", []byte("0123456789")))
	require.NoError(t, vfs.WriteFileAtomic(base, "d/sub/x", []byte("x")))

	over := overlay.New(base)
	f, err := over.Open("d/log", vfs.ReadWrite)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(6))
	_, err = f.WriteAt([]byte("abc"), 5)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, over.Rename("d/log", "d/renamed"))
	require.NoError(t, over.Rename("d/sub", "d/other"))
	require.NoError(t, vfs.WriteFileAtomic(over, "d/new", []byte("new")))

	require.Equal(t, []string{"new", "other", "renamed"}, list(t, over, "d"))
	require.Equal(t, []string{"x"}, list(t, over, "d/other"))
	require.Equal(t, "01234abc", read(t, over, "d/renamed"))
	_, err = over.Stat("d/sub/x")
	require.ErrorIs(t, err, fs.ErrNotExist)

	require.Equal(t, []string{"log", "sub"}, list(t, base, "d"))
	require.Equal(t, "0123456789", read(t, base, "d/log"))
	require.Equal(t, "x", read(t, base, "d/sub/x"))
}

func TestACutFileThatGrowsAgainHoldsZerosNotItsOldBytes(t *testing.T) {
	base := memfs.New()
	require.NoError(t, vfs.WriteFileAtomic(base, "log", []byte("0123456789")))
	over := overlay.New(base)
	f, err := over.Open("log", vfs.ReadWrite)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(2))
	require.NoError(t, f.Truncate(5))
	require.Equal(t, "01\x00\x00\x00", read(t, over, "log"))
}

func list(t *testing.T, fsys vfs.FS, dir string) []string {
	t.Helper()
	entries, err := fsys.List(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func read(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	data, err := vfs.ReadFile(fsys, name)
	require.NoError(t, err)
	return string(data)
}
