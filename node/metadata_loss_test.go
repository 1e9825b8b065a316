package node_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/meta/metatest"
	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/node/nodetest"
	"github.com/tidemark-io/tidemark/vfs"
)

// onDisk starts a node on the real disk, with the embedded metadata log.
func onDisk(t *testing.T, dir string) (*node.Node, error) {
	t.Helper()
	return node.Open(t.Context(), node.Config{
		DataDir: dir, NodeID: 1, Kafka: []node.Listener{{Listen: "127.0.0.1:0"}},
	})
}

func clientOf(t *testing.T, n *node.Node) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(n.Addrs().KafkaAdvertised), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	return c
}

// filled makes a data directory with 20 topics of one record each, whose node was stopped in order.
func filled(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	n, err := onDisk(t, dir)
	require.NoError(t, err)
	c := clientOf(t, n)
	for i := range 20 {
		name := fmt.Sprintf("topic%02d", i)
		createTopic(t, c, 1, nil, name)
		produce(t, c, name, 0, name)
	}
	c.Close()
	require.NoError(t, n.Close(t.Context()))
	return dir
}

// records counts the bytes in record files anywhere below a directory.
func records(t *testing.T, dir string) (files int, bytes int64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".log") {
			return err
		}
		info, err := e.Info()
		if err == nil {
			files++
			bytes += info.Size()
		}
		return err
	}))
	return files, bytes
}

func copyDir(t *testing.T, from string) (to string) {
	t.Helper()
	to = t.TempDir()
	require.NoError(t, filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		below, _ := filepath.Rel(from, name)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, below), 0o700)
		case !d.Type().IsRegular(): // the socket of a server that runs
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, below), b, 0o600)
	}))
	return to
}

func TestF13_DamageToMetadataNeverCostsData(t *testing.T) {
	original := filled(t)
	files, bytes := records(t, original)
	require.Equal(t, 20, files)
	require.Positive(t, bytes)

	damages := map[string]func(t *testing.T, name string){
		"removed": func(t *testing.T, name string) { require.NoError(t, os.Remove(name)) },
		"emptied": func(t *testing.T, name string) { require.NoError(t, os.Truncate(name, 0)) },
		"halved": func(t *testing.T, name string) {
			info, err := os.Stat(name)
			require.NoError(t, err)
			require.NoError(t, os.Truncate(name, info.Size()/2))
		},
		"flipped": func(t *testing.T, name string) {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			for i := 0; i < len(data); i += max(len(data)/20, 1) {
				data[i] ^= 0x10
			}
			require.NoError(t, os.WriteFile(name, data, 0o600))
		},
	}
	victims := []string{
		"metadata.db", "meta.properties", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint",
		"replication-offset-checkpoint", ".kafka_cleanshutdown", "tidemark.closed-logs", "topic07-0/partition.metadata",
		"topic07-0/leader-epoch-checkpoint",
	}
	for _, victim := range victims {
		for what, damage := range damages {
			t.Run(victim+" "+what, func(t *testing.T) {
				dir := copyDir(t, original)
				if _, err := os.Stat(filepath.Join(dir, victim)); os.IsNotExist(err) {
					return // an optional file that this node had no cause to write
				}
				damage(t, filepath.Join(dir, victim))
				n, err := onDisk(t, dir)
				if err != nil {
					require.ErrorContains(t, err, filepath.Base(victim), "the message names the file")
				} else {
					require.NoError(t, n.Close(t.Context()))
				}
				afterFiles, afterBytes := records(t, dir)
				require.Equal(t, files, afterFiles)
				require.GreaterOrEqual(t, afterBytes, bytes)
			})
		}
	}
}

func TestF13_AMissingMetadataLogIsRefusedAndSaysWhatWasFound(t *testing.T) {
	dir := filled(t)
	require.NoError(t, os.Remove(filepath.Join(dir, "metadata.db")))
	for range 2 { // a start that was refused does not make the next one pass
		_, err := onDisk(t, dir)
		var lost *node.MetadataLostError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, 20, lost.Total)
		require.Equal(t, "topic00-0", lost.Directories[0])
		require.ErrorContains(t, err, "metadata.db is missing")
		require.ErrorContains(t, err, "20 partitions (topic00-0, topic01-0,")
	}
}

