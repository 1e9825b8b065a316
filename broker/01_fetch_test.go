package broker

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

func TestFetchInEveryVersion(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	c.mustProduce(topic, 0, records("a", "b"))
	c.mustProduce(topic, 0, records("c"))
	for version := int16(4); version <= 18; version++ {
		for offset, want := range map[int64][]string{
			0: {"a", "b", "c"},
			1: {"a", "b", "c"}, // from the batch that holds the offset
			2: {"c"},
			3: {},
		} {
			for _, isolation := range []int8{0, 1} {
				req := fetchFrom(version, topic, 0, offset)
				req.IsolationLevel = isolation
				got := c.fetchOne(req)
				require.Equal(t, codeNone, got.ErrorCode)
				require.Equal(t, want, values(t, got.RecordBatches), "version %d, offset %d", version, offset)
				require.Equal(t, int64(3), got.HighWatermark)
				require.Equal(t, int64(3), got.LastStableOffset)
				require.Equal(t, isolation == 0, got.AbortedTransactions == nil, "null or empty")
				if version >= 5 {
					require.Equal(t, int64(0), got.LogStartOffset)
				}
				require.Equal(t, int32(-1), got.PreferredReadReplica)
			}
		}
	}
}

func TestF43_FetchErrors(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 3, nil)
	c := r.dial()
	c.mustProduce(topic, 0, records("a", "b", "c"))
	_, err := r.log(topic, 0).DeleteRecords(1)
	require.NoError(t, err)
	r.reopen(topic, 1, 5)
	r.backend.setPartition("t", 2, Partition{Leader: 99, LeaderEpoch: 8})

	unset := kmsg.NewFetchResponseTopicPartition().CurrentLeader
	tests := []struct {
		name   string
		index  int32
		offset int64
		change func(*kmsg.FetchRequest, *kmsg.FetchRequestTopicPartition)
		want   int16
		leader kmsg.FetchResponseTopicPartitionCurrentLeader
	}{
		{"below the log start", 0, 0, nil, codeOffsetOutOfRange, unset},
		{"above the log end", 0, 4, nil, codeOffsetOutOfRange, unset},
		{"at the log end", 0, 3, nil, codeNone, unset},
		{"partition that is not there", 7, 0, nil, codeUnknownTopicOrPartition, unset},
		{"led elsewhere", 2, 0, nil, codeNotLeaderOrFollower, kmsg.FetchResponseTopicPartitionCurrentLeader{LeaderID: 99, LeaderEpoch: 8}},
		{"older leader epoch", 1, 0, func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = 4 },
			codeFencedLeaderEpoch, kmsg.FetchResponseTopicPartitionCurrentLeader{LeaderID: testNode, LeaderEpoch: 5}},
		{"newer leader epoch", 1, 0, func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = 6 },
			codeUnknownLeaderEpoch, unset},
		{"unknown topic", 0, 0, func(r *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) {
			r.Topics[0].Topic, r.Topics[0].TopicID = "nowhere", TopicID{9}
		}, codeUnknownTopicID, unset},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for version := int16(4); version <= 18; version++ {
				req := fetchFrom(version, topic, test.index, test.offset)
				req.MaxWaitMillis = 3_600_000 // an error is answered at once
				if test.want == codeNone {
					req.MaxWaitMillis = 0
				}
				req.MinBytes = 1
				want, leader := test.want, unset
				if test.change != nil {
					test.change(req, &req.Topics[0].Partitions[0])
				}
				if version < 9 && req.Topics[0].Partitions[0].CurrentLeaderEpoch >= 0 {
					continue // the version has no leader epochs
				}
				if version < 13 && want == codeUnknownTopicID {
					want = codeUnknownTopicOrPartition
				}
				if version >= 16 {
					leader = test.leader
				}
				resp := do[*kmsg.FetchResponse](c, req)
				got := resp.Topics[0].Partitions[0]
				require.Equal(t, want, got.ErrorCode, "version %d", version)
				require.Equal(t, leader, got.CurrentLeader, "version %d", version)
				require.Equal(t, leader.LeaderID == testNode, len(resp.Brokers) == 1, "the address of the leader that was named")
				if version >= 13 {
					require.Equal(t, req.Topics[0].TopicID, resp.Topics[0].TopicID, "F-67: the id that was asked")
				}
				if want != codeNone {
					require.Empty(t, got.RecordBatches)
					require.Equal(t, int64(-1), got.HighWatermark)
					require.Nil(t, got.AbortedTransactions)
				}
			}
		})
	}
}

