package broker

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// metadataOf makes a Metadata request for topics by name.
func metadataOf(version int16, autoCreate bool, names ...string) *kmsg.MetadataRequest {
	req := at(version, kmsg.NewPtrMetadataRequest())
	req.AllowAutoTopicCreation = autoCreate
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range names {
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &name})
	}
	return req
}

func namesOf(resp *kmsg.MetadataResponse) []string {
	names := []string{}
	for _, t := range resp.Topics {
		names = append(names, *t.Topic)
	}
	return names
}

func TestMetadataInEveryVersion(t *testing.T) {
	r := newRig(t)
	r.topic("b", 2, nil)
	a := r.topic("a", 1, nil)
	r.backend.setPartition("a", 0, Partition{Leader: testNode, LeaderEpoch: 3, Replicas: []int32{testNode}, InSync: []int32{testNode}})
	c := r.dial()
	for version := int16(0); version <= 13; version++ {
		req := metadataOf(version, true, "a")
		req.IncludeClusterAuthorizedOperations, req.IncludeTopicAuthorizedOperations = true, true
		resp := do[*kmsg.MetadataResponse](c, req)

		want := kmsg.NewPtrMetadataResponse()
		want.Version = version
		want.Brokers = []kmsg.MetadataResponseBroker{{NodeID: testNode, Host: "pipe.example", Port: 9092}}
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic = kmsg.StringPtr("a")
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Leader, p.Replicas, p.ISR = testNode, []int32{testNode}, []int32{testNode}
		if version >= 1 {
			want.Brokers[0].Rack = kmsg.StringPtr("r1")
			want.ControllerID = testNode
		}
		if version >= 2 {
			want.ClusterID = kmsg.StringPtr(testCluster)
		}
		if version >= 5 {
			p.OfflineReplicas = []int32{}
		}
		if version >= 7 {
			p.LeaderEpoch = 3
		}
		if version >= 8 {
			topic.AuthorizedOperations = allTopicOperations
		}
		if version >= 8 && version <= 10 {
			want.AuthorizedOperations = allClusterOperations
		}
		if version >= 10 {
			topic.TopicID = a.ID
		}
		topic.Partitions = []kmsg.MetadataResponseTopicPartition{p}
		want.Topics = []kmsg.MetadataResponseTopic{topic}
		require.Equal(t, want.AppendTo(nil), resp.AppendTo(nil), "version %d", version)
	}
}

func TestMetadataOfAllTopicsAndOfNone(t *testing.T) {
	r := newRig(t)
	r.topic("b", 2, nil)
	r.topic("a", 1, nil)
	c := r.dial()

	require.Equal(t, []string{"a", "b"}, namesOf(do[*kmsg.MetadataResponse](c, metadataOf(0, true))))
	for version := int16(1); version <= 13; version++ {
		require.Empty(t, namesOf(do[*kmsg.MetadataResponse](c, metadataOf(version, true))), "version %d", version)
		all := at(version, kmsg.NewPtrMetadataRequest())
		require.Equal(t, []string{"a", "b"}, namesOf(do[*kmsg.MetadataResponse](c, all)), "version %d", version)
	}
	require.Len(t, r.backend.created, 2, "asking for all creates none")
}

func TestF74_TopicsAreCreatedBeforeTheyAreAnswered(t *testing.T) {
	r := newRig(t, func(o *Options) { o.NumPartitions = 3 })
	c := r.dial()
	for version := int16(0); version <= 13; version++ {
		name := "new" + string(rune('a'+version))
		resp := do[*kmsg.MetadataResponse](c, metadataOf(version, true, name, name))
		require.Len(t, resp.Topics, 1, "a name is answered once")
		for _, topic := range resp.Topics {
			require.Equal(t, codeNone, topic.ErrorCode, "version %d", version)
			require.Len(t, topic.Partitions, 3)
			require.Equal(t, codeNone, topic.Partitions[0].ErrorCode)
			require.Equal(t, int32(testNode), topic.Partitions[0].Leader)
		}
		created, ok := r.backend.Topics().ByName(name)
		require.True(t, ok)
		require.Equal(t, int64(0), c.mustProduce(created, 2, records("x")), "the first produce works")
	}
}

