package crash

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/interop/server"
)

const (
	groupPartitions = 6
	groupMembers    = 6
)

// TestGroupsSurviveKill9InTheMiddleOfRebalances kills the server while six consumers of a group rebalance.
// INTEROP_GROUP_KILLS is how often for each of the two kinds of group, 5 unless set; the full count is 10.
func TestGroupsSurviveKill9InTheMiddleOfRebalances(t *testing.T) {
	kills := int(fromEnv(t, "INTEROP_GROUP_KILLS", 5))
	seed := fromEnv(t, "INTEROP_CRASH_SEED", time.Now().UnixNano())
	t.Logf("INTEROP_CRASH_SEED=%d", seed)
	s := start(t)
	for kind, balancer := range map[string]kgo.GroupBalancer{
		"cooperative": kgo.CooperativeStickyBalancer(),
		"eager":       kgo.RangeBalancer(),
	} {
		t.Run(kind, func(t *testing.T) {
			f := newFlock(t, s, "group-"+kind, balancer)
			rng := rand.New(rand.NewPCG(uint64(seed), 2))
			for range groupMembers - 1 {
				f.join()
			}
			f.await(f.send("before"))
			for kill := range kills {
				stop := f.stream(fmt.Sprintf("kill-%d", kill))
				f.join()
				f.rebalancing(rng)
				require.NoError(t, s.Kill())
				require.NoError(t, s.Start(limited(t)), "kill %d", kill)
				f.owned(groupMembers)
				f.await(stop())
				f.checkCommits()
				f.members[0].leave()
				f.members = f.members[1:]
			}
			f.await(f.send("after"))
			for _, m := range f.members {
				m.leave()
			}
			f.checkCommits()
			f.requireAllReceived()
		})
	}
}

// flock is the consumers of one group, what they have received, and what was committed.
type flock struct {
	t        *testing.T
	server   *server.Server
	name     string // of the group and of its topic
	balancer kgo.GroupBalancer
	client   *kgo.Client
	admin    *kadm.Client
	members  []*member

	mu        sync.Mutex
	received  map[string]bool
	seen      map[int32]map[int64]bool // offsets that were received, by partition
	committed map[int32]int64          // the furthest commit that was acknowledged
	news      chan struct{}
}

// member is one consumer of a flock.
type member struct {
	client *kgo.Client
	stop   context.CancelFunc
	ended  chan struct{}
}

func newFlock(t *testing.T, s *server.Server, name string, balancer kgo.GroupBalancer) *flock {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(s.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.AlwaysRetryEOF())
	require.NoError(t, err)
	t.Cleanup(c.Close)
	f := &flock{
		t: t, server: s, name: name, balancer: balancer, client: c, admin: kadm.NewClient(c),
		received: map[string]bool{}, seen: map[int32]map[int64]bool{}, committed: map[int32]int64{}, news: make(chan struct{}, 1),
	}
	created, err := f.admin.CreateTopics(limited(t), groupPartitions, 1, nil, name)
	require.NoError(t, err)
	require.NoError(t, created.Error())
	return f
}

// join starts a member that commits what it has received.
func (f *flock) join() {
	f.t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(f.server.Addr()), kgo.ConsumeTopics(f.name), kgo.ConsumerGroup(f.name),
		kgo.Balancers(f.balancer), kgo.DisableAutoCommit(), kgo.AlwaysRetryEOF(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6*time.Second), kgo.RebalanceTimeout(6*time.Second), kgo.HeartbeatInterval(50*time.Millisecond))
	require.NoError(f.t, err)
	ctx, stop := context.WithCancel(context.Background())
	m := &member{client: c, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(m.ended)
		for ctx.Err() == nil {
			records := c.PollFetches(ctx).Records()
			f.receive(records)
			if err := c.CommitRecords(ctx, records...); err == nil {
				f.commit(records)
			}
		}
	}()
	f.members = append(f.members, m)
	f.t.Cleanup(m.leave)
}

// leave ends a member in order. It may be called again.
func (m *member) leave() {
	m.stop()
	<-m.ended
	m.client.Close()
}

func (f *flock) receive(records []*kgo.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range records {
		f.received[string(r.Value)] = true
		if f.seen[r.Partition] == nil {
			f.seen[r.Partition] = map[int64]bool{}
		}
		f.seen[r.Partition][r.Offset] = true
	}
	select {
	case f.news <- struct{}{}:
	default:
	}
}

func (f *flock) commit(records []*kgo.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range records {
		f.committed[r.Partition] = max(f.committed[r.Partition], r.Offset+1)
	}
}

