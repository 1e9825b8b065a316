package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/partition/journal"
	"github.com/tidemark-io/tidemark/vfs"
)

// journalLast moves the last record of t-0 into the journal, as a power cut leaves it, and returns the journal's path.
func journalLast(t *testing.T, dataDir string) string {
	t.Helper()
	segment := filepath.Join(dataDir, "t-0", "00000000000000000000.log")
	data, err := os.ReadFile(segment)
	require.NoError(t, err)
	position := 0
	for rest := data; len(rest) > 0; {
		one, after, err := batch.Next(rest)
		require.NoError(t, err)
		if rest = after; len(rest) > 0 {
			position += len(one)
		}
	}
	m, err := logdir.ReadMetadata(vfs.OS(), filepath.Join(dataDir, "t-0"))
	require.NoError(t, err)
	w := journal.NewWriter(journal.Options{FS: vfs.OS(), Dir: dataDir, Bytes: 64 << 10})
	for range 2 {
		_, err = w.Begin(1000)
		require.NoError(t, err)
		require.NoError(t, w.Add(journal.Entry{Key: journal.Key{Topic: m.TopicID}, Position: int64(position)}, len(data)-position,
			func(b []byte) ([]byte, error) { return append(b, data[position:]...), nil }))
		require.NoError(t, w.Commit())
	}
	require.NoError(t, w.Close())
	require.NoError(t, os.Truncate(segment, int64(position)))
	return filepath.Join(dataDir, node.JournalFile)
}

func TestU08_ACheckTellsWhatTheJournalHoldsAndThatItIsDamaged(t *testing.T) {
	dataDir := storedLines(t, "zero", "one", "two")
	file := journalLast(t, dataDir)
	require.Contains(t, tidemark(t, "", "log", "check", filepath.Join(dataDir, "t-0")).Out, "the last stop was clean")
	require.NoError(t, os.Remove(filepath.Join(dataDir, ".kafka_cleanshutdown")))
	before := onTree(t, dataDir)
	for _, path := range []string{dataDir, filepath.Join(dataDir, "t-0")} {
		out := done(t, "", "log", "check", path)
		require.Regexp(t, file+`  ok  \d+ B of records\n  holds of t-0: \d+ B, offsets 2 to 2\n`, out)
		require.Regexp(t, `  note: the logs lack \d+ B of it, in 1 segment; a start restores that`, out)
		require.Contains(t, out, "t-0  ok  offsets 0 to 3", "with the journal replayed")
	}
	var checked checkOutput
	require.NoError(t, json.Unmarshal([]byte(done(t, "", "log", "check", dataDir, "-o", "json")), &checked))
	require.Equal(t, file, checked.Checked[0].Dir)
	require.Equal(t, int64(3), checked.Checked[0].Journal[0].Next)
	require.Equal(t, "t-0", checked.Checked[0].Journal[0].Dir)
	checked.Summary.Bytes = 0
	require.Equal(t, checkSummary{Partitions: 1, Segments: 1, Batches: 3, Records: 3, Notes: 1}, checked.Summary)
	found, _ := diagnosed(t, "--data-dir", dataDir)
	require.Contains(t, found["journal"][0].Detail, "the next start restores")
	require.Equal(t, statusOK, found["journal"][0].Status)
	require.Equal(t, before, onTree(t, dataDir))

	require.NoError(t, os.WriteFile(file+".left-1", nil, 0o600))
	flipAt(t, file, 512+30) // in the first round
	got := tidemark(t, "", "log", "check", dataDir)
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Out, file+"  NOT OK  ")
	require.Contains(t, got.Out, "  problem: "+file+": damaged at byte 512")
	require.Contains(t, got.Err, "tidemark.journal.left-1: kept because part of it could not be restored")
	require.NotContains(t, got.Err, ".left-2")
	require.Contains(t, got.Out, "the log ends at offset 2, but the checkpoints say that records below 3 were on disk", "the journal had it")
	found, got = diagnosed(t, "--data-dir", dataDir)
	require.Equal(t, ExitFailed, got.Code)
	require.Equal(t, statusFail, found["journal"][0].Status)
	require.Equal(t, statusWarn, found["journal"][1].Status)

	require.NoError(t, os.Rename(file, file+".waiting-1"))
	flipAt(t, file+".waiting-1", 512+30)
	got = tidemark(t, "", "log", "check", dataDir)
	require.Contains(t, got.Out, file+".waiting-1  NOT OK  ")
	require.Contains(t, got.Out, "  problem: a full or failing disk kept it from being replayed")
}

