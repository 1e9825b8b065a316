package interop

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// groupPeer starts members of consumer groups with one client. A member reads from where the group stands, or from the
// start, commits what it has read, and has a session of six seconds, the shortest that servers allow.
type groupPeer interface {
	join(t *testing.T, group, topic string, heard *heard) groupMember
}

// groupMember is one running member.
type groupMember interface {
	// leave ends it in order and returns when it has ended.
	leave(t *testing.T)
}

// mortal is a member in a process of its own, which can be killed.
type mortal interface{ kill() }

// heard is what the members of a group have received.
type heard struct {
	mu     sync.Mutex
	counts map[string]int
	news   chan struct{}
}

func newHeard() *heard { return &heard{counts: map[string]int{}, news: make(chan struct{}, 1)} }

func (h *heard) add(value string) {
	h.mu.Lock()
	h.counts[value]++
	h.mu.Unlock()
	select {
	case h.news <- struct{}{}:
	default:
	}
}

// values returns what was received, each value once, in order.
func (h *heard) values() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var values []string
	for v := range h.counts {
		values = append(values, v)
	}
	slices.Sort(values)
	return values
}

// missing counts those of the values that nobody received.
func (h *heard) missing(values []string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, v := range values {
		if h.counts[v] == 0 {
			n++
		}
	}
	return n
}

func (h *heard) await(t *testing.T, ctx context.Context, values []string) {
	t.Helper()
	for h.missing(values) > 0 {
		select {
		case <-h.news:
		case <-ctx.Done():
			t.Fatalf("%d of %d records were not received", h.missing(values), len(values))
		}
	}
}

const groupPartitions = 4

// groupTest is one group and its topic.
type groupTest struct {
	group, topic string
	client       *kgo.Client
	admin        *kadm.Client
	sent         int
}

func newGroupTest(t *testing.T, name string) *groupTest {
	t.Helper()
	// kafkajs reads no more than that without a further package.
	c := client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	g := &groupTest{group: name, topic: name, client: c, admin: kadm.NewClient(c)}
	created, err := g.admin.CreateTopics(limited(t, time.Minute), groupPartitions, 1, nil, g.topic)
	require.NoError(t, err)
	require.NoError(t, created.Error())
	return g
}

// send writes ten records to every partition and returns their values.
func (g *groupTest) send(t *testing.T) []string {
	t.Helper()
	var records []*kgo.Record
	var values []string
	for range 10 {
		for p := range int32(groupPartitions) {
			value := fmt.Sprintf("record-%04d", g.sent)
			g.sent++
			values = append(values, value)
			records = append(records, &kgo.Record{Topic: g.topic, Partition: p, Value: []byte(value)})
		}
	}
	require.NoError(t, g.client.ProduceSync(limited(t, time.Minute), records...).FirstErr())
	return values
}

// settled waits until the group is stable with that many members who own every partition once, or empty.
func (g *groupTest) settled(t *testing.T, members int) {
	t.Helper()
	ctx := limited(t, 3*time.Minute)
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		described, err := g.admin.DescribeGroups(ctx, g.group)
		require.NoError(t, err)
		is := described[g.group]
		owned := map[int32]int{}
		for _, m := range is.Members {
			if assigned, ok := m.Assigned.AsConsumer(); ok {
				for _, topic := range assigned.Topics {
					for _, p := range topic.Partitions {
						owned[p]++
					}
				}
			}
		}
		switch {
		case members == 0 && is.State == "Empty":
			return
		case members > 0 && is.State == "Stable" && len(is.Members) == members && len(owned) == groupPartitions:
			for p, owners := range owned {
				require.Equal(t, 1, owners, "of partition %d", p)
			}
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			require.FailNow(t, "the group does not settle", "%d members wanted: %+v", members, is)
		}
	}
}

// requireAllCommitted checks that the group stands at the end of every partition.
func (g *groupTest) requireAllCommitted(t *testing.T) {
	t.Helper()
	committed, err := g.admin.FetchOffsets(limited(t, time.Minute), g.group)
	require.NoError(t, err)
	for p := range int32(groupPartitions) {
		at, ok := committed.Lookup(g.topic, p)
		require.True(t, ok, "partition %d", p)
		require.Equal(t, int64(g.sent/groupPartitions), at.At, "partition %d", p)
	}
}

// shareAGroup lets members of one client come, be killed or leave, and come again: the others take over what they owned,
// every record is received, and a member that finds the group empty goes on exactly where it stood.
func shareAGroup(t *testing.T, name string, peer groupPeer) {
	g := newGroupTest(t, name)
	ctx := limited(t, 6*time.Minute)
	all := newHeard()
	first := peer.join(t, g.group, g.topic, all)
	all.await(t, ctx, g.send(t))
	second := peer.join(t, g.group, g.topic, all)
	g.settled(t, 2)
	all.await(t, ctx, g.send(t))
	if victim, ok := first.(mortal); ok {
		victim.kill()
	} else {
		first.leave(t)
	}
	g.settled(t, 1)
	all.await(t, ctx, g.send(t))
	second.leave(t)
	g.settled(t, 0)
	g.requireAllCommitted(t)

	later := newHeard()
	third := peer.join(t, g.group, g.topic, later)
	values := g.send(t)
	later.await(t, ctx, values)
	require.Equal(t, values, later.values(), "nothing that was committed comes again")
	third.leave(t)
	g.requireAllCommitted(t)
}

func TestGroupsOfStockClients(t *testing.T) {
	for name, peer := range groupPeers {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait for sessions to end most of the time
			shareAGroup(t, "group-of-"+name, peer)
		})
	}
}
