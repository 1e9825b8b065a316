package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/coordinator"
)

// # OffsetDelete (47): version 0
//
// Deletes offsets of a group. A group of consumers may have members, as long as none of them reads the topic; any other group
// may not. A missing offset is no error. The answer is sent when the offsets are durably gone.
//
// Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, GROUP_SUBSCRIBED_TO_TOPIC. Errors of the response: INVALID_GROUP_ID,
// GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR; then no
// partitions are listed.
func offsetDeleteAPI() api {
	return api{
		key: 47, name: "OffsetDelete", min: 0, max: 0, served: 0, flexible: neverFlexible,
		shape:  shape{text(), list(200, text(), list(250, fixed(4)))},
		handle: decoding(kmsg.NewPtrOffsetDeleteRequest, (*call).offsetDelete),
	}
}

// neverFlexible is above every version.
const neverFlexible = 1<<15 - 1

func (c *call) offsetDelete(req *kmsg.OffsetDeleteRequest) (answer, error) {
	del := &coordinator.DeleteOffsets{Group: req.Group}
	topics := c.server.backend.Topics()
	resp := kmsg.NewPtrOffsetDeleteResponse()
	resp.Topics = make([]kmsg.OffsetDeleteResponseTopic, len(req.Topics))
	var open []*int16 // codes that the coordinator decides, in the order of the request
	for i, rt := range req.Topics {
		out := &resp.Topics[i]
		out.Topic = rt.Topic
		out.Partitions = make([]kmsg.OffsetDeleteResponseTopicPartition, len(rt.Partitions))
		t, unknown := topicRef{name: rt.Topic}.find(topics)
		for j, rp := range rt.Partitions {
			code := &out.Partitions[j].ErrorCode
			out.Partitions[j].Partition = rp.Partition
			if err := checkPartition(t, rp.Partition, unknown); err != nil {
				*code = codeOf(err)
				continue
			}
			open = append(open, code)
			del.Offsets = append(del.Offsets, coordinator.TopicPartition{Topic: t.Name, Partition: rp.Partition})
		}
	}
	return laterAs(c, del, func(a *coordinator.DeleteAnswer) kmsg.Response {
		if a.Err != nil {
			resp.ErrorCode, resp.Topics = codeOf(a.Err), nil
			return resp
		}
		for i, code := range open {
			*code = codeOf(a.Offsets[i])
		}
		return resp
	}), nil
}
