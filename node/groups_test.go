package node_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/node/nodetest"
)

// groupMachine is a machine whose groups begin at once.
func groupMachine(t *testing.T) *nodetest.Machine {
	m := nodetest.New(t)
	m.Config.Groups.InitialRebalanceDelay = -1
	m.Config.Groups.OffsetsPartitions = 5
	return m
}

// commitOffset commits one offset for nobody.
func commitOffset(t *testing.T, admin *kadm.Client, group, topic string, partition int32, offset int64) error {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, partition, offset, -1)
	return admin.CommitAllOffsets(within(t), group, offsets)
}

// committedOffset is the offset of a group, or -1.
func committedOffset(t *testing.T, admin *kadm.Client, group, topic string, partition int32) int64 {
	t.Helper()
	offsets, err := admin.FetchOffsets(within(t), group)
	require.NoError(t, err)
	o, ok := offsets.Lookup(topic, partition)
	if !ok {
		return -1
	}
	require.NoError(t, o.Err)
	return o.At
}

func TestTheOffsetsTopicIsMadeForTheFirstGroup(t *testing.T) {
	m := nodetest.New(t)
	m.Start()
	c := client(t, m)
	admin := kadm.NewClient(c)
	createTopic(t, c, 1, nil, "t")
	require.NoError(t, commitOffset(t, admin, "g", "t", 0, 7))
	topics, err := admin.ListTopicsWithInternal(within(t))
	require.NoError(t, err)
	require.Len(t, topics["__consumer_offsets"].Partitions, 50)
	require.True(t, topics["__consumer_offsets"].IsInternal)
}

func TestF29_F79_CommitsAndDeletionsOfGroupsSurviveAPowerCut(t *testing.T) {
	m := groupMachine(t)
	m.Start()
	c := client(t, m)
	admin := kadm.NewClient(c)
	createTopic(t, c, 1, nil, "t")
	for seed := range uint64(6) {
		group, gone := fmt.Sprintf("kept-%d", seed), fmt.Sprintf("gone-%d", seed)
		require.NoError(t, commitOffset(t, admin, gone, "t", 0, 1))
		require.NoError(t, commitOffset(t, admin, group, "t", 0, int64(seed)))
		_, err := admin.DeleteGroup(within(t), gone)
		require.NoError(t, err)
		require.NoError(t, commitOffset(t, admin, group, "t", 0, int64(seed+100)))
		m.CutPower(nodetest.Cut{Seed: seed, Keep: 0.5})
		m.Start()
		require.Equal(t, int64(seed+100), committedOffset(t, admin, group, "t", 0))
		require.Equal(t, int64(-1), committedOffset(t, admin, gone, "t", 0))
		listed, err := admin.ListGroups(within(t))
		require.NoError(t, err)
		require.NotContains(t, listed.Groups(), gone)
		require.Len(t, listed.Groups(), int(seed+1), "every earlier one is there")
	}
}

func TestF67_OffsetsOfADeletedTopicDoNotCountForTheNextOfItsName(t *testing.T) {
	m := groupMachine(t)
	m.Start()
	c := client(t, m)
	admin := kadm.NewClient(c)
	createTopic(t, c, 1, nil, "t")
	require.NoError(t, commitOffset(t, admin, "g", "t", 0, 7))
	old, err := admin.ListTopics(within(t), "t")
	require.NoError(t, err)
	_, err = admin.DeleteTopic(within(t), "t")
	require.NoError(t, err)
	createTopic(t, c, 1, nil, "t")
	require.Equal(t, int64(-1), committedOffset(t, admin, "g", "t", 0))

	// OffsetCommit 10 names topics by id: the old id is unknown, and nothing is stored.
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = "g"
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.TopicID = old["t"].ID
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Offset = 9
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics, req.Generation = append(req.Topics, rt), -1
	resp, err := req.RequestWith(within(t), c)
	require.NoError(t, err)
	require.Equal(t, kerr.UnknownTopicID.Code, resp.Topics[0].Partitions[0].ErrorCode)
	require.Equal(t, int64(-1), committedOffset(t, admin, "g", "t", 0))
	m.Stop()
	m.Start()
	require.Equal(t, int64(-1), committedOffset(t, admin, "g", "t", 0))
}

// flock is the consumers of one group, and what they were told.
type flock struct {
	t       *testing.T
	machine *nodetest.Machine
	topic   string
	options []kgo.Opt

	mu        sync.Mutex
	received  map[string]bool
	seen      map[int32]map[int64]bool // offsets, by partition
	committed map[int32]int64
	news      chan struct{}
	running   sync.WaitGroup
}

// consumer is one of a flock.
type consumer struct {
	client *kgo.Client
	stop   context.CancelFunc
	ended  chan struct{}
}

func newFlock(t *testing.T, m *nodetest.Machine, topic string, o ...kgo.Opt) *flock {
	return &flock{
		t: t, machine: m, topic: topic, options: o,
		received: map[string]bool{}, seen: map[int32]map[int64]bool{}, committed: map[int32]int64{}, news: make(chan struct{}, 1),
	}
}

