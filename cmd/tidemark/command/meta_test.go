package command

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/node"
)

// usedDir is the data directory of a server that was stopped, with a topic of three partitions and one of one.
func usedDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	n, err := node.Open(within(t), node.Config{DataDir: dir, NodeID: 1, Kafka: []node.Listener{{Listen: "127.0.0.1:0"}}})
	require.NoError(t, err)
	server := n.Addrs().KafkaAdvertised
	done(t, "", "topic", "create", "orders", "-p", "3", "-c", "retention.ms=1000", "--server", server)
	done(t, "", "topic", "create", "payments", "--server", server)
	done(t, "one\ntwo\n", "produce", "payments", "--server", server)
	require.NoError(t, n.Close(context.Background()))
	return dir
}

func metadataFile(dir string) string { return filepath.Join(dir, "metadata.db") }

func TestMetaDumpPrintsTables(t *testing.T) {
	dir := usedDir(t)
	out := done(t, "", "meta", "dump", "--data-dir", dir)
	require.Contains(t, out, "topics: 2\n")
	require.Regexp(t, `orders +\S{22} +3 +0 +\S+ +1 +retention.ms=1000`, out)
	require.Contains(t, out, "nodes: 1\n")
	require.Contains(t, out, "streams: 0\n")
	require.NotContains(t, done(t, "", "meta", "dump", "topics", "--data-dir", dir), "nodes:")

	var dump struct {
		Index   uint64           `json:"index"`
		Topics  []topicRow       `json:"topics"`
		Streams []map[string]any `json:"streams"`
	}
	require.NoError(t, json.Unmarshal([]byte(done(t, "", "meta", "dump", "--data-dir", dir, "--output", "json")), &dump))
	require.Equal(t, []int32{0, 0, 0}, dump.Topics[0].LeaderEpochs)
	require.NotNil(t, dump.Streams)
	require.Positive(t, dump.Index)

	got := tidemark(t, "", "meta", "dump", "chairs", "--data-dir", dir)
	require.Equal(t, ExitUsage, got.Code)
	require.Contains(t, got.Err, `there is no table "chairs"; there are nodes, topics`)
}

func TestMetaCheckFindsDamage(t *testing.T) {
	dir := usedDir(t)
	require.Regexp(t, `metadata.db  ok  cluster \S+  head \d+`, done(t, "", "meta", "check", "--data-dir", dir))
	var checked checkedMeta
	require.NoError(t, json.Unmarshal([]byte(done(t, "", "meta", "check", "--data-dir", dir, "--output", "json")), &checked))
	require.Equal(t, []string{}, checked.Problems)
	require.EqualValues(t, checked.Head, checked.Entries)

	data, err := os.ReadFile(metadataFile(dir))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(metadataFile(dir), bytes.ReplaceAll(data, []byte("TMML"), []byte("TMMX")), 0o600))
	got := tidemark(t, "", "meta", "check", "--data-dir", dir)
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Err, metadataFile(dir))
	got = tidemark(t, "", "backup", filepath.Join(t.TempDir(), "b"), "--data-dir", dir)
	require.Equal(t, ExitFailed, got.Code)
}

func TestToolsSayThatAServerHasTheMetadata(t *testing.T) {
	dir := t.TempDir()
	startServerIn(t, dir)
	got := tidemark(t, "", "meta", "dump", "--data-dir", dir)
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Err, "stop the server that uses it")
	got = tidemark(t, "", "meta", "dump", "--data-dir", t.TempDir())
	require.Contains(t, got.Err, "metadata.db is missing")
	got = tidemark(t, "", "meta", "dump", "--meta-url", "http://one/prod")
	require.Contains(t, got.Err, "it begins with neither etcd:// nor etcds://")
}

