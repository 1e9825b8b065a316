package broker

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sessionFetch makes a Fetch of a session for partitions of a topic, all from offset 0.
func sessionFetch(version int16, id, epoch int32, topic *Topic, indexes ...int32) *kmsg.FetchRequest {
	req := at(version, kmsg.NewPtrFetchRequest())
	req.MaxBytes, req.SessionID, req.SessionEpoch = 1<<20, id, epoch
	if len(indexes) == 0 {
		return req
	}
	full := fetchFrom(version, topic, 0, 0)
	p := full.Topics[0].Partitions[0]
	full.Topics[0].Partitions = nil
	for _, index := range indexes {
		p.Partition = index
		full.Topics[0].Partitions = append(full.Topics[0].Partitions, p)
	}
	req.Topics = full.Topics
	return req
}

// told lists the partitions of a response, with the values of their records.
func told(t testing.TB, resp *kmsg.FetchResponse) map[int32][]string {
	t.Helper()
	out := map[int32][]string{}
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			require.Equal(t, codeNone, p.ErrorCode)
			out[p.Partition] = values(t, p.RecordBatches)
		}
	}
	return out
}

func orderOf(resp *kmsg.FetchResponse) []int32 {
	var out []int32
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			out = append(out, p.Partition)
		}
	}
	return out
}

func TestFetchSessionTellsOnlyWhatChanged(t *testing.T) {
	for _, version := range []int16{7, 12, 13, 18} {
		r := newRig(t)
		topic := r.topic("t", 3, nil)
		c := r.dial()

		resp := do[*kmsg.FetchResponse](c, sessionFetch(version, 0, 0, topic, 0, 1, 2))
		id := resp.SessionID
		require.Positive(t, id)
		require.Equal(t, map[int32][]string{0: {}, 1: {}, 2: {}}, told(t, resp), "a full response")

		resp = do[*kmsg.FetchResponse](c, sessionFetch(version, id, 1, nil))
		require.Equal(t, id, resp.SessionID)
		require.Empty(t, resp.Topics, "nothing changed")

		c.mustProduce(topic, 1, records("x"))
		resp = do[*kmsg.FetchResponse](c, sessionFetch(version, id, 2, nil))
		require.Equal(t, map[int32][]string{1: {"x"}}, told(t, resp))

		// The client has it now and says so; the high watermark was told.
		moved := sessionFetch(version, id, 3, topic, 1)
		moved.Topics[0].Partitions[0].FetchOffset = 1
		require.Empty(t, do[*kmsg.FetchResponse](c, moved).Topics)

		// A partition is forgotten.
		forget := sessionFetch(version, id, 4, nil)
		forget.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: topic.Name, TopicID: topic.ID, Partitions: []int32{1}}}
		c.mustProduce(topic, 1, records("y"))
		c.mustProduce(topic, 2, records("z"))
		resp = do[*kmsg.FetchResponse](c, forget)
		require.Equal(t, map[int32][]string{2: {"z"}}, told(t, resp))

		// A log start that moves is news.
		_, err := r.log(topic, 2).DeleteRecords(1)
		require.NoError(t, err)
		moved = sessionFetch(version, id, 5, topic, 2)
		moved.Topics[0].Partitions[0].FetchOffset = 1
		require.Equal(t, map[int32][]string{2: {}}, told(t, do[*kmsg.FetchResponse](c, moved)))

		// A session of nothing is no session.
		forget = sessionFetch(version, id, 6, nil)
		forget.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: topic.Name, TopicID: topic.ID, Partitions: []int32{0, 2}}}
		require.Equal(t, int32(0), do[*kmsg.FetchResponse](c, forget).SessionID)
		require.Zero(t, r.server.sessions.len())
	}
}

