package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/confluentinc/confluent-kafka-go/kafka"
)

// librdkafka is confluent-kafka-go with the librdkafka that is part of it.
type librdkafka struct{ server string }

func (l librdkafka) write(ctx context.Context, j job, records []record) error {
	p, err := kafka.NewProducer(&kafka.ConfigMap{
		"bootstrap.servers": l.server, "compression.type": j.Codec, "enable.idempotence": j.Idempotent, "acks": "all",
		"linger.ms": 50, "message.max.bytes": j.MaxBytes,
	})
	if err != nil {
		return err
	}
	defer p.Close()
	told := make(chan kafka.Event, len(records))
	for _, r := range records {
		m := &kafka.Message{
			TopicPartition: kafka.TopicPartition{Topic: &j.Topic, Partition: 0}, Key: r.Key, Value: r.Value,
			Timestamp: time.Unix(0, r.Timestamp*int64(time.Millisecond)),
		}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, kafka.Header{Key: h.Key, Value: h.Value})
		}
		if err := p.Produce(m, told); err != nil {
			return err
		}
	}
	for range records {
		select {
		case e := <-told:
			if m, ok := e.(*kafka.Message); !ok || m.TopicPartition.Error != nil {
				return fmt.Errorf("not delivered: %v", e)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (l librdkafka) read(ctx context.Context, j job) (records []record, err error) {
	c, err := kafka.NewConsumer(&kafka.ConfigMap{
		"bootstrap.servers": l.server, "group.id": "unused", "enable.auto.commit": false, "auto.offset.reset": "error",
		"fetch.message.max.bytes": j.MaxBytes, "receive.message.max.bytes": 100_000_000, "check.crcs": true,
	})
	if err != nil {
		return nil, err
	}
	if err := c.Assign([]kafka.TopicPartition{{Topic: &j.Topic, Partition: 0, Offset: 0}}); err != nil {
		return nil, err
	}
	for len(records) < j.Count {
		m, err := poll(ctx, c)
		if err != nil {
			return records, err
		}
		one := record{
			Offset: int64(m.TopicPartition.Offset), Timestamp: m.Timestamp.UnixNano() / int64(time.Millisecond),
			Key: m.Key, Value: m.Value,
		}
		for _, h := range m.Headers {
			one.Headers = append(one.Headers, header{h.Key, h.Value})
		}
		records = append(records, one)
	}
	return records, c.Close()
}

// poll returns the next message, or ctx's error.
func poll(ctx context.Context, c *kafka.Consumer) (*kafka.Message, error) {
	for ctx.Err() == nil {
		m, err := c.ReadMessage(200 * time.Millisecond)
		var told kafka.Error
		if errors.As(err, &told) && told.Code() == kafka.ErrTimedOut {
			continue
		}
		return m, err
	}
	return nil, ctx.Err()
}

func (l librdkafka) admin(ctx context.Context, topic string) error {
	a, err := kafka.NewAdminClient(&kafka.ConfigMap{"bootstrap.servers": l.server})
	if err != nil {
		return err
	}
	defer a.Close()
	created, err := a.CreateTopics(ctx, []kafka.TopicSpecification{{Topic: topic, NumPartitions: 3, ReplicationFactor: 1}})
	if err != nil {
		return err
	}
	if created[0].Error.Code() != kafka.ErrNoError {
		return created[0].Error
	}
	metadata, err := a.GetMetadata(&topic, false, int(limit/time.Millisecond))
	if err != nil {
		return err
	}
	if n := len(metadata.Topics[topic].Partitions); n != 3 {
		return fmt.Errorf("the topic has %d partitions", n)
	}
	deleted, err := a.DeleteTopics(ctx, []string{topic})
	if err != nil {
		return err
	}
	if deleted[0].Error.Code() != kafka.ErrNoError {
		return deleted[0].Error
	}
	return nil
}

func (l librdkafka) group(ctx context.Context, group, topic string) error {
	c, err := kafka.NewConsumer(&kafka.ConfigMap{
		"bootstrap.servers": l.server, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": false,
		"session.timeout.ms": 6000, "heartbeat.interval.ms": 200,
	})
	if err != nil {
		return err
	}
	if err := c.SubscribeTopics([]string{topic}, nil); err != nil {
		return err
	}
	for {
		m, err := poll(ctx, c)
		if ctx.Err() != nil {
			return c.Close()
		}
		if err != nil {
			return err
		}
		fmt.Println(string(m.Value))
		if _, err := c.CommitMessage(m); err != nil {
			return err
		}
	}
}
