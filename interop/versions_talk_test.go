package interop

import (
	"encoding/base64"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/batch"
)

// goldenTime is the time of the first record; it is long ago, and so far from any clock.
const goldenTime = 1_700_000_000_000

// goldenBatch is a batch of one record for each value.
func goldenBatch(t *recorder, o batch.BuilderOptions, values ...string) []byte {
	b := batch.NewBuilder(o)
	for i, v := range values {
		b.Add(goldenTime+int64(i), []byte("key"), []byte(v), batch.RecordHeader{Key: "header", Value: []byte("of " + v)})
	}
	built, err := b.Build()
	require.NoError(t.t, err)
	return append([]byte{}, built...)
}

func uuidText(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// goldenTopic makes a topic without recording it and returns its id.
func (r *recorder) goldenTopic(name string, partitions int32) [16]byte {
	r.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.SetVersion(7)
	req.TimeoutMillis = 10_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	t.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms", Value: kmsg.StringPtr("-1")}}
	req.Topics = append(req.Topics, t)
	resp := r.ask(req).(*kmsg.CreateTopicsResponse)
	require.Zero(r.t, resp.Topics[0].ErrorCode)
	r.untilLed(name)
	return resp.Topics[0].TopicID
}

// untilLed waits until every partition of a topic has a leader: Kafka answers before that.
func (r *recorder) untilLed(topic string) {
	r.t.Helper()
	r.until(topic+" has no leader", func() bool {
		t := r.ask(metadata(12, topic)).(*kmsg.MetadataResponse).Topics[0]
		led := t.ErrorCode == 0
		for _, p := range t.Partitions {
			led = led && p.ErrorCode == 0 && p.Leader >= 0
		}
		return led
	})
}

// until waits for what Kafka does after it has answered.
func (r *recorder) until(otherwise string, holds func() bool) {
	r.t.Helper()
	ctx := limited(r.t, time.Minute)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-ctx.Done():
			require.FailNow(r.t, otherwise)
		}
	}
}

func metadata(version int16, topics ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(version)
	req.AllowAutoTopicCreation = false
	for _, t := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(t)
		req.Topics = append(req.Topics, rt)
	}
	return req
}

