package interop

import (
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/interop/corpus"
)

func TestSegmentioKafkaGo(t *testing.T) {
	exchange(t, kafkaGoPeer{}, traits{reads: corpus.Abilities{EmptyIsNull: true}})
}

// kafkaGoPeer is segmentio/kafka-go, which has no idempotent producer and speaks old versions.
type kafkaGoPeer struct{}

func (kafkaGoPeer) write(t *testing.T, jobs []job) {
	t.Helper()
	ctx := limited(t, 2*time.Minute)
	for _, j := range jobs {
		w := &kafka.Writer{
			Addr:         kafka.TCP(shared.under.Addr()),
			Topic:        j.Topic,
			Balancer:     &kafka.RoundRobin{},
			BatchSize:    100,
			BatchBytes:   int64(j.MaxBytes),
			BatchTimeout: 20 * time.Millisecond,
			RequiredAcks: kafka.RequireAll,
			Compression: map[string]kafka.Compression{
				"gzip":   kafka.Gzip,
				"snappy": kafka.Snappy,
				"lz4":    kafka.Lz4,
				"zstd":   kafka.Zstd,
			}[j.Codec],
		}
		var messages []kafka.Message
		for _, r := range j.Records {
			m := kafka.Message{Key: r.Key, Value: r.Value, Time: time.UnixMilli(r.Timestamp)}
			for _, h := range r.Headers {
				m.Headers = append(m.Headers, kafka.Header{Key: h.Key, Value: h.Value})
			}
			messages = append(messages, m)
		}
		require.NoError(t, w.WriteMessages(ctx, messages...), "writing %s", j.Topic)
		require.NoError(t, w.Close())
	}
}

func (kafkaGoPeer) read(t *testing.T, jobs []job) map[string][]corpus.Record {
	t.Helper()
	ctx := limited(t, 2*time.Minute)
	got := map[string][]corpus.Record{}
	for _, j := range jobs {
		r := kafka.NewReader(kafka.ReaderConfig{
			Brokers: []string{shared.under.Addr()}, Topic: j.Topic, Partition: 0, MaxBytes: j.MaxBytes, MaxWait: time.Second,
		})
		var records []corpus.Record
		for len(records) < len(j.Records) {
			m, err := r.ReadMessage(ctx)
			require.NoError(t, err, "reading %s: %d of %d records", j.Topic, len(records), len(j.Records))
			record := corpus.Record{Offset: m.Offset, Timestamp: m.Time.UnixMilli(), Key: m.Key, Value: m.Value}
			for _, h := range m.Headers {
				record.Headers = append(record.Headers, corpus.Header{Key: h.Key, Value: h.Value})
			}
			records = append(records, record)
		}
		got[j.Topic] = records
		require.NoError(t, r.Close())
	}
	return got
}

func TestSegmentioKafkaGoCreatesAndDeletesATopic(t *testing.T) {
	const topic = "kafka-go-made-this"
	c := kafka.Client{Addr: kafka.TCP(shared.under.Addr()), Timeout: time.Minute}
	created, err := c.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: 2, ReplicationFactor: 1}},
	})
	require.NoError(t, err)
	require.NoError(t, created.Errors[topic])
	metadata, err := c.Metadata(t.Context(), &kafka.MetadataRequest{Topics: []string{topic}})
	require.NoError(t, err)
	require.Len(t, metadata.Topics, 1)
	require.Len(t, metadata.Topics[0].Partitions, 2)
	deleted, err := c.DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	require.NoError(t, err)
	require.NoError(t, deleted.Errors[topic])
}
