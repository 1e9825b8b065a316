package broker

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func deleteByName(version int16, names ...string) *kmsg.DeleteTopicsRequest {
	req := at(version, kmsg.NewPtrDeleteTopicsRequest())
	req.TimeoutMillis = 10_000
	for _, name := range names {
		if version >= 6 {
			req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &name})
		} else {
			req.TopicNames = append(req.TopicNames, name)
		}
	}
	return req
}

func TestDeleteTopicsByNameInEveryVersion(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	for version := int16(0); version <= 6; version++ {
		topic := r.topic("t", 2, nil)
		resp := do[*kmsg.DeleteTopicsResponse](c, deleteByName(version, "t", "nowhere", "twice", "twice"))
		require.Len(t, resp.Topics, 3)
		require.Equal(t, "t", *resp.Topics[0].Topic)
		require.Equal(t, codeNone, resp.Topics[0].ErrorCode)
		require.Equal(t, "nowhere", *resp.Topics[1].Topic)
		require.Equal(t, codeUnknownTopicOrPartition, resp.Topics[1].ErrorCode)
		require.Equal(t, codeInvalidRequest, resp.Topics[2].ErrorCode)
		if version >= 5 {
			require.Nil(t, resp.Topics[0].ErrorMessage)
			require.NotEmpty(t, *resp.Topics[1].ErrorMessage)
		}
		if version >= 6 {
			require.Equal(t, topic.ID, resp.Topics[0].TopicID)
		}
		require.Zero(t, r.backend.Topics().Len())
	}
}

func TestF67_DeleteTopicsByID(t *testing.T) {
	r := newRig(t)
	a, b := r.topic("a", 1, nil), r.topic("b", 1, nil)
	r.topic("c", 1, nil)
	c := r.dial()
	req := at(6, kmsg.NewPtrDeleteTopicsRequest())
	req.Topics = []kmsg.DeleteTopicsRequestTopic{
		{TopicID: a.ID},
		{TopicID: TopicID{9}},
		{},
		{Topic: kmsg.StringPtr("c"), TopicID: TopicID{8}},
		{TopicID: b.ID},
		{Topic: kmsg.StringPtr("b")}, // the same topic again
	}
	resp := do[*kmsg.DeleteTopicsResponse](c, req)
	type result struct {
		name string
		id   TopicID
		code int16
	}
	var got []result
	for _, topic := range resp.Topics {
		name := "(null)"
		if topic.Topic != nil {
			name = *topic.Topic
		}
		got = append(got, result{name, topic.TopicID, topic.ErrorCode})
	}
	require.Equal(t, []result{
		{"a", a.ID, codeNone},
		{"(null)", TopicID{9}, codeUnknownTopicID},
		{"(null)", TopicID{}, codeInvalidRequest},
		{"c", TopicID{8}, codeInvalidRequest},
		{"b", b.ID, codeInvalidRequest},
	}, got)
	require.Equal(t, 2, r.backend.Topics().Len())
}

func TestDeleteTopicsDisabled(t *testing.T) {
	r := newRig(t, func(o *Options) { o.DisableDeleteTopics = true })
	r.topic("t", 1, nil)
	c := r.dial()
	for version := int16(1); version <= 6; version++ {
		want := codeTopicDeletionDisabled
		if version < 3 {
			want = codeInvalidRequest
		}
		resp := do[*kmsg.DeleteTopicsResponse](c, deleteByName(version, "t"))
		require.Equal(t, want, resp.Topics[0].ErrorCode)
	}
	require.Equal(t, 1, r.backend.Topics().Len())
}

func TestDeleteTopicsWhenTheBackendFails(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1, nil)
	c := r.dial()
	for failure, want := range map[error]int16{
		context.DeadlineExceeded: codeRequestTimedOut,
		ErrUnknownTopicID:        codeUnknownTopicID,
	} {
		r.backend.failing = failure
		resp := do[*kmsg.DeleteTopicsResponse](c, deleteByName(6, "t"))
		require.Equal(t, want, resp.Topics[0].ErrorCode)
	}
	r.backend.failing = nil
}
