package kafkafiles

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/tidemark-io/tidemark/interop/corpus"
)

// asker asks a running Kafka about one partition 0.
type asker struct {
	addr   string
	topic  string
	client *kgo.Client // speaks versions that name topics by their names
}

// question adds some of Kafka's answers to the partition.
type question func(asker, context.Context, *Partition) error

// everything is what Apache Kafka can be asked; later questions build on the answers to earlier ones.
var everything = []question{
	asker.bounds, asker.batches, asker.aborted, asker.records, asker.producers, asker.timestamps, asker.epochs,
}

// ask asks the questions about partition 0 of the topic.
func ask(ctx context.Context, addr, topic string, questions ...question) (*Partition, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.MaxVersions(kversion.V2_8_0()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	a := asker{addr: addr, topic: topic, client: client}
	p := &Partition{}
	for _, q := range questions {
		if err := q(a, ctx, p); err != nil {
			return nil, fmt.Errorf("kafkafiles: asking about %s: %w", topic, err)
		}
	}
	return p, nil
}

func (a asker) bounds(ctx context.Context, p *Partition) error {
	admin := kadm.NewClient(a.client)
	for _, q := range []struct {
		list func(context.Context, ...string) (kadm.ListedOffsets, error)
		into *int64
	}{
		{admin.ListStartOffsets, &p.LogStart},
		{admin.ListEndOffsets, &p.LogEnd},
		{admin.ListCommittedOffsets, &p.LastStable},
	} {
		listed, err := q.list(ctx, a.topic)
		if err == nil {
			err = listed.Error()
		}
		if err != nil {
			return err
		}
		o, _ := listed.Lookup(a.topic, 0)
		*q.into = o.Offset
	}
	return nil
}

// batches fetches the stored bytes and parses the headers, with code that is not ours.
func (a asker) batches(ctx context.Context, p *Partition) error {
	const headerBytes = 61
	for next := p.LogStart; next < p.LogEnd; {
		fetched, err := a.fetch(ctx, next, 0)
		if err != nil {
			return err
		}
		raw, before := fetched.RecordBatches, next
		for len(raw) >= headerBytes {
			r := kbin.Reader{Src: raw[8:]}
			size := 12 + int(r.Int32())
			if len(raw) < size {
				break
			}
			var b kmsg.RecordBatch
			if err := b.ReadFrom(raw[:size]); err != nil {
				return err
			}
			p.Batches = append(p.Batches, Batch{
				BaseOffset: b.FirstOffset, LastOffset: b.FirstOffset + int64(b.LastOffsetDelta), Size: int32(size),
				LeaderEpoch: b.PartitionLeaderEpoch, CRC: uint32(b.CRC), Attributes: b.Attributes,
				BaseTimestamp: b.FirstTimestamp, MaxTimestamp: b.MaxTimestamp,
				ProducerID: b.ProducerID, ProducerEpoch: b.ProducerEpoch, BaseSequence: b.FirstSequence, Count: b.NumRecords,
			})
			next = b.FirstOffset + int64(b.LastOffsetDelta) + 1
			raw = raw[size:]
		}
		if next == before {
			return fmt.Errorf("nothing at offset %d of [%d, %d)", next, p.LogStart, p.LogEnd)
		}
	}
	return nil
}

// aborted asks for the aborted transactions that touch each batch.
func (a asker) aborted(ctx context.Context, p *Partition) error {
	for _, b := range p.Batches {
		if b.BaseOffset >= p.LastStable {
			break
		}
		const readCommitted = 1
		fetched, err := a.fetch(ctx, max(b.BaseOffset, p.LogStart), readCommitted)
		if err != nil {
			return err
		}
		for _, t := range fetched.AbortedTransactions {
			if one := (Aborted{ProducerID: t.ProducerID, FirstOffset: t.FirstOffset}); !slices.Contains(p.Aborted, one) {
				p.Aborted = append(p.Aborted, one)
			}
		}
	}
	slices.SortFunc(p.Aborted, func(a, b Aborted) int { return int(a.FirstOffset - b.FirstOffset) })
	return nil
}

func (a asker) fetch(ctx context.Context, offset int64, isolation int8) (kmsg.FetchResponseTopicPartition, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes = 100 << 20
	req.SessionEpoch = -1
	req.IsolationLevel = isolation
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = a.topic
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.FetchOffset = offset
	partition.PartitionMaxBytes = 50 << 20
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, a.client.SeedBrokers()[0])
	if err != nil {
		return kmsg.FetchResponseTopicPartition{}, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return kmsg.FetchResponseTopicPartition{}, errors.New("the answer to a fetch misses the partition")
	}
	answer := resp.Topics[0].Partitions[0]
	return answer, kerr.ErrorForCode(answer.ErrorCode)
}

