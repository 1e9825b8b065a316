package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestDescribeProducersTellsWhatTheLogKnows(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 3, nil)
	r.backend.setPartition("t", 2, Partition{Leader: testNode + 1})
	c := r.dial()
	c.mustProduce(topic, 0, idempotent(1002, 3, 0, "a", "b"))
	c.mustProduce(topic, 0, idempotent(1001, 0, 0, "c"))
	openTransaction(t, r.log(topic, 0), records("d"))

	req := kmsg.NewPtrDescribeProducersRequest()
	req.Topics = []kmsg.DescribeProducersRequestTopic{
		{Topic: "t", Partitions: []int32{0, 1, 2, 3, 0}},
		{Topic: "nowhere", Partitions: []int32{0}},
		{Topic: "a b", Partitions: []int32{0}},
	}
	resp := do[*kmsg.DescribeProducersResponse](c, req)
	require.Equal(t, []kmsg.DescribeProducersResponseTopicPartitionActiveProducer{
		{ProducerID: 42, LastTimestamp: testTime, CoordinatorEpoch: -1, CurrentTxnStartOffset: 3},
		{ProducerID: 1001, LastTimestamp: testTime, CoordinatorEpoch: -1, CurrentTxnStartOffset: -1},
		{ProducerID: 1002, ProducerEpoch: 3, LastSequence: 1, LastTimestamp: testTime + 1, CoordinatorEpoch: -1, CurrentTxnStartOffset: -1},
	}, resp.Topics[0].Partitions[0].ActiveProducers)
	var codes [][]int16
	for _, topic := range resp.Topics {
		var of []int16
		for _, p := range topic.Partitions {
			of = append(of, p.ErrorCode)
			require.Equal(t, p.ErrorCode == codeNone, p.ErrorMessage == nil)
		}
		codes = append(codes, of)
	}
	require.Equal(t, [][]int16{
		{codeNone, codeNone, codeNotLeaderOrFollower, codeUnknownTopicOrPartition, codeInvalidRequest},
		{codeUnknownTopicOrPartition},
		{codeInvalidTopicException},
	}, codes)
}
