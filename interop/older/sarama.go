package main

import (
	"context"
	"fmt"
	"time"

	"github.com/Shopify/sarama"
)

// saramaClient is sarama, which takes the versions of its requests from a configured version of Kafka.
type saramaClient struct {
	server  string
	version sarama.KafkaVersion
}

func newSarama(version, server string) (client, error) {
	v, err := sarama.ParseKafkaVersion(version)
	return saramaClient{server, v}, err
}

func (s saramaClient) config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = s.version
	return c
}

func (s saramaClient) write(_ context.Context, j job, records []record) error {
	c := s.config()
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Return.Successes = true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Producer.MaxMessageBytes = j.MaxBytes
	c.Producer.Flush.Messages = 100
	c.Producer.Flush.Frequency = 50 * time.Millisecond
	c.Producer.Compression = map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}[j.Codec]
	if j.Idempotent {
		c.Producer.Idempotent = true
		c.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer([]string{s.server}, c)
	if err != nil {
		return err
	}
	var messages []*sarama.ProducerMessage
	for _, r := range records {
		m := &sarama.ProducerMessage{Topic: j.Topic, Timestamp: time.Unix(0, r.Timestamp*int64(time.Millisecond))}
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
	if err := producer.SendMessages(messages); err != nil {
		return err
	}
	for i, m := range messages {
		if m.Offset != int64(i) {
			return fmt.Errorf("it was told offset %d for record %d", m.Offset, i)
		}
	}
	return producer.Close()
}

func (s saramaClient) read(ctx context.Context, j job) (records []record, err error) {
	c := s.config()
	c.Consumer.Fetch.Default = int32(j.MaxBytes)
	c.Consumer.Return.Errors = true
	consumer, err := sarama.NewConsumer([]string{s.server}, c)
	if err != nil {
		return nil, err
	}
	partition, err := consumer.ConsumePartition(j.Topic, 0, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	for len(records) < j.Count {
		select {
		case m := <-partition.Messages():
			r := record{Offset: m.Offset, Timestamp: m.Timestamp.UnixNano() / int64(time.Millisecond), Key: m.Key, Value: m.Value}
			for _, h := range m.Headers {
				r.Headers = append(r.Headers, header{string(h.Key), h.Value})
			}
			records = append(records, r)
		case err := <-partition.Errors():
			return records, err
		case <-ctx.Done():
			return records, ctx.Err()
		}
	}
	if err := partition.Close(); err != nil {
		return records, err
	}
	return records, consumer.Close()
}

func (s saramaClient) admin(_ context.Context, topic string) error {
	admin, err := sarama.NewClusterAdmin([]string{s.server}, s.config())
	if err != nil {
		return err
	}
	defer admin.Close()
	if err := admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1}, false); err != nil {
		return err
	}
	described, err := admin.DescribeTopics([]string{topic})
	if err != nil {
		return err
	}
	if len(described) != 1 || len(described[0].Partitions) != 3 {
		return fmt.Errorf("the topic is %+v", described)
	}
	return admin.DeleteTopic(topic)
}

func (s saramaClient) group(ctx context.Context, group, topic string) error {
	c := s.config()
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Interval = 100 * time.Millisecond
	c.Consumer.Group.Session.Timeout = 6 * time.Second
	c.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	g, err := sarama.NewConsumerGroup([]string{s.server}, group, c)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := g.Consume(ctx, []string{topic}, claims{}); err != nil {
			return err
		}
	}
	return g.Close()
}

// claims prints and marks the messages it receives.
type claims struct{}

func (claims) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (claims) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (claims) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for m := range claim.Messages() {
		fmt.Println(string(m.Value))
		session.MarkMessage(m, "")
	}
	return nil
}
