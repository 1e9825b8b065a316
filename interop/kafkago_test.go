package interop

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

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

// TestF74_SegmentioKafkaGoWritesToANewTopicAndOverRestarts writes with no more retries than the client has by itself.
func TestF74_SegmentioKafkaGoWritesToANewTopicAndOverRestarts(t *testing.T) {
	ctx := limited(t, 2*time.Minute)
	s, err := shared.maker.New(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, s.Start(ctx))
	defer s.Kill()
	w := &kafka.Writer{
		Addr: kafka.TCP(s.Addr()), Topic: "made-by-writing", AllowAutoTopicCreation: true,
		RequiredAcks: kafka.RequireAll, BatchTimeout: 10 * time.Millisecond,
	}
	require.NoError(t, w.WriteMessages(ctx, kafka.Message{Value: []byte("first")}))

	const restarts = 3
	var written atomic.Int64
	enough, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-enough:
				return
			default:
			}
			if err := w.WriteMessages(ctx, kafka.Message{Value: []byte("more")}); err != nil {
				t.Errorf("after %d records: %v", written.Load(), err)
				return
			}
			written.Add(1)
		}
	}()
	goesOn := func() {
		before := written.Load()
		require.Eventually(t, func() bool { return written.Load() > before }, time.Minute, 5*time.Millisecond)
	}
	for range restarts {
		goesOn()
		require.NoError(t, s.Stop(ctx))
		require.NoError(t, s.Start(ctx))
	}
	goesOn()
	close(enough)
	<-ended
	require.NoError(t, w.Close())

	c, err := kgo.NewClient(kgo.SeedBrokers(s.Addr()))
	require.NoError(t, err)
	defer c.Close()
	ends, err := kadm.NewClient(c).ListEndOffsets(ctx, w.Topic)
	require.NoError(t, err)
	end, ok := ends.Lookup(w.Topic, 0)
	require.True(t, ok)
	require.Greater(t, end.Offset, written.Load(), "the first one, and all that were acknowledged")
	require.NoError(t, s.Stop(ctx))
}
