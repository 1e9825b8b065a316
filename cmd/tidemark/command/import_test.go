package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// kafkaDir is a copy of a log directory that Apache Kafka wrote.
func kafkaDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "kafka")
	require.NoError(t, os.CopyFS(dir, os.DirFS("../../../node/importer/testdata/apache-kafka-4.4.0/kafka")))
	return dir
}

// rates hides how fast a machine is.
var rates = regexp.MustCompile(`\S+( B| KiB| MiB)?/s\n`)

func TestADryRunOfAnImportIsAList(t *testing.T) {
	from, to := kafkaDir(t), filepath.Join(t.TempDir(), "data")
	got := tidemark(t, "", "import", "kafka-dir", from, "--data-dir", to)
	require.Equal(t, ExitOK, got.Code, got.Err)
	golden(t, "import.txt", masked(got.Out))
	require.Equal(t, "survey     ██████████████████████████████ 18 / 18  N\n", rates.ReplaceAllString(got.Err, "N\n"))
	require.NoDirExists(t, to)
}

func TestAnImportIsServed(t *testing.T) {
	from, to := kafkaDir(t), filepath.Join(t.TempDir(), "data")
	got := tidemark(t, "", "import", "kafka-dir", from, "--data-dir", to, "--exclude", "topic-00", "--execute", "-o", "json")
	require.Equal(t, ExitOK, got.Code, got.Err)
	var report struct {
		Executed bool
		Clean    bool
		How      string
		Topics   []struct {
			Name, Refused string
			Partitions    []struct{ Partition, End_offset int64 }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(got.Out), &report))
	require.True(t, report.Executed)
	require.True(t, report.Clean)
	require.Equal(t, "copy", report.How)
	require.Len(t, report.Topics, 8)
	require.Equal(t, "it is excluded", report.Topics[2].Refused)
	require.Equal(t, int64(40), report.Topics[3].Partitions[1].End_offset)

	again := done(t, "", "import", "kafka-dir", from, "--data-dir", to, "--execute", "--how", "link")
	require.Contains(t, again, "topic topic-01: the data directory has it already")
	require.Contains(t, again, "took, verified and synced 1 topic, 1 partition, ")

	server := startServerIn(t, to)
	require.Contains(t, done(t, "", "topic", "list", "--server", server), "topic-05")
	require.Contains(t, done(t, "", "group", "describe", "group-1", "--server", server), "topic-03")
	busy := tidemark(t, "", "import", "kafka-dir", from, "--data-dir", to)
	require.Equal(t, ExitFailed, busy.Code)
	require.Contains(t, busy.Err, "a server is using "+to+": stop it first")
}

func TestDefaultsThatOnlyKafkaHadAreTold(t *testing.T) {
	properties := filepath.Join(t.TempDir(), "server.properties")
	require.NoError(t, os.WriteFile(properties, []byte("# a broker\nlog.segment.bytes = 104857600\nlog.retention.hours=168\n"), 0o600))
	out := done(t, "", "import", "kafka-dir", kafkaDir(t), "--data-dir", filepath.Join(t.TempDir(), "data"), "--server-properties", properties)
	require.Contains(t, out, "to keep them:\n  --topic-default retention.ms=-1\n  --topic-default segment.bytes=104857600\n")
	out = done(t, "", "import", "kafka-dir", kafkaDir(t), "--data-dir", filepath.Join(t.TempDir(), "data"), "--exclude", "*")
	require.Contains(t, out, "would take 0 topics")
}

func TestImportsThatCannotBe(t *testing.T) {
	to := filepath.Join(t.TempDir(), "data")
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"import", "kafka-dir"}, ExitUsage, "needs at least one DIR"},
		{[]string{"import", "kafka-dir", "x", "--how", "steal"}, ExitUsage, "use copy, link or move"},
		{[]string{"import", "kafka-dir", t.TempDir(), "--data-dir", to}, ExitFailed, "it has no meta.properties"},
		{[]string{"import", "kafka-dir", kafkaDir(t), "--data-dir", to, "--exclude", "["}, ExitFailed, "syntax error in pattern"},
	} {
		got := tidemark(t, "", c.args...)
		require.Equal(t, c.code, got.Code)
		require.Contains(t, got.Err, c.text)
	}
	require.NoDirExists(t, to)
}
