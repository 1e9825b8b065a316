package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// deleteRequest asks to delete records of a topic: pairs of a partition and an offset.
func deleteRequest(version int16, topic string, pairs ...int64) *kmsg.DeleteRecordsRequest {
	req := at(version, kmsg.NewPtrDeleteRecordsRequest())
	req.TimeoutMillis = 10_000
	rt := kmsg.DeleteRecordsRequestTopic{Topic: topic}
	for i := 0; i < len(pairs); i += 2 {
		rt.Partitions = append(rt.Partitions, kmsg.DeleteRecordsRequestTopicPartition{Partition: int32(pairs[i]), Offset: pairs[i+1]})
	}
	req.Topics = append(req.Topics, rt)
	return req
}

func lowWatermark(partition int32, low int64, code int16) kmsg.DeleteRecordsResponseTopicPartition {
	return kmsg.DeleteRecordsResponseTopicPartition{Partition: partition, LowWatermark: low, ErrorCode: code}
}

func TestDeleteRecordsMovesTheStartInEveryVersion(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 2, nil)
	c := r.dial()
	c.mustProduce(topic, 0, records("a", "b", "c", "d", "e"))
	c.mustProduce(topic, 1, records("x", "y"))
	for version, offset := range []int64{1, 2, 3} {
		resp := do[*kmsg.DeleteRecordsResponse](c, deleteRequest(int16(version), "t", 0, offset, 1, 0))
		require.Equal(t, []kmsg.DeleteRecordsResponseTopicPartition{lowWatermark(0, offset, 0), lowWatermark(1, 0, 0)},
			resp.Topics[0].Partitions)
		require.Equal(t, codeOffsetOutOfRange, c.fetchOne(fetchFrom(13, topic, 0, offset-1)).ErrorCode)
	}
	require.Equal(t, int64(3), r.log(topic, 0).Offsets().LogStart)

	resp := do[*kmsg.DeleteRecordsResponse](c, deleteRequest(2, "t", 0, 1)) // below the start: no change
	require.Equal(t, lowWatermark(0, 3, 0), resp.Topics[0].Partitions[0])
	resp = do[*kmsg.DeleteRecordsResponse](c, deleteRequest(2, "t", 0, -1, 1, -1)) // to the high watermark
	require.Equal(t, []kmsg.DeleteRecordsResponseTopicPartition{lowWatermark(0, 5, 0), lowWatermark(1, 2, 0)},
		resp.Topics[0].Partitions)
	require.Equal(t, int64(5), c.mustProduce(topic, 0, records("f")))
}

func TestDeleteRecordsErrors(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 3, nil)
	compacted := r.topic("compacted", 1, map[string]string{"cleanup.policy": "compact"})
	both := r.topic("both", 1, map[string]string{"cleanup.policy": "compact,delete"})
	r.topic("__consumer_offsets", 1, nil)
	r.backend.setPartition("t", 2, Partition{Leader: testNode + 1})
	c := r.dial()
	c.mustProduce(topic, 0, records("a"))
	c.mustProduce(compacted, 0, records("a"))
	c.mustProduce(both, 0, records("a"))
	tests := []struct {
		topic             string
		partition, offset int64
		want              kmsg.DeleteRecordsResponseTopicPartition
	}{
		{"t", 0, 2, lowWatermark(0, -1, codeOffsetOutOfRange)},
		{"t", 0, -2, lowWatermark(0, -1, codeOffsetOutOfRange)},
		{"t", 2, 0, lowWatermark(2, -1, codeNotLeaderOrFollower)},
		{"t", 3, 0, lowWatermark(3, -1, codeUnknownTopicOrPartition)},
		{"t", -1, 0, lowWatermark(-1, -1, codeUnknownTopicOrPartition)},
		{"nowhere", 0, 0, lowWatermark(0, -1, codeUnknownTopicOrPartition)},
		{"compacted", 0, 1, lowWatermark(0, -1, codePolicyViolation)},
		{"both", 0, 1, lowWatermark(0, 1, codeNone)},
		{"__consumer_offsets", 0, 0, lowWatermark(0, -1, codeInvalidTopicException)},
	}
	for _, test := range tests {
		resp := do[*kmsg.DeleteRecordsResponse](c, deleteRequest(2, test.topic, test.partition, test.offset))
		require.Equal(t, test.want, resp.Topics[0].Partitions[0], "%v", test)
	}
	require.Equal(t, int64(0), r.log(topic, 0).Offsets().LogStart)
}

func TestOfAPartitionNamedTwiceTheLastOffsetIsDeletedTo(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 2, nil)
	c := r.dial()
	c.mustProduce(topic, 0, records("a", "b", "c"))
	resp := do[*kmsg.DeleteRecordsResponse](c, deleteRequest(2, "t", 0, 2, 1, 0, 0, 1))
	require.Equal(t, []kmsg.DeleteRecordsResponseTopicPartition{lowWatermark(1, 0, 0), lowWatermark(0, 1, 0)},
		resp.Topics[0].Partitions)
}