func (a asker) records(ctx context.Context, p *Partition) error {
	if p.LogStart == p.LogEnd {
		return nil
	}
	from := map[string]map[int32]kgo.Offset{a.topic: {0: kgo.NewOffset().At(p.LogStart)}}
	c, err := kgo.NewClient(kgo.SeedBrokers(a.addr), kgo.ConsumePartitions(from), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	if err != nil {
		return err
	}
	defer c.Close()
	for next := p.LogStart; next < p.LogEnd; {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			record := Record{LeaderEpoch: r.LeaderEpoch, Control: r.Attrs.IsControl(), Record: corpus.Record{
				Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value,
			}}
			for _, h := range r.Headers {
				record.Headers = append(record.Headers, corpus.Header{Key: h.Key, Value: h.Value})
			}
			p.Records = append(p.Records, record)
			next = r.Offset + 1
		})
	}
	return nil
}

func (a asker) producers(ctx context.Context, p *Partition) error {
	req := kmsg.NewPtrDescribeProducersRequest()
	topic := kmsg.NewDescribeProducersRequestTopic()
	topic.Topic = a.topic
	topic.Partitions = []int32{0}
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, a.client)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, partition := range t.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return err
			}
			for _, active := range partition.ActiveProducers {
				p.Producers = append(p.Producers, Producer{
					ID: active.ProducerID, Epoch: active.ProducerEpoch, LastSequence: active.LastSequence,
					LastTimestamp: active.LastTimestamp, CoordinatorEpoch: active.CoordinatorEpoch,
					TxnStart: active.CurrentTxnStartOffset,
				})
			}
		}
	}
	slices.SortFunc(p.Producers, func(a, b Producer) int { return int(a.ID - b.ID) })
	return nil
}

// maxTimestamp is what ListOffsets is asked for the record with the largest timestamp.
const maxTimestamp = -3

// timestamps asks for every timestamp that occurs, for the one after it, and for the largest. It does not ask for one
// that only records below the log start have: Kafka finds their segment, if it still exists, finds nothing in it, and
// answers that there is none, where Tidemark continues.
func (a asker) timestamps(ctx context.Context, p *Partition) error {
	asks := map[int64]bool{}
	for _, r := range p.Records {
		asks[r.Timestamp], asks[r.Timestamp+1] = true, true
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(a.addr))
	if err != nil {
		return err
	}
	defer c.Close()
	admin := kadm.NewClient(c)
	note := func(ask int64, listed kadm.ListedOffsets, err error) error {
		if err == nil {
			err = listed.Error()
		}
		if err != nil {
			return fmt.Errorf("timestamp %d: %w", ask, err)
		}
		o, _ := listed.Lookup(a.topic, 0)
		answer := TimestampAnswer{Ask: ask, Offset: o.Offset, Timestamp: o.Timestamp}
		if answer.Timestamp == -1 && ask != maxTimestamp {
			answer.Offset = -1 // kadm returns the log end where Kafka has no answer
		}
		p.ByTimestamp = append(p.ByTimestamp, answer)
		return nil
	}
	sorted := make([]int64, 0, len(asks))
	for ask := range asks {
		sorted = append(sorted, ask)
	}
	slices.Sort(sorted)
	for _, ask := range sorted {
		listed, err := admin.ListOffsetsAfterMilli(ctx, ask, a.topic)
		if err := note(ask, listed, err); err != nil {
			return err
		}
	}
	listed, err := admin.ListMaxTimestampOffsets(ctx, a.topic)
	return note(maxTimestamp, listed, err)
}

// epochs asks for the end of every epoch up to one more than the last. A broker that registered late, as on a busy
// machine, is elected again after its last record. Answers about such an epoch are left out: the files may not have it.
func (a asker) epochs(ctx context.Context, p *Partition) error {
	last := int32(0)
	for _, b := range p.Batches {
		last = max(last, b.LeaderEpoch)
	}
	for epoch := range last + 2 {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		topic := kmsg.NewOffsetForLeaderEpochRequestTopic()
		topic.Topic = a.topic
		partition := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		partition.CurrentLeaderEpoch = -1
		partition.LeaderEpoch = epoch
		topic.Partitions = append(topic.Partitions, partition)
		req.Topics = append(req.Topics, topic)
		resp, err := req.RequestWith(ctx, a.client)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, answer := range t.Partitions {
				if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
					return err
				}
				if epoch > last && answer.LeaderEpoch >= 0 {
					continue
				}
				p.ByEpoch = append(p.ByEpoch, EpochAnswer{Ask: epoch, Epoch: answer.LeaderEpoch, End: answer.EndOffset})
			}
		}
	}
	return nil
}