func TestMetadataDoesNotCreate(t *testing.T) {
	r := newRig(t)
	r.topic("a.b", 1, nil)
	c := r.dial()
	tests := []struct {
		name    string
		request *kmsg.MetadataRequest
		want    int16
	}{
		{"what the client does not allow", metadataOf(4, false, "new"), codeUnknownTopicOrPartition},
		{"an illegal name", metadataOf(13, true, "no spaces"), codeInvalidTopicException},
		{"an empty name", metadataOf(13, true, ""), codeInvalidTopicException},
		{"a name that collides", metadataOf(13, true, "a_b"), codeUnknownTopicOrPartition},
		{"an internal topic", metadataOf(13, true, "__consumer_offsets"), codeUnknownTopicOrPartition},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			resp := do[*kmsg.MetadataResponse](c, test.request)
			require.Len(t, resp.Topics, 1)
			require.Equal(t, test.want, resp.Topics[0].ErrorCode)
			require.Equal(t, test.request.Topics[0].Topic, resp.Topics[0].Topic)
			require.Equal(t, TopicID{}, resp.Topics[0].TopicID)
		})
	}
	require.Len(t, r.backend.created, 1)

	off := newRig(t, func(o *Options) { o.DisableAutoCreateTopics = true })
	resp := do[*kmsg.MetadataResponse](off.dial(), metadataOf(3, true, "new"))
	require.Equal(t, codeUnknownTopicOrPartition, resp.Topics[0].ErrorCode)

	failing := newRig(t)
	failing.backend.failing = errors.New("the metadata log is away")
	resp = do[*kmsg.MetadataResponse](failing.dial(), metadataOf(3, true, "new"))
	require.Equal(t, codeUnknownTopicOrPartition, resp.Topics[0].ErrorCode)
}

func TestF67_MetadataByTopicID(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	byID := func(version int16, topics ...kmsg.MetadataRequestTopic) *kmsg.MetadataResponse {
		req := at(version, kmsg.NewPtrMetadataRequest())
		req.Topics, req.AllowAutoTopicCreation = topics, true
		return do[*kmsg.MetadataResponse](c, req)
	}
	for version := int16(12); version <= 13; version++ {
		resp := byID(version,
			kmsg.MetadataRequestTopic{TopicID: topic.ID},
			kmsg.MetadataRequestTopic{TopicID: TopicID{9}},
			kmsg.MetadataRequestTopic{Topic: kmsg.StringPtr("t")}, // once one is asked by id, only ids are looked up
		)
		require.Len(t, resp.Topics, 3)
		require.Equal(t, codeNone, resp.Topics[0].ErrorCode)
		require.Equal(t, "t", *resp.Topics[0].Topic)
		require.Equal(t, codeUnknownTopicID, resp.Topics[1].ErrorCode)
		require.Nil(t, resp.Topics[1].Topic)
		require.Equal(t, TopicID{9}, resp.Topics[1].TopicID)
		require.Equal(t, codeUnknownTopicID, resp.Topics[2].ErrorCode)
	}
	for version := int16(10); version <= 11; version++ {
		resp := byID(version, kmsg.MetadataRequestTopic{TopicID: topic.ID}, kmsg.MetadataRequestTopic{Topic: kmsg.StringPtr("t")})
		require.Equal(t, codeInvalidRequest, resp.Topics[0].ErrorCode)
		require.Equal(t, codeInvalidRequest, resp.Topics[1].ErrorCode)
	}
}

func TestMetadataOfAPartitionWithoutLeader(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1, nil)
	r.backend.setPartition("t", 0, Partition{Leader: -1, LeaderEpoch: 2, Replicas: []int32{testNode}})
	resp := do[*kmsg.MetadataResponse](r.dial(), metadataOf(13, false, "t"))
	require.Equal(t, codeLeaderNotAvailable, resp.Topics[0].Partitions[0].ErrorCode)
	require.Equal(t, int32(-1), resp.Topics[0].Partitions[0].Leader)
}

func TestT08_AddressesAreThoseOfTheListener(t *testing.T) {
	r := newRig(t)
	for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		l, err := net.Listen("tcp", address)
		require.NoError(t, err)
		r.serving.Go(func() { require.NoError(t, r.server.Serve(l)) })
		listening := l.Addr().(*net.TCPAddr)
		nc, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", listening.Port))
		require.NoError(t, err)
		resp := do[*kmsg.MetadataResponse](&client{t: t, conn: nc}, metadataOf(13, false))
		require.Equal(t, int32(listening.Port), resp.Brokers[0].Port)
		require.Equal(t, listening.IP.String(), resp.Brokers[0].Host, "the backend is told the listener")
		require.Equal(t, nc.RemoteAddr().String(), *resp.Brokers[0].Rack, "and this end of the connection")
		require.NoError(t, nc.Close())
	}
}

func TestATopicThatIsNamedManyTimesIsToldOnce(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 3, nil)
	c := r.dial()
	for _, version := range []int16{0, 9, 13} {
		resp := do[*kmsg.MetadataResponse](c, metadataOf(version, false, "t", "u", "t", "t", "u"))
		require.Len(t, resp.Topics, 2, "version %d", version)
		require.Len(t, resp.Topics[0].Partitions, 3)
	}
	byID := metadataOf(13, false)
	for _, name := range []string{"a", "b", "c"} { // names beside ids do not make them different
		rt := kmsg.NewMetadataRequestTopic()
		rt.TopicID, rt.Topic = topic.ID, &name
		byID.Topics = append(byID.Topics, rt)
	}
	require.Len(t, do[*kmsg.MetadataResponse](c, byID).Topics, 1)
}
