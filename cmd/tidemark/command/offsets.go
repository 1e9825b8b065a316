package command

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// extent is what can be read of a partition: offsets from Start up to, without it, End.
type extent struct {
	Start, End int64
}

// The special times of a ListOffsets request.
const (
	latestTime   = -1
	earliestTime = -2
)

// listed is one offset that was asked for, or why there is none.
type listed struct {
	offset int64
	err    error
}

// askOffsets asks for one offset of each of a topic's partitions: the first of a record that is not older than a time in
// milliseconds, latestTime or earliestTime. An offset is -1 where there is no such record.
func askOffsets(
	ctx context.Context, kc *kgo.Client, topic string, partitions []int32, time int64, committed bool,
) (map[int32]listed, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	if committed {
		req.IsolationLevel = 1
	}
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	out := make(map[int32]listed, len(partitions))
	for _, p := range partitions {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = p, time, -1
		rt.Partitions = append(rt.Partitions, rp)
		out[p] = listed{err: errors.New("the server said nothing of it")}
	}
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, kc)
	if err != nil {
		return nil, fmt.Errorf("topic %q: asking for offsets: %w", topic, err)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			out[p.Partition] = listed{p.Offset, kerr.ErrorForCode(p.ErrorCode)}
		}
	}
	return out, nil
}

// listOffsets is askOffsets for those who need all of them.
func listOffsets(
	ctx context.Context, kc *kgo.Client, topic string, partitions []int32, time int64, committed bool,
) (map[int32]int64, error) {
	answers, err := askOffsets(ctx, kc, topic, partitions, time, committed)
	if err != nil {
		return nil, err
	}
	offsets := make(map[int32]int64, len(partitions))
	for _, p := range sortedKeys(answers) {
		if err := answers[p].err; err != nil {
			return nil, explain("topic", topic, fmt.Errorf("partition %d: %w", p, err))
		}
		offsets[p] = answers[p].offset
	}
	return offsets, nil
}

// extents returns what can be read of partitions; committed leaves out what open transactions hold back.
func extents(ctx context.Context, kc *kgo.Client, topic string, partitions []int32, committed bool) (map[int32]extent, error) {
	starts, err := listOffsets(ctx, kc, topic, partitions, earliestTime, false)
	if err != nil {
		return nil, err
	}
	ends, err := listOffsets(ctx, kc, topic, partitions, latestTime, committed)
	if err != nil {
		return nil, err
	}
	out := make(map[int32]extent, len(partitions))
	for _, p := range partitions {
		out[p] = extent{Start: starts[p], End: max(starts[p], ends[p])}
	}
	return out, nil
}

// resolve turns a place into an offset of each partition. Offsets are as they were asked for, be they in what can be read
// or not; everything else is.
func (p place) resolve(ctx context.Context, kc *kgo.Client, topic string, readable map[int32]extent) (map[int32]int64, error) {
	out := make(map[int32]int64, len(readable))
	for partition, e := range readable {
		switch p.kind {
		case atStart:
			out[partition] = e.Start
		case atEnd:
			out[partition] = e.End
		case atOffset:
			out[partition] = p.n
		case beforeEnd:
			out[partition] = max(e.Start, e.End-p.n)
		}
	}
	if p.kind != atTime {
		return out, nil
	}
	found, err := listOffsets(ctx, kc, topic, sortedKeys(readable), p.n, false)
	if err != nil {
		return nil, err
	}
	for partition, e := range readable {
		out[partition] = e.End
		if at := found[partition]; at >= 0 {
			out[partition] = min(max(at, e.Start), e.End)
		}
	}
	return out, nil
}

func sortedKeys[V any](m map[int32]V) []int32 {
	keys := make([]int32, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// prober finds out whether there is anything to read between two offsets. Offsets alone do not tell: control records, what
// compaction removed and aborted transactions take offsets and are never seen by a reader.
type prober struct {
	kc        *kgo.Client
	topic     string
	id        [16]byte
	leaders   map[int32]int32
	committed bool
}

// probeBytes is how much a probe asks for at once. A batch that is larger comes whole.
const probeBytes = 64 << 10

// empty reports whether no record is between two offsets of a partition.
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
	next    int64   // where to go on
	bound   int64   // up to where the server may serve
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
