package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARunningServerIsBackedUp(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "tidemark.meta")
	server := startServerIn(t, dir)
	done(t, "", "topic", "create", "orders", "--server", server)
	require.Contains(t, done(t, "", "backup", file, "--data-dir", dir), "1 topic, 0 streams, ")
	done(t, "", "topic", "create", "payments", "--server", server)
	var taken takenBackup
	require.NoError(t, json.Unmarshal([]byte(done(t, "", "backup", file, "--data-dir", dir, "-o", "json")), &taken))
	require.True(t, taken.Online)
	require.Equal(t, metadataFile(dir), taken.Log)

	fresh := t.TempDir()
	done(t, "", "restore", file, "--data-dir", fresh, "--execute")
	require.Contains(t, done(t, "", "meta", "dump", "topics", "--data-dir", fresh), "payments")

	require.NoError(t, os.Remove(filepath.Join(dir, "tidemark.sock")))
	got := tidemark(t, "", "backup", file, "--data-dir", dir)
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Err, "stop the server that uses it")
	require.Contains(t, got.Err, "no server answers at "+filepath.Join(dir, "tidemark.sock"))
}
