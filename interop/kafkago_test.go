package interop

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/interop/corpus"
	"github.com/tidemark-io/tidemark/interop/server"
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

// restartsOfF74 is how often the server is restarted, and how long it runs between: INTEROP_RESTARTS and INTEROP_RESTART_EVERY
// (such as 10 and 30s), or a few times in quick succession.
func restartsOfF74(t *testing.T) (restarts int, every time.Duration) {
	t.Helper()
	restarts, every = 5, 2*time.Second
	var err error
	if text := os.Getenv("INTEROP_RESTARTS"); text != "" {
		restarts, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	if text := os.Getenv("INTEROP_RESTART_EVERY"); text != "" {
		every, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	return restarts, every
}

// f74Writer is a writer with no more retries than the client has by itself.
func f74Writer(s *server.Server, topic string, codec kafka.Compression) *kafka.Writer {
	return &kafka.Writer{
		Addr: kafka.TCP(s.Addr()), Topic: topic, AllowAutoTopicCreation: true, RequiredAcks: kafka.RequireAll,
		Balancer: &kafka.Hash{}, BatchTimeout: 5 * time.Millisecond, Compression: codec,
	}
}

// TestF74_SegmentioKafkaGoWritesToNewTopicsAndOverRestarts lets writers make topics by writing to them, several of them the
// same one, and go on while the server is stopped and killed and started, again and again: no error reaches a caller, and all
// that was acknowledged is there.
func TestF74_SegmentioKafkaGoWritesToNewTopicsAndOverRestarts(t *testing.T) {
	restarts, every := restartsOfF74(t)
	ctx := limited(t, time.Duration(restarts)*(every+20*time.Second)+time.Minute)
	s, err := shared.maker.New(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, s.Start(ctx))
	defer s.Kill()

	topics := []string{"made-by-one", "made-by-another", "made-by-many", "made-by-many", "made-by-many", "made-by-many"}
	codecs := []kafka.Compression{0, kafka.Zstd, 0, kafka.Lz4, kafka.Snappy, kafka.Gzip}
	var acked ackedValues
	var written [6]atomic.Int64
	var writing sync.WaitGroup
	enough := make(chan struct{})
	for i, topic := range topics {
		w := f74Writer(s, topic, codecs[i])
		writing.Go(func() {
			for n := 0; ; n++ {
				value := fmt.Sprintf("%d-%d", i, n)
				if err := w.WriteMessages(ctx, kafka.Message{Key: []byte(value), Value: []byte(value)}); err != nil {
					t.Errorf("writer %d after %d records: %v", i, n, err)
					break
				}
				acked.add(topic, value)
				written[i].Add(1)
				select {
				case <-enough:
				default:
					continue
				}
				break
			}
			require.NoError(t, w.Close())
		})
	}
	goOn := func() {
		for i := range written {
			before := written[i].Load()
			require.Eventually(t, func() bool { return written[i].Load() > before || t.Failed() }, time.Minute, 5*time.Millisecond)
		}
	}
	again := time.NewTicker(every)
	defer again.Stop()
	for i := range restarts {
		goOn()
		<-again.C
		if i%2 == 0 {
			require.NoError(t, s.Stop(ctx))
		} else {
			require.NoError(t, s.Kill())
		}
		require.NoError(t, s.Start(ctx))
	}
	goOn()
	close(enough)
	writing.Wait()
	for topic, values := range acked.byTopic {
		requireValues(t, ctx, s.Addr(), topic, values)
	}
	require.NoError(t, s.Stop(ctx))
}

// ackedValues is what writers were told is written.
type ackedValues struct {
	mu      sync.Mutex
	byTopic map[string][]string
}

func (a *ackedValues) add(topic, value string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byTopic == nil {
		a.byTopic = map[string][]string{}
	}
	a.byTopic[topic] = append(a.byTopic[topic], value)
}

// requireValues reads a topic until it has met all of the values. There may be more: the client writes again what it was not
// told about.
func requireValues(t *testing.T, ctx context.Context, addr, topic string, values []string) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(t, err)
	defer c.Close()
	missing := map[string]bool{}
	for _, v := range values {
		missing[v] = true
	}
	for len(missing) > 0 {
		fetches := c.PollFetches(ctx)
		require.NoError(t, fetches.Err(), "%s: %d of %d records are missing", topic, len(missing), len(values))
		fetches.EachRecord(func(r *kgo.Record) { delete(missing, string(r.Value)) })
	}
}
