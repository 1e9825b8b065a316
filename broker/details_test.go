package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// requestTold is what the event of a request says beside its counters.
type requestTold struct {
	api    string
	topics int
	code   int16
}

func tellings(r *recorder) []requestTold {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []requestTold
	for _, e := range r.done {
		all = append(all, requestTold{e.API, e.Topics, e.ErrorCode})
	}
	return all
}

// askOfEachKind sends requests that are answered in each of the ways that there are.
func askOfEachKind(r *rig) {
	topic := r.topic("orders", 1, nil)
	c := r.dial()
	c.mustProduce(topic, 0, records("a"))
	do[*kmsg.ProduceResponse](c, produceTo(13, topic, 7, -1, records("a")))
	do[*kmsg.ProduceResponse](c, produceTo(12, topic, 0, -1, []byte("no batch")))
	do[*kmsg.FetchResponse](c, fetchFrom(12, topic, 0, 0))
	do[*kmsg.FetchResponse](c, fetchFrom(12, topic, 0, 1000))
	asked := at(12, kmsg.NewPtrMetadataRequest())
	for _, name := range []string{"orders", "nowhere"} {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		asked.Topics = append(asked.Topics, t)
	}
	do[*kmsg.MetadataResponse](c, asked)
	do[*kmsg.ListGroupsResponse](c, at(4, kmsg.NewPtrListGroupsRequest()))
	do[*kmsg.HeartbeatResponse](c, at(4, kmsg.NewPtrHeartbeatRequest()))
	r.events.await(r.t, "all answers", func() bool { return len(r.events.done) == 8 })
}

func TestDetailsOfRequestsAreToldToWhoAsksForThem(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Details = true })
	askOfEachKind(r)
	require.Equal(t, []requestTold{
		{"Produce", 1, codeNone},
		{"Produce", 1, codeUnknownTopicOrPartition},
		{"Produce", 1, codeInvalidRecord},
		{"Fetch", 1, codeNone},
		{"Fetch", 1, codeOffsetOutOfRange},
		{"Metadata", 2, codeUnknownTopicOrPartition},
		{"ListGroups", 0, codeNone},
		{"Heartbeat", 0, codeCoordinatorNotAvailable},
	}, tellings(r.events))
}

func TestWithoutDetailsRequestsAndAnswersAreNotLookedInto(t *testing.T) {
	r := newRig(t)
	askOfEachKind(r)
	for _, e := range tellings(r.events) {
		require.Equal(t, requestTold{api: e.api}, e)
	}
	var none *details
	require.Zero(t, testing.AllocsPerRun(100, func() {
		none.names(nil)
		none.answers(nil)
		none.failed(codeInvalidRecord)
	}))
}