func TestT10_BetweenHighWatermarkAndLogEndIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newHeldDisk(memfs.New())
		r := newRigOn(t, disk)
		topic := r.topic("t", 1, nil)
		c := r.dial()
		disk.hold()
		producer := r.dial()
		producer.send(produceTo(13, topic, 0, -1, records("a", "b")))
		synctest.Wait()
		for offset := range int64(3) {
			got := c.fetchOne(fetchFrom(18, topic, 0, offset))
			require.Equal(t, codeNone, got.ErrorCode)
			require.Empty(t, got.RecordBatches)
			require.Equal(t, int64(0), got.HighWatermark)
		}
		require.Equal(t, codeOffsetOutOfRange, c.fetchOne(fetchFrom(18, topic, 0, 3)).ErrorCode)
		disk.release()
		readFrame(t, producer.conn)
		require.Equal(t, []string{"a", "b"}, values(t, c.fetchOne(fetchFrom(18, topic, 0, 0)).RecordBatches))
		r.stop()
	})
}

func TestT09_TheFirstBatchIsReturnedHoweverLarge(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 3, nil)
	c := r.dial()
	big := strings.Repeat("x", 10_000)
	for index := range int32(3) {
		c.mustProduce(topic, index, records(big))
		c.mustProduce(topic, index, records("small"))
	}
	ask := func(maxBytes, partitionMaxBytes int32) []int {
		req := fetchFrom(18, topic, 0, 0)
		req.MaxBytes, req.MaxWaitMillis = maxBytes, 60_000
		req.MinBytes = 1
		for index := range int32(3) {
			p := req.Topics[0].Partitions[0]
			p.Partition, p.PartitionMaxBytes = index, partitionMaxBytes
			if index == 0 {
				req.Topics[0].Partitions[0] = p
			} else {
				req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
			}
		}
		resp := do[*kmsg.FetchResponse](c, req)
		var counts []int
		for _, p := range resp.Topics[0].Partitions {
			require.Equal(t, codeNone, p.ErrorCode)
			counts = append(counts, len(values(t, p.RecordBatches)))
		}
		return counts
	}
	require.Equal(t, []int{1, 0, 0}, ask(0, 0), "T21: MaxBytes 0 still returns one batch")
	require.Equal(t, []int{1, 0, 0}, ask(100, 1<<20))
	require.Equal(t, []int{1, 0, 0}, ask(1<<20, 100), "the limit of a partition does not hold for the first batch of the response only")
	require.Equal(t, []int{2, 2, 2}, ask(1<<20, 1<<20))
	require.Equal(t, []int{2, 1, 0}, ask(20_250, 1<<20), "whole batches up to the limit")
}

func TestFetchMaxBytesOfTheServer(t *testing.T) {
	r := newRig(t, func(o *Options) { o.FetchMaxBytes = 100 })
	topic := r.topic("t", 1, nil)
	c := r.dial()
	for range 10 {
		c.mustProduce(topic, 0, records("x"))
	}
	req := fetchFrom(18, topic, 0, 0)
	require.Len(t, values(t, c.fetchOne(req).RecordBatches), 1)
}

func TestF18_FetchObeysIsolation(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	c.mustProduce(topic, 0, records("before"))
	openTransaction(t, r.log(topic, 0), records("in it"))
	c.mustProduce(topic, 0, records("after"))

	req := fetchFrom(18, topic, 0, 0)
	got := c.fetchOne(req)
	require.Equal(t, []string{"before", "in it", "after"}, values(t, got.RecordBatches))
	require.Equal(t, int64(3), got.HighWatermark)
	require.Equal(t, int64(1), got.LastStableOffset)

	req.IsolationLevel = 1
	got = c.fetchOne(req)
	require.Equal(t, []string{"before"}, values(t, got.RecordBatches))
	require.Equal(t, int64(3), got.HighWatermark)
	require.Equal(t, int64(1), got.LastStableOffset)
	require.NotNil(t, got.AbortedTransactions)
}

