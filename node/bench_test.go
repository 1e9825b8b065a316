package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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
			config := node.Config{DataDir: b.TempDir(), Kafka: []node.Listener{{Listen: "127.0.0.1:0"}}}
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

// BenchmarkScale measures, on the real disk and once each, what 5,000 partitions cost: to create in one request, to close
// after a record was written to each, to open and close again, and to open after what looks like a crash. heap-B is what
// each holds at rest.
func BenchmarkScale(b *testing.B) {
	const partitions = 5000
	for b.Loop() {
		config := node.Config{DataDir: b.TempDir(), Kafka: []node.Listener{{Listen: "127.0.0.1:0"}}}
		var n *node.Node
		open := func() {
			var err error
			n, err = node.Open(b.Context(), config)
			require.NoError(b, err)
		}
		closeNode := func() { require.NoError(b, n.Close(b.Context())) }
		heap := func() float64 {
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return float64(m.HeapAlloc)
		}
		report := func(unit string, do func()) {
			began := time.Now()
			do()
			b.ReportMetric(float64(time.Since(began).Milliseconds()), unit)
		}

		open()
		empty := heap()
		c, err := kgo.NewClient(kgo.SeedBrokers(n.Addrs().KafkaAdvertised), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		require.NoError(b, err)
		report("create-ms", func() {
			admin := kadm.NewClient(c)
			admin.SetTimeoutMillis(120_000) // on a busy disk
			r, err := admin.CreateTopic(b.Context(), partitions, 1, nil, "orders")
			require.NoError(b, err)
			require.NoError(b, r.Err)
		})
		var records []*kgo.Record
		for p := range int32(partitions) {
			records = append(records, &kgo.Record{Topic: "orders", Partition: p, Value: make([]byte, 100)})
		}
		report("write-ms", func() { require.NoError(b, c.ProduceSync(b.Context(), records...).FirstErr()) })
		c.Close()
		report("close-dirty-ms", closeNode)
		report("open-clean-ms", open)
		b.ReportMetric((heap()-empty)/partitions, "heap-B")
		report("close-idle-ms", closeNode)
		require.NoError(b, os.Remove(filepath.Join(config.DataDir, ".kafka_cleanshutdown")))
		report("open-unclean-ms", open)
		report("close-unclean-ms", closeNode)
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
