package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/vfs"
)

// onTree returns what is in a directory and all below it: contents, and when they were changed.
func onTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		info, err := e.Info()
		found[name] = fmt.Sprintf("%x %s", data, info.ModTime())
		return err
	}))
	return found
}

// flipAt flips a bit of a file; from its end, if the position is negative.
func flipAt(t *testing.T, name string, at int) {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	if at < 0 {
		at += len(data)
	}
	data[at] ^= 1
	require.NoError(t, os.WriteFile(name, data, 0o600))
}

// storedLines makes a data directory with a record for each value, one batch each, in partition t-0.
func storedLines(t *testing.T, values ...string) (dataDir string) {
	t.Helper()
	dataDir = t.TempDir()
	n, err := node.Open(within(t), node.Config{DataDir: dataDir, NodeID: 1, Kafka: []node.Listener{{Listen: "127.0.0.1:0"}}})
	require.NoError(t, err)
	done(t, "", "topic", "create", "t", "-p", "1", "--server", n.Addrs().Kafka.String())
	write(t, connectTo(t, n.Addrs().Kafka.String(), manual()), "t", 0, values...)
	require.NoError(t, n.Close(context.Background()))
	return dataDir
}

func TestU08_ARepairIsToldFirstAndThrowsNothingAway(t *testing.T) {
	dataDir := storedLines(t, "zero", "one", "two", "three")
	segment := filepath.Join(dataDir, "t-0", "00000000000000000000.log")
	whole, err := os.ReadFile(segment)
	require.NoError(t, err)
	one := strings.Index(string(whole), "one")
	flipAt(t, segment, one)
	torn, err := os.OpenFile(segment, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = torn.WriteString("garbage")
	require.NoError(t, err)
	require.NoError(t, torn.Close())
	before := onTree(t, dataDir)

	for _, path := range []string{dataDir, filepath.Join(dataDir, "t-0")} {
		got := tidemark(t, "", "log", "repair", path)
		require.Equal(t, ExitWouldChange, got.Code, got.Err)
		require.Contains(t, got.Out, filepath.Join(dataDir, "t-0")+"  would change; offsets 0 to 4 afterwards\n")
		require.Regexp(t, `  leave out: 00000000000000000000.log, position \d+, \d+ B, about 1 record by its header: .*checksum`, got.Out)
		require.Contains(t, got.Out, "    offsets 1 to 1 are lost; consumers skip them and go on at 2\n")
		require.Regexp(t, `  cut tail: 00000000000000000000.log, position \d+, 7 B: `, got.Out)
		require.Contains(t, got.Out, "    no offset is lost; the file ends at offset 4 afterwards\n")
		require.Contains(t, got.Out, "nothing was changed; add --apply to repair\n")
		require.Contains(t, got.Err, "to be repaired")
		require.Equal(t, before, onTree(t, dataDir))
	}

	out := done(t, "", "log", "repair", dataDir, "--apply", "-o", "json")
	var repaired []repairedLog
	require.NoError(t, json.Unmarshal([]byte(out), &repaired))
	require.Len(t, repaired, 1)
	require.Equal(t, repairDone, repaired[0].State)
	require.Equal(t, int64(4), repaired[0].End)
	require.Len(t, repaired[0].Kept, 2)
	garbage, err := os.ReadFile(repaired[0].Kept[1])
	require.NoError(t, err)
	require.Equal(t, "garbage", string(garbage))
	require.Contains(t, done(t, "", "log", "repair", dataDir), "1 partition: 1 sound\n")
	require.Contains(t, done(t, "", "log", "verify", dataDir), "  ok  offsets 0 to 4")
	_, err = os.Stat(filepath.Join(dataDir, ".kafka_cleanshutdown"))
	require.ErrorIs(t, err, fs.ErrNotExist, "the next start checks what it finds")

	server := startServerIn(t, dataDir)
	read := done(t, "", "consume", "t", "--until-end", "--server", server)
	require.Equal(t, "zero\ntwo\nthree\n", read)
	write(t, connectTo(t, server, manual()), "t", 0, "four")
	require.Equal(t, "four\n", done(t, "", "consume", "t", "--from", "4", "--until-end", "--server", server))
	got := tidemark(t, "", "log", "repair", dataDir)
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Err, "stop the server that uses "+dataDir+" first")
}

func TestADirectoryInUseIsNotRepairedWhateverItIsCalled(t *testing.T) {
	dataDir := storedLines(t, "a", "b", "c")
	partition := filepath.Join(dataDir, "t-0")
	flipAt(t, filepath.Join(partition, "00000000000000000000.log"), -2)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(partition, link))
	t.Chdir(partition)
	lock, err := vfs.OS().Lock(filepath.Join(dataDir, ".lock"))
	require.NoError(t, err)
	before := onTree(t, dataDir)
	for _, path := range []string{".", link, partition, dataDir, ".."} {
		got := tidemark(t, "", "log", "repair", "--apply", path)
		require.Contains(t, got.Err, "stop the server that uses "+dataDir+" first", path)
		require.Equal(t, ExitFailed, got.Code, path)
	}
	require.Equal(t, before, onTree(t, dataDir))
	require.NoError(t, lock.Close())
	require.Contains(t, done(t, "", "log", "repair", "--apply", "."), "repaired")
}

