package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCachesOfStreamsThatDoNotFitAreRefusedBeforeAServerStarts(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	for _, name := range []string{"config", "serve"} {
		got := tidemark(t, "", name, "--memory-limit", "1GiB", "--cache.wal_size", "1GiB", "--wal.inflight", "65")
		require.Equal(t, ExitUsage, got.Code)
		require.Contains(t, got.Err, "the configuration is wrong:\n  wal.inflight is 65: expected 1 to 64\n  streams may hold ")
		require.Contains(t, got.Err, " bytes with cache.wal_size 1073741824: expected at most 671088640, which is what the memory limit of 1073741824 leaves")
	}
}

func TestU18_ConfigTellsWhatWasChangedAndWhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.yaml")
	require.NoError(t, os.WriteFile(file, []byte("num.partitions: 6\nnode.id: 1\ntopic-default:\n  retention.ms: 1000\n"), 0o600))
	t.Setenv("TIDEMARK_LOG_LEVEL", "debug")
	args := []string{"config", "--changed", "--config", file, "--kafka-listen", "127.0.0.1:9092", "--kafka-listen", "127.0.0.1:9093"}
	require.Equal(t, "kafka-listen                127.0.0.1:9092,127.0.0.1:9093  flag --kafka-listen\n"+
		"log-level                   debug                          environment TIDEMARK_LOG_LEVEL\n"+
		"num.partitions              6                              file "+file+"\n"+
		"topic-default.retention.ms  1000                           file "+file+"\n", done(t, "", args...))

	args = append(args, "--cache.wal_size", "64MiB")
	require.Contains(t, done(t, "", args...), "cache.wal_size              64MiB                          flag --cache.wal_size\n")

	t.Setenv("TIDEMARK_LOG_LEVEL", "")
	require.Equal(t, "[]\n", done(t, "", "config", "--changed", "-o", "json"))
}
