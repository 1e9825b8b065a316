package command

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/stream"
)

// stoppedServer returns the data directory of a server that has stopped, and its cluster id.
func stoppedServer(t *testing.T) (dir, cluster string) {
	t.Helper()
	dir = t.TempDir()
	n, err := node.Open(within(t), node.Config{
		DataDir: dir, NodeID: 1, ClusterID: "tm-1", Kafka: []node.Listener{{Listen: "127.0.0.1:0"}},
	})
	require.NoError(t, err)
	require.NoError(t, n.Close(context.Background()))
	return dir, "tm-1"
}

func TestABucketThatAgreesWithTheMetadataIsFine(t *testing.T) {
	dir, _ := stoppedServer(t)
	bucket := t.TempDir()
	require.Equal(t, bucket+"  ok  cluster tm-1  0 streams  headers and indexes read  damage 0  waste 0\n",
		done(t, "", "check", "--store", "file://"+bucket, "--data-dir", dir))
	require.Equal(t, bucket+"  ok  cluster tm-1  0 streams  every record read  damage 0  waste 0\n",
		done(t, "", "check", "--store", "file://"+bucket, "--data-dir", dir, "--deep"))
}

func TestABucketThatTheMetadataDoesNotKnowIsDamaged(t *testing.T) {
	dir, cluster := stoppedServer(t)
	bucket := t.TempDir()
	put := func(key string, b []byte) {
		path := filepath.Join(bucket, filepath.FromSlash(key))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, b, 0o600))
	}
	object := stream.DataKey(stream.DefaultNamespace, 77)
	put(object, dataObject(t, tide))
	log := stream.WALPrefix{Cluster: cluster, Node: 5}
	put(log.Key(stream.WALKey{Epoch: 12, Start: 0}), walGroup(0, 12, -1, tide))

	got := tidemark(t, "", "check", "--store", "file://"+bucket, "--data-dir", dir)
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Out, `damage: object of the future, object 77, key "`+object+`": `)
	require.Contains(t, got.Out, `damage: log of an unknown node, node 5, key "`+log.String()+`": `)
	require.Contains(t, got.Out, "  NOT OK  cluster tm-1  0 streams  headers and indexes read  damage 2  waste 0\n")
	require.Contains(t, got.Err, bucket+" is damaged: 2 findings")

	asJSON := tidemark(t, "", "check", "--store", "file://"+bucket, "--data-dir", dir, "-o", "json")
	require.Equal(t, ExitFailed, asJSON.Code)
	require.Contains(t, asJSON.Out, `{"type":"finding","severity":"damage","kind":"object of the future","object":77,`)
	require.Contains(t, asJSON.Out, `"deep":false,"damage":2,"waste":0}`)
}

func TestACheckNeedsABucketAndTheMetadata(t *testing.T) {
	dir, _ := stoppedServer(t)
	require.Contains(t, tidemark(t, "", "check", "--data-dir", dir).Err, "needs --store")
	require.Contains(t, tidemark(t, "", "check", "--store", "file://"+filepath.Join(dir, "gone"), "--data-dir", dir).Err, "no such file")
	require.Equal(t, ExitFailed, tidemark(t, "", "check", "--store", "file://"+dir, "--data-dir", t.TempDir()).Code)
}
