package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupSample is a request of an API of groups with everything that the version has, or nil.
func groupSample(key, version int16, topic *Topic) kmsg.Request {
	text := kmsg.StringPtr
	switch key {
	case 8:
		return commitRequest(version, "sample", "", -1, topic, 0, 7)
	case 9:
		return fetchOffsets(version, "sample", topic, 0)
	case 11:
		req := at(version, kmsg.NewPtrJoinGroupRequest())
		req.Group, req.MemberID, req.InstanceID, req.Reason = "sample", "m", text("i"), text("why")
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = 10000, 10000, "consumer"
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{0, 1}}, {Name: "sticky"}}
		return req
	case 12:
		req := at(version, kmsg.NewPtrHeartbeatRequest())
		req.Group, req.MemberID, req.InstanceID = "sample", "m", text("i")
		return req
	case 13:
		req := at(version, kmsg.NewPtrLeaveGroupRequest())
		req.Group, req.MemberID = "sample", "m"
		req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: "m", InstanceID: text("i"), Reason: text("why")}, {MemberID: "n"}}
		return req
	case 14:
		req := at(version, kmsg.NewPtrSyncGroupRequest())
		req.Group, req.MemberID, req.InstanceID, req.ProtocolType, req.Protocol = "sample", "m", text("i"), text("consumer"), text("range")
		req.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: "m", MemberAssignment: []byte{1}}}
		return req
	case 15:
		req := at(version, kmsg.NewPtrDescribeGroupsRequest())
		req.Groups, req.IncludeAuthorizedOperations = []string{"sample", "other"}, true
		return req
	case 16:
		req := at(version, kmsg.NewPtrListGroupsRequest())
		req.StatesFilter, req.TypesFilter = []string{"stable", "Empty"}, []string{"CLASSIC"}
		return req
	case 42:
		req := at(version, kmsg.NewPtrDeleteGroupsRequest())
		req.Groups = []string{"a", "b"}
		return req
	case 47:
		req := at(version, kmsg.NewPtrOffsetDeleteRequest())
		req.Group = "sample"
		req.Topics = []kmsg.OffsetDeleteRequestTopic{{
			Topic: topic.Name, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}, {Partition: 9}},
		}}
		return req
	}
	return nil
}

// commitRequest commits one offset.
func commitRequest(version int16, group, member string, generation int32, t *Topic, partition int32, offset int64,
) *kmsg.OffsetCommitRequest {
	req := at(version, kmsg.NewPtrOffsetCommitRequest())
	req.Group, req.MemberID, req.Generation, req.RetentionTimeMillis = group, member, generation, -1
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = partition, offset, 3, kmsg.StringPtr("note")
	req.Topics = []kmsg.OffsetCommitRequestTopic{{
		Topic: t.Name, TopicID: t.ID, Partitions: []kmsg.OffsetCommitRequestTopicPartition{rp},
	}}
	return req
}

// fetchOffsets asks for offsets of one topic.
func fetchOffsets(version int16, group string, t *Topic, partitions ...int32) *kmsg.OffsetFetchRequest {
	req := at(version, kmsg.NewPtrOffsetFetchRequest())
	if version < 8 {
		req.Group = group
		req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: t.Name, Partitions: partitions}}
		return req
	}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: t.Name, TopicID: t.ID, Partitions: partitions}}
	req.Groups = append(req.Groups, g)
	return req
}
