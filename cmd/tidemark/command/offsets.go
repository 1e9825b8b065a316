package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// extent is the readable range of a partition: offsets from Start up to, but not including, End.
type extent struct {
	Start, End int64
}

// The special times of a ListOffsets request.
const (
	latestTime   = -1
	earliestTime = -2
)

// listed is one requested offset, or why there is none.
type listed struct {
	offset int64
	err    error
}

// askOffsets asks for one offset of each of a topic's partitions: that of the first record at or after a time in
// milliseconds, or latestTime or earliestTime. An offset is -1 if there is no such record.
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
		out[p] = listed{err: errors.New("it is missing from the server's answer")}
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

// listOffsets is askOffsets for callers that need all offsets.
func listOffsets(
	ctx context.Context, kc *kgo.Client, topic string, partitions []int32, time int64, committed bool,
) (map[int32]int64, error) {
	answers, err := askOffsets(ctx, kc, topic, partitions, time, committed)
	if err != nil {
		return nil, err
	}
	offsets := make(map[int32]int64, len(partitions))
	for _, p := range slices.Sorted(maps.Keys(answers)) {
		if err := answers[p].err; err != nil {
			return nil, explain("topic", topic, fmt.Errorf("partition %d: %w", p, err))
		}
		offsets[p] = answers[p].offset
	}
	return offsets, nil
}

// extents returns the readable ranges of partitions; committed leaves out what open transactions hold back.
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

// chosen returns the partitions to read: the requested ones, which must exist, or all.
func chosen(about kadm.TopicDetail, asked []int32) ([]int32, error) {
	all := slices.Sorted(maps.Keys(about.Partitions))
	if len(asked) == 0 {
		return all, nil
	}
	for _, p := range asked {
		if _, ok := about.Partitions[p]; !ok {
			return nil, fmt.Errorf("topic %q has partitions 0 to %d, not %d", about.Topic, len(all)-1, p)
		}
	}
	return asked, nil
}
