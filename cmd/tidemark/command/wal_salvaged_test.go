package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/stream"
)

func TestWhatWasKeptOfDamagedLogsIsToldAndDroppedOnDemand(t *testing.T) {
	dir, cluster := stoppedServer(t)
	bucket := t.TempDir()
	keep := func(node int, window int64) string {
		key := stream.WALPrefix{Cluster: cluster, Node: 5}.Key(stream.WALKey{Epoch: 1, Start: window})
		if node == 6 {
			key = stream.WALPrefix{Cluster: cluster, Node: 6}.Key(stream.WALKey{Epoch: 1, Start: window})
		}
		path := filepath.Join(bucket, filepath.FromSlash(stream.SalvagedPrefix+key))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, make([]byte, 1000), 0o600))
		return path
	}
	fives, six := []string{keep(5, 0), keep(5, stream.Window)}, keep(6, 0)
	prefix := stream.SalvagedPrefix + stream.WALPrefix{Cluster: cluster, Node: 5}.String()

	checked := done(t, "", "check", "--store", "file://"+bucket, "--data-dir", dir)
	require.Contains(t, checked, `waste: kept of a damaged log, node 5, key "`+prefix+`": objects: 2, bytes: 2000, kept since `)
	require.Contains(t, checked, "  ok  cluster tm-1  0 streams  headers and indexes read  damage 0  waste 2\n")

	told := done(t, "", "wal", "drop-salvaged", bucket)
	require.Contains(t, told, prefix)
	require.Contains(t, told, "  would drop 3 objects, 2.9 KiB\n")
	for _, path := range append(fives, six) {
		require.FileExists(t, path)
	}
	require.Contains(t, done(t, "", "wal", "drop-salvaged", bucket, "--node", "5", "--execute"), "  dropped 2 objects, 2.0 KiB\n")
	for _, path := range fives {
		require.NoFileExists(t, path)
	}
	require.FileExists(t, six)
	require.Contains(t, done(t, "", "wal", "drop-salvaged", bucket, "-o", "json"),
		"\"objects\": 1,\n  \"bytes\": 1000,\n  \"executed\": false")
	require.Contains(t, done(t, "", "wal", "drop-salvaged", bucket, "--execute"), "dropped 1 object,")
	require.Contains(t, done(t, "", "wal", "drop-salvaged", bucket, "--execute"), "dropped 0 objects,")
	require.Equal(t, ExitFailed, tidemark(t, "", "wal", "drop-salvaged", filepath.Join(bucket, "gone"), "--execute").Code)
	require.NoDirExists(t, filepath.Join(bucket, "gone"))
}