// No transaction can end here yet: what a fetch that waited tells of one that was aborted meanwhile is for later.
func TestF30_AFetchThatWaitsKeepsItsIsolation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		topic := r.topic("t", 1, nil)
		c, other := r.dial(), r.dial()
		c.mustProduce(topic, 0, records("before"))
		openTransaction(t, r.log(topic, 0), records("in it"))
		for _, test := range []struct {
			isolation int8
			waits     time.Duration
			want      []string
		}{
			{1, 5 * time.Second, []string{}},
			{0, time.Second, []string{"after"}},
		} {
			req := fetchFrom(18, topic, 0, r.log(topic, 0).Offsets().LogEnd)
			if test.isolation == 1 {
				req.Topics[0].Partitions[0].FetchOffset = 1 // the last stable offset
			}
			req.IsolationLevel, req.MaxWaitMillis, req.MinBytes = test.isolation, 5000, 1
			start := time.Now()
			correlation := c.send(req)
			pass(time.Second)
			other.mustProduce(topic, 0, records("after"))
			got := c.receive(req, correlation).(*kmsg.FetchResponse).Topics[0].Partitions[0]
			require.Equal(t, test.waits, time.Since(start))
			require.Equal(t, test.want, values(t, got.RecordBatches))
			require.Equal(t, int64(1), got.LastStableOffset)
			require.Equal(t, test.isolation == 1, got.AbortedTransactions != nil, "null says that nobody looked")
		}
		r.stop()
	})
}

func TestF51_ADivergedClientLearnsWhere(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	c.mustProduce(topic, 0, records("0", "1"))
	r.reopen(topic, 0, 4)
	c.mustProduce(topic, 0, records("2", "3"))
	r.reopen(topic, 0, 6)
	c.mustProduce(topic, 0, records("4"))

	none := kmsg.NewFetchResponseTopicPartition().DivergingEpoch
	tests := []struct {
		name      string
		lastEpoch int32
		offset    int64
		code      int16
		want      kmsg.FetchResponseTopicPartitionDivergingEpoch
	}{
		{"not checked", -1, 5, codeNone, none},
		{"as it was", 0, 2, codeNone, none},
		{"as it is", 6, 5, codeNone, none},
		{"beyond the end of the first epoch", 0, 3, codeNone, kmsg.FetchResponseTopicPartitionDivergingEpoch{Epoch: 0, EndOffset: 2}},
		{"an epoch that wrote nothing here", 5, 4, codeNone, kmsg.FetchResponseTopicPartitionDivergingEpoch{Epoch: 4, EndOffset: 4}},
		{"beyond the log end", 0, 99, codeNone, kmsg.FetchResponseTopicPartitionDivergingEpoch{Epoch: 0, EndOffset: 2}},
		{"a newer epoch than any", 7, 5, codeOffsetOutOfRange, none},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for version := int16(12); version <= 18; version++ {
				req := fetchFrom(version, topic, 0, test.offset)
				req.Topics[0].Partitions[0].LastFetchedEpoch = test.lastEpoch
				if test.want.Epoch >= 0 {
					req.MaxWaitMillis, req.MinBytes = 3_600_000, 1 // answered at once
				}
				got := c.fetchOne(req)
				require.Equal(t, test.code, got.ErrorCode)
				require.Equal(t, test.want, got.DivergingEpoch)
				if test.want.Epoch >= 0 {
					require.Empty(t, got.RecordBatches)
					require.Equal(t, int64(5), got.HighWatermark)
				}
			}
		})
	}
}

func TestF25_ABitFlippedOnDiskIsNeverAValidRecord(t *testing.T) {
	disk := memfs.New()
	r := newRigOn(t, disk)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	c.mustProduce(topic, 0, records("precious"))
	flipLastByte(t, disk, r.log(topic, 0).Dir())

	got := c.fetchOne(fetchFrom(18, topic, 0, 0))
	if got.ErrorCode == codeNone {
		require.Error(t, verifyFirst(got.RecordBatches), "the client sees it by the checksum")
	} else {
		require.Equal(t, codeKafkaStorageError, got.ErrorCode)
	}
}

