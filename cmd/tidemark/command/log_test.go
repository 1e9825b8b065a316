package command

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/vfs"
)

// storedLog makes a data directory with three records in partition t-0 and returns the partition's directory. The records are
// all that there is in it.
func storedLog(t *testing.T) string { return storedRecords(t, "v") }

// storedRecords is storedLog with a value for the first record. A log makes its other files when it holds more than some KiB.
func storedRecords(t *testing.T, value string) string {
	t.Helper()
	dir := t.TempDir()
	n, err := node.Open(within(t), node.Config{DataDir: dir, NodeID: 1, Kafka: []node.Listener{{Listen: "127.0.0.1:0"}}})
	require.NoError(t, err)
	done(t, `{"key":"k","value":"`+value+`","timestamp":1700000000123}`+"\n"+`{"value":null,"timestamp":1700000000124}`+"\n"+
		`{"value_base64":"/w==","timestamp":1700000000125}`, "produce", "t", "-i", "json", "--acks", "1", "--server", n.Addrs().Kafka.String())
	require.NoError(t, n.Close(context.Background()))
	return filepath.Join(dir, "t-0")
}

func TestU08_ALogIsDumpedAndChecked(t *testing.T) {
	dir := storedLog(t)
	segment := filepath.Join(dir, "00000000000000000000.log")
	require.Regexp(t, `^`+segment+`\n(  \d+\.\.\d+  position \d+  \d+ B  \d records?  epoch 0  none  CreateTime 17000000001\d\d\n)+$`,
		done(t, "", "log", "dump", dir))
	records := done(t, "", "log", "dump", segment, "--records")
	require.Contains(t, records, "    0  time 1700000000123  key \"k\"  value \"v\"  0 headers\n")
	require.Contains(t, records, "    1  time 1700000000124  key null  value null  0 headers\n")
	require.Contains(t, records, "    2  time 1700000000125  key null  value 0xff  0 headers\n")
	require.Contains(t, done(t, "", "log", "dump", segment, "-r", "-o", "json"), `"value_base64":"/w=="`)
	large := storedRecords(t, strings.Repeat("v", 70_000))
	require.Contains(t, done(t, "", "log", "dump", filepath.Join(large, "leader-epoch-checkpoint")), "  epoch 0  from offset 0\n")
	require.Contains(t, done(t, "", "log", "dump", filepath.Join(large, "00000000000000000000.timeindex")), "timestamp 1700000000125  offset 2")

	require.Regexp(t, `^`+dir+`  ok  offsets 0 to 3  (\d+ B)
checked 1 partition: 1 segment, \d batch(es)?, 3 records, \d+ B
found nothing wrong
$`, done(t, "", "log", "check", dir))
	require.Contains(t, done(t, "", "log", "check", filepath.Dir(dir), "-o", "json"), `"problems": []`)
}

func TestU08_U24_ADamagedLogIsExitCodeOneAndIsNotChanged(t *testing.T) {
	dir := storedLog(t)
	segment := filepath.Join(dir, "00000000000000000000.log")
	bytes, err := os.ReadFile(segment)
	require.NoError(t, err)
	bytes[len(bytes)-1] ^= 1
	require.NoError(t, os.WriteFile(segment, bytes, 0o600))

	got := tidemark(t, "", "log", "check", dir)
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Out, dir+"  NOT OK  ")
	require.Contains(t, got.Err, "1 of 1 partition not sound; repair before the server starts: 'tidemark log repair "+dir+"' shows how")
	require.Contains(t, done(t, "", "log", "dump", segment), "PROBLEM: ")
	after, err := os.ReadFile(segment)
	require.NoError(t, err)
	require.Equal(t, bytes, after)
}

