package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stoppedKafka is a copy of the data directory of a stopped Kafka.
func stoppedKafka(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "kafka")
	require.NoError(t, os.CopyFS(dir, os.DirFS("../../../kafkalog/testdata/apache-kafka-4.4.0/stopped")))
	return dir
}

// overwrite puts bytes that say nothing into a file.
func overwrite(t *testing.T, name string, at, n int) {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	copy(data[at:at+n], bytes.Repeat([]byte{0xee}, n))
	require.NoError(t, os.WriteFile(name, data, 0o600))
}

func TestU08_TheMarkersThatKafkaWroteArePutBackAsTheyWere(t *testing.T) {
	for position, want := range map[int]string{
		0:    "  put back: the commit marker at offset 16 of the transaction of producer 7, epoch 1, that begins at offset 0, known by the snapshot",
		78:   "  put back: the abort marker at offset 17 of the transaction of producer 8, epoch 1, that begins at offset 8, known by the index",
		1158: "  put back: the commit marker at offset 34 of the transaction of producer 7, epoch 3, that begins at offset 18, known by the snapshot",
		1236: "  put back: the abort marker at offset 35 of the transaction of producer 8, epoch 3, that begins at offset 26, known by the index",
	} {
		dir := stoppedKafka(t)
		segment := filepath.Join(dir, "transactional-0", "00000000000000000016.log")
		whole, err := os.ReadFile(segment)
		require.NoError(t, err)
		overwrite(t, segment, position, 78)
		require.Contains(t, done(t, "", "log", "repair", dir, "--apply"), want)
		after, err := os.ReadFile(segment)
		require.NoError(t, err)
		require.Equal(t, whole, after, position)
		require.NotContains(t, done(t, "", "log", "check", dir), "the transaction of")
	}
}

// A Kafka broker has snapshots on disk before what they speak of: above its recovery point they prove no commit.
func TestU08_AKafkaSnapshotAboveTheRecoveryPointProvesNoCommit(t *testing.T) {
	dir := stoppedKafka(t)
	points := filepath.Join(dir, "recovery-point-offset-checkpoint")
	data, err := os.ReadFile(points)
	require.NoError(t, err)
	require.Regexp(t, `transactional 0 \d+`, string(data))
	data = regexp.MustCompile(`transactional 0 \d+`).ReplaceAll(data, []byte("transactional 0 16"))
	require.NoError(t, os.WriteFile(points, data, 0o600))
	overwrite(t, filepath.Join(dir, "transactional-0", "00000000000000000016.log"), 1158, 78)
	out := done(t, "", "log", "repair", dir, "--apply")
	require.NotContains(t, out, "put back: the commit marker")
	require.Contains(t, out, "  open: the transaction of producer 7, epoch 2, that begins at offset 18")
}

func TestU08_AnOpenTransactionIsToldAndAbortedByItsProducer(t *testing.T) {
	dir := stoppedKafka(t)
	log := filepath.Join(dir, "transactional-0")
	overwrite(t, filepath.Join(log, "00000000000000000016.log"), 1158, 78)
	require.NoError(t, os.Remove(filepath.Join(log, "00000000000000000036.snapshot"))) // as after a crash
	out := done(t, "", "log", "repair", dir, "--apply")
	open := "  open: the transaction of producer 7, epoch 2, that begins at offset 18; read_committed consumers wait there until it ends\n"
	require.Contains(t, out, open+"    its end may have been among the lost offsets, and nothing shows whether it was committed; --abort 7 ends it in another repair\n")

	got := tidemark(t, "", "log", "check", dir)
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Out, "  problem: the transaction of producer 7, epoch 2, is open from offset 18, where read_committed consumers wait forever")
	require.Contains(t, got.Out, "--abort 7'")
	require.Contains(t, done(t, "", "log", "repair", dir), open, "the log is sound, and still told of")

	got = tidemark(t, "", "log", "repair", log, "--abort", "7,9")
	require.Equal(t, ExitWouldChange, got.Code)
	require.Contains(t, got.Out, "transactional-0  would change; offsets 0 to 37 afterwards\n  abort: the transaction of producer 7, "+
		"epoch 2, that begins at offset 18, with a marker at offset 36\n")
	require.Contains(t, got.Err, "producer 9 has no open transaction\n")
	var repaired []repairedLog
	require.NoError(t, json.Unmarshal([]byte(done(t, "", "log", "repair", log, "--abort", "all", "--apply", "-o", "json")), &repaired))
	require.Equal(t, []repairTransaction{{End: "abort", ProducerID: 7, ProducerEpoch: 2, First: 18, Marker: 36}}, repaired[0].Transactions)
	require.Regexp(t, `  36\.\.36  position \d+  78 B  1 records?  epoch 2  none  CreateTime \d+  producer 7/2 sequence -1  transactional  control\n$`,
		done(t, "", "log", "dump", log))
	require.Contains(t, done(t, "", "log", "check", dir), "transactional-0  ok  offsets 0 to 37")
	require.Equal(t, ExitUsage, tidemark(t, "", "log", "repair", log, "--abort", "some").Code)
}

func TestARepairShowsOnATerminalHowFarItIs(t *testing.T) {
	require.Empty(t, tidemark(t, "", "log", "repair", stoppedKafka(t)).Err, "and nothing elsewhere")
	var terminal strings.Builder
	now := time.Unix(0, 0)
	bar := &bytesBar{w: &terminal}
	bar.more(5) // before anything is expected
	bar.add(1024)
	bar.bar.terminal, bar.bar.now, bar.bar.start = true, func() time.Time { return now }, now
	now = now.Add(time.Second)
	bar.more(507)
	bar.add(1024)
	now = now.Add(time.Second)
	bar.more(4096)
	bar.end()
	bar.end()
	require.Equal(t, "\rreading    "+strings.Repeat("█", 15)+strings.Repeat("░", 15)+" 512 B / 1.0 KiB  512 B/s"+
		"\rreading    "+strings.Repeat("█", 30)+" 2.0 KiB / 2.0 KiB  1.0 KiB/s"+
		"\rreading    "+strings.Repeat("█", 30)+" 2.0 KiB / 2.0 KiB  1.0 KiB/s\n", terminal.String())
}