// producing appends a batch to partition 0 of a topic.
func producing(topic string, id [16]byte, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 30_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = topic, id
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = records
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// spoke is which versions of which requests were said.
type spoke map[int16][2]int16

// each says a request in every version of an API that the server lists and Kafka has.
func (s spoke) each(r *recorder, key int16, say func(version int16)) {
	versions := r.advertised()[key]
	for v := versions[0]; v <= versions[1]; v++ {
		say(v)
	}
	s[key] = versions
}

// goldenConversation says every request in every version, and returns which were said.
func goldenConversation(r *recorder) spoke {
	said := spoke{}
	r.records(said)
	r.topics(said)
	r.settings(said)
	r.groups(said)
	r.node(said)
	return said
}

// records is what producers and consumers say.
func (r *recorder) records(said spoke) {
	id := r.goldenTopic("written", 2)
	said.each(r, 0, func(v int16) {
		r.say(v, producing("written", id, goldenBatch(r, batch.BuilderOptions{}, fmt.Sprint("in version ", v))))
	})
	id = r.goldenTopic("read", 1)
	r.say(13, producing("read", id, goldenBatch(r, batch.BuilderOptions{}, "one", "two")))
	r.say(13, producing("read", id, goldenBatch(r, batch.BuilderOptions{Codec: batch.Gzip}, "three")))
	said.each(r, 1, func(v int16) {
		req := kmsg.NewPtrFetchRequest()
		req.MaxWaitMillis, req.MaxBytes, req.SessionEpoch, req.IsolationLevel = 100, 1<<20, -1, int8(v%2)
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.TopicID = "read", id
		for _, at := range []int64{1, 99} { // records, and what is beyond the end
			p := kmsg.NewFetchRequestTopicPartition()
			p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch, p.LastFetchedEpoch = at, 1<<20, -1, -1
			t.Partitions = []kmsg.FetchRequestTopicPartition{p}
			req.Topics = []kmsg.FetchRequestTopic{t}
			r.say(v, req)
		}
	})
	said.each(r, 2, func(v int16) {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID, req.TimeoutMillis = -1, 1000
		for _, at := range []int64{-1, -2, goldenTime + 1, goldenTime + 9} {
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = "read"
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Timestamp, p.CurrentLeaderEpoch = at, -1
			t.Partitions = append(t.Partitions, p)
			req.Topics = []kmsg.ListOffsetsRequestTopic{t}
			r.say(v, req)
		}
	})
	said.each(r, 23, func(v int16) { r.say(v, epochEnds(topicPartitions{"read", []int32{0, 7}})) })
	said.each(r, 22, func(v int16) {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.ProducerID, req.ProducerEpoch, req.TransactionTimeoutMillis = -1, -1, 60_000
		r.untilNumbered()
		r.say(v, req)
	})
	said.each(r, 61, func(v int16) { r.say(v, producersOf("read", 0, 7)) })
	trimmed := r.goldenTopic("trimmed", 1)
	r.say(13, producing("trimmed", trimmed, goldenBatch(r, batch.BuilderOptions{}, "a", "b", "c", "d", "e")))
	said.each(r, 21, func(v int16) { r.say(v, deleting("trimmed", 0, int64(v)+1)) })
}

// topics is what is said of topics as a whole.
func (r *recorder) topics(said spoke) {
	said.each(r, 19, func(v int16) {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = 10_000
		for _, name := range []string{fmt.Sprint("made-in-version-", v), "read", "a b"} {
			t := kmsg.NewCreateTopicsRequestTopic()
			t.Topic, t.NumPartitions, t.ReplicationFactor = name, 2, 1
			t.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms", Value: kmsg.StringPtr("86400000")}}
			req.Topics = []kmsg.CreateTopicsRequestTopic{t}
			r.say(v, req)
		}
		r.untilLed(fmt.Sprint("made-in-version-", v))
	})
	said.each(r, 20, func(v int16) {
		for _, name := range []string{fmt.Sprint("made-in-version-", v+1), "nowhere"} {
			req := kmsg.NewPtrDeleteTopicsRequest()
			req.TimeoutMillis, req.TopicNames = 10_000, []string{name}
			req.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: kmsg.StringPtr(name)}}
			r.say(v, req)
		}
	})
	grows := r.goldenTopic("grows", 1)
	said.each(r, 37, func(v int16) { r.say(v, growing("grows", 2+int32(v))); r.untilLed("grows") })
	said.each(r, 3, func(v int16) {
		req := metadata(v, "read")
		if v >= 4 { // before, to ask for a topic is to make it
			req = metadata(v, "read", "nowhere")
		}
		req.IncludeTopicAuthorizedOperations, req.IncludeClusterAuthorizedOperations = v >= 8, v >= 8 && v <= 10
		r.say(v, req)
		if v >= 12 {
			byID := metadata(v)
			byID.Topics = []kmsg.MetadataRequestTopic{{TopicID: grows}, {TopicID: [16]byte{15: 9}}}
			r.say(v, byID)
		}
	})
	said.each(r, 75, func(v int16) { r.say(v, paging(3, "", 0, "grows", "nowhere", "read")) })
	said.each(r, 35, func(v int16) { r.say(v, logDirs(topicPartitions{"read", []int32{0}})) })
}

// settings is what is said of settings.
func (r *recorder) settings(said spoke) {
	const topic, node, metrics = 2, 4, 16
	said.each(r, 32, func(v int16) { r.say(v, describing(topic, "read", "retention.ms")) })
	said.each(r, 44, func(v int16) { r.say(v, altering(topic, "read", setting{"retention.ms", 0, "86400000"})) })
	said.each(r, 33, func(v int16) {
		req := kmsg.NewPtrAlterConfigsRequest()
		c := kmsg.AlterConfigsRequestResource{ResourceType: topic, ResourceName: "read"}
		c.Configs = []kmsg.AlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: kmsg.StringPtr("-1")}}
		req.Resources = append(req.Resources, c)
		r.say(v, req)
	})
	said.each(r, 74, func(v int16) {
		req := kmsg.NewPtrListConfigResourcesRequest()
		if v > 0 {
			req.ResourceTypes = []int8{node, metrics}
		}
		r.say(v, req)
	})
}

// groups is what members of groups and their administrators say.
func (r *recorder) groups(said spoke) {
	id := r.goldenTopic("committed", 2)
	said.each(r, 10, func(v int16) {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey, req.CoordinatorKeys = "any", []string{"any", "other"}
		r.untilCoordinated()
		r.say(v, req)
	})
	said.each(r, 11, func(v int16) { r.oneMember(said, v) })
	said.each(r, 8, func(v int16) {
		r.say(v, committing("committer", "", -1, id, 1))
		r.say(v, committing("committer", "nobody", 7, id, 1))
	})
	said.each(r, 9, func(v int16) { r.say(v, offsetsOf("committer", id, v)) })
	said.each(r, 47, func(v int16) {
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = "committer"
		req.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "committed", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{
			{Partition: 1}, {Partition: 9},
		}}}
		r.say(v, req)
	})
	said.each(r, 16, func(v int16) {
		req := kmsg.NewPtrListGroupsRequest()
		if v >= 4 {
			req.StatesFilter = []string{"Dead"} // there is none of these
		} else {
			r.removeGroups(said)
		}
		r.say(v, req)
	})
	said.each(r, 42, func(v int16) {
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{"nowhere"}
		r.say(v, req)
	})
}

