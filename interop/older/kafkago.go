package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
)

// kafkaGo is segmentio/kafka-go, which has no idempotent producer.
type kafkaGo struct{ server string }

func (k kafkaGo) write(ctx context.Context, j job, records []record) error {
	batch := 100 // records a call: this version keeps no order among the batches of one
	if j.MaxBytes > 1<<20 {
		batch = 1 // two large ones do not fit into a batch
	}
	w := &kafka.Writer{
		Addr: kafka.TCP(k.server), Topic: j.Topic, Balancer: &kafka.RoundRobin{},
		BatchSize: batch, BatchBytes: int64(j.MaxBytes), BatchTimeout: 20 * time.Millisecond, RequiredAcks: kafka.RequireAll,
		Compression: map[string]kafka.Compression{
			"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
		}[j.Codec],
	}
	var messages []kafka.Message
	for _, r := range records {
		m := kafka.Message{Key: r.Key, Value: r.Value, Time: time.Unix(0, r.Timestamp*int64(time.Millisecond))}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, kafka.Header{Key: h.Key, Value: h.Value})
		}
		messages = append(messages, m)
	}
	for part := range slices.Chunk(messages, batch) {
		if err := w.WriteMessages(ctx, part...); err != nil {
			return err
		}
	}
	return w.Close()
}

func (k kafkaGo) read(ctx context.Context, j job) (records []record, err error) {
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{k.server}, Topic: j.Topic, MaxBytes: j.MaxBytes, MaxWait: time.Second,
	})
	for len(records) < j.Count {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			return records, err
		}
		one := record{Offset: m.Offset, Timestamp: m.Time.UnixNano() / int64(time.Millisecond), Key: m.Key, Value: m.Value}
		for _, h := range m.Headers {
			one.Headers = append(one.Headers, header{h.Key, h.Value})
		}
		records = append(records, one)
	}
	return records, r.Close()
}

func (k kafkaGo) admin(ctx context.Context, topic string) error {
	c := kafka.Client{Addr: kafka.TCP(k.server), Timeout: limit}
	created, err := c.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: 3, ReplicationFactor: 1}},
	})
	if err = errors.Join(err, first(created != nil, func() error { return created.Errors[topic] })); err != nil {
		return err
	}
	metadata, err := c.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	if len(metadata.Topics) != 1 || len(metadata.Topics[0].Partitions) != 3 {
		return fmt.Errorf("the topic is %+v", metadata.Topics)
	}
	// This version has no request of its own to delete a topic; its connection has.
	conn, err := kafka.DialContext(ctx, "tcp", k.server)
	if err != nil {
		return err
	}
	return errors.Join(conn.DeleteTopics(topic), conn.Close())
}

// first calls f if there is something to call it on.
func first(there bool, f func() error) error {
	if !there {
		return nil
	}
	return f()
}

func (k kafkaGo) group(ctx context.Context, group, topic string) error {
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{k.server}, GroupID: group, Topic: topic, StartOffset: kafka.FirstOffset,
		MaxWait: 500 * time.Millisecond, SessionTimeout: 6 * time.Second, RebalanceTimeout: 6 * time.Second,
		HeartbeatInterval: 200 * time.Millisecond, JoinGroupBackoff: 100 * time.Millisecond,
	})
	for {
		m, err := r.FetchMessage(ctx)
		if errors.Is(err, context.Canceled) {
			return r.Close()
		}
		if err != nil {
			return err
		}
		fmt.Println(string(m.Value))
		if err := r.CommitMessages(context.WithoutCancel(ctx), m); err != nil {
			return err
		}
	}
}
