package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// # DeleteRecords (21): versions 0-2
//
// Makes an offset the first that can be read, for each partition named; -1 stands for the high watermark. The answer is sent
// when the new log start would survive a power cut, and contains it. An offset below the log start changes nothing and is no
// error. If a partition is named twice, the last offset counts, as in Kafka.
//
//	v2  flexible
//
// Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE below -1 and above the
// high watermark, POLICY_VIOLATION when cleanup.policy is compact alone, INVALID_TOPIC_EXCEPTION for an internal topic,
// KAFKA_STORAGE_ERROR. The timeout of the request is for other replicas, of which there are none.
func deleteRecordsAPI() api {
	return api{
		key: 21, name: "DeleteRecords", min: 0, max: 2, served: 0, flexible: 2,
		shape: shape{
			list(120, text(), list(120, fixed(4), fixed(8))), // partition, offset
			fixed(4), // timeout
		},
		handle: decoding(kmsg.NewPtrDeleteRecordsRequest, (*call).deleteRecords),
	}
}

func (c *call) deleteRecords(req *kmsg.DeleteRecordsRequest) (answer, error) {
	topics := c.server.backend.Topics()
	resp := kmsg.NewPtrDeleteRecordsResponse()
	resp.Topics = make([]kmsg.DeleteRecordsResponseTopic, len(req.Topics))
	for i, rt := range req.Topics {
		t, err := topicRef{name: rt.Topic}.find(topics)
		if err == nil && t.Internal {
			err = errInternalTopic
		}
		out := &resp.Topics[i]
		out.Topic = rt.Topic
		for _, rp := range lastOfEach(rt.Partitions) {
			p := kmsg.DeleteRecordsResponseTopicPartition{Partition: rp.Partition, LowWatermark: -1}
			failed := err
			if failed == nil {
				p.LowWatermark, failed = c.deleteBelow(t, rp)
			}
			p.ErrorCode = codeByTopic(failed, false)
			out.Partitions = append(out.Partitions, p)
		}
	}
	return c.reply(resp), nil
}

// lastOfEach drops all but the last entry of each partition.
func lastOfEach(asked []kmsg.DeleteRecordsRequestTopicPartition) []kmsg.DeleteRecordsRequestTopicPartition {
	last := make(map[int32]int, len(asked))
	for i, rp := range asked {
		last[rp.Partition] = i
	}
	kept := make([]kmsg.DeleteRecordsRequestTopicPartition, 0, len(last))
	for i, rp := range asked {
		if last[rp.Partition] == i {
			kept = append(kept, rp)
		}
	}
	return kept
}

// deleteBelow deletes the records of one partition and returns its new start, or -1 with an error.
func (c *call) deleteBelow(t *Topic, rp kmsg.DeleteRecordsRequestTopicPartition) (int64, error) {
	log, err := c.server.lead(t, rp.Partition)
	if err != nil {
		return -1, err
	}
	return log.DeleteRecords(rp.Offset)
}