func TestU08_ALogThatCannotBeReadHasAnExitCodeOfItsOwn(t *testing.T) {
	dataDir := storedLines(t, "zero")
	loop := filepath.Join(dataDir, "t-0", "00000000000000000100.log")
	require.NoError(t, os.Symlink(loop, loop))
	before := tidemark(t, "", "log", "repair", dataDir, "--apply")
	require.Equal(t, ExitUnrepairable, before.Code, before.Err)
	require.Contains(t, before.Out, "  problem: ")
	require.Contains(t, before.Err, "1 of 1 partition cannot be repaired")
}

func TestU08_TheDirectoryOfAStoppedKafkaIsRepaired(t *testing.T) {
	dataDir := filepath.Join(t.TempDir(), "kafka")
	require.NoError(t, os.CopyFS(dataDir, os.DirFS("../../../kafkalog/testdata/apache-kafka-4.4.0/stopped")))
	require.Contains(t, done(t, "", "log", "repair", dataDir), "4 partitions: 4 sound\n")
	flipAt(t, filepath.Join(dataDir, "mixed-0", "00000000000000000000.log"), 300)
	flipAt(t, filepath.Join(dataDir, "transactional-0", "00000000000000000016.log"), -1)
	require.NoError(t, os.WriteFile(filepath.Join(dataDir, "stamped-0", "leader-epoch-checkpoint"), []byte("x"), 0o600))
	require.Equal(t, ExitWouldChange, tidemark(t, "", "log", "repair", dataDir).Code)
	out := done(t, "", "log", "repair", dataDir, "--apply")
	require.Contains(t, out, "4 partitions: 1 sound, 3 repaired\n")
	require.Contains(t, out, "mixed-0  repaired; offsets 0 to 160\n")
	require.Contains(t, out, "transactional-0  repaired; offsets 0 to 36\n")
	require.Contains(t, done(t, "", "log", "repair", dataDir), "4 partitions: 4 sound\n")
	require.NotContains(t, done(t, "", "log", "check", dataDir), "NOT OK")
}

func TestU24_TheDoctorFailsWhileAnythingIsKeptAsideOrOffline(t *testing.T) {
	dataDir := storedLines(t, "zero")
	found, _ := diagnosed(t, "--data-dir", dataDir)
	require.Equal(t, []finding{okay("quarantine", "empty")}, found["quarantine"])
	checkpoint := filepath.Join(dataDir, "recovery-point-offset-checkpoint")
	require.NoError(t, os.WriteFile(checkpoint, []byte("many"), 0o600))
	metadata := filepath.Join(dataDir, "t-0", "partition.metadata")
	require.NoError(t, os.WriteFile(metadata, []byte("nobody's"), 0o600))
	got := tidemark(t, "", "log", "verify", dataDir)
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Out, checkpoint)
	require.Contains(t, got.Out, metadata)

	out, _, stop := background(t, "serve", "--data-dir", dataDir, "--kafka-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0")
	out.waitFor(t, "ready\n")
	kafka, http := listening(t, out.String(), "kafka"), listening(t, out.String(), "http")
	require.Equal(t, "zero\n", done(t, "", "consume", "t", "--until-end", "--server", kafka))
	found, got = diagnosed(t, "--data-dir", dataDir, "--kafka-listen", kafka, "--http-listen", http)
	require.Equal(t, ExitFailed, got.Code)
	require.Equal(t, statusFail, found["quarantine"][0].Status)
	require.Contains(t, found["quarantine"][0].Detail, "2 files")
	require.Equal(t, statusWarn, found["http listener"][0].Status)
	require.Contains(t, found["http listener"][0].Detail, "recovery-point-offset-checkpoint, t-0/partition.metadata")
	require.Equal(t, ExitOK, stop())
	require.Contains(t, done(t, "", "log", "verify", dataDir), "  1 file in the quarantine, not part of the log\n")

	require.NoError(t, os.WriteFile(filepath.Join(dataDir, "t-0", "strange.log"), nil, 0o600))
	out, _, stop = background(t, "serve", "--data-dir", dataDir, "--kafka-listen", kafka, "--http-listen", http)
	out.waitFor(t, "ready\n")
	found, _ = diagnosed(t, "--data-dir", dataDir, "--kafka-listen", kafka, "--http-listen", http)
	require.Equal(t, statusFail, found["http listener"][0].Status)
	require.Contains(t, found["http listener"][0].Detail, "1 partition offline or taking no records: t-0. ")
	require.Contains(t, found["http listener"][0].Detail, "run 'tidemark log repair'")
	require.Equal(t, ExitOK, stop())
	require.Contains(t, done(t, "", "log", "repair", dataDir, "--apply"), "  set aside: strange.log: the name is not that of a segment\n")
}
