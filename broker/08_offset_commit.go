package broker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/coordinator"
)

// # OffsetCommit (8): versions 1-10
//
// Stores offsets of a group, for a member of its generation, or for nobody (generation -1) when the group has no members.
// The answer is sent when the offsets are durable, and has exactly the topics and partitions of the request. An offset is
// stored with the id of its topic, so that it does not apply to a topic that is later created under the same name. Offsets
// are not checked against the log, and negative ones are stored as they are.
//
// Kafka 4 starts at version 2. Sarama sends version 1 unless it is configured for Kafka 2.3 or later, which is rare.
//
//	v1   a timestamp of each commit, which is ignored
//	v2   retention time, until v4: when the offsets expire; -1 is the server's rule
//	v3   throttle time
//	v6   leader epochs
//	v7   instance ids
//	v8   flexible
//	v9   GROUP_ID_NOT_FOUND (before, ILLEGAL_GENERATION)
//	v10  topics by id
//
// Errors of a partition: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, OFFSET_METADATA_TOO_LARGE; and of all partitions
// that exist: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
// REBALANCE_IN_PROGRESS, and those of every coordinator API: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE,
// NOT_COORDINATOR.
func offsetCommitAPI() api {
	return api{
		key: 8, name: "OffsetCommit", min: 1, max: 10, served: 1, flexible: 8,
		shape: shape{
			text(), fixed(4), text(), text().since(7), // group, generation, member, instance
			fixed(8).since(2).until(4), // retention
			list(250, text().until(9), fixed(16).since(10), list(500,
				fixed(4+8), fixed(8).until(1), fixed(4).since(6), text())), // index, offset, time, leader epoch, metadata
		},
		handle: decoding(kmsg.NewPtrOffsetCommitRequest, (*call).offsetCommit),
	}
}

func (c *call) offsetCommit(req *kmsg.OffsetCommitRequest) (answer, error) {
	commit := &coordinator.Commit{
		Group: req.Group, MemberID: req.MemberID, InstanceID: known(req.InstanceID), Generation: req.Generation, RetentionMs: -1,
	}
	if c.version >= 2 && c.version <= 4 {
		commit.RetentionMs = req.RetentionTimeMillis
	}
	topics := c.server.backend.Topics()
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.Topics = make([]kmsg.OffsetCommitResponseTopic, len(req.Topics))
	var open []*int16 // codes that the coordinator decides, in the order of the commit
	for i, rt := range req.Topics {
		out := &resp.Topics[i]
		out.Topic, out.TopicID = rt.Topic, rt.TopicID
		out.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(rt.Partitions))
		t, unknown := topicRef{id: rt.TopicID, name: rt.Topic, byID: c.version >= 10}.find(topics)
		for j, rp := range rt.Partitions {
			code := &out.Partitions[j].ErrorCode
			out.Partitions[j].Partition = rp.Partition
			if err := checkPartition(t, rp.Partition, unknown); err != nil {
				*code = codeByTopic(err, c.version >= 10)
				continue
			}
			open = append(open, code)
			commit.Offsets = append(commit.Offsets, committedOffset(t, rp, c.version))
		}
	}
	if len(open) == 0 && len(req.Topics) > 0 {
		return c.reply(resp), nil // nothing to commit
	}
	return laterAs(c, commit, func(a *coordinator.CommitAnswer) kmsg.Response {
		for i, code := range open {
			switch {
			case c.version < 9 && errors.Is(a.Err, coordinator.ErrGroupNotFound):
				*code = codeIllegalGeneration
			case a.Err != nil:
				*code = codeOf(a.Err)
			default:
				*code = codeOf(a.Offsets[i])
			}
		}
		return resp
	}), nil
}

func committedOffset(t *Topic, rp kmsg.OffsetCommitRequestTopicPartition, version int16) coordinator.CommittedOffset {
	o := coordinator.CommittedOffset{
		Topic: t.Name, TopicID: t.ID, Partition: rp.Partition, Offset: rp.Offset, LeaderEpoch: -1, Metadata: known(rp.Metadata),
	}
	if version >= 6 {
		o.LeaderEpoch = rp.LeaderEpoch
	}
	return o
}

// checkPartition returns an error unless a topic exists and has the partition.
func checkPartition(t *Topic, index int32, unknown error) error {
	if unknown != nil {
		return unknown
	}
	if index < 0 || int(index) >= len(t.Partitions) {
		return ErrUnknownPartition
	}
	return nil
}
