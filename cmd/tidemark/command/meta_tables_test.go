package command

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
)

// stateWithTables has a table, one with a partition, and one that was dropped.
func stateWithTables(t *testing.T) *meta.State {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "meta", "testdata", "schema.hex"))
	require.NoError(t, err)
	schema, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	require.NoError(t, err)
	s, results := meta.Empty().Apply(1, meta.Entry{NowMs: 1_760_000_000_000, Commands: []meta.Command{
		meta.RegisterNode{Node: 1, ExpectedEpoch: -1},
		meta.CreateTable{Name: "orders", Buckets: 2, Options: []byte(`{"a":1}`), Schema: schema},
		meta.CreateTable{Name: "days", Partitioned: true, Kind: meta.PrimaryKeyTable, Buckets: 1, Schema: schema},
		meta.CreatePartition{Table: 2, Key: "monday"},
		meta.CreateTable{Name: "gone", Buckets: 1, Schema: schema},
		meta.DropTable{Table: 3},
		meta.LeadBucket{Node: 1, NodeEpoch: 1, Bucket: meta.BucketID{Table: 2, Partition: 0}},
	}})
	for _, r := range results {
		require.NoError(t, r.Err())
	}
	return s
}

func TestMetaDumpPrintsTablesWithTheirBuckets(t *testing.T) {
	found := &meta.Inspection{Where: "here", ClusterID: "c", State: stateWithTables(t)}
	names := []string{"tables", "schemas", "partitions", "buckets", "dropped"}
	var out bytes.Buffer
	require.NoError(t, newMetaDumpOf(found, names).print(&out))
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	require.Equal(t, []string{
		"here", "cluster c, index 1, level 0, clock 2025-10-09T08:53:20Z", "",
		"tables: 2", "TABLE NAME KIND PARTITIONS BUCKETS SCHEMA CREATED OPTIONS",
		`1 orders log - 2 0 2025-10-09T08:53:20Z {"a":1}`, "2 days primary key 1 1 0 2025-10-09T08:53:20Z -", "",
		"schemas: 2", "TABLE VERSION COLUMNS", "1 0 v utf8", "2 0 v utf8", "",
		"partitions: 1", "TABLE PARTITION KEY", "2 0 monday", "",
		"buckets: 3", "TABLE PARTITION BUCKET STREAM LEADER-EPOCH NODE", "1 - 0 0 - -", "1 - 1 1 - -", "2 0 0 2 0 1", "",
		"dropped: 1", "TABLE PARTITION BUCKET NAME STREAM DROPPED", "3 - 0 gone 3 2025-10-09T08:53:20Z",
	}, lines)

	text, err := json.Marshal(newMetaDumpOf(found, names).json())
	require.NoError(t, err)
	var got struct {
		Buckets []bucketRow
		Schemas []schemaRow
		Dropped []droppedRow
	}
	require.NoError(t, json.Unmarshal(text, &got))
	require.Equal(t, bucketRow{Table: 2, Stream: 2, Node: 1}, got.Buckets[2])
	require.Equal(t, []columnRow{{ID: 7, Name: "v", Type: "utf8", Nullable: true}}, got.Schemas[0].Columns)
	require.Equal(t, []droppedRow{{3, -1, 0, "gone", 3, 1_760_000_000_000}}, got.Dropped)
}