func TestF13_AnEmptyMetadataLogIsRefusedWhenThereIsData(t *testing.T) {
	m := machine(t)
	m.Start()
	createTopic(t, client(t, m), 1, nil, "orders")
	m.Stop()
	m.Meta = metatest.NewMemory("nodetest")
	_, err := m.TryStart(t.Context())
	var lost *node.MetadataLostError
	require.ErrorAs(t, err, &lost)
	require.True(t, exists(m.FS, "data/orders-0/partition.metadata"))
}

func TestF13_DirectoriesThatTheMetadataDoesNotKnowAreMovedAsideAndComeBack(t *testing.T) {
	m := machine(t)
	m.Start()
	c := client(t, m)
	createTopic(t, c, 2, nil, "orders")
	produce(t, c, "orders", 0, "kept too")
	produce(t, c, "orders", 1, "kept")
	m.Stop()
	right := m.Meta

	useOtherMetadata(t, m)
	m.Start()
	names := tree(t, m.FS, nodetest.DataDir)
	require.False(t, exists(m.FS, "data/orders-0"))
	require.Len(t, under(names, "-stray/partition.metadata"), 2)
	m.Stop()

	m.Meta = right
	m.Start()
	require.Equal(t, map[position]string{{"orders", 0, 0}: "kept too", {"orders", 1, 0}: "kept"}, consume(t, m, "orders"))
	for p := range int32(2) {
		require.Equal(t, int32(1), leaderEpoch(t, m, "orders", p), "of what was there before, not all may be left")
	}
	require.Empty(t, under(tree(t, m.FS, nodetest.DataDir), "-stray"))
}

// useOtherMetadata gives the machine a metadata log that has entries, and no topics.
func useOtherMetadata(t *testing.T, m *nodetest.Machine) {
	t.Helper()
	m.Meta = metatest.NewMemory("nodetest")
	backend, err := m.Meta.Open()
	require.NoError(t, err)
	empty, err := node.Open(t.Context(), node.Config{
		DataDir: "elsewhere", NodeID: 1, Kafka: []node.Listener{{Listen: "127.0.0.1:0"}}, FS: m.FS.CrashClean(), Meta: backend,
	})
	require.NoError(t, err)
	require.NoError(t, empty.Close(t.Context()))
	require.NoError(t, backend.Close())
}

