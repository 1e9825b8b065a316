package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/partition"
)

// # DescribeProducers (61): version 0
//
// Returns, for each partition, the producers that its log knows: their epochs, their last sequence numbers, and where their
// open transactions begin. kafka-transactions.sh finds hanging transactions with it.
//
// Errors of a partition: INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, INVALID_REQUEST for
// one that is named twice (an answer may be long), KAFKA_STORAGE_ERROR.
func describeProducersAPI() api {
	return api{
		key: 61, name: "DescribeProducers", min: 0, max: 0, served: 0, flexible: 0,
		shape:  shape{list(160, text(), listOf(120, fixed(4)))},
		handle: decoding(kmsg.NewPtrDescribeProducersRequest, (*call).describeProducers),
	}
}

// namedPartition is a partition as a request names it.
type namedPartition struct {
	topic string
	index int32
}

func (c *call) describeProducers(req *kmsg.DescribeProducersRequest) (answer, error) {
	topics := c.server.backend.Topics()
	seen := make(map[namedPartition]bool)
	resp := kmsg.NewPtrDescribeProducersResponse()
	resp.Topics = make([]kmsg.DescribeProducersResponseTopic, len(req.Topics))
	for i, rt := range req.Topics {
		t, lookup := topicRef{name: rt.Topic}.find(topics)
		if err := checkTopicName(rt.Topic); err != nil {
			lookup = err
		}
		out := &resp.Topics[i]
		out.Topic = rt.Topic
		out.Partitions = make([]kmsg.DescribeProducersResponseTopicPartition, len(rt.Partitions))
		for j, index := range rt.Partitions {
			err, key := lookup, namedPartition{rt.Topic, index}
			if seen[key] {
				err = errDuplicatePartition
			}
			seen[key] = true
			out.Partitions[j] = c.producersOf(t, index, err)
		}
	}
	return c.reply(resp), nil
}

// producersOf answers one partition, or fails it with err if that is set.
func (c *call) producersOf(t *Topic, index int32, err error) kmsg.DescribeProducersResponseTopicPartition {
	out := kmsg.DescribeProducersResponseTopicPartition{Partition: index}
	var log *partition.Log
	if err == nil {
		log, err = c.server.lead(t, index)
	}
	var producers []partition.Producer
	if err == nil {
		producers, err = log.Producers()
	}
	for _, p := range producers {
		out.ActiveProducers = append(out.ActiveProducers, kmsg.DescribeProducersResponseTopicPartitionActiveProducer{
			ProducerID: p.ID, ProducerEpoch: int32(p.Epoch), LastSequence: p.LastSequence, LastTimestamp: p.LastTimestamp,
			CoordinatorEpoch: p.CoordinatorEpoch, CurrentTxnStartOffset: p.TxnStart,
		})
	}
	out.ErrorCode, out.ErrorMessage = codeByTopic(err, false), message(err)
	return out
}
