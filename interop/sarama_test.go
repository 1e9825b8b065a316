package interop

import (
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/interop/corpus"
)

// sarama takes the versions of its requests from a configured version of Kafka, so an old and a new one are two clients.

func TestSaramaAsOfKafka2_8(t *testing.T) {
	exchange(t, saramaPeer{sarama.V2_8_0_0}, traits{idempotent: true})
}

func TestSaramaAsOfKafka3_6(t *testing.T) {
	exchange(t, saramaPeer{sarama.V3_6_0_0}, traits{idempotent: true})
}

func TestSaramaAsOfKafka4_1(t *testing.T) {
	exchange(t, saramaPeer{sarama.V4_1_0_0}, traits{idempotent: true})
}

type saramaPeer struct{ version sarama.KafkaVersion }

func (p saramaPeer) config(j job) *sarama.Config {
	c := sarama.NewConfig()
	c.Version = p.version
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Return.Successes = true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Producer.MaxMessageBytes = j.MaxBytes
	c.Producer.Flush.Messages = 100
	c.Producer.Flush.Frequency = 50 * time.Millisecond
	c.Producer.Compression = map[string]sarama.CompressionCodec{
		"none":   sarama.CompressionNone,
		"gzip":   sarama.CompressionGZIP,
		"snappy": sarama.CompressionSnappy,
		"lz4":    sarama.CompressionLZ4,
		"zstd":   sarama.CompressionZSTD,
	}[j.Codec]
	if j.Idempotent {
		c.Producer.Idempotent = true
		c.Net.MaxOpenRequests = 1
	}
	c.Consumer.Fetch.Default = int32(j.MaxBytes)
	c.Consumer.Return.Errors = true
	return c
}

func (p saramaPeer) write(t *testing.T, jobs []job) {
	t.Helper()
	for _, j := range jobs {
		producer, err := sarama.NewSyncProducer([]string{shared.under.Addr()}, p.config(j))
		require.NoError(t, err)
		var messages []*sarama.ProducerMessage
		for _, r := range j.Records {
			m := &sarama.ProducerMessage{Topic: j.Topic, Partition: 0, Timestamp: time.UnixMilli(r.Timestamp)}
			if r.Key != nil {
				m.Key = sarama.ByteEncoder(r.Key)
			}
			if r.Value != nil {
				m.Value = sarama.ByteEncoder(r.Value)
			}
			for _, h := range r.Headers {
				m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.Key), Value: h.Value})
			}
			messages = append(messages, m)
		}
		require.NoError(t, producer.SendMessages(messages), "writing %s", j.Topic)
		for i, m := range messages {
			require.Equal(t, int64(i), m.Offset, "the offset that the client was told")
		}
		require.NoError(t, producer.Close())
	}
}

func (p saramaPeer) read(t *testing.T, jobs []job) map[string][]corpus.Record {
	t.Helper()
	ctx := limited(t, 2*time.Minute)
	got := map[string][]corpus.Record{}
	for _, j := range jobs {
		consumer, err := sarama.NewConsumer([]string{shared.under.Addr()}, p.config(j))
		require.NoError(t, err)
		partition, err := consumer.ConsumePartition(j.Topic, 0, sarama.OffsetOldest)
		require.NoError(t, err)
		var records []corpus.Record
		for len(records) < len(j.Records) {
			select {
			case m := <-partition.Messages():
				r := corpus.Record{Offset: m.Offset, Timestamp: m.Timestamp.UnixMilli(), Key: m.Key, Value: m.Value}
				for _, h := range m.Headers {
					r.Headers = append(r.Headers, corpus.Header{Key: string(h.Key), Value: h.Value})
				}
				records = append(records, r)
			case err := <-partition.Errors():
				require.NoError(t, err, "reading %s", j.Topic)
			case <-ctx.Done():
				require.NoError(t, ctx.Err(), "reading %s: %d of %d records", j.Topic, len(records), len(j.Records))
			}
		}
		got[j.Topic] = records
		require.NoError(t, partition.Close())
		require.NoError(t, consumer.Close())
	}
	return got
}

func TestSaramaCreatesFindsAndDeletesATopic(t *testing.T) {
	for _, version := range []sarama.KafkaVersion{sarama.V2_8_0_0, sarama.V3_6_0_0, sarama.V4_1_0_0} {
		t.Run(version.String(), func(t *testing.T) {
			topic := "sarama-made-this-as-of-" + version.String()
			admin, err := sarama.NewClusterAdmin([]string{shared.under.Addr()}, saramaPeer{version}.config(job{MaxBytes: smallLimit}))
			require.NoError(t, err)
			defer admin.Close()
			require.NoError(t, admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1}, false))
			described, err := admin.DescribeTopics([]string{topic})
			require.NoError(t, err)
			require.Len(t, described, 1)
			require.Len(t, described[0].Partitions, 2)
			require.ErrorIs(t, admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1}, false),
				sarama.ErrTopicAlreadyExists)
			require.NoError(t, admin.DeleteTopic(topic))
		})
	}
}