// join starts a consumer that commits what it has received.
func (f *flock) join() *consumer {
	ctx, stop := context.WithCancel(context.Background())
	c := &consumer{stop: stop, ended: make(chan struct{})}
	c.client = client(f.t, f.machine, append([]kgo.Opt{
		kgo.ConsumeTopics(f.topic), kgo.ConsumerGroup("flock"), kgo.DisableAutoCommit(), kgo.AlwaysRetryEOF(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6 * time.Second), kgo.RebalanceTimeout(6 * time.Second), kgo.HeartbeatInterval(50 * time.Millisecond),
	}, f.options...)...)
	f.running.Go(func() {
		defer close(c.ended)
		for ctx.Err() == nil {
			fetches := c.client.PollFetches(ctx)
			var records []*kgo.Record
			fetches.EachRecord(func(r *kgo.Record) { records = append(records, r) })
			err := c.client.CommitRecords(ctx, records...)
			f.note(records, err)
		}
	})
	return c
}

func (f *flock) note(records []*kgo.Record, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range records {
		f.received[string(r.Value)] = true
		if f.seen[r.Partition] == nil {
			f.seen[r.Partition] = map[int64]bool{}
		}
		f.seen[r.Partition][r.Offset] = true
		if err == nil {
			f.committed[r.Partition] = max(f.committed[r.Partition], r.Offset+1)
		}
	}
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// leave ends a consumer in order.
func (c *consumer) leave() {
	c.stop()
	<-c.ended
	c.client.Close()
}

// await waits until the values were received.
func (f *flock) await(ctx context.Context, values []string) {
	f.t.Helper()
	for {
		f.mu.Lock()
		missing := ""
		for _, v := range values {
			if !f.received[v] {
				missing = v
			}
		}
		f.mu.Unlock()
		if missing == "" {
			return
		}
		select {
		case <-f.news:
		case <-ctx.Done():
			f.t.Fatalf("nobody owns the partition of %s", missing)
		}
	}
}

// rebalancing waits until the group is between two generations, or has come to the next already.
func rebalancing(t *testing.T, admin *kadm.Client, members int) {
	t.Helper()
	for {
		groups, err := admin.DescribeGroups(within(t), "flock")
		if errors.Is(err, context.DeadlineExceeded) {
			t.Fatal("the group does not rebalance")
		}
		g := groups["flock"]
		if g.State == "PreparingRebalance" || g.State == "CompletingRebalance" || len(g.Members) > members {
			return
		}
	}
}

func TestF56_PowerCutsInTheMiddleOfRebalancesOrphanNoPartition(t *testing.T) {
	for _, kind := range []struct {
		name     string
		balancer kgo.GroupBalancer
	}{{"cooperative", kgo.CooperativeStickyBalancer()}, {"eager", kgo.RangeBalancer()}} {
		t.Run(kind.name, func(t *testing.T) {
			const partitions = 6
			m := groupMachine(t)
			m.Start()
			c := client(t, m)
			admin := kadm.NewClient(c)
			createTopic(t, c, partitions, nil, "t")
			f := newFlock(t, m, "t", kgo.Balancers(kind.balancer))
			var members []*consumer
			for range 5 {
				members = append(members, f.join())
			}
			for round := range 10 {
				var values []string
				for p := range int32(partitions) {
					v := fmt.Sprintf("%d-%d", round, p)
					values = append(values, v)
					produce(t, c, "t", p, v)
				}
				f.await(within(t), values)
				members = append(members, f.join()) // the sixth
				rebalancing(t, admin, len(members)-1)
				m.CutPower(nodetest.Cut{Seed: uint64(round), Keep: []float64{0, 1, 0.5}[round%3]})
				m.Start()
				values = values[:0]
				for p := range int32(partitions) {
					v := fmt.Sprintf("%d-%d-after", round, p)
					values = append(values, v)
					produce(t, c, "t", p, v)
				}
				f.await(within(t), values)
				f.checkCommits(admin)
				members[0].leave()
				members = members[1:]
			}
			for _, one := range members {
				one.leave()
			}
		})
	}
}

// checkCommits holds that no committed offset has gone back, and that none was committed over a record that nobody received.
func (f *flock) checkCommits(admin *kadm.Client) {
	f.t.Helper()
	f.mu.Lock()
	told := maps.Clone(f.committed)
	for p, end := range told {
		for o := range end {
			require.True(f.t, f.seen[p][o], "partition %d, offset %d was skipped", p, o)
		}
	}
	f.mu.Unlock()
	for p, o := range told {
		require.GreaterOrEqual(f.t, committedOffset(f.t, admin, "flock", f.topic, p), o, "partition %d", p)
	}
}

func TestANodeStopsWhileItsGroupsRebalance(t *testing.T) {
	m := groupMachine(t)
	m.Config.Groups.InitialRebalanceDelay = time.Hour
	m.Start()
	c := client(t, m)
	createTopic(t, c, 1, nil, "t")
	f := newFlock(t, m, "t")
	one := f.join()
	rebalancing(t, kadm.NewClient(c), 0)
	require.NoError(t, m.TryStop(within(t)))
	one.leave()
}
