package broker

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/partition"
)

func listRequest(version int16, topic string, timestamps ...int64) *kmsg.ListOffsetsRequest {
	req := at(version, kmsg.NewPtrListOffsetsRequest())
	req.ReplicaID = -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	for i, ts := range timestamps {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch, rp.MaxNumOffsets = int32(i), ts, -1, 1
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	return req
}

// listed is what is told of a partition.
type listed struct {
	code      int16
	offset    int64
	timestamp int64
	epoch     int32
}

func (c *client) list(req *kmsg.ListOffsetsRequest) []listed {
	c.t.Helper()
	resp := do[*kmsg.ListOffsetsResponse](c, req)
	require.Len(c.t, resp.Topics, 1)
	require.Equal(c.t, req.Topics[0].Topic, resp.Topics[0].Topic)
	var out []listed
	for i, p := range resp.Topics[0].Partitions {
		require.Equal(c.t, req.Topics[0].Partitions[i].Partition, p.Partition)
		out = append(out, listed{p.ErrorCode, p.Offset, p.Timestamp, p.LeaderEpoch})
	}
	return out
}

func (c *client) listOne(version int16, topic string, ts int64) listed {
	c.t.Helper()
	return c.list(listRequest(version, topic, ts))[0]
}

// timed builds a batch with a record at each of the given times.
func timed(times ...int64) []byte {
	b := batch.NewBuilder(batch.BuilderOptions{})
	for _, ts := range times {
		b.Add(ts, []byte("k"), []byte("v"))
	}
	built, err := b.Build()
	if err != nil {
		panic(err)
	}
	return built
}

func TestF17_OffsetsForTimes(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	r.topic("empty", 1, nil)
	c := r.dial()
	const base = testTime
	c.mustProduce(topic, 0, timed(base+2, base+4))
	c.mustProduce(topic, 0, timed(base+6, base+8))

	none := listed{codeNone, -1, -1, -1}
	for version := int16(1); version <= 11; version++ {
		epoch := int32(0)
		if version < 4 {
			epoch = -1 // the version does not have it
		}
		require.Equal(t, listed{codeNone, 0, base + 2, epoch}, c.listOne(version, "t", base))
		require.Equal(t, listed{codeNone, 0, base + 2, epoch}, c.listOne(version, "t", base+2))
		require.Equal(t, listed{codeNone, 1, base + 4, epoch}, c.listOne(version, "t", base+3))
		require.Equal(t, listed{codeNone, 2, base + 6, epoch}, c.listOne(version, "t", base+5))
		require.Equal(t, listed{codeNone, 3, base + 8, epoch}, c.listOne(version, "t", base+8))
		require.Equal(t, none, c.listOne(version, "t", base+9))
		require.Equal(t, none, c.listOne(version, "empty", 0))
		require.Equal(t, listed{codeNone, 4, -1, epoch}, c.listOne(version, "t", partition.Latest))
		require.Equal(t, listed{codeNone, 0, -1, epoch}, c.listOne(version, "t", partition.Earliest))
	}

	r.reopen(topic, 0, 1)
	require.Equal(t, listed{codeNone, 3, base + 8, 0}, c.listOne(11, "t", base+7), "the newest record is found after a restart")
	require.Equal(t, none, c.listOne(11, "t", base+9))

	// What lies before the log start has expired.
	_, err := r.log(topic, 0).DeleteRecords(4)
	require.NoError(t, err)
	require.Equal(t, none, c.listOne(11, "t", base))
}

// TestF63_OldClientsAskForTheEndsOfAPartitionInVersion0 asks as librdkafka did until 1.5.
func TestF63_OldClientsAskForTheEndsOfAPartitionInVersion0(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	c.mustProduce(topic, 0, timed(testTime+2, testTime+4))
	c.mustProduce(topic, 0, timed(testTime+6))
	tests := []struct {
		timestamp int64
		most      int32
		code      int16
		offsets   []int64
	}{
		{partition.Latest, 1, codeNone, []int64{3}},
		{partition.Latest, 100, codeNone, []int64{3}},
		{partition.Earliest, 1, codeNone, []int64{0}},
		{partition.Earliest, 0, codeNone, nil},
		{testTime + 3, 1, codeNone, []int64{1}},
		{testTime + 7, 1, codeNone, []int64{3}},
		{partition.MaxTimestamp, 1, codeUnsupportedVersion, nil},
	}
	for _, test := range tests {
		req := listRequest(0, "t", test.timestamp)
		req.Topics[0].Partitions[0].MaxNumOffsets = test.most
		got := do[*kmsg.ListOffsetsResponse](c, req).Topics[0].Partitions[0]
		require.Equal(t, test.code, got.ErrorCode, "timestamp %d", test.timestamp)
		require.Equal(t, test.offsets, slices.Concat(got.OldStyleOffsets), "timestamp %d, at most %d", test.timestamp, test.most)
	}
}

func TestNamedOffsetsNeedTheirVersion(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	c.mustProduce(topic, 0, timed(testTime+5, testTime+9, testTime+7))
	unsupported := listed{codeUnsupportedVersion, -1, -1, -1}
	tests := []struct {
		timestamp int64
		since     int16
		want      listed
	}{
		{partition.MaxTimestamp, 7, listed{codeNone, 1, testTime + 9, 0}},
		{partition.EarliestLocal, 8, listed{codeNone, 0, -1, 0}},
		{partition.LatestTiered, 9, listed{codeNone, -1, -1, -1}},
		{partition.EarliestPendingUpload, 11, listed{codeNone, -1, -1, -1}},
		{-7, 99, listed{}},
	}
	for _, test := range tests {
		for version := int16(1); version <= 11; version++ {
			want := unsupported
			if version >= test.since {
				want = test.want
			}
			got := c.listOne(version, "t", test.timestamp)
			require.Equal(t, want, got, "timestamp %d, version %d", test.timestamp, version)
		}
	}
	r.topic("empty", 1, nil)
	require.Equal(t, listed{codeNone, -1, -1, -1}, c.listOne(11, "empty", partition.MaxTimestamp))
}

func TestF18_ListOffsetsObeysIsolation(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	c.mustProduce(topic, 0, timed(testTime, testTime+1))
	openTransaction(t, r.log(topic, 0), timed(testTime+2, testTime+3))

	for version := int16(2); version <= 11; version++ {
		latest := listRequest(version, "t", partition.Latest)
		byTime := listRequest(version, "t", testTime+3)
		require.Equal(t, int64(4), c.list(latest)[0].offset)
		require.Equal(t, int64(3), c.list(byTime)[0].offset)
		latest.IsolationLevel, byTime.IsolationLevel = 1, 1
		require.Equal(t, int64(2), c.list(latest)[0].offset)
		require.Equal(t, int64(-1), c.list(byTime)[0].offset)
		require.Equal(t, int64(-1), c.list(byTime)[0].timestamp)
	}
}

func TestF51_ListOffsetsTellsTheEpochOfTheRecord(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	c.mustProduce(topic, 0, timed(testTime))
	r.reopen(topic, 0, 5)
	c.mustProduce(topic, 0, timed(testTime+10))
	r.reopen(topic, 0, 9)

	require.Equal(t, listed{codeNone, 0, -1, 0}, c.listOne(11, "t", partition.Earliest))
	require.Equal(t, listed{codeNone, 2, -1, 9}, c.listOne(11, "t", partition.Latest))
	require.Equal(t, listed{codeNone, 0, testTime, 0}, c.listOne(11, "t", testTime))
	require.Equal(t, listed{codeNone, 1, testTime + 10, 5}, c.listOne(11, "t", testTime+1))
}

func TestF43_ListOffsetsErrors(t *testing.T) {
	r := newRig(t)
	r.topic("t", 2, nil)
	r.backend.setPartition("t", 1, Partition{Leader: 99})
	c := r.dial()
	require.Equal(t, codeUnknownTopicOrPartition, c.listOne(11, "nowhere", -1).code)

	req := listRequest(11, "t", -1, -1, -1)
	got := c.list(req)
	require.Equal(t, codeNone, got[0].code)
	require.Equal(t, listed{codeNotLeaderOrFollower, -1, -1, -1}, got[1])
	require.Equal(t, listed{codeUnknownTopicOrPartition, -1, -1, -1}, got[2])

	req = listRequest(11, "t", -1, -1)
	req.Topics[0].Partitions[1].Partition = 0
	got = c.list(req)
	require.Equal(t, codeNone, got[0].code)
	require.Equal(t, listed{codeInvalidRequest, -1, -1, -1}, got[1], "named twice")

	for version := int16(4); version <= 11; version++ {
		req = listRequest(version, "t", -1)
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = 1
		require.Equal(t, codeUnknownLeaderEpoch, c.list(req)[0].code)
		req.ReplicaID = -2 // F-51: a debugging consumer is no replica
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = 0
		require.Equal(t, codeNone, c.list(req)[0].code)
	}
	topic, _ := r.backend.Topics().ByName("t")
	r.reopen(topic, 0, 2)
	req = listRequest(11, "t", -1)
	req.Topics[0].Partitions[0].CurrentLeaderEpoch = 1
	require.Equal(t, codeFencedLeaderEpoch, c.list(req)[0].code)
}

func TestListOffsetsOfAStrangeIsolationLevelClosesTheConnection(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	req := listRequest(11, "t", -1)
	req.IsolationLevel = 3
	c.send(req)
	c.requireClosed()
	require.Equal(t, ClosedRefused, r.events.closing(t, 1).Reason)
}
