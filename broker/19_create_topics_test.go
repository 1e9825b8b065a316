package broker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/topicconfig"
)

func newTopicRequest(name string, partitions int32, replicas int16, configs ...string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, replicas
	for i := 0; i < len(configs); i += 2 {
		t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: configs[i], Value: &configs[i+1]})
	}
	return t
}

func assigned(t kmsg.CreateTopicsRequestTopic, partitions map[int32][]int32) kmsg.CreateTopicsRequestTopic {
	for _, p := range slices.Sorted(maps.Keys(partitions)) {
		t.ReplicaAssignment = append(t.ReplicaAssignment,
			kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: p, Replicas: partitions[p]})
	}
	return t
}

func createRequest(version int16, topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	req := at(version, kmsg.NewPtrCreateTopicsRequest())
	req.Topics, req.TimeoutMillis = topics, 10_000
	return req
}

func TestCreateTopicsInEveryVersion(t *testing.T) {
	r := newRig(t)
	r.backend.startedWith(map[string]string{"segment.bytes": "2097152"})
	c := r.dial()
	for version := int16(0); version <= 7; version++ {
		name := "t" + string(rune('0'+version))
		resp := do[*kmsg.CreateTopicsResponse](c, createRequest(version, newTopicRequest(name, 3, 1, "retention.ms", " 1000 ")))
		require.Len(t, resp.Topics, 1)
		got := resp.Topics[0]
		require.Equal(t, codeNone, got.ErrorCode)
		require.Nil(t, got.ErrorMessage)

		topic, ok := r.backend.Topics().ByName(name)
		require.True(t, ok)
		require.Len(t, topic.Partitions, 3)
		require.Equal(t, "1000", topic.Config.Value("retention.ms"))
		require.Equal(t, int64(0), c.mustProduce(topic, 2, records("x")), "it can be used at once")

		if version < 5 {
			continue
		}
		require.Equal(t, int32(3), got.NumPartitions)
		require.Equal(t, int16(1), got.ReplicationFactor)
		definitions := topicconfig.Definitions()
		require.Len(t, got.Configs, len(definitions))
		for i, d := range definitions {
			want := kmsg.CreateTopicsResponseTopicConfig{Name: d.Name, Value: kmsg.StringPtr(d.Default), Source: sourceDefault}
			switch d.Name {
			case "retention.ms":
				want.Value, want.Source = kmsg.StringPtr("1000"), sourceTopic
			case "segment.bytes":
				want.Value, want.Source = kmsg.StringPtr("2097152"), sourceNodeAtStart
			}
			require.Equal(t, want, got.Configs[i])
		}
		if version >= 7 {
			require.Equal(t, topic.ID, got.TopicID)
		}
	}
}

