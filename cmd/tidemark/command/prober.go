package command

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// prober finds out whether there is a record between two offsets. Offsets alone do not show that: control records, gaps
// of compaction and aborted transactions take offsets but are never seen by a reader.
type prober struct {
	kc        *kgo.Client
	topic     string
	id        [16]byte
	leaders   map[int32]int32
	committed bool
}

// newProber returns a prober of a topic.
func newProber(kc *kgo.Client, about kadm.TopicDetail, committed bool) *prober {
	leaders := make(map[int32]int32, len(about.Partitions))
	for p, d := range about.Partitions {
		leaders[p] = d.Leader
	}
	return &prober{kc: kc, topic: about.Topic, id: about.ID, leaders: leaders, committed: committed}
}

// probeBytes is how much a probe requests at once. A larger batch comes whole.
const probeBytes = 64 << 10

// empty reports whether there is no record between two offsets of a partition.
func (p *prober) empty(ctx context.Context, partition int32, from, end int64) (bool, error) {
	for from < end {
		got, err := p.fetch(ctx, partition, from)
		if err != nil {
			return false, err
		}
		if len(got.offsets) > 0 {
			return got.offsets[0] >= end, nil
		}
		if got.next <= from {
			return got.bound >= end, nil // the server looked up to there and found nothing
		}
		from = got.next
	}
	return true, nil
}

// probed is what one fetch found.
type probed struct {
	offsets []int64 // of records that a reader would see
	next    int64   // where to continue
	bound   int64   // where the server stops serving
}

func (p *prober) fetch(ctx context.Context, partition int32, from int64) (probed, error) {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxBytes, req.SessionEpoch = -1, probeBytes, -1
	isolation := kgo.ReadUncommitted()
	if p.committed {
		req.IsolationLevel, isolation = 1, kgo.ReadCommitted()
	}
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = partition, from, probeBytes
	rp.CurrentLeaderEpoch, rp.LogStartOffset, rp.LastFetchedEpoch = -1, -1, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID, rt.Partitions = p.topic, p.id, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	answer, err := p.kc.Broker(int(p.leaders[partition])).RetriableRequest(ctx, req)
	if err != nil {
		return probed{}, err
	}
	resp := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return probed{}, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return probed{}, errors.New("the server answered a fetch of one partition with something else")
	}
	data := &resp.Topics[0].Partitions[0]
	if data.ErrorCode == kerr.OffsetOutOfRange.Code && data.LogStartOffset > from {
		return probed{next: data.LogStartOffset}, nil // removed meanwhile
	}
	if err := kerr.ErrorForCode(data.ErrorCode); err != nil {
		return probed{}, err
	}
	records, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: from, IsolationLevel: isolation, Topic: p.topic, Partition: partition,
	}, data, kgo.DefaultDecompressor(), nil)
	if records.Err != nil {
		return probed{}, records.Err
	}
	out := probed{next: next, bound: data.HighWatermark}
	if p.committed {
		out.bound = data.LastStableOffset
	}
	for _, r := range records.Records {
		out.offsets = append(out.offsets, r.Offset)
	}
	return out, nil
}