func TestFetchSessionErrors(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	id := do[*kmsg.FetchResponse](c, sessionFetch(18, 0, 0, topic, 0)).SessionID
	tests := []struct {
		name    string
		request *kmsg.FetchRequest
		want    int16
	}{
		{"unknown id", sessionFetch(18, id+1, 1, nil), codeFetchSessionIDNotFound},
		{"no id but an epoch", sessionFetch(18, 0, 1, nil), codeFetchSessionIDNotFound},
		{"epoch too high", sessionFetch(18, id, 2, nil), codeInvalidFetchSessionEpoch},
		{"epoch that makes no sense", sessionFetch(18, id, -2, nil), codeInvalidFetchSessionEpoch},
		{"by name in a session by id", sessionFetch(12, id, 1, nil), codeFetchSessionTopicIDError},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.request.MaxWaitMillis, test.request.MinBytes = 3_600_000, 1
			resp := do[*kmsg.FetchResponse](c, test.request)
			require.Equal(t, test.want, resp.ErrorCode)
			require.Equal(t, int32(0), resp.SessionID)
			require.Empty(t, resp.Topics)
		})
	}
	require.Equal(t, codeNone, do[*kmsg.FetchResponse](c, sessionFetch(18, id, 1, nil)).ErrorCode, "the session goes on")

	byName := do[*kmsg.FetchResponse](c, sessionFetch(12, 0, 0, topic, 0)).SessionID
	require.Equal(t, codeFetchSessionTopicIDError, do[*kmsg.FetchResponse](c, sessionFetch(13, byName, 1, nil)).ErrorCode)
}

func TestT19_ASessionEndsAtOnceWhenTheClientSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		topic := r.topic("t", 1, nil)
		c := r.dial()
		start := time.Now()
		id := do[*kmsg.FetchResponse](c, sessionFetch(18, 0, 0, topic, 0)).SessionID
		end := sessionFetch(18, id, -1, nil)
		end.MaxWaitMillis, end.MinBytes = 60_000, 1
		resp := do[*kmsg.FetchResponse](c, end)
		require.Equal(t, codeNone, resp.ErrorCode)
		require.Equal(t, int32(0), resp.SessionID)
		require.Zero(t, r.server.sessions.len())

		// A full fetch with an id replaces that session.
		first := do[*kmsg.FetchResponse](c, sessionFetch(18, 0, 0, topic, 0)).SessionID
		second := do[*kmsg.FetchResponse](c, sessionFetch(18, first, 0, topic, 0)).SessionID
		require.NotEqual(t, first, second)
		require.Equal(t, 1, r.server.sessions.len())
		require.Zero(t, time.Since(start))
		r.stop()
	})
}

func TestFetchSessionServesInTurn(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 3, nil)
	c := r.dial()
	for index := range int32(3) {
		c.mustProduce(topic, index, records("x"))
	}
	full := sessionFetch(18, 0, 0, topic, 0, 1, 2)
	full.MaxBytes = 1 // one batch a response
	resp := do[*kmsg.FetchResponse](c, full)
	require.Equal(t, []int32{0, 1, 2}, orderOf(resp))
	id := resp.SessionID

	for epoch, want := range []int32{1, 2, 0, 1, 2} {
		next := sessionFetch(18, id, int32(epoch+1), nil)
		next.MaxBytes = 1
		require.Equal(t, []int32{want}, orderOf(do[*kmsg.FetchResponse](c, next)))
	}
}

func TestF67_FetchSessionOfATopicThatWasMadeAnew(t *testing.T) {
	r := newRig(t)
	old := r.topic("t", 1, nil)
	c := r.dial()
	id := do[*kmsg.FetchResponse](c, sessionFetch(18, 0, 0, old, 0)).SessionID
	require.NoError(t, r.backend.DeleteTopics(context.Background(), []TopicID{old.ID})[0])
	r.topic("t", 1, nil)

	for epoch := int32(1); epoch <= 2; epoch++ { // an error is told each time
		resp := do[*kmsg.FetchResponse](c, sessionFetch(18, id, epoch, nil))
		require.Len(t, resp.Topics, 1)
		require.Equal(t, old.ID, resp.Topics[0].TopicID, "the id that was asked")
		require.Equal(t, codeUnknownTopicID, resp.Topics[0].Partitions[0].ErrorCode)
	}
}