func TestLogCommandsSayWhatTheyCannotRead(t *testing.T) {
	empty := t.TempDir()
	other := filepath.Join(empty, "x.txt")
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"log", "dump", empty}, "holds no .log file; name a partition's directory"},
		{[]string{"log", "dump", other}, "cannot be dumped"},
		{[]string{"log", "dump", filepath.Join(empty, "gone")}, "gone does not exist; name a file of a log, or the directory of a partition"},
		{[]string{"log", "check", empty}, "is neither the directory of a partition nor one that holds partitions"},
		{[]string{"log", "check", filepath.Join(empty, "gone")}, "gone does not exist; name the directory of a partition"},
	} {
		got := tidemark(t, "", test.args...)
		require.Equal(t, ExitFailed, got.Code)
		require.Contains(t, got.Err, test.want)
	}
}

func TestU08_IndexesThatLieAreToldEntryByEntry(t *testing.T) {
	dir := t.TempDir()
	n, err := node.Open(within(t), node.Config{DataDir: dir, NodeID: 1, Kafka: []node.Listener{{Listen: "127.0.0.1:0"}}})
	require.NoError(t, err)
	server := n.Addrs().Kafka.String()
	done(t, "", "topic", "create", "t", "-c", "index.interval.bytes=1", "--server", server)
	for _, line := range []string{strings.Repeat("a", 70_000), "b", "c"} { // enough to be indexed
		done(t, line, "produce", "t", "--server", server)
	}
	require.NoError(t, n.Close(context.Background()))
	log := filepath.Join(dir, "t-0")
	require.Contains(t, done(t, "", "log", "check", log), "  ok  ")

	index := filepath.Join(log, "00000000000000000000.index")
	bytes, err := os.ReadFile(index)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(bytes), 8)
	last := bytes[len(bytes)-4:]
	truth := binary.BigEndian.Uint32(last)
	for position, want := range map[uint32]string{
		truth + 1: ", where no batch begins", 1 << 20: " at position 1048576, beyond the end of the segment",
	} {
		binary.BigEndian.PutUint32(last, position)
		require.NoError(t, os.WriteFile(index, bytes, 0o600))
		got := tidemark(t, "", "log", "check", log)
		require.Equal(t, ExitFailed, got.Code)
		require.Contains(t, got.Out, "  a start would repair: rebuild "+index+": it puts offset 2 at position")
		require.Contains(t, got.Out, want)
	}
}

func TestLogsThatKafkaWroteAreFoundInOrder(t *testing.T) {
	logs, err := filepath.Glob("../../../kafkalog/testdata/apache-kafka-4.4.0/stopped/*-[0-9]")
	require.NoError(t, err)
	require.NotEmpty(t, logs)
	for _, dir := range logs {
		wrong, err := indexMismatches(vfs.OS(), dir)
		require.NoError(t, err)
		require.Empty(t, wrong, dir)
	}
}

func TestACheckOfADataDirectoryFollowsTheOrderOfPartitionsAndNeedsNone(t *testing.T) {
	dataDir := t.TempDir()
	n, err := node.Open(within(t), node.Config{DataDir: dataDir, NodeID: 1, Kafka: []node.Listener{{Listen: "127.0.0.1:0"}}})
	require.NoError(t, err)
	require.NoError(t, n.Close(context.Background()))
	const nothing = "checked 0 partitions: 0 segments, 0 batches, 0 records, 0 B\nfound nothing wrong\n"
	require.Equal(t, nothing, done(t, "", "log", "check", dataDir))
	require.Contains(t, done(t, "", "log", "check", dataDir, "-o", "json"), `"checked": []`)

	n, err = node.Open(within(t), node.Config{DataDir: dataDir, NodeID: 1, Kafka: []node.Listener{{Listen: "127.0.0.1:0"}}})
	require.NoError(t, err)
	done(t, "", "topic", "create", "t", "-p", "11", "--server", n.Addrs().Kafka.String())
	require.NoError(t, n.Close(context.Background()))
	var names []string
	for line := range strings.Lines(done(t, "", "log", "check", dataDir)) {
		if path, _, ok := strings.Cut(line, "  ok  "); ok {
			names = append(names, filepath.Base(path))
		}
	}
	require.Equal(t, strings.Fields("t-0 t-1 t-2 t-3 t-4 t-5 t-6 t-7 t-8 t-9 t-10"), names)
}