func TestCreateTopicsRefuses(t *testing.T) {
	tests := []struct {
		name  string
		topic kmsg.CreateTopicsRequestTopic
		want  int16
	}{
		{"an illegal name", newTopicRequest("a b", 1, 1), codeInvalidTopicException},
		{"an empty name", newTopicRequest("", 1, 1), codeInvalidTopicException},
		{"..", newTopicRequest("..", 1, 1), codeInvalidTopicException},
		{"a name of 250 bytes", newTopicRequest(strings.Repeat("a", 250), 1, 1), codeInvalidTopicException},
		{"a name that collides", newTopicRequest("old_topic", 1, 1), codeInvalidTopicException},
		{"a topic that exists", newTopicRequest("old.topic", 1, 1), codeTopicAlreadyExists},
		{"Kafka's metadata topic", newTopicRequest("__cluster_metadata", 1, 1), codeInvalidRequest},
		{"no partitions", newTopicRequest("t", 0, 1), codeInvalidPartitions},
		{"negative partitions", newTopicRequest("t", -2, 1), codeInvalidPartitions},
		{"no replicas", newTopicRequest("t", 1, 0), codeInvalidReplicationFactor},
		{"negative replicas", newTopicRequest("t", 1, -2), codeInvalidReplicationFactor},
		{"an unknown setting", newTopicRequest("t", 1, 1, "retention.millis", "1"), codeInvalidConfig},
		{"a bad value", newTopicRequest("t", 1, 1, "retention.ms", "soon"), codeInvalidConfig},
		{"settings that conflict", newTopicRequest("t", 1, 1, "max.compaction.lag.ms", "1", "min.compaction.lag.ms", "5"), codeInvalidConfig},
		{"too many partitions", newTopicRequest("t", 10_001, 1), codePolicyViolation},
		{"an assignment and partitions", assigned(newTopicRequest("t", 1, -1), map[int32][]int32{0: {testNode}}), codeInvalidRequest},
		{"an assignment and replicas", assigned(newTopicRequest("t", -1, 1), map[int32][]int32{0: {testNode}}), codeInvalidRequest},
		{"an assignment with a gap", assigned(newTopicRequest("t", -1, -1), map[int32][]int32{0: {testNode}, 2: {testNode}}), codeInvalidReplicaAssignment},
		{"an assignment to nowhere", assigned(newTopicRequest("t", -1, -1), map[int32][]int32{0: {99}}), codeInvalidReplicaAssignment},
		{"an assignment to a node twice", assigned(newTopicRequest("t", -1, -1), map[int32][]int32{0: {testNode, testNode}}), codeInvalidReplicaAssignment},
		{"an assignment to no node", assigned(newTopicRequest("t", -1, -1), map[int32][]int32{0: {}}), codeInvalidReplicaAssignment},
		{"an uneven assignment", assigned(newTopicRequest("t", -1, -1), map[int32][]int32{0: {testNode}, 1: {testNode, 8}}), codeInvalidReplicaAssignment},
	}
	r := newRig(t)
	r.topic("old.topic", 1, nil)
	c := r.dial()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, validateOnly := range []bool{false, true} {
				req := createRequest(7, test.topic)
				req.ValidateOnly = validateOnly
				resp := do[*kmsg.CreateTopicsResponse](c, req)
				require.Len(t, resp.Topics, 1)
				got := resp.Topics[0]
				require.Equal(t, test.want, got.ErrorCode)
				require.NotEmpty(t, *got.ErrorMessage)
				require.Equal(t, test.topic.Topic, got.Topic)
				require.Equal(t, TopicID{}, got.TopicID)
				require.Equal(t, int32(-1), got.NumPartitions)
				require.Equal(t, int16(-1), got.ReplicationFactor)
				require.Empty(t, got.Configs)
			}
		})
	}
	require.Equal(t, 1, r.backend.Topics().Len())
}

func TestCreateTopicsNullValueOfASetting(t *testing.T) {
	r := newRig(t)
	topic := newTopicRequest("t", 1, 1)
	topic.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms"}}
	resp := do[*kmsg.CreateTopicsResponse](r.dial(), createRequest(7, topic))
	require.Equal(t, codeInvalidConfig, resp.Topics[0].ErrorCode)
}

func TestCreateTopicsAssignmentWithTheSamePartitionTwice(t *testing.T) {
	r := newRig(t)
	topic := newTopicRequest("t", -1, -1)
	for range 2 {
		topic.ReplicaAssignment = append(topic.ReplicaAssignment,
			kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: 0, Replicas: []int32{testNode}})
	}
	resp := do[*kmsg.CreateTopicsResponse](r.dial(), createRequest(7, topic))
	require.Equal(t, codeInvalidReplicaAssignment, resp.Topics[0].ErrorCode)
}

func TestCreateTopicsEachOnItsOwnMerits(t *testing.T) {
	r := newRig(t, func(o *Options) { o.NumPartitions, o.DefaultReplicationFactor = 4, 2 })
	c := r.dial()
	resp := do[*kmsg.CreateTopicsResponse](c, createRequest(7,
		newTopicRequest("defaults", -1, -1),
		newTopicRequest("twice", 1, 1),
		newTopicRequest("a.b", 1, 1),
		newTopicRequest("a_b", 1, 1),
		newTopicRequest("twice", 1, 1),
		newTopicRequest("cosmetic", 2, 3), // T28: Connect asks for 3 replicas
		assigned(newTopicRequest("assigned", -1, -1), map[int32][]int32{0: {testNode}, 1: {testNode}}),
	))
	type result struct {
		name       string
		code       int16
		partitions int32
		replicas   int16
	}
	var got []result
	for _, topic := range resp.Topics {
		got = append(got, result{topic.Topic, topic.ErrorCode, topic.NumPartitions, topic.ReplicationFactor})
	}
	require.Equal(t, []result{
		{"defaults", codeNone, 4, 1},
		{"twice", codeInvalidRequest, -1, -1},
		{"a.b", codeNone, 1, 1},
		{"a_b", codeInvalidTopicException, -1, -1},
		{"cosmetic", codeNone, 2, 1},
		{"assigned", codeNone, 2, 1},
	}, got)
	require.Equal(t, 4, r.backend.Topics().Len())
}