func TestACheckOfADirectoryInUseSaysSo(t *testing.T) {
	dataDir := storedLines(t, "zero")
	lock, err := vfs.OS().Lock(filepath.Join(dataDir, ".lock"))
	require.NoError(t, err)
	got := tidemark(t, "", "log", "check", dataDir)
	require.Equal(t, ExitOK, got.Code)
	require.Contains(t, got.Out, "t-0  ok  offsets 0 to 1")
	require.Contains(t, got.Err, dataDir+": a server is using it")
	found, _ := diagnosed(t, "--data-dir", dataDir)
	require.Equal(t, []finding{okay("journal", "in use by a server")}, found["journal"])
	for _, command := range []string{"recover", "restore"} {
		args := []string{command, "--data-dir", dataDir}
		if command == "restore" {
			args = append(args, backupOf(t, storedLines(t, "x")))
		}
		require.Contains(t, tidemark(t, "", args...).Err, "stop the server that uses "+dataDir+" first")
	}
	require.NoError(t, lock.Close())
}

// TestACheckSaysWhatAStartDoesAboutDamageBelowTheCheckpoints has damage in front of records that a checkpoint vouches for: no start
// cuts these off.
func TestACheckSaysWhatAStartDoesAboutDamageBelowTheCheckpoints(t *testing.T) {
	dataDir := storedLines(t, "zero", "one", "two")
	segment := filepath.Join(dataDir, "t-0", "00000000000000000000.log")
	data, err := os.ReadFile(segment)
	require.NoError(t, err)
	first, _, err := batch.Next(data)
	require.NoError(t, err)
	flipAt(t, segment, len(first)+70)
	got := tidemark(t, "", "log", "check", dataDir)
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Out, "t-0  NOT OK  offsets 0 to 3")
	require.Contains(t, got.Out, "the batch at offset 1 is damaged")
	require.NotContains(t, got.Out, "cut ")
	require.Contains(t, got.Err, "repair before the server starts: 'tidemark log repair "+dataDir+"' shows how")

	require.NoError(t, os.Truncate(segment, int64(len(first))))
	got = tidemark(t, "", "log", "check", dataDir)
	require.Contains(t, got.Out, "the log ends at offset 1, but the checkpoints say that records below 3 were on disk")
	for _, name := range []string{"recovery-point-offset-checkpoint", "replication-offset-checkpoint"} {
		require.NoError(t, os.Remove(filepath.Join(dataDir, name)))
	}
	flipAt(t, segment, 70)
	require.NoError(t, os.WriteFile(segment, append(onDisk(t, segment), data[len(first):]...), 0o600))
	got = tidemark(t, "", "log", "check", dataDir)
	require.Contains(t, got.Out, "; intact batches that would be cut too: 2; run 'tidemark log repair' before the server starts")
}

func onDisk(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return data
}

func TestACheckTellsOfAnIdentityThatNoStartTakes(t *testing.T) {
	dataDir := storedLines(t, "zero")
	require.NoError(t, os.WriteFile(filepath.Join(dataDir, "meta.properties"), []byte("version=2\n"), 0o600))
	got := tidemark(t, "", "log", "check", dataDir)
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Out, "  problem: "+filepath.Join(dataDir, "meta.properties")+": format version 2 is not known here")
	require.NotContains(t, got.Err, "log repair")
	require.Contains(t, tidemark(t, "", "log", "repair", dataDir).Err, "does not start with it")
}

// backupOf takes a backup of a data directory.
func backupOf(t *testing.T, dataDir string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "backup")
	done(t, "", "backup", file, "--data-dir", dataDir)
	return file
}