func TestFetchSessionAfterAnErrorTellsThePartitionAgain(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	id := do[*kmsg.FetchResponse](c, sessionFetch(18, 0, 0, topic, 0)).SessionID
	led := topic.Partitions[0]
	r.backend.setPartition("t", 0, Partition{Leader: -1})
	resp := do[*kmsg.FetchResponse](c, sessionFetch(18, id, 1, nil))
	require.Equal(t, codeNotLeaderOrFollower, resp.Topics[0].Partitions[0].ErrorCode)

	r.backend.setPartition("t", 0, led)
	require.Equal(t, map[int32][]string{0: {}}, told(t, do[*kmsg.FetchResponse](c, sessionFetch(18, id, 2, nil))))
	require.Empty(t, do[*kmsg.FetchResponse](c, sessionFetch(18, id, 3, nil)).Topics)
}

func TestSessionlessFetchKeepsNothing(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	for version := int16(4); version <= 18; version++ {
		require.Equal(t, int32(0), do[*kmsg.FetchResponse](c, fetchFrom(version, topic, 0, 0)).SessionID)
	}
	require.Zero(t, r.server.sessions.len())

	none := newRig(t, func(o *Options) { o.MaxIncrementalFetchSessions = -1 })
	topic = none.topic("t", 1, nil)
	require.Equal(t, int32(0), do[*kmsg.FetchResponse](none.dial(), sessionFetch(18, 0, 0, topic, 0)).SessionID)
}

func TestSessionEpochsWrapToOne(t *testing.T) {
	require.Equal(t, int32(2), nextSessionEpoch(1))
	require.Equal(t, int32(1), nextSessionEpoch(math.MaxInt32))
}

func TestSessionCacheMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass := func(d time.Duration) {
			timer := time.NewTimer(d)
			<-timer.C
		}
		c := newSessionCache(2, 1000, func() int { return 0 })
		small, large := c.create(true, 10), c.create(true, 20)
		require.Nil(t, c.create(true, 30), "both are young")

		pass(sessionRest + time.Second)
		small.used.Store(time.Now().UnixNano())
		large.used.Store(time.Now().UnixNano())
		require.Nil(t, c.create(true, 10), "both are in use and none is smaller")
		larger := c.create(true, 11)
		require.NotNil(t, larger, "the smaller one makes room")
		require.Nil(t, c.find(small.id))
		require.NotNil(t, c.find(large.id))

		pass(sessionRest + time.Second)
		larger.used.Store(time.Now().UnixNano())
		require.NotNil(t, c.create(true, 1), "the one that is out of use makes room for any")
		require.Nil(t, c.find(large.id))
		require.Equal(t, 2, c.len())
	})
}

// One session that was sent partitions that do not exist took half a gigabyte.
func TestAFetchSessionHasNoMorePartitionsThanThereAreAndSome(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 3, nil)
	c := r.dial()
	upTo := func(from, to int32) (indexes []int32) {
		for i := from; i < to; i++ {
			indexes = append(indexes, i)
		}
		return indexes
	}
	most := int32(3 + spareSessionPartitions)
	resp := do[*kmsg.FetchResponse](c, sessionFetch(12, 0, 0, topic, upTo(0, most+1)...))
	require.Equal(t, codeNone, resp.ErrorCode)
	require.Zero(t, resp.SessionID, "answered, and not remembered")
	require.Len(t, orderOf(resp), int(most)+1)

	id := do[*kmsg.FetchResponse](c, sessionFetch(12, 0, 0, topic, upTo(0, 3)...)).SessionID
	require.NotZero(t, id)
	resp = do[*kmsg.FetchResponse](c, sessionFetch(12, id, 1, topic, upTo(3, most)...))
	require.Equal(t, codeNone, resp.ErrorCode)
	resp = do[*kmsg.FetchResponse](c, sessionFetch(12, id, 2, topic, most))
	require.Equal(t, codeFetchSessionIDNotFound, resp.ErrorCode)
	require.Zero(t, r.server.sessions.len())
}

func TestAllFetchSessionsShareTheRoomForPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSessionCache(10, 30, func() int { return 0 })
		first, second := c.create(true, 10), c.create(true, 15)
		require.NotNil(t, second)
		require.Nil(t, c.create(true, 6), "no room")
		first.size.Store(16)
		require.False(t, c.fits(first), "grown past the room")
		first.size.Store(15)
		require.True(t, c.fits(first))

		timer := time.NewTimer(sessionRest + time.Second)
		<-timer.C
		require.NotNil(t, c.create(true, 30), "what is out of use makes room")
		require.Equal(t, 1, c.len())
	})
}