func TestCreateTopicsOfTooManyPartitionsCreatesNone(t *testing.T) {
	r := newRig(t)
	resp := do[*kmsg.CreateTopicsResponse](r.dial(), createRequest(7,
		newTopicRequest("a", 5000, 1), newTopicRequest("b", 5001, 1), newTopicRequest("c d", 1, 1)))
	require.Equal(t, codePolicyViolation, resp.Topics[0].ErrorCode)
	require.Equal(t, codePolicyViolation, resp.Topics[1].ErrorCode)
	require.Equal(t, codeInvalidTopicException, resp.Topics[2].ErrorCode)
	require.Zero(t, r.backend.Topics().Len())
}

func TestValidateOnlyCreatesNothingAndAnswersAlike(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	req := createRequest(7, newTopicRequest("t", 2, 1, "cleanup.policy", "compact"))
	req.ValidateOnly = true
	dry := do[*kmsg.CreateTopicsResponse](c, req)
	require.Zero(t, r.backend.Topics().Len())
	require.NotEqual(t, TopicID{}, dry.Topics[0].TopicID)

	req.ValidateOnly = false
	wet := do[*kmsg.CreateTopicsResponse](c, req)
	require.Equal(t, 1, r.backend.Topics().Len())
	dry.Topics[0].TopicID = wet.Topics[0].TopicID
	require.Equal(t, wet, dry)
}

func TestCreateTopicsWhenTheBackendFails(t *testing.T) {
	tests := []struct {
		failure error
		want    int16
	}{
		{ErrTopicExists, codeTopicAlreadyExists},
		{ErrTopicCollides, codeInvalidTopicException},
		{context.DeadlineExceeded, codeRequestTimedOut},
		{errors.New("something else"), codeUnknownServerError},
	}
	r := newRig(t)
	c := r.dial()
	for _, test := range tests {
		r.backend.failing = test.failure
		resp := do[*kmsg.CreateTopicsResponse](c, createRequest(7, newTopicRequest("t", 1, 1)))
		require.Equal(t, test.want, resp.Topics[0].ErrorCode)
		require.Equal(t, test.failure.Error(), *resp.Topics[0].ErrorMessage, "T34: an error has a text")
	}
	r.backend.failing = nil
}

func TestTopicNames(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "A-z_0.9": true, "...": true, strings.Repeat("x", 249): true,
		"": false, ".": false, "..": false, "a/b": false, "ä": false, "a\x00": false, strings.Repeat("x", 250): false,
	} {
		require.Equal(t, want, validTopicName(name), "%q", name)
	}
}

func TestAnIllegalTopicNameIsToldWhichRuleItBreaks(t *testing.T) {
	c := newRig(t).dial()
	for name, want := range map[string]string{
		"":                       "the topic name is invalid: it is empty",
		"..":                     `the topic name is invalid: it must not be ".."`,
		strings.Repeat("x", 250): "the topic name is invalid: it has 250 bytes, at most 249 are allowed",
		"a b":                    "the topic name is invalid: it has ' ', which is not one of a-z, A-Z, 0-9, '.', '_' and '-'",
	} {
		resp := do[*kmsg.CreateTopicsResponse](c, createRequest(7, newTopicRequest(name, 1, 1)))
		require.Equal(t, codeInvalidTopicException, resp.Topics[0].ErrorCode)
		require.Equal(t, want, *resp.Topics[0].ErrorMessage)
	}
}

func TestTopicIDsAreRandomAndNeverSpecial(t *testing.T) {
	seen := map[TopicID]bool{}
	for range 10_000 {
		id := newTopicID()
		require.False(t, seen[id])
		seen[id] = true
		require.Equal(t, byte(4), id[6]>>4, "version")
		require.Equal(t, byte(2), id[8]>>6, "variant")
		require.NotEqual(t, byte(62), id[0]>>2, "the text would start with a dash")
	}
}
