package broker

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func pageRequest(limit int32, cursor *kmsg.DescribeTopicPartitionsRequestCursor, topics ...string) *kmsg.DescribeTopicPartitionsRequest {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit, req.Cursor = limit, cursor
	for _, t := range topics {
		req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: t})
	}
	return req
}

// page is what an answer tells, in short: topic, code and the partitions, and the cursor.
func page(resp *kmsg.DescribeTopicPartitionsResponse) (lines []string) {
	for _, t := range resp.Topics {
		line := fmt.Sprintf("%s %d", *t.Topic, t.ErrorCode)
		for _, p := range t.Partitions {
			line += fmt.Sprintf(" %d", p.Partition)
		}
		lines = append(lines, line)
	}
	if resp.NextCursor != nil {
		lines = append(lines, fmt.Sprintf("> %s %d", resp.NextCursor.Topic, resp.NextCursor.Partition))
	}
	return lines
}

func TestDescribeTopicPartitionsTellsATopic(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 2, nil)
	r.topic("__consumer_offsets", 1, nil)
	r.backend.setPartition("t", 1, Partition{Leader: -1, LeaderEpoch: 4, Replicas: []int32{8}, InSync: []int32{}})
	c := r.dial()
	got := do[*kmsg.DescribeTopicPartitionsResponse](c, pageRequest(10, nil, "t"))
	want := kmsg.DescribeTopicPartitionsResponseTopic{
		Topic: kmsg.StringPtr("t"), TopicID: topic.ID, AuthorizedOperations: allTopicOperations,
		Partitions: []kmsg.DescribeTopicPartitionsResponseTopicPartition{
			{Partition: 0, LeaderID: testNode, Replicas: []int32{testNode}, ISR: []int32{testNode},
				EligibleLeaderReplicas: []int32{}, LastKnownELR: []int32{}},
			{Partition: 1, LeaderID: -1, LeaderEpoch: 4, Replicas: []int32{8}, ErrorCode: codeLeaderNotAvailable,
				EligibleLeaderReplicas: []int32{}, LastKnownELR: []int32{}},
		},
	}
	require.Equal(t, []kmsg.DescribeTopicPartitionsResponseTopic{want}, got.Topics)
	got = do[*kmsg.DescribeTopicPartitionsResponse](c, pageRequest(10, nil))
	require.Equal(t, []string{"__consumer_offsets 0 0", "t 0 0 1"}, page(got))
	require.True(t, got.Topics[0].IsInternal)
}

func TestDescribeTopicPartitionsInPages(t *testing.T) {
	r := newRig(t)
	r.topic("b", 3, nil)
	r.topic("a", 1, nil)
	r.topic("c", 2, nil)
	c := r.dial()
	cursor := func(topic string, partition int32) *kmsg.DescribeTopicPartitionsRequestCursor {
		return &kmsg.DescribeTopicPartitionsRequestCursor{Topic: topic, Partition: partition}
	}
	tests := []struct {
		name string
		req  *kmsg.DescribeTopicPartitionsRequest
		want []string
	}{
		{"all", pageRequest(100, nil), []string{"a 0 0", "b 0 0 1 2", "c 0 0 1"}},
		{"cut inside a topic", pageRequest(3, nil), []string{"a 0 0", "b 0 0 1", "> b 2"}},
		{"from there on", pageRequest(3, cursor("b", 2)), []string{"b 0 2", "c 0 0 1"}},
		{"cut between topics", pageRequest(4, nil), []string{"a 0 0", "b 0 0 1 2", "> c 0"}},
		{"a limit of 0 is 1", pageRequest(0, nil, "b"), []string{"b 0 0", "> b 1"}},
		{"named, sorted, once each", pageRequest(100, nil, "c", "a", "c"), []string{"a 0 0", "c 0 0 1"}},
		{"named, from a cursor on", pageRequest(100, cursor("b", 1), "c", "a", "b"), []string{"b 0 1 2", "c 0 0 1"}},
		{"a cursor behind the last partition", pageRequest(100, cursor("b", 9), "b"), []string{"b 0"}},
		{"a cursor at a topic that is gone", pageRequest(100, cursor("aa", 5)), []string{"b 0 0 1 2", "c 0 0 1"}},
		{"unknown and illegal", pageRequest(100, nil, "x", "a b", "a"), []string{"a 0 0", "a b 17", "x 3"}},
		{"unknown after a full page", pageRequest(1, nil, "a", "x"), []string{"a 0 0", "> x 0"}},
		{"a cursor that is not named", pageRequest(100, cursor("a", 0), "b", "c"), []string{"b 42", "c 42"}},
		{"a negative cursor", pageRequest(100, cursor("b", -1), "b"), []string{"b 42"}},
	}
	for _, test := range tests {
		require.Equal(t, test.want, page(do[*kmsg.DescribeTopicPartitionsResponse](c, test.req)), test.name)
	}
}

func TestDescribeTopicPartitionsHasAtMostTwoThousand(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1, nil)
	topic, _ := r.backend.Topics().ByName("t")
	grown := *topic
	grown.Partitions = make([]Partition, 2500)
	r.backend.mu.Lock()
	r.backend.topics[topic.ID], r.backend.view = &grown, nil
	r.backend.mu.Unlock()
	c := r.dial()
	resp := do[*kmsg.DescribeTopicPartitionsResponse](c, pageRequest(1<<30, nil))
	require.Len(t, resp.Topics[0].Partitions, 2000)
	require.Equal(t, int32(2000), resp.NextCursor.Partition)
	resp = do[*kmsg.DescribeTopicPartitionsResponse](c, pageRequest(1<<30,
		&kmsg.DescribeTopicPartitionsRequestCursor{Topic: "t", Partition: 2000}))
	require.Len(t, resp.Topics[0].Partitions, 500)
}
