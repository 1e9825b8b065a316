package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func epochRequest(version int16, topic string, partition, current, epoch int32) *kmsg.OffsetForLeaderEpochRequest {
	req := at(version, kmsg.NewPtrOffsetForLeaderEpochRequest())
	req.ReplicaID = -2
	req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{
		Topic: topic,
		Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{
			{Partition: partition, CurrentLeaderEpoch: current, LeaderEpoch: epoch},
		},
	}}
	return req
}

func endOf(partition, epoch int32, end int64, code int16) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	return kmsg.OffsetForLeaderEpochResponseTopicPartition{Partition: partition, LeaderEpoch: epoch, EndOffset: end, ErrorCode: code}
}

func TestF51_EveryEpochHasItsEndOffset(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 2, nil)
	c := r.dial()
	c.mustProduce(topic, 0, records("a", "b"))
	r.reopen(topic, 0, 3)
	c.mustProduce(topic, 0, records("c"))
	r.reopen(topic, 0, 5)
	c.mustProduce(topic, 0, records("d", "e"))
	tests := []struct {
		name           string
		current, epoch int32
		want           kmsg.OffsetForLeaderEpochResponseTopicPartition
	}{
		{"the first", -1, 0, endOf(0, 0, 2, 0)},
		{"between two", -1, 2, endOf(0, 0, 2, 0)},
		{"the second", 5, 3, endOf(0, 3, 3, 0)},
		{"the newest", 5, 5, endOf(0, 5, 5, 0)},
		{"newer than all", -1, 6, endOf(0, -1, -1, 0)},
		{"none, which is no epoch that is too old", -1, -1, endOf(0, -1, -1, 0)},
		{"a client that is behind", 3, 3, endOf(0, -1, -1, codeFencedLeaderEpoch)},
		{"a client that is ahead", 6, 3, endOf(0, -1, -1, codeUnknownLeaderEpoch)},
	}
	for version := int16(2); version <= 4; version++ {
		for _, test := range tests {
			resp := do[*kmsg.OffsetForLeaderEpochResponse](c, epochRequest(version, "t", 0, test.current, test.epoch))
			require.Equal(t, test.want, resp.Topics[0].Partitions[0], test.name)
		}
	}
}

func TestOffsetForLeaderEpochErrors(t *testing.T) {
	r := newRig(t)
	r.topic("t", 2, nil)
	r.backend.setPartition("t", 1, Partition{Leader: testNode + 1})
	c := r.dial()
	for _, test := range []struct {
		topic     string
		partition int32
		want      int16
	}{
		{"nowhere", 0, codeUnknownTopicOrPartition},
		{"t", 2, codeUnknownTopicOrPartition},
		{"t", 1, codeNotLeaderOrFollower},
	} {
		resp := do[*kmsg.OffsetForLeaderEpochResponse](c, epochRequest(4, test.topic, test.partition, -1, 0))
		require.Equal(t, endOf(test.partition, -1, -1, test.want), resp.Topics[0].Partitions[0])
	}
}
