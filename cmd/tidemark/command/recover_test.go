package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/stream"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// bucketOf is a directory with objects, by their keys.
func bucketOf(t *testing.T, objects map[string][]byte) (bucket string) {
	t.Helper()
	bucket = t.TempDir()
	for key, b := range objects {
		path := filepath.Join(bucket, filepath.FromSlash(key))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, b, 0o600))
	}
	return bucket
}

func TestRecoverTellsWhatABucketHasAndMakesIt(t *testing.T) {
	log := stream.WALPrefix{Cluster: "tm-1", Node: 5}
	ebbs := stream.Record{Stream: 11, Epoch: 2, Base: 52, Count: 4, Payload: []byte("ebbs")}
	bucket := bucketOf(t, map[string][]byte{
		stream.DataKey(stream.DefaultNamespace, 77):         dataObject(t, tide, mark, ebb),
		stream.DataKey(stream.DefaultNamespace, 80):         dataObject(t, tide, mark, ebb), // a copy
		log.Key(stream.WALKey{Epoch: 12, Start: 0}):         walGroup(0, 12, -1, ebbs),
		stream.DataKey(stream.DefaultNamespace, 81) + ".md": []byte("not ours"),
	})
	dir := filepath.Join(t.TempDir(), "new")
	require.Equal(t, `TOPIC  ID  PARTITION  START  END  SIZE  EPOCH
STREAM  START  OBJECTS-END  END   EPOCH
9       1000   1004         1004  4
11      50     52           56    2

`+bucket+`: 2 streams in 1 object
  log of node 5, epoch 12: recovered
  records that only a log holds: 1, 4 B; written to objects
  objects that hold only what others hold too: 1; removed after 168h0m0s
  a bucket does not say which table or topic a stream belongs to, where it was trimmed, or whether it was deleted

would rebuild `+dir+`/metadata.db: cluster tm-1, node 5, 0 topics, 0 partitions; topics keep every record until their settings are set again
nothing was changed; add --execute to do it
`, done(t, "", "recover", "--data-dir", dir, "--node.id", "5", "--store", "file://"+bucket))
	var plan recoverReport
	require.NoError(t, json.Unmarshal([]byte(done(t, "", "recover", "--data-dir", dir, "--node.id", "5", "--store", "file://"+bucket,
		"--execute", "-o", "json")), &plan))
	require.Equal(t, []catalog.StreamID{9, 11}, []catalog.StreamID{plan.Streams.Streams[0].ID, plan.Streams.Streams[1].ID})
	require.Contains(t, done(t, "", "check", "--store", "file://"+bucket, "--data-dir", dir, "--deep"), "damage 0")
	require.Regexp(t, `11 +closed +2 +5 +50 +56 `, done(t, "", "meta", "dump", "streams", "--data-dir", dir))
}

func TestRecoverStopsAtDamageAndLeavesItOutWhenTold(t *testing.T) {
	cut := dataObject(t, ebb)
	bucket := bucketOf(t, map[string][]byte{
		stream.DataKey(stream.DefaultNamespace, 77): dataObject(t, tide, mark),
		stream.DataKey(stream.DefaultNamespace, 78): cut[:len(cut)-1],
	})
	dir := t.TempDir()
	args := []string{"recover", "--data-dir", dir, "--store", "file://" + bucket, "--execute"}
	got := tidemark(t, "", args...)
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Out, "  stops the recovery: \""+stream.DataKey(stream.DefaultNamespace, 78)+"\": corrupt object")
	require.Contains(t, got.Err, "--leave-out-damaged")
	require.NoFileExists(t, metadataFile(dir))
	told := done(t, "", append(args, "--leave-out-damaged")...)
	require.Contains(t, told, ": 1 stream in 1 object")
	require.Contains(t, told, "  left out: ")
	require.FileExists(t, metadataFile(dir))
}
