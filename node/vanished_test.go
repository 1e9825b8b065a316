package node_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tidemark-io/tidemark/meta/metatest"
	"github.com/tidemark-io/tidemark/node"
)

const cleanMarker = ".kafka_cleanshutdown"

func TestANodeWhoseDataDirectoryVanishesEndsAndLeavesNoMarker(t *testing.T) {
	for name, vanish := range map[string]func(t *testing.T, dir string){
		"removed": func(t *testing.T, dir string) { require.NoError(t, os.Rename(dir, dir+".old")) },
		"replaced": func(t *testing.T, dir string) {
			require.NoError(t, os.Rename(dir, dir+".old"))
			require.NoError(t, os.Mkdir(dir, 0o700))
		},
		"without its metadata": func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, "metadata.db")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			n, err := node.Open(t.Context(), node.Config{
				DataDir: dir, NodeID: 1, Kafka: []node.Listener{{Listen: "127.0.0.1:0"}}, HighWatermarkCheckpoint: time.Millisecond,
			})
			require.NoError(t, err)
			c := clientOf(t, n)
			createTopic(t, c, 1, nil, "orders")
			produce(t, c, "orders", 0, "kept")
			require.NoError(t, n.Err())
			vanish(t, dir)
			produce(t, c, "orders", 0, "into a file without a name")
			select {
			case <-n.Done():
			case <-within(t).Done():
				require.Fail(t, "nobody noticed")
			}
			var vanished *node.VanishedError
			require.ErrorAs(t, n.Err(), &vanished)
			require.ErrorContains(t, n.Err(), dir)
			c.Close()
			require.ErrorAs(t, n.Close(t.Context()), &vanished)
			_, err = os.Stat(filepath.Join(dir, cleanMarker))
			require.True(t, os.IsNotExist(err))
		})
	}
}

func TestNoChangeIsAcknowledgedIntoAMetadataLogThatVanished(t *testing.T) {
	dir := t.TempDir()
	n, err := onDisk(t, dir)
	require.NoError(t, err)
	c := clientOf(t, n)
	defer c.Close()
	require.NoError(t, os.Remove(filepath.Join(dir, "metadata.db")))
	created, err := kadm.NewClient(c).CreateTopic(within(t), 1, 1, nil, "orders")
	require.ErrorIs(t, errors.Join(err, created.Err), kerr.KafkaStorageError)
	require.NotContains(t, created.ErrMessage, dir)
	var vanished *node.VanishedError
	require.ErrorAs(t, n.Err(), &vanished)
	require.ErrorAs(t, n.Close(t.Context()), &vanished)
}

func TestAStartThatFailsBeforeItOpensLogsLeavesTheCleanStopAsItWas(t *testing.T) {
	m := machine(t)
	m.Start()
	c := client(t, m)
	createTopic(t, c, 1, nil, "orders")
	produce(t, c, "orders", 0, "kept")
	m.Stop()
	right, before := m.Meta, tree(t, m.FS, "data")
	m.Meta = metatest.NewMemory("another")
	_, err := m.TryStart(t.Context())
	require.Error(t, err)
	require.Equal(t, before, tree(t, m.FS, "data"))
	require.True(t, exists(m.FS, "data/"+cleanMarker))

	m.Meta = right
	m.Start()
	require.Equal(t, "tidemark_node_unclean_starts_total 0\n", metric(t, m, "tidemark_node_unclean_starts_total"))
	require.False(t, exists(m.FS, "data/"+cleanMarker), "logs are open")
}

func TestF13_ALostMetadataLogOfADirectoryWithoutTopicsIsRefused(t *testing.T) {
	for what, lose := range map[string]func(name string) error{
		"is missing": os.Remove,
		"is empty":   func(name string) error { return os.Truncate(name, 0) },
	} {
		dir := t.TempDir()
		n, err := onDisk(t, dir)
		require.NoError(t, err)
		require.NoError(t, n.Close(t.Context()))
		require.NoError(t, lose(filepath.Join(dir, "metadata.db")))
		for range 2 {
			_, err = onDisk(t, dir)
			var lost *node.MetadataLostError
			require.ErrorAs(t, err, &lost)
			require.ErrorContains(t, err, filepath.Join(dir, "metadata.db")+" "+what)
			require.ErrorContains(t, err, "restore the metadata log from a copy, or start with an empty data directory")
		}
		_, err = os.Stat(filepath.Join(dir, cleanMarker))
		require.NoError(t, err, "the stop was clean, and still is")
	}
}
