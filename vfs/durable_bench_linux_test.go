package vfs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/vfs"
)

// BenchmarkMakingAppendsDurable appends 1.1 KiB to each of n files and makes all of that durable in one way or another: the
// costs that the flusher of package partition is built around. Set TMPDIR to the disk in question.
func BenchmarkMakingAppendsDurable(b *testing.B) {
	record := make([]byte, 1100)
	for _, n := range []int{1, 12, 100, 1000} {
		for _, way := range []string{"one by one", "16 at a time", "64 at a time", "after write-back", "syncfs", "one file"} {
			b.Run(fmt.Sprintf("files=%d/%s", n, way), func(b *testing.B) {
				dir := b.TempDir()
				files := openFiles(b, dir, n)
				root, err := os.Open(dir)
				require.NoError(b, err)
				defer root.Close()
				end := int64(0)
				for b.Loop() {
					b.StopTimer()
					if way == "one file" {
						_, err := files[0].WriteAt(make([]byte, n*len(record)), end*int64(n))
						require.NoError(b, err)
					} else {
						for _, f := range files {
							_, err := f.WriteAt(record, end)
							require.NoError(b, err)
						}
					}
					end += int64(len(record))
					b.StartTimer()
					switch way {
					case "one by one":
						syncAll(b, files, 1)
					case "16 at a time":
						syncAll(b, files, 16)
					case "64 at a time":
						syncAll(b, files, 64)
					case "after write-back":
						for _, f := range files {
							require.NoError(b, f.(vfs.WriteBacker).WriteBack(end-int64(len(record)), int64(len(record))))
						}
						syncAll(b, files, 16)
					case "syncfs":
						require.NoError(b, unix.Syncfs(int(root.Fd())))
					case "one file":
						require.NoError(b, files[0].Sync())
					}
				}
			})
		}
	}
}

func openFiles(b *testing.B, dir string, n int) []vfs.File {
	files := make([]vfs.File, n)
	for i := range files {
		f, err := vfs.OS().Open(filepath.Join(dir, fmt.Sprint(i)), vfs.CreateNew)
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, f.Close()) })
		files[i] = f
	}
	syncAll(b, files, 16)
	return files
}

func syncAll(b *testing.B, files []vfs.File, workers int) {
	errs := make([]error, len(files))
	require.NoError(b, parallel.Each(context.Background(), len(files), workers, func(i int) { errs[i] = files[i].Sync() }))
	for _, err := range errs {
		require.NoError(b, err)
	}
}
