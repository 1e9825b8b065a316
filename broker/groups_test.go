package broker

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/coordinator"
	"github.com/tidemark-io/tidemark/coordinator/runner"
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

// testGroups is a group coordinator over logs in memory that are durable at once.
type testGroups struct{ runner *runner.Runner }

func (g testGroups) Find(_ context.Context, group string) (int32, error) {
	return testNode, g.runner.Start(group)
}

func (g testGroups) Submit(req coordinator.Request) GroupCall { return g.runner.Submit(req) }

func (g testGroups) List(ctx context.Context) *coordinator.Listing { return g.runner.List(ctx) }

// flatLog is a log that forgets.
type flatLog struct{ end int64 }

func (*flatLog) Replay(context.Context, func(runner.Entry) error) error { return nil }

func (l *flatLog) Append(_ context.Context, _ int64, records []runner.KeyValue) (runner.Pending, error) {
	l.end += int64(len(records))
	return durable{}, nil
}

func (l *flatLog) Carry(ctx context.Context, ms int64, record runner.KeyValue) (runner.Pending, error) {
	return l.Append(ctx, ms, []runner.KeyValue{record})
}

func (*flatLog) MaxBatchBytes() int { return 1 << 20 }

func (*flatLog) Empty() bool { return true }

func (l *flatLog) End() int64 { return l.end }

func (*flatLog) Trim(int64) error { return nil }

type durable struct{}

func (durable) Done() <-chan struct{} { return closedChannel() }

func (durable) Err() error { return nil }

// newGroupRig is a rig whose node coordinates groups.
func newGroupRig(t *testing.T, set ...func(*runner.Options)) *rig {
	t.Helper()
	logs := []*flatLog{{}, {}, {}}
	o := runner.Options{
		Partitions: func() int32 { return int32(len(logs)) },
		Open:       func(p int32) (runner.Log, error) { return logs[p], nil },
	}
	for _, f := range set {
		f(&o)
	}
	groups := runner.New(o)
	t.Cleanup(func() { require.NoError(t, groups.Close(context.Background())) }) // after the server
	return newRig(t, func(o *Options) { o.Groups = testGroups{groups} })
}

// joinRequest is a JoinGroup of a consumer.
func joinRequest(version int16, group, member string) *kmsg.JoinGroupRequest {
	req := at(version, kmsg.NewPtrJoinGroupRequest())
	req.Group, req.MemberID, req.ProtocolType = group, member, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 20_000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{0, 0, 0, 0, 0, 0}}}
	return req
}

// join joins a group and returns the answer to the last round.
func (c *client) join(version int16, group string) *kmsg.JoinGroupResponse {
	c.t.Helper()
	resp := do[*kmsg.JoinGroupResponse](c, joinRequest(version, group, ""))
	if version >= 4 {
		require.Equal(c.t, codeMemberIDRequired, resp.ErrorCode)
		require.Equal(c.t, int32(-1), resp.Generation)
		require.Contains(c.t, resp.MemberID, testClientID+"-")
		resp = do[*kmsg.JoinGroupResponse](c, joinRequest(version, group, resp.MemberID))
	}
	return resp
}

func TestALifeInAGroupAtEveryVersion(t *testing.T) {
	r := newGroupRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	for version := int16(0); version <= 9; version++ {
		group := fmt.Sprintf("v%d", version)
		joined := c.join(version, group)
		require.Equal(t, codeNone, joined.ErrorCode)
		require.Equal(t, int32(1), joined.Generation)
		require.Equal(t, "range", *joined.Protocol)
		require.Equal(t, joined.MemberID, joined.LeaderID)
		require.Len(t, joined.Members, 1)
		require.Equal(t, []byte{0, 0, 0, 0, 0, 0}, joined.Members[0].ProtocolMetadata)

		sync := at(min(version, 5), kmsg.NewPtrSyncGroupRequest())
		sync.Group, sync.MemberID, sync.Generation = group, joined.MemberID, 1
		sync.ProtocolType, sync.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
		sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: joined.MemberID, MemberAssignment: []byte("mine")}}
		synced := do[*kmsg.SyncGroupResponse](c, sync)
		require.Equal(t, codeNone, synced.ErrorCode)
		require.Equal(t, "mine", string(synced.MemberAssignment))

		beat := at(min(version, 4), kmsg.NewPtrHeartbeatRequest())
		beat.Group, beat.MemberID, beat.Generation = group, joined.MemberID, 1
		require.Equal(t, codeNone, do[*kmsg.HeartbeatResponse](c, beat).ErrorCode)
		beat.Generation = 2
		require.Equal(t, codeIllegalGeneration, do[*kmsg.HeartbeatResponse](c, beat).ErrorCode)

		commit := commitRequest(10, group, joined.MemberID, 1, topic, 0, 5)
		require.Equal(t, codeNone, do[*kmsg.OffsetCommitResponse](c, commit).Topics[0].Partitions[0].ErrorCode)

		describe := at(min(version, 6), kmsg.NewPtrDescribeGroupsRequest())
		describe.Groups, describe.IncludeAuthorizedOperations = []string{group}, true
		d := do[*kmsg.DescribeGroupsResponse](c, describe).Groups[0]
		require.Equal(t, "Stable", d.State)
		require.Equal(t, "range", d.Protocol)
		require.Equal(t, "mine", string(d.Members[0].MemberAssignment))
		require.Equal(t, "/pipe", d.Members[0].ClientHost)
		require.Equal(t, testClientID, d.Members[0].ClientID)

		leave := at(min(version, 5), kmsg.NewPtrLeaveGroupRequest())
		leave.Group, leave.MemberID = group, joined.MemberID
		leave.Members = []kmsg.LeaveGroupRequestMember{{MemberID: joined.MemberID}, {MemberID: "nobody"}}
		left := do[*kmsg.LeaveGroupResponse](c, leave)
		require.Equal(t, codeNone, left.ErrorCode)
		if version >= 3 {
			require.Equal(t, codeNone, left.Members[0].ErrorCode)
			require.Equal(t, codeUnknownMemberID, left.Members[1].ErrorCode)
		} else {
			require.Equal(t, codeUnknownMemberID, do[*kmsg.LeaveGroupResponse](c, leave).ErrorCode)
		}
	}
}