func TestFetchParksUntilSomethingHappens(t *testing.T) {
	const maxWait = time.Minute
	tests := []struct {
		name     string
		minBytes int32
		happens  func(r *rig, topic *Topic)
		want     []string
		code     int16
		waited   time.Duration
	}{
		{"nothing", 1, func(*rig, *Topic) {}, []string{}, codeNone, maxWait},
		{"a record", 1, func(r *rig, topic *Topic) { r.dial().mustProduce(topic, 1, records("x")) }, []string{"x"}, codeNone, time.Second},
		{"too few bytes", 1000, func(r *rig, topic *Topic) { r.dial().mustProduce(topic, 1, records("x")) }, []string{"x"}, codeNone, maxWait},
		{"enough bytes in two batches", 130, func(r *rig, topic *Topic) {
			r.dial().mustProduce(topic, 1, records("x"))
			r.dial().mustProduce(topic, 1, records("y"))
		}, []string{"x", "y"}, codeNone, time.Second},
		{"a batch above the limit of the partition", 1, func(r *rig, topic *Topic) {
			r.dial().mustProduce(topic, 1, records(strings.Repeat("z", 2000)))
		}, []string{strings.Repeat("z", 2000)}, codeNone, time.Second},
		{"a deletion", 1, func(r *rig, topic *Topic) {
			require.NoError(r.t, r.backend.DeleteTopics(context.Background(), []TopicID{topic.ID})[0])
		}, []string{}, codeUnknownTopicID, time.Second},
		{"a stop of the log", 1, func(r *rig, topic *Topic) { require.NoError(r.t, r.log(topic, 1).Close()) },
			[]string{}, codeNotLeaderOrFollower, time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				topic := r.topic("t", 2, nil)
				c := r.dial()
				req := fetchFrom(18, topic, 1, 0)
				req.MaxWaitMillis, req.MinBytes = int32(maxWait.Milliseconds()), test.minBytes
				req.Topics[0].Partitions[0].PartitionMaxBytes = 1500
				start := time.Now()
				answered := make(chan kmsg.FetchResponseTopicPartition, 1)
				go func() { answered <- c.fetchOne(req) }()

				timer := time.NewTimer(time.Second)
				<-timer.C
				require.Empty(t, answered, "parked")
				test.happens(r, topic)
				got := <-answered
				require.Equal(t, test.waited, time.Since(start))
				require.Equal(t, test.code, got.ErrorCode)
				require.Equal(t, test.want, values(t, got.RecordBatches))
				r.stop()
			})
		})
	}
}

func TestAParkedFetchHoldsUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		topic := r.topic("t", 1, nil)
		parked, other := r.dial(), r.dial()
		fetch := fetchFrom(18, topic, 0, 0)
		fetch.MaxWaitMillis, fetch.MinBytes = 60_000, 1
		first := parked.send(fetch)
		synctest.Wait()

		start := time.Now()
		do[*kmsg.MetadataResponse](other, metadataOf(13, false, "t"))
		require.Zero(t, time.Since(start))

		// A later request of the same connection is executed now and answered after the fetch: this one ends it.
		produce := produceTo(13, topic, 0, -1, records("x"))
		second := parked.send(produce)
		require.Equal(t, []string{"x"}, values(t, parked.receive(fetch, first).(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches))
		parked.receive(produce, second)
		require.Zero(t, time.Since(start))
		r.stop()
	})
}

func TestT20_AParkedFetchEndsWithItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		topic := r.topic("t", 1, nil)
		c := r.dial()
		fetch := fetchFrom(18, topic, 0, 0)
		fetch.MaxWaitMillis, fetch.MinBytes = 500_000, 1
		c.send(fetch)
		synctest.Wait()
		start := time.Now()
		require.NoError(t, c.conn.Close())
		synctest.Wait()
		require.Zero(t, time.Since(start))
		require.Equal(t, ClosedByClient, r.events.closing(t, 1).Reason)
		r.stop()
	})
}

func TestT21_FetchThatMayNotWaitDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		topic := r.topic("t", 1, nil)
		c := r.dial()
		start := time.Now()
		for _, test := range []struct{ wait, min int32 }{{0, 1}, {-1, 1}, {60_000, 0}, {60_000, -1}} {
			req := fetchFrom(18, topic, 0, 0)
			req.MaxWaitMillis, req.MinBytes = test.wait, test.min
			require.Equal(t, codeNone, c.fetchOne(req).ErrorCode)
		}
		empty := at(18, kmsg.NewPtrFetchRequest())
		empty.MaxWaitMillis, empty.MinBytes = 60_000, 1
		require.Empty(t, do[*kmsg.FetchResponse](c, empty).Topics)
		require.Zero(t, time.Since(start))
		r.stop()
	})
}

