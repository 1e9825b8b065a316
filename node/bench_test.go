package node_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/node"
)

// BenchmarkStart opens and closes a server on the real disk, with so many partitions that each hold a record.
func BenchmarkStart(b *testing.B) {
	for _, partitions := range []int32{100, 5000} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			config := node.Config{DataDir: b.TempDir(), Kafka: node.Listener{Listen: "127.0.0.1:0"}}
			fill(b, config, partitions)
			var closing time.Duration
			for b.Loop() {
				n, err := node.Open(b.Context(), config)
				require.NoError(b, err)
				began := time.Now()
				require.NoError(b, n.Close(b.Context()))
				closing += time.Since(began)
			}
			b.ReportMetric(float64(closing.Milliseconds())/float64(b.N), "close-ms/op")
		})
	}
}

func fill(b *testing.B, config node.Config, partitions int32) {
	n, err := node.Open(b.Context(), config)
	require.NoError(b, err)
	c, err := kgo.NewClient(kgo.SeedBrokers(n.Addrs().KafkaAdvertised), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(b, err)
	began := time.Now()
	r, err := kadm.NewClient(c).CreateTopic(b.Context(), partitions, 1, nil, "orders")
	require.NoError(b, err)
	require.NoError(b, r.Err)
	b.ReportMetric(float64(time.Since(began).Microseconds())/float64(partitions), "create-µs/partition")
	var records []*kgo.Record
	for p := range partitions {
		records = append(records, &kgo.Record{Topic: "orders", Partition: p, Value: make([]byte, 100)})
	}
	require.NoError(b, c.ProduceSync(b.Context(), records...).FirstErr())
	c.Close()
	require.NoError(b, n.Close(b.Context()))
}