func TestT25_ACommitIsMirroredAndFetchedAtEveryVersion(t *testing.T) {
	r := newGroupRig(t)
	topic := r.topic("t", 2, nil)
	c := r.dial()
	for version := int16(1); version <= 10; version++ {
		group := fmt.Sprintf("g%d", version)
		commit := commitRequest(version, group, "", -1, topic, 1, int64(version))
		unknown := commit.Topics[0].Partitions[0]
		unknown.Partition = 7
		commit.Topics[0].Partitions = append(commit.Topics[0].Partitions, unknown)
		resp := do[*kmsg.OffsetCommitResponse](c, commit)
		require.Len(t, resp.Topics, 1)
		require.Equal(t, []kmsg.OffsetCommitResponseTopicPartition{
			{Partition: 1}, {Partition: 7, ErrorCode: codeUnknownTopicOrPartition},
		}, resp.Topics[0].Partitions)
	}
	for version := int16(1); version <= 10; version++ {
		resp := do[*kmsg.OffsetFetchResponse](c, fetchOffsets(version, "g10", topic, 0, 1))
		var offsets []int64
		var epochs []int32
		if version < 8 {
			for _, p := range resp.Topics[0].Partitions {
				require.Equal(t, codeNone, p.ErrorCode)
				offsets, epochs = append(offsets, p.Offset), append(epochs, p.LeaderEpoch)
			}
		} else {
			require.Equal(t, "g10", resp.Groups[0].Group)
			for _, p := range resp.Groups[0].Topics[0].Partitions {
				require.Equal(t, codeNone, p.ErrorCode)
				offsets, epochs = append(offsets, p.Offset), append(epochs, p.LeaderEpoch)
			}
		}
		require.Equal(t, []int64{-1, 10}, offsets, "version %d", version)
		if version >= 5 {
			require.Equal(t, []int32{-1, 3}, epochs)
		}
	}
}

func TestOffsetFetchOfEverything(t *testing.T) {
	r := newGroupRig(t)
	topic := r.topic("t", 2, nil)
	c := r.dial()
	do[*kmsg.OffsetCommitResponse](c, commitRequest(10, "g", "", -1, topic, 1, 5))
	for version := int16(2); version <= 10; version++ {
		req := fetchOffsets(version, "g", topic, 0)
		req.Topics = nil
		if version >= 8 {
			req.Groups[0].Topics = nil
			other := req.Groups[0]
			other.Group = "nobody"
			req.Groups = append(req.Groups, other)
		}
		resp := do[*kmsg.OffsetFetchResponse](c, req)
		if version < 8 {
			require.Equal(t, "t", resp.Topics[0].Topic)
			require.Equal(t, int64(5), resp.Topics[0].Partitions[0].Offset)
			continue
		}
		require.Len(t, resp.Groups, 2)
		require.Empty(t, resp.Groups[1].Topics)
		got := resp.Groups[0].Topics[0]
		require.Equal(t, int64(5), got.Partitions[0].Offset)
		if version >= 10 {
			require.Equal(t, topic.ID, TopicID(got.TopicID))
		} else {
			require.Equal(t, "t", got.Topic)
		}
	}
}