func TestMaxWaitIsNoLongerThanAnIdleConnectionLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		topic := r.topic("t", 1, nil)
		c := r.dial()
		req := fetchFrom(18, topic, 0, 0)
		req.MaxWaitMillis, req.MinBytes = 1<<31-1, 1
		start := time.Now()
		require.Equal(t, codeNone, c.fetchOne(req).ErrorCode)
		require.Equal(t, 10*time.Minute, time.Since(start))
		r.stop()
	})
}

func TestAFetchOfManyPartitionsWakesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		topic := r.topic("t", 50, nil)
		c := r.dial()
		req := fetchFrom(18, topic, 0, 0)
		req.MaxWaitMillis, req.MinBytes = 60_000, 1
		p := req.Topics[0].Partitions[0]
		for index := int32(1); index < 50; index++ {
			p.Partition = index
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
		}
		first := c.send(req)
		synctest.Wait()
		r.dial().mustProduce(topic, 49, records("x"))
		resp := c.receive(req, first).(*kmsg.FetchResponse)
		require.Len(t, resp.Topics, 1)
		require.Len(t, resp.Topics[0].Partitions, 50)
		require.Equal(t, []string{"x"}, values(t, resp.Topics[0].Partitions[49].RecordBatches))
		r.stop()
	})
}

func TestReadersOfAFencedLogMayGoOn(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	c.mustProduce(topic, 0, records("x"))
	r.log(topic, 0).Fence()
	require.Equal(t, []string{"x"}, values(t, c.fetchOne(fetchFrom(18, topic, 0, 0)).RecordBatches))
}

func TestF43_FetchNeverAnswersWhatConsumersDoNotExpect(t *testing.T) {
	for _, err := range []error{
		partition.ErrOffsetOutOfRange, partition.ErrFenced, partition.ErrUnknownLeaderEpoch, partition.ErrNotLeader,
		partition.ErrStorage, partition.ErrClosed, partition.ErrDeleted, ErrUnknownTopic, ErrUnknownTopicID,
		ErrUnknownPartition, ErrNotLeader, errDivergedEpoch, context.Canceled,
	} {
		for _, byID := range []bool{false, true} {
			code := codeByTopic(err, byID)
			require.Contains(t, []int16{
				codeOffsetOutOfRange, codeUnknownTopicOrPartition, codeNotLeaderOrFollower, codeKafkaStorageError,
				codeFencedLeaderEpoch, codeUnknownLeaderEpoch, codeUnknownTopicID,
			}, code, "%v", err)
		}
	}
}

func TestLargeFetchesAreSentFromTheFile(t *testing.T) {
	r := osRig(t)
	topic := r.topic("t", 2, map[string]string{"segment.bytes": "1048576"})
	nc, err := net.Dial("tcp", r.listen())
	require.NoError(t, err)
	defer nc.Close()
	c := &client{t: t, conn: nc}
	var want []string
	for i := range 25 { // over three segments
		want = append(want, strings.Repeat(string(rune('a'+i)), 100_000))
		c.mustProduce(topic, 0, records(want[i]))
		c.mustProduce(topic, 1, records("small"))
	}
	for _, version := range []int16{4, 11, 12, 18} {
		req := fetchFrom(version, topic, 0, 0)
		req.MaxBytes, req.Topics[0].Partitions[0].PartitionMaxBytes = 10<<20, 10<<20
		second := req.Topics[0].Partitions[0]
		second.Partition = 1
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, second)
		var got []string
		for len(got) < len(want) {
			req.Topics[0].Partitions[0].FetchOffset = int64(len(got))
			partitions := do[*kmsg.FetchResponse](c, req).Topics[0].Partitions
			got = append(got, values(t, partitions[0].RecordBatches)...)
			require.Len(t, values(t, partitions[1].RecordBatches), 25)
		}
		require.Equal(t, want, got)
	}
}
