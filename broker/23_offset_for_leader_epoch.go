package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// # OffsetForLeaderEpoch (23): versions 2-4
//
// Returns, for each partition, the largest leader epoch that is at most the requested one, and the offset at which it
// ended. A consumer compares that with its own position to detect that the log was truncated below it. Epoch -1 and
// epochs newer than all known ones are answered with epoch and offset -1 and no error.
//
//	v2  the leader epoch that the client believes is current
//	v3  replica id: -2 is a consumer, which is what every client here is
//	v4  flexible
//
// Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
// KAFKA_STORAGE_ERROR.
func offsetForLeaderEpochAPI() api {
	return api{
		key: 23, name: "OffsetForLeaderEpoch", min: 2, max: 4, served: 2, flexible: 4,
		shape: shape{
			fixed(4).since(3), // replica id
			list(120, text(), list(140, fixed(4), fixed(4), fixed(4))), // partition, current epoch, asked epoch
		},
		handle: decoding(kmsg.NewPtrOffsetForLeaderEpochRequest, (*call).offsetForLeaderEpoch),
	}
}

func (c *call) offsetForLeaderEpoch(req *kmsg.OffsetForLeaderEpochRequest) (answer, error) {
	topics := c.server.backend.Topics()
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	resp.Topics = make([]kmsg.OffsetForLeaderEpochResponseTopic, len(req.Topics))
	for i, rt := range req.Topics {
		t, lookup := topicRef{name: rt.Topic}.find(topics)
		out := &resp.Topics[i]
		out.Topic = rt.Topic
		out.Partitions = make([]kmsg.OffsetForLeaderEpochResponseTopicPartition, len(rt.Partitions))
		for j, rp := range rt.Partitions {
			p := &out.Partitions[j]
			p.Partition, p.LeaderEpoch, p.EndOffset = rp.Partition, -1, -1
			err := lookup
			if err == nil {
				p.LeaderEpoch, p.EndOffset, err = c.endOfEpoch(t, rp)
			}
			p.ErrorCode = codeByTopic(err, false)
		}
	}
	return c.reply(resp), nil
}

// endOfEpoch answers one partition; the epoch and the offset are -1 with an error.
func (c *call) endOfEpoch(t *Topic, rp kmsg.OffsetForLeaderEpochRequestTopicPartition) (epoch int32, end int64, err error) {
	log, err := c.server.lead(t, rp.Partition)
	if err != nil {
		return -1, -1, err
	}
	if err := log.CheckLeaderEpoch(rp.CurrentLeaderEpoch); err != nil {
		return -1, -1, err
	}
	epoch, end = log.EndOffsetForEpoch(rp.LeaderEpoch)
	return epoch, end, nil
}
