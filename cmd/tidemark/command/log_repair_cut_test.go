package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestU08_ARepairBetweenAPowerCutAndTheNextStartDoesAsTheStart damages a batch above what the checkpoints prove.
func TestU08_ARepairBetweenAPowerCutAndTheNextStartDoesAsTheStart(t *testing.T) {
	for name, row := range map[string]struct {
		clean   bool
		damaged bool // a checkpoint is
		proven  string
		lost    string
		left    string
	}{
		"after a power cut":              {proven: "1", lost: "offsets 1 to 3 are lost", left: "zero\n"},
		"what is proved":                 {proven: "4", lost: "offsets 1 to 1 are lost", left: "zero\ntwo\nthree\n"},
		"after a clean stop":             {clean: true, proven: "1", lost: "offsets 1 to 1 are lost", left: "zero\ntwo\nthree\n"},
		"when a checkpoint says nothing": {damaged: true, proven: "1", lost: "offsets 1 to 1 are lost", left: "zero\ntwo\nthree\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dataDir := storedLines(t, "zero", "one", "two", "three")
			if !row.clean {
				require.NoError(t, os.Remove(filepath.Join(dataDir, ".kafka_cleanshutdown")))
			}
			for _, file := range []string{"recovery-point-offset-checkpoint", "replication-offset-checkpoint"} {
				require.NoError(t, os.WriteFile(filepath.Join(dataDir, file), []byte("0\n1\nt 0 "+row.proven+"\n"), 0o600))
			}
			if row.damaged {
				require.NoError(t, os.WriteFile(filepath.Join(dataDir, "recovery-point-offset-checkpoint"), []byte("0\ndamaged\n"), 0o600))
			}
			segment := filepath.Join(dataDir, "t-0", "00000000000000000000.log")
			whole, err := os.ReadFile(segment)
			require.NoError(t, err)
			flipAt(t, segment, strings.Index(string(whole), "one"))

			got := tidemark(t, "", "log", "repair", dataDir)
			require.Equal(t, ExitWouldChange, got.Code, got.Err)
			require.Contains(t, got.Out, row.lost)
			require.Contains(t, done(t, "", "log", "repair", dataDir, "--apply"), row.lost)
			require.Equal(t, row.left, done(t, "", "consume", "t", "--until-end", "--server", startServerIn(t, dataDir)))
		})
	}
}