// send writes a record to every partition and returns the values.
func (f *flock) send(what string) []string {
	f.t.Helper()
	var records []*kgo.Record
	var values []string
	for p := range int32(groupPartitions) {
		value := fmt.Sprintf("%s-%d", what, p)
		values = append(values, value)
		records = append(records, &kgo.Record{Topic: f.name, Partition: p, Value: []byte(value)})
	}
	require.NoError(f.t, f.client.ProduceSync(limited(f.t), records...).FirstErr())
	return values
}

// stream writes records to every partition, again and again, until stop is called, which returns the values of all once
// they were acknowledged: there is something to receive and to commit at any moment.
func (f *flock) stream(what string) (stop func() []string) {
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan struct{})
	var values []string
	var failed error
	go func() {
		defer close(ended)
		again := time.NewTicker(5 * time.Millisecond)
		defer again.Stop()
		for round := 0; ; round++ {
			for p := range int32(groupPartitions) {
				value := fmt.Sprintf("%s-%d-%d", what, p, round)
				values = append(values, value)
				f.client.Produce(context.Background(), &kgo.Record{Topic: f.name, Partition: p, Value: []byte(value)},
					func(_ *kgo.Record, err error) { // promises are called one at a time
						if err != nil {
							failed = err
						}
					})
			}
			select {
			case <-again.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() []string {
		f.t.Helper()
		cancel()
		<-ended
		require.NoError(f.t, f.client.Flush(limited(f.t)))
		require.NoError(f.t, failed)
		return values
	}
}

// await waits until the values were received: somebody owns their partitions.
func (f *flock) await(values []string) {
	f.t.Helper()
	ctx := limited(f.t)
	for _, value := range values {
		for !f.has(value) {
			select {
			case <-f.news:
			case <-ctx.Done():
				f.t.Fatalf("nobody owns the partition of %s", value)
			}
		}
	}
}

func (f *flock) has(value string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.received[value]
}

func (f *flock) describe(ctx context.Context) kadm.DescribedGroup {
	f.t.Helper()
	groups, err := f.admin.DescribeGroups(ctx, f.name)
	require.NoError(f.t, err)
	return groups[f.name]
}

// rebalancing waits until the group is between two generations, and a little more, which is another moment each time.
func (f *flock) rebalancing(rng *rand.Rand) {
	f.t.Helper()
	ctx := limited(f.t)
	for {
		is := f.describe(ctx)
		if is.State == "PreparingRebalance" || is.State == "CompletingRebalance" || len(is.Members) >= groupMembers {
			break
		}
	}
	<-time.After(time.Duration(rng.Int64N(int64(60 * time.Millisecond))))
}

// owned waits until the group is stable with so many members who own every partition once.
func (f *flock) owned(members int) {
	f.t.Helper()
	ctx := limited(f.t)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		is := f.describe(ctx)
		owners := map[int32]int{}
		for _, m := range is.Members {
			assigned, ok := m.Assigned.AsConsumer()
			if !ok {
				continue
			}
			for _, topic := range assigned.Topics {
				for _, p := range topic.Partitions {
					owners[p]++
				}
			}
		}
		if is.State == "Stable" && len(is.Members) == members && len(owners) == groupPartitions {
			for p, n := range owners {
				require.Equal(f.t, 1, n, "owners of partition %d", p)
			}
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			require.FailNow(f.t, "not every partition is owned again", "%+v", is)
		}
	}
}

// checkCommits holds that no acknowledged commit has gone back, and that none covers a record that nobody received.
func (f *flock) checkCommits() {
	f.t.Helper()
	f.mu.Lock()
	told := maps.Clone(f.committed)
	f.mu.Unlock()
	stored, err := f.admin.FetchOffsets(limited(f.t), f.name)
	require.NoError(f.t, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	for p := range int32(groupPartitions) {
		o, _ := stored.Lookup(f.name, p)
		require.GreaterOrEqual(f.t, o.At, told[p], "the commit of partition %d went back", p)
		for offset := range o.At {
			require.True(f.t, f.seen[p][offset], "partition %d, offset %d was skipped", p, offset)
		}
	}
}

// requireAllReceived checks that every record reached somebody.
func (f *flock) requireAllReceived() {
	f.t.Helper()
	ends, err := f.admin.ListEndOffsets(limited(f.t), f.name)
	require.NoError(f.t, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	for p := range int32(groupPartitions) {
		end, _ := ends.Lookup(f.name, p)
		for offset := range end.Offset {
			require.True(f.t, f.seen[p][offset], "partition %d, offset %d was never received", p, offset)
		}
	}
}
