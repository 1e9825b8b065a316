package node_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/node/nodetest"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
)

func TestF01_RecordsOfPartitionsThatWereAddedSurviveAPowerCut(t *testing.T) {
	m := machine(t)
	var disk *faultfs.FS
	m.Wrap = func(base vfs.FS) vfs.FS {
		disk = faultfs.New(base, nil)
		return disk
	}
	m.Start()
	c := client(t, m, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	createTopic(t, c, 1, nil, "orders")
	trace := disk.Trace(faultfs.Matching(faultfs.OpSyncDir, nodetest.DataDir))
	grown, err := kadm.NewClient(c).UpdatePartitions(within(t), 40, "orders")
	require.NoError(t, err)
	require.NoError(t, grown.Error())
	require.NotEmpty(t, trace.String(), "the names of the directories are durable before the metadata knows of them")
	at := produce(t, c, "orders", 39, "kept")
	m.CutPower(nodetest.Cut{Seed: 1, Keep: 0})
	m.Start()
	require.Equal(t, map[position]string{at: "kept"}, consume(t, m, "orders"))
}
