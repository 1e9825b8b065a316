package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestU18_ConfigTellsWhatWasChangedAndWhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.yaml")
	require.NoError(t, os.WriteFile(file, []byte("num.partitions: 6\nnode.id: 1\ntopic-default:\n  retention.ms: 1000\n"), 0o600))
	t.Setenv("TIDEMARK_LOG_LEVEL", "debug")
	args := []string{"config", "--changed", "--config", file, "--kafka-listen", "127.0.0.1:9092", "--kafka-listen", "127.0.0.1:9093"}
	require.Equal(t, "kafka-listen                127.0.0.1:9092,127.0.0.1:9093  flag --kafka-listen\n"+
		"log-level                   debug                          environment TIDEMARK_LOG_LEVEL\n"+
		"num.partitions              6                              file "+file+"\n"+
		"topic-default.retention.ms  1000                           file "+file+"\n", done(t, "", args...))

	t.Setenv("TIDEMARK_LOG_LEVEL", "")
	require.Equal(t, "[]\n", done(t, "", "config", "--changed", "-o", "json"))
}