func TestF67_CommitsAndFetchesByAnUnknownIDAreToldSo(t *testing.T) {
	r := newGroupRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	for _, id := range []TopicID{{}, {9}} {
		wrong := &Topic{ID: id}
		commit := do[*kmsg.OffsetCommitResponse](c, commitRequest(10, "g", "", -1, wrong, 0, 5))
		require.Equal(t, codeUnknownTopicID, commit.Topics[0].Partitions[0].ErrorCode)
		require.Equal(t, id, TopicID(commit.Topics[0].TopicID))
		fetch := fetchOffsets(10, "g", wrong, 0)
		fetch.Groups[0].Topics = append(fetch.Groups[0].Topics, fetchOffsets(10, "g", topic, 0).Groups[0].Topics...)
		topics := do[*kmsg.OffsetFetchResponse](c, fetch).Groups[0].Topics
		require.Equal(t, codeUnknownTopicID, topics[0].Partitions[0].ErrorCode)
		require.Equal(t, id, TopicID(topics[0].TopicID))
		require.Equal(t, codeNone, topics[1].Partitions[0].ErrorCode)
		require.Equal(t, int64(-1), topics[1].Partitions[0].Offset, "nothing was stored")
	}
}

func TestWhatAnUnknownGroupIsCalledDependsOnTheVersion(t *testing.T) {
	r := newGroupRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	for version := int16(1); version <= 10; version++ {
		want := codeIllegalGeneration
		if version >= 9 {
			want = codeGroupIDNotFound
		}
		resp := do[*kmsg.OffsetCommitResponse](c, commitRequest(version, "none", "m", 3, topic, 0, 5))
		require.Equal(t, want, resp.Topics[0].Partitions[0].ErrorCode, "version %d", version)
	}
	for version := int16(0); version <= 6; version++ {
		req := at(version, kmsg.NewPtrDescribeGroupsRequest())
		req.Groups = []string{"none"}
		d := do[*kmsg.DescribeGroupsResponse](c, req).Groups[0]
		require.Equal(t, "Dead", d.State)
		if version < 6 {
			require.Equal(t, codeNone, d.ErrorCode)
		} else {
			require.Equal(t, codeGroupIDNotFound, d.ErrorCode)
			require.Equal(t, "Group none not found.", *d.ErrorMessage)
		}
	}
}

func TestListDeleteAndOffsetDelete(t *testing.T) {
	r := newGroupRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	do[*kmsg.OffsetCommitResponse](c, commitRequest(10, "simple", "", -1, topic, 0, 5))
	joined := c.join(9, "busy")
	require.Equal(t, codeNone, joined.ErrorCode)
	list := func(version int16, states, types []string) []kmsg.ListGroupsResponseGroup {
		req := at(version, kmsg.NewPtrListGroupsRequest())
		req.StatesFilter, req.TypesFilter = states, types
		resp := do[*kmsg.ListGroupsResponse](c, req)
		require.Equal(t, codeNone, resp.ErrorCode)
		return resp.Groups
	}
	busy := kmsg.ListGroupsResponseGroup{Group: "busy", ProtocolType: "consumer", GroupState: "CompletingRebalance", GroupType: "classic"}
	simple := kmsg.ListGroupsResponseGroup{Group: "simple", GroupState: "Empty", GroupType: "classic"}
	require.Equal(t, []kmsg.ListGroupsResponseGroup{busy, simple}, list(5, nil, nil))
	require.Equal(t, []kmsg.ListGroupsResponseGroup{simple}, list(5, []string{"eMPTY", "strange"}, []string{"Classic"}))
	require.Empty(t, list(5, nil, []string{"consumer"}))
	require.Equal(t, "simple", list(0, nil, nil)[1].Group)

	for version := int16(0); version <= 3; version++ {
		req := at(version, kmsg.NewPtrDeleteGroupsRequest())
		req.Groups = []string{"busy", "none"}
		groups := do[*kmsg.DeleteGroupsResponse](c, req).Groups
		require.Equal(t, codeNonEmptyGroup, groups[0].ErrorCode)
		require.Equal(t, codeGroupIDNotFound, groups[1].ErrorCode)
		require.Nil(t, groups[1].ErrorMessage)
	}
	offsets := groupSample(47, 0, topic).(*kmsg.OffsetDeleteRequest)
	offsets.Group = "simple"
	resp := do[*kmsg.OffsetDeleteResponse](c, offsets)
	require.Equal(t, []kmsg.OffsetDeleteResponseTopicPartition{
		{Partition: 0}, {Partition: 9, ErrorCode: codeUnknownTopicOrPartition},
	}, resp.Topics[0].Partitions)
	require.Equal(t, []kmsg.ListGroupsResponseGroup{busy}, list(5, nil, nil), "a group of nothing is gone")
	offsets.Group = "none"
	require.Equal(t, codeGroupIDNotFound, do[*kmsg.OffsetDeleteResponse](c, offsets).ErrorCode)
}

