package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/partition/journal"
	"github.com/tidemark-io/tidemark/vfs"
)

func TestU24_ARepairSaysThatTheJournalWasDamaged(t *testing.T) {
	dataDir := storedLines(t, "a", "b", "c")
	require.NoError(t, os.Remove(filepath.Join(dataDir, ".kafka_cleanshutdown")))
	w := journal.NewWriter(journal.Options{FS: vfs.OS(), Dir: dataDir, Bytes: 64 << 10})
	for range 2 {
		_, err := w.Begin(100)
		require.NoError(t, err)
		require.NoError(t, w.Add(journal.Entry{}, 5, func(b []byte) ([]byte, error) { return append(b, "bytes"...), nil }))
		require.NoError(t, w.Commit())
	}
	require.NoError(t, w.Close())
	file := filepath.Join(dataDir, node.JournalFile)
	flipAt(t, file, 512+30) // in the first round
	for _, args := range [][]string{{"log", "repair", dataDir}, {"log", "repair", dataDir, "--apply"}} {
		got := tidemark(t, "", args...)
		require.Equal(t, ExitUnrepairable, got.Code, got.Err)
		require.Contains(t, got.Err, file+": damaged at byte 512")
		require.Contains(t, got.Err, "it is kept as "+file+".left-1")
		require.Contains(t, got.Err, "part of the journal could not be restored")
	}
	require.FileExists(t, file+".left-1")
	done(t, "", "log", "repair", dataDir)
}