// untilNumbered waits until producers get ids: a broker of Kafka first asks its controller for some.
func (r *recorder) untilNumbered() {
	r.t.Helper()
	r.until("there are no producer ids", func() bool {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.SetVersion(4)
		req.ProducerID, req.ProducerEpoch = -1, -1
		return r.ask(req).(*kmsg.InitProducerIDResponse).ErrorCode == 0
	})
}

// removeGroups deletes the groups that there are, without a record.
func (r *recorder) removeGroups(said spoke) {
	list := kmsg.NewPtrListGroupsRequest()
	list.SetVersion(4)
	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.SetVersion(2)
	for _, g := range r.ask(list).(*kmsg.ListGroupsResponse).Groups {
		remove.Groups = append(remove.Groups, g.Group)
	}
	if len(remove.Groups) > 0 {
		r.ask(remove)
	}
}

// untilCoordinated waits until groups have a coordinator: Kafka first makes its topic.
func (r *recorder) untilCoordinated() {
	r.t.Helper()
	r.until("there is no coordinator", func() bool {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.SetVersion(4)
		find.CoordinatorKeys = []string{"any"}
		beat := kmsg.NewPtrHeartbeatRequest()
		beat.SetVersion(4)
		beat.Group, beat.MemberID = "any", "nobody"
		const unknownMember = 25
		return r.ask(find).(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode == 0 &&
			r.ask(beat).(*kmsg.HeartbeatResponse).ErrorCode == unknownMember
	})
}

// oneMember joins a group of its own, takes part, is looked at and leaves: JoinGroup in the given version, the rest in the same
// or their newest.
func (r *recorder) oneMember(said spoke, version int16) {
	group := fmt.Sprint("joined-in-version-", version)
	listed := r.advertised()
	in := func(key int16) int16 {
		v := min(version, listed[key][1])
		said[key] = [2]int16{listed[key][0], max(said[key][1], v)}
		return v
	}
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType = group, "consumer"
	join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 10_000, 20_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{0, 0, 0, 0, 0, 0}}}
	joined := r.say(version, join).(*kmsg.JoinGroupResponse)
	if version >= 4 {
		join.MemberID = joined.MemberID
		joined = r.say(version, join).(*kmsg.JoinGroupResponse)
	}
	require.Zero(r.t, joined.ErrorCode)

	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = group, joined.MemberID, joined.Generation
	sync.ProtocolType, sync.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: joined.MemberID, MemberAssignment: []byte("mine")}}
	r.say(in(14), sync)

	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group, beat.MemberID, beat.Generation = group, joined.MemberID, joined.Generation
	r.say(in(12), beat)
	beat.Generation++
	r.say(in(12), beat)

	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups, describe.IncludeAuthorizedOperations = []string{group, "nowhere"}, min(version, listed[15][1]) >= 3
	r.say(in(15), describe)

	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.MemberID = group, joined.MemberID
	leave.Members = []kmsg.LeaveGroupRequestMember{{MemberID: joined.MemberID}, {MemberID: "nobody"}}
	r.say(in(13), leave)
}

// committing commits offset 5 of a partition, and of one that is not there.
func committing(group, member string, generation int32, topic [16]byte, partition int32) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = "committed", topic
	for _, p := range []int32{partition, 9} {
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = p, 5, 0, kmsg.StringPtr("about it")
		t.Partitions = append(t.Partitions, rp)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// offsetsOf asks for what a group has committed.
func offsetsOf(group string, topic [16]byte, version int16) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	if version < 8 {
		req.Group = group
		req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "committed", Partitions: []int32{1, 0, 9}}}
		return req
	}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.TopicID, t.Partitions = "committed", topic, []int32{1, 0, 9}
	g.Topics = append(g.Topics, t)
	req.Groups = append(req.Groups, g)
	return req
}

// node is what is said of the server itself.
func (r *recorder) node(said spoke) {
	said.each(r, 18, func(v int16) {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion, req.NodeID = "golden", "1.0", -1
		r.say(v, req)
	})
	said.each(r, 60, func(v int16) {
		req := endpoints(1)
		r.say(v, req)
	})
}
