package node_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/node/nodetest"
)

// endTransactions writes markers to the end of a log while the node is stopped, as a broker with transactions leaves them.
func endTransactions(t *testing.T, m *nodetest.Machine, dir string, count int) {
	t.Helper()
	env := kafkalog.NewEnv(kafkalog.EnvOptions{FS: m.FS})
	l, err := kafkalog.Open(env, dir, kafkalog.Options{Clean: true})
	require.NoError(t, err)
	for i := range count {
		marker := batch.EndMarker(batch.EndMarkerOptions{ProducerID: int64(100 + i), Commit: i%2 == 0, Timestamp: 1000})
		_, err := l.Append(marker, kafkalog.AppendOptions{Origin: kafkalog.Coordinator})
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	require.NoError(t, env.Close())
}

func TestF40_WhereOnlyMarkersFollowTheMetricsAndTheStatusPageShowNoLag(t *testing.T) {
	m := machine(t)
	m.Start()
	c := client(t, m)
	createTopic(t, c, 3, nil, "orders")
	for partition := range int32(3) {
		for range 4 {
			produce(t, c, "orders", partition, "x")
		}
	}
	m.Stop()
	for partition, markers := range []int{3, 16, 17} {
		endTransactions(t, m, fmt.Sprintf("%s/orders-%d", nodetest.DataDir, partition), markers)
	}
	m.Start()
	for group, test := range map[string]struct {
		partition int32
		committed int64
		lag       int
	}{
		"done":              {0, 4, 0},
		"among-the-markers": {0, 6, 0},
		"at-the-end":        {0, 7, 0},
		"behind":            {0, 3, 4}, // as Kafka counts it
		"done-before-many":  {1, 4, 0},
		"too-many-to-look":  {2, 4, 17},
	} {
		t.Run(group, func(t *testing.T) {
			_, err := kadm.NewClient(c).CommitOffsets(within(t), group, kadm.OffsetsFromRecords(
				kgo.Record{Topic: "orders", Partition: test.partition, Offset: test.committed - 1}))
			require.NoError(t, err)
			require.Contains(t, metric(t, m, "tidemark_group_lag_records"),
				fmt.Sprintf("tidemark_group_lag_records{group=%q} %d\n", group, test.lag))
			_, body := get(t, m.HTTPAddr(), "/status")
			require.Contains(t, body, fmt.Sprintf(`"name":%q,"state":"Empty","members":0,"lag":%d,"max_lag":%d}`, group, test.lag, test.lag))
		})
	}
}