func TestFindCoordinatorFindsTheNodeOfAGroup(t *testing.T) {
	r := newGroupRig(t)
	c := r.dial()
	for version := int16(0); version <= 6; version++ {
		req := at(version, kmsg.NewPtrFindCoordinatorRequest())
		req.CoordinatorKey, req.CoordinatorKeys = "a", []string{"a", "b", "c"}
		resp := do[*kmsg.FindCoordinatorResponse](c, req)
		if version < 4 {
			require.Equal(t, []any{codeNone, int32(testNode), "pipe.example", int32(9092)},
				[]any{resp.ErrorCode, resp.NodeID, resp.Host, resp.Port})
			continue
		}
		require.Len(t, resp.Coordinators, 3)
		for i, key := range req.CoordinatorKeys {
			got := resp.Coordinators[i]
			require.Equal(t, []any{key, codeNone, int32(testNode), "pipe.example", int32(9092)},
				[]any{got.Key, got.ErrorCode, got.NodeID, got.Host, got.Port})
		}
	}
}

func TestT20_AParkedJoinHoldsUpOnlyItsOwnConnection(t *testing.T) {
	r := newGroupRig(t, func(o *runner.Options) { o.Groups.InitialDelayMs = 1 << 30 })
	topic := r.topic("t", 1, nil)
	parked := make([]*client, 20)
	for i := range parked {
		parked[i] = r.dial()
		parked[i].send(joinRequest(3, "g", ""))
	}
	other := r.dial()
	do[*kmsg.OffsetCommitResponse](other, commitRequest(10, "other", "", -1, topic, 0, 5))
	describe := at(6, kmsg.NewPtrDescribeGroupsRequest())
	describe.Groups = []string{"g"}
	for {
		if d := do[*kmsg.DescribeGroupsResponse](other, describe).Groups[0]; len(d.Members) == len(parked) {
			require.Equal(t, "PreparingRebalance", d.State)
			break
		}
	}
	require.NoError(t, parked[0].conn.Close()) // a member that is gone stays one until its time is over
	require.Len(t, do[*kmsg.DescribeGroupsResponse](other, describe).Groups[0].Members, len(parked))

	// When the server stops, who is parked is told to look for the coordinator again.
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = r.server.Shutdown(context.Background()) // stop checks it
	}()
	resp := parked[1].receive(joinRequest(3, "g", ""), 1)
	require.Equal(t, codeCoordinatorNotAvailable, resp.(*kmsg.JoinGroupResponse).ErrorCode)
	for _, c := range parked {
		_ = c.conn.Close() // the first one is
	}
	<-stopped
}

// loadingGroups is a coordinator that is reading its log.
type loadingGroups struct{ noGroups }

func (loadingGroups) Submit(req coordinator.Request) GroupCall {
	return refusedCall{coordinator.Refuse(req, coordinator.ErrLoading)}
}

func (loadingGroups) List(context.Context) *coordinator.Listing {
	return &coordinator.Listing{Err: coordinator.ErrLoading}
}

func TestWhileTheCoordinatorLoadsMembersStay(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Groups = loadingGroups{} })
	topic := r.topic("t", 1, nil)
	c := r.dial()
	require.Equal(t, codeNone, do[*kmsg.HeartbeatResponse](c, groupSample(12, 4, topic)).ErrorCode)
	require.Equal(t, codeCoordinatorLoadInProgress, do[*kmsg.JoinGroupResponse](c, groupSample(11, 9, topic)).ErrorCode)
	require.Equal(t, codeCoordinatorLoadInProgress, do[*kmsg.SyncGroupResponse](c, groupSample(14, 5, topic)).ErrorCode)
	require.Equal(t, codeCoordinatorLoadInProgress, do[*kmsg.LeaveGroupResponse](c, groupSample(13, 5, topic)).ErrorCode)
	require.Equal(t, codeCoordinatorLoadInProgress, do[*kmsg.ListGroupsResponse](c, groupSample(16, 5, topic)).ErrorCode)
	require.Equal(t, codeCoordinatorLoadInProgress,
		do[*kmsg.OffsetCommitResponse](c, groupSample(8, 10, topic)).Topics[0].Partitions[0].ErrorCode)
	for version := int16(1); version <= 10; version++ {
		resp := do[*kmsg.OffsetFetchResponse](c, groupSample(9, version, topic))
		switch {
		case version < 2:
			require.Equal(t, codeCoordinatorLoadInProgress, resp.Topics[0].Partitions[0].ErrorCode)
		case version < 8:
			require.Equal(t, codeCoordinatorLoadInProgress, resp.ErrorCode)
		default:
			require.Equal(t, codeCoordinatorLoadInProgress, resp.Groups[0].ErrorCode)
		}
	}
}
