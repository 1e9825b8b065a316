package broker

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func growTo(topic string, total int32, replicas ...[]int32) kmsg.CreatePartitionsRequestTopic {
	t := kmsg.CreatePartitionsRequestTopic{Topic: topic, Count: total}
	for _, r := range replicas {
		t.Assignment = append(t.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: r})
	}
	return t
}

func growRequest(version int16, topics ...kmsg.CreatePartitionsRequestTopic) *kmsg.CreatePartitionsRequest {
	req := at(version, kmsg.NewPtrCreatePartitionsRequest())
	req.TimeoutMillis, req.Topics = 10_000, topics
	return req
}

func TestCreatePartitionsGrowsATopicInEveryVersion(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	for version := int16(0); version <= 3; version++ {
		total := int32(version)*2 + 3
		resp := do[*kmsg.CreatePartitionsResponse](c, growRequest(version, growTo("t", total)))
		require.Equal(t, []kmsg.CreatePartitionsResponseTopic{{Topic: "t"}}, resp.Topics)
		require.Equal(t, int64(0), c.mustProduce(topic, total-1, records("x")))
		described := do[*kmsg.MetadataResponse](c, metadataOf(12, false, "t"))
		require.Len(t, described.Topics[0].Partitions, int(total))
		require.Equal(t, topic.ID, described.Topics[0].TopicID)
	}
	resp := do[*kmsg.CreatePartitionsResponse](c, growRequest(3, growTo("t", 11, []int32{testNode}, []int32{testNode})))
	require.Equal(t, codeNone, resp.Topics[0].ErrorCode)
}

func TestCreatePartitionsErrors(t *testing.T) {
	r := newRig(t)
	r.topic("t", 2, nil)
	c := r.dial()
	tests := []struct {
		name string
		ask  kmsg.CreatePartitionsRequestTopic
		want int16
		text string
	}{
		{"as many", growTo("t", 2), codeInvalidPartitions, "Topic already has 2 partition(s)."},
		{"fewer", growTo("t", 1), codeInvalidPartitions, "The topic t currently has 2 partition(s); 1 would not be an increase."},
		{"below zero", growTo("t", -1), codeInvalidPartitions, "The topic t currently has 2 partition(s); -1 would not be an increase."},
		{"a topic that is not there", growTo("nowhere", 3), codeUnknownTopicOrPartition, ErrUnknownTopic.Error()},
		{"too many", growTo("t", 10_003), codePolicyViolation, "Excessively large number of additional partitions per request."},
		{"too few replica lists", growTo("t", 4, []int32{testNode}), codeInvalidReplicaAssignment,
			"Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."},
		{"no replicas", growTo("t", 3, []int32{}), codeInvalidReplicaAssignment, "partition 2 has 0 replicas"},
		{"a node that is not there", growTo("t", 3, []int32{99}), codeInvalidReplicaAssignment,
			"partition 2 is assigned to node 99, which is not there"},
	}
	for _, validate := range []bool{false, true} {
		for _, test := range tests {
			req := growRequest(3, test.ask)
			req.ValidateOnly = validate
			resp := do[*kmsg.CreatePartitionsResponse](c, req)
			require.Equal(t, []kmsg.CreatePartitionsResponseTopic{
				{Topic: test.ask.Topic, ErrorCode: test.want, ErrorMessage: &test.text},
			}, resp.Topics, test.name)
		}
	}
	resp := do[*kmsg.CreatePartitionsResponse](c, growRequest(3, growTo("t", 3), growTo("u", 1), growTo("t", 4)))
	require.Len(t, resp.Topics, 2)
	require.Equal(t, codeInvalidRequest, resp.Topics[0].ErrorCode)
	require.Equal(t, codeUnknownTopicOrPartition, resp.Topics[1].ErrorCode)

	req := growRequest(3, growTo("t", 3))
	req.ValidateOnly = true
	require.Equal(t, codeNone, do[*kmsg.CreatePartitionsResponse](c, req).Topics[0].ErrorCode)
	described, _ := r.backend.Topics().ByName("t")
	require.Len(t, described.Partitions, 2, "nothing was created")

	r.backend.failing = errors.New("no room")
	require.Equal(t, codeUnknownServerError, do[*kmsg.CreatePartitionsResponse](c, growRequest(3, growTo("t", 3))).Topics[0].ErrorCode)
	r.backend.failing = nil
}
