package node_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/meta/metatest"
	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/node/nodetest"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

func TestAProducerIDIsNeverGivenTwice(t *testing.T) {
	m := machine(t)
	given := map[int64]bool{}
	for i := range 6 {
		m.Start()
		for range 3 {
			answer, err := client(t, m).Request(within(t), kmsg.NewPtrInitProducerIDRequest())
			require.NoError(t, err)
			id := answer.(*kmsg.InitProducerIDResponse).ProducerID
			require.False(t, given[id], "%d", id)
			given[id] = true
		}
		if i%2 == 0 {
			m.CutPower(nodetest.Cut{Seed: uint64(i)})
		} else {
			m.Stop()
		}
	}
}

func TestANodeWhoseMetadataLogStopsSaysSoAndWaitsToBeClosed(t *testing.T) {
	m := machine(t)
	n := m.Start()
	code, _ := get(t, m.HTTPAddr(), "/healthz")
	require.Equal(t, http.StatusOK, code)

	m.Meta.Crash()
	c := client(t, m, kgo.RequestRetries(0))
	_, err := kadm.NewClient(c).CreateTopic(within(t), 1, 1, nil, "orders")
	require.Error(t, err)
	<-n.Done()
	require.ErrorIs(t, n.Err(), metatest.ErrCrashed)
	code, body := get(t, m.HTTPAddr(), "/healthz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, "metadata log stopped")
	require.Error(t, m.TryStop(t.Context()))
	m.FS = m.FS.Crash(memfs.CrashOptions{KeepUnsynced: 1})
	m.Start()
}

func TestOffsetsAndSizesAreMeasured(t *testing.T) {
	m := machine(t)
	m.Start()
	c := client(t, m)
	createTopic(t, c, 2, nil, "orders")
	produce(t, c, "orders", 1, "a")
	produce(t, c, "orders", 1, "b")
	require.Equal(t, "tidemark_partition_high_watermark{partition=\"0\",topic=\"orders\"} 0\n"+
		"tidemark_partition_high_watermark{partition=\"1\",topic=\"orders\"} 2\n",
		metric(t, m, "tidemark_partition_high_watermark"))
	require.Equal(t, "tidemark_partition_appended_records_total{topic=\"orders\"} 2\n",
		metric(t, m, "tidemark_partition_appended_records_total"))
	require.Contains(t, metric(t, m, "tidemark_node_ready"), " 1")
	require.Contains(t, metric(t, m, "tidemark_kafka_requests_total"), `api="Produce"`)
}

func TestServerDefaultsByPatternReachTheTopicsThatMatch(t *testing.T) {
	m := machine(t)
	m.Config.TopicDefaults = map[string]string{"retention.ms": "1000"}
	m.Config.TopicPatterns = []node.TopicPattern{
		{Pattern: "logs.*", Settings: map[string]string{"retention.ms": "5000", "segment.bytes": "2000000"}},
	}
	m.Start()
	c := client(t, m)
	createTopic(t, c, 1, map[string]string{"flush.ms": "7"}, "logs.web")
	answer, err := kadm.NewClient(c).CreateTopic(within(t), 1, 1, nil, "orders")
	require.NoError(t, err)
	effective := map[string]string{}
	for name, value := range answer.Configs {
		effective[name] = *value.Value
	}
	require.Equal(t, "1000", effective["retention.ms"])

	described, err := kadm.NewClient(c).CreateTopic(within(t), 1, 1, nil, "logs.db")
	require.NoError(t, err)
	require.Equal(t, "5000", *described.Configs["retention.ms"].Value)
	require.Equal(t, "2000000", *described.Configs["segment.bytes"].Value)
}
