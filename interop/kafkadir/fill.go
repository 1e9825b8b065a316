package kafkadir

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/interop/corpus"
	"github.com/tidemark-io/tidemark/interop/server"
)

// Size says how much is written.
type Size struct {
	Topics     int // at least 5
	Groups     int
	Records    int // in a batch, 5 batches a partition and life
	ValueBytes int // cuts longer values, if it is not 0
}

// Names of the topics: the first ones are special.
const (
	compacted     = "topic-00"
	trimmed       = "topic-01" // its start was moved by DeleteRecords
	grown         = "topic-02" // partitions were added
	transactional = "topic-03"
	again         = "topic-04" // it was deleted and created again
)

func topicName(i int) string { return fmt.Sprintf("topic-%02d", i) }

var codecs = []kgo.CompressionCodec{
	kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
}

// Fill writes to a running Kafka, in two lives: it is stopped and started in between, and runs at the end.
func Fill(ctx context.Context, k *server.Server, size Size) error {
	f := &filler{addr: k.Addr(), size: size, begun: time.Now().Add(-48 * time.Hour).Truncate(time.Hour)}
	for _, step := range []func(context.Context) error{
		f.createTopics, f.produce, f.transactions, f.deleteRecords, f.commit,
		k.Stop, k.Start,
		f.alter, f.produce, f.transactions, f.deleteRecords, f.commit, f.consumeInGroup,
	} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("kafkadir: %w", err)
		}
	}
	return nil
}

type filler struct {
	addr  string
	size  Size
	begun time.Time
	seed  uint64
	lives int64
}

func (f *filler) admin(do func(*kadm.Client) error) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(f.addr), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		return err
	}
	defer c.Close()
	return do(kadm.NewClient(c))
}

// configsOf are the settings that the i-th topic is created with.
func configsOf(i int) map[string]*string {
	configs := map[string]*string{
		"retention.ms": kadm.StringPtr("-1"), "segment.index.bytes": kadm.StringPtr("1200"),
		"max.message.bytes": kadm.StringPtr(fmt.Sprint(2_000_000 + i)),
	}
	if topicName(i) == trimmed {
		configs["segment.ms"] = kadm.StringPtr("600000") // segments roll at the gaps between timestamps
	}
	switch {
	case topicName(i) == compacted:
		configs["cleanup.policy"] = kadm.StringPtr("compact")
		configs["min.cleanable.dirty.ratio"] = kadm.StringPtr("0.99")
	case i%7 == 6:
		configs["message.timestamp.type"] = kadm.StringPtr("LogAppendTime")
	}
	return configs
}

func (f *filler) createTopics(ctx context.Context) error {
	return f.admin(func(admin *kadm.Client) error {
		ids := map[string]kadm.TopicID{}
		create := func(i int) error {
			created, err := admin.CreateTopics(ctx, int32(i%3+1), 1, configsOf(i), topicName(i))
			if err == nil {
				err = created.Error()
			}
			ids[topicName(i)] = created[topicName(i)].ID
			return err
		}
		for i := range f.size.Topics {
			if err := create(i); err != nil {
				return err
			}
		}
		deleted, err := admin.DeleteTopics(ctx, again)
		if err == nil {
			err = deleted.Error()
		}
		if err != nil {
			return err
		}
		if err := create(4); err != nil {
			return err
		}
		return hosted(ctx, admin, ids)
	})
}

// hosted waits until the broker knows the topics with these ids and leads their partitions.
func hosted(ctx context.Context, admin *kadm.Client, ids map[string]kadm.TopicID) error {
	check := func() error {
		topics, err := admin.ListTopics(ctx)
		if err != nil {
			return err
		}
		for name, id := range ids {
			if topics[name].ID != id {
				return fmt.Errorf("topic %s has not id %s yet", name, id)
			}
		}
		starts, err := admin.ListStartOffsets(ctx, topics.Names()...)
		if err != nil {
			return err
		}
		return starts.Error()
	}
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

// alter changes settings, also of brokers, and adds partitions.
func (f *filler) alter(ctx context.Context) error {
	return f.admin(func(admin *kadm.Client) error {
		set := []kadm.AlterConfig{
			{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("31536000000")},
			{Op: kadm.DeleteConfig, Name: "max.message.bytes"},
		}
		altered, err := admin.AlterTopicConfigs(ctx, set, trimmed, grown)
		if err == nil {
			for _, a := range altered {
				err = a.Err
			}
		}
		if err == nil {
			_, err = admin.AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "log.retention.ms",
				Value: kadm.StringPtr("-1")}})
		}
		if err != nil {
			return err
		}
		more, err := admin.CreatePartitions(ctx, 2, grown)
		if err == nil {
			err = more.Error()
		}
		return err
	})
}