// TestF13_DirectoriesThatComeBackAreAsTheyWereAfterThePowerCutBeforeTheyWereMoved has a server stop in order which did not
// know them: that says nothing of them.
func TestF13_DirectoriesThatComeBackAreAsTheyWereAfterThePowerCutBeforeTheyWereMoved(t *testing.T) {
	m := machine(t)
	m.Start()
	c := client(t, m, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	createTopic(t, c, 10, nil, "orders")
	want := spread(t, c, "orders", 10, "first")
	for at, value := range spread(t, c, "orders", 10, "in the journal alone") {
		want[at] = value
	}
	require.True(t, exists(m.FS, journalFile))
	m.CutPower(nodetest.Cut{Seed: 1})
	right := m.Meta
	useOtherMetadata(t, m)
	m.Start()
	m.Stop()

	// What a power cut leaves of a record that was on its way.
	logs := under(tree(t, m.FS, nodetest.DataDir), "00000000000000000000.log")
	require.Len(t, logs, 10)
	records, err := vfs.ReadFile(m.FS, logs[3])
	require.NoError(t, err)
	first, _, err := batch.Next(records)
	require.NoError(t, err)
	torn := batch.Batch(bytes.Clone(first))
	torn.SetBaseOffset(2)
	torn[len(torn)-1] ^= 1
	require.NoError(t, vfs.WriteFileAtomic(m.FS, logs[3], append(records, torn...)))

	m.Meta = right
	m.Start()
	require.Equal(t, want, consume(t, m, "orders"))
}

func TestADirectoryOfAnotherNodeOrClusterIsRefused(t *testing.T) {
	m := machine(t)
	m.Start()
	m.Stop()
	var identity *node.IdentityError

	m.Config.NodeID = 2
	_, err := m.TryStart(t.Context())
	require.ErrorAs(t, err, &identity)
	require.Equal(t, node.IdentityError{File: "data/meta.properties", What: "node id", Got: "1", Expected: "2"}, *identity)

	m.Config.NodeID = 1
	m.Meta = metatest.NewMemory("another")
	_, err = m.TryStart(t.Context())
	require.ErrorAs(t, err, &identity)
	require.Equal(t, node.IdentityError{
		File: "data/meta.properties", What: "cluster id", Got: "nodetest", Expected: "another",
	}, *identity)
}

func TestOneProcessAtATimeHasTheDataDirectory(t *testing.T) {
	dir := t.TempDir()
	n, err := onDisk(t, dir)
	require.NoError(t, err)
	_, err = onDisk(t, dir)
	require.ErrorIs(t, err, vfs.ErrLocked)
	require.NoError(t, n.Close(context.Background()))
	n, err = onDisk(t, dir)
	require.NoError(t, err)
	require.NoError(t, n.Close(context.Background()))
}

func TestALostDirectoryIsMadeAnewWhereTheOldOneEnded(t *testing.T) {
	m := machine(t)
	m.Start()
	c := client(t, m)
	createTopic(t, c, 2, nil, "orders")
	for i := range 5 {
		produce(t, c, "orders", 0, fmt.Sprint(i))
	}
	m.Stop()
	require.NoError(t, vfs.RemoveAll(m.FS, "data/orders-0"))
	m.Start()
	require.Equal(t, position{"orders", 0, 5}, produce(t, c, "orders", 0, "no offset is given twice"))
	require.Len(t, consume(t, m, "orders"), 1)
}

func TestU24_APartitionThatCannotBeOpenedKeepsNoOtherFromBeingAndIsToldOf(t *testing.T) {
	m := machine(t)
	var log said
	m.Config.Log = slog.New(slog.NewTextHandler(&log, nil))
	m.Start()
	c := client(t, m)
	createTopic(t, c, 2, nil, "orders")
	produce(t, c, "orders", 0, "a")
	produce(t, c, "orders", 1, "b")
	m.Stop()
	require.NoError(t, m.FS.Remove("data/orders-1/partition.metadata"))
	m.Start()

	ends, err := kadm.NewClient(c).ListEndOffsets(within(t), "orders")
	require.NoError(t, err)
	good, _ := ends.Lookup("orders", 0)
	require.NoError(t, good.Err)
	require.Equal(t, int64(1), good.Offset)
	bad, _ := ends.Lookup("orders", 1)
	require.ErrorContains(t, bad.Err, "KAFKA_STORAGE_ERROR")
	require.Equal(t, position{"orders", 0, 1}, produce(t, c, "orders", 0, "goes on"))

	require.Contains(t, log.String(), `level=ERROR msg="a partition is not served" topic=orders partition=1 dir=data/orders-1`)
	_, body := get(t, m.HTTPAddr(), "/readyz")
	require.Contains(t, body, `"failed":["orders-1"]`)
	_, body = get(t, m.HTTPAddr(), "/status")
	require.Contains(t, body, `"offline":1`)
	require.Equal(t, "tidemark_node_partitions_failed 1\n", metric(t, m, "tidemark_node_partitions_failed"))
	m.Stop()
	require.False(t, exists(m.FS, "data/.kafka_cleanshutdown"), "what was not opened was not checked")
	require.True(t, exists(m.FS, "data/orders-1"))
}

// What a log that follows the page cache has lost is written anew, and must not be of the term of what was lost: the power cut
// came before a start that did not know the log, and that start, which removed the empty directory, was ended in order.
func TestAPartitionWhoseDirectoryIsGoneGoesOnInANewTerm(t *testing.T) {
	m := machine(t)
	m.Config.TopicDefaults = map[string]string{"tidemark.flush": "os"}
	m.Start()
	c := client(t, m)
	createTopic(t, c, 1, nil, "orders")
	produce(t, c, "orders", 0, "lost")
	m.CutPower(nodetest.Cut{Seed: 1, Keep: 0})
	right := m.Meta
	useOtherMetadata(t, m)
	m.Start()
	m.Stop()

	m.Meta = right
	m.Start()
	require.Equal(t, position{"orders", 0, 0}, produce(t, c, "orders", 0, "another"))
	require.Equal(t, int32(1), leaderEpoch(t, m, "orders", 0))
	m.Stop()
	m.Start()
	require.Equal(t, int32(1), leaderEpoch(t, m, "orders", 0), "a stop in order ends no term")
}

func leaderEpoch(t *testing.T, m *nodetest.Machine, topic string, p int32) int32 {
	t.Helper()
	topics, err := kadm.NewClient(client(t, m)).ListTopics(within(t), topic)
	require.NoError(t, err)
	return topics[topic].Partitions[p].LeaderEpoch
}