func TestBackupAndRestoreGoRound(t *testing.T) {
	dir, file := usedDir(t), filepath.Join(t.TempDir(), "tidemark.meta")
	before := done(t, "", "meta", "dump", "--data-dir", dir, "--output", "json")
	require.Contains(t, done(t, "", "backup", file, "--data-dir", dir), "2 topics")
	require.Contains(t, done(t, "", "backup", file, "--data-dir", dir), "2 topics", "a newer one takes the place of an older")

	mistaken := tidemark(t, "", "backup", metadataFile(dir), "--data-dir", dir)
	require.Equal(t, ExitFailed, mistaken.Code)
	require.Contains(t, mistaken.Err, "it is not replaced: "+metadataFile(dir))
	require.Equal(t, before, done(t, "", "meta", "dump", "--data-dir", dir, "--output", "json"), "it was not replaced")

	got := tidemark(t, "", "restore", file, "--data-dir", dir, "--execute")
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Err, "restore replaces nothing")
	require.NoError(t, os.Remove(metadataFile(dir)))

	require.Contains(t, done(t, "", "restore", file, "--data-dir", dir), "nothing was changed; add --execute to do it")
	require.NoFileExists(t, metadataFile(dir))
	require.Contains(t, done(t, "", "restore", file, "--data-dir", dir, "--skip-producer-ids", "0", "--execute"), "restored "+metadataFile(dir))
	require.Equal(t, before, done(t, "", "meta", "dump", "--data-dir", dir, "--output", "json"), "the same state")

	var plan restoreReport
	elsewhere := t.TempDir()
	out := done(t, "", "restore", file, "--data-dir", elsewhere, "--execute", "--output", "json")
	require.NoError(t, json.Unmarshal([]byte(out), &plan))
	require.Equal(t, []string{"orders-0", "orders-1", "orders-2", "payments-0"}, plan.Missing)
	require.True(t, plan.Executed)

	data, err := os.ReadFile(file)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(file, data, 0o600))
	got = tidemark(t, "", "restore", file, "--data-dir", t.TempDir(), "--execute")
	require.Contains(t, got.Err, file)
	require.Contains(t, got.Err, "CRC")
}

func TestRecoverMakesMetadataAgain(t *testing.T) {
	dir := usedDir(t)
	got := tidemark(t, "", "recover", "--data-dir", dir)
	require.Contains(t, got.Err, "there is nothing to recover")
	require.NoError(t, os.Remove(metadataFile(dir)))
	out := done(t, "", "recover", "--data-dir", dir)
	require.Regexp(t, `payments +\S{22} +0 +0 +2`, out)
	require.Contains(t, out, "2 topics, 4 partitions")
	require.Contains(t, out, "nothing was changed")
	require.NoFileExists(t, metadataFile(dir))

	var plan recoverReport
	require.NoError(t, json.Unmarshal([]byte(done(t, "", "recover", "--data-dir", dir, "--execute", "--output", "json")), &plan))
	require.True(t, plan.Executed)
	require.Contains(t, done(t, "", "meta", "dump", "topics", "--data-dir", dir), "retention.bytes=-1 retention.ms=-1")
	server := startServerIn(t, dir)
	require.Equal(t, "one\ntwo\n", done(t, "", "consume", "payments", "--until-end", "--server", server))
}

func TestDamagedMetadataIsExplainedWhereverItIsMet(t *testing.T) {
	dir := usedDir(t)
	overwrite(t, metadataFile(dir), 0, 3*4096)
	advice := "mv " + metadataFile(dir) + " " + metadataFile(dir) + ".damaged"
	got := tidemark(t, "", "serve", "--data-dir", dir, "--kafka-listen", "127.0.0.1:0", "--http-listen", "off")
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Err, advice)
	require.Contains(t, got.Err, "'tidemark recover --data-dir "+dir+"'")
	got = tidemark(t, "", "recover", "--data-dir", dir, "--execute")
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Err, advice)
	require.NoError(t, os.Rename(metadataFile(dir), metadataFile(dir)+".damaged"))
	done(t, "", "recover", "--data-dir", dir, "--execute")
	require.Equal(t, "one\ntwo\n", done(t, "", "consume", "payments", "--until-end", "--server", startServerIn(t, dir)))

	require.Contains(t, tidemark(t, "", "recover", "--data-dir", t.TempDir()).Err, "nothing to recover")
}