// produce writes batches of every codec to each partition, idempotent and not.
func (f *filler) produce(ctx context.Context) error {
	f.lives++
	for i, codec := range codecs {
		f.begun = f.begun.Add(time.Hour)
		opts := []kgo.Opt{
			kgo.SeedBrokers(f.addr), kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.UnknownTopicRetries(-1),
		}
		if i%2 == 1 {
			opts = append(opts, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
		}
		c, err := kgo.NewClient(opts...)
		if err != nil {
			return err
		}
		err = c.ProduceSync(ctx, f.batches(i)...).FirstErr()
		c.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// batches returns a batch for every partition that existed from the beginning.
func (f *filler) batches(codec int) []*kgo.Record {
	var all []*kgo.Record
	for i := range f.size.Topics {
		can := corpus.Abilities{NoEmptyKeys: true, NoBareNulls: topicName(i) == compacted}
		for p := range int32(i%3 + 1) {
			f.seed++
			for _, r := range corpus.Mixed(f.seed, f.size.Records, can) {
				if f.size.ValueBytes > 0 && len(r.Value) > f.size.ValueBytes {
					r.Value = r.Value[:f.size.ValueBytes]
				}
				if topicName(i) == compacted && r.Key == nil {
					r.Key = fmt.Appendf(nil, "key %d", codec)
				}
				record := &kgo.Record{Topic: topicName(i), Partition: p, Key: r.Key, Value: r.Value,
					Timestamp: f.begun.Add(time.Duration(r.Timestamp-corpus.BaseTimestamp) * time.Millisecond)}
				for _, h := range r.Headers {
					record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
				}
				all = append(all, record)
			}
		}
	}
	return all
}

// transactions commits one and aborts one.
func (f *filler) transactions(ctx context.Context) error {
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		c, err := kgo.NewClient(kgo.SeedBrokers(f.addr), kgo.TransactionalID(fmt.Sprint("ends with ", end)))
		if err != nil {
			return err
		}
		err = c.BeginTransaction()
		if err == nil {
			err = c.ProduceSync(ctx, &kgo.Record{Topic: transactional, Value: []byte("in a transaction")}).FirstErr()
		}
		if err == nil {
			err = c.EndTransaction(ctx, end)
		}
		c.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// deleteRecords moves the start of a log into the middle of a batch.
func (f *filler) deleteRecords(ctx context.Context) error {
	return f.admin(func(admin *kadm.Client) error {
		var to kadm.Offsets
		to.Add(kadm.Offset{Topic: trimmed, Partition: 1, At: f.lives*4*int64(f.size.Records) - int64(f.size.Records)/2})
		deleted, err := admin.DeleteRecords(ctx, to)
		if err == nil {
			err = deleted.Error()
		}
		return err
	})
}

// commit commits offsets of groups without members; the last one is left to consumeInGroup.
func (f *filler) commit(ctx context.Context) error {
	return f.admin(func(admin *kadm.Client) error {
		for g := range f.size.Groups - 1 {
			var at kadm.Offsets
			for i := g; i < f.size.Topics; i += 2 {
				at.Add(kadm.Offset{Topic: topicName(i), Partition: 0, At: f.lives*10 + int64(g), LeaderEpoch: 0,
					Metadata: fmt.Sprintf("life %d", f.lives)})
			}
			committed, err := admin.CommitOffsets(ctx, fmt.Sprintf("group-%d", g), at)
			if err == nil {
				err = committed.Error()
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// consumeInGroup reads and commits as a member of a group.
func (f *filler) consumeInGroup(ctx context.Context) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(f.addr), kgo.ConsumerGroup(fmt.Sprintf("group-%d", f.size.Groups-1)),
		kgo.ConsumeTopics(trimmed, grown), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer c.Close()
	fetches := c.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		return err
	}
	if err := c.CommitUncommittedOffsets(ctx); err != nil {
		return err
	}
	return c.LeaveGroupContext(ctx)
}
