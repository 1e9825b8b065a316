package coordinator_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/coordinator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig drives a shard as a runner does, with a clock of its own and a log that is a slice.
type rig struct {
	t       require.TestingT
	config  coordinator.Config
	shard   *coordinator.Shard
	now     int64
	last    coordinator.Ticket
	answers map[coordinator.Ticket]coordinator.Answer
	log     []coordinator.Entry
	refuse  error // what the log says to appends
	ids     int
}

func newRig(t require.TestingT, set ...func(*coordinator.Config)) *rig {
	r := &rig{t: t, now: 1_000_000, answers: map[coordinator.Ticket]coordinator.Answer{}}
	r.config.NewID = func() string { r.ids++; return fmt.Sprint(r.ids) }
	for _, f := range set {
		f(&r.config)
	}
	r.start()
	return r
}

// start makes a shard of what is in the log.
func (r *rig) start() {
	r.shard = coordinator.NewShard(r.config)
	for _, e := range r.log {
		r.shard.Replay(e)
	}
	r.shard.Loaded(r.now)
}

// restart is the end of the process and another one: what was parked is never answered.
func (r *rig) restart() { r.start() }

// take appends what an output wants and keeps the answers.
func (r *rig) take(out *coordinator.Output) {
	err := r.refuse
	if len(out.Records) > 0 && err == nil {
		for _, record := range out.Records {
			r.log = append(r.log, coordinator.Entry{At: int64(len(r.log)), Record: record, ProducerID: -1})
		}
	}
	for _, reply := range out.Settle(err) {
		_, twice := r.answers[reply.To]
		require.False(r.t, twice, "ticket %d is answered twice", reply.To)
		r.answers[reply.To] = reply.Answer
	}
}

// send hands a request over.
func (r *rig) send(req coordinator.Request) coordinator.Ticket {
	r.last++
	r.take(r.shard.Handle(r.now, r.last, req))
	r.tick()
	return r.last
}

func (r *rig) tick() {
	for out := r.shard.Tick(r.now); out != nil; out = r.shard.Tick(r.now) {
		r.take(out)
	}
}

// pass lets time pass, and everything happen that is due, at its time.
func (r *rig) pass(ms int64) {
	end := r.now + ms
	for {
		at, ok := r.shard.Next()
		if !ok || at > end {
			break
		}
		r.now = max(r.now, at)
		r.tick()
	}
	r.now = end
}

// parked says that a request has no answer yet.
func (r *rig) parked(t coordinator.Ticket) bool { return r.answers[t] == nil }

// answer is what a request was answered with.
func answer[A coordinator.Answer](r *rig, t coordinator.Ticket) A {
	require.False(r.t, r.parked(t), "ticket %d is parked", t)
	a, ok := r.answers[t].(A)
	require.True(r.t, ok, "%T", r.answers[t])
	return a
}

// do sends a request that is answered at once.
func do[A coordinator.Answer](r *rig, req coordinator.Request) A { return answer[A](r, r.send(req)) }

const (
	session   = 10_000
	rebalance = 30_000
)

// joining is a JoinGroup of a consumer of version 9.
func joining(group, member, instance string, protocols ...string) *coordinator.Join {
	if len(protocols) == 0 {
		protocols = []string{"range"}
	}
	j := &coordinator.Join{
		Group: group, MemberID: member, InstanceID: instance, ClientID: "c", ClientHost: "/h",
		SessionMs: session, RebalanceMs: rebalance, ProtocolType: "consumer", RequireKnownID: true, CanSkipAssignment: true,
	}
	for _, p := range protocols {
		j.Protocols = append(j.Protocols, coordinator.Protocol{Name: p, Metadata: subscription("t")})
	}
	return j
}

// subscription is what a consumer says it reads.
func subscription(topics ...string) []byte {
	b := []byte{0, 1, 0, 0, 0, byte(len(topics))}
	for _, t := range topics {
		b = append(append(b, 0, byte(len(t))), t...)
	}
	return append(b, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0)
}

// knock sends the first JoinGroup of a dynamic member and returns the id that it is given.
func (r *rig) knock(group string) string {
	a := do[*coordinator.JoinAnswer](r, joining(group, "", ""))
	require.ErrorIs(r.t, a.Err, coordinator.ErrMemberIDRequired)
	require.NotEmpty(r.t, a.MemberID)
	return a.MemberID
}

// enter has a dynamic member join with its id; the answer is parked, or there.
func (r *rig) enter(group string) (id string, t coordinator.Ticket) {
	id = r.knock(group)
	return id, r.send(joining(group, id, ""))
}

func syncing(group, member string, generation int32, assignments map[string][]byte) *coordinator.Sync {
	return &coordinator.Sync{Group: group, MemberID: member, Generation: generation, Assignments: assignments}
}

func beating(group, member string, generation int32) *coordinator.Heartbeat {
	return &coordinator.Heartbeat{Group: group, MemberID: member, Generation: generation}
}

// beat sends a heartbeat and returns what is wrong.
func (r *rig) beat(group, member string, generation int32) error {
	return do[*coordinator.Done](r, beating(group, member, generation)).Err
}

func (r *rig) describe(group string) *coordinator.Description {
	return do[*coordinator.Description](r, &coordinator.Describe{Group: group})
}

// stable makes a stable group of n dynamic members in its own generation, the leader first.
func (r *rig) stable(group string, n int) (members []string, generation int32) {
	tickets := make([]coordinator.Ticket, n)
	members = make([]string, n)
	for i := range n {
		members[i] = r.knock(group)
	}
	for i, id := range members {
		tickets[i] = r.send(joining(group, id, ""))
	}
	for r.parked(tickets[0]) {
		r.pass(100) // the initial delay
	}
	leader := answer[*coordinator.JoinAnswer](r, tickets[0])
	if len(leader.Members) != n { // without a delay the first was alone: all come again
		for i, id := range members {
			tickets[i] = r.send(joining(group, id, ""))
		}
		leader = answer[*coordinator.JoinAnswer](r, tickets[0])
	}
	require.NoError(r.t, leader.Err)
	require.Len(r.t, leader.Members, n)
	generation = leader.Generation
	assignments := map[string][]byte{}
	for i, id := range members {
		assignments[id] = []byte{byte(i + 1)}
	}
	for _, id := range members[1:] {
		r.send(syncing(group, id, generation, nil))
	}
	a := do[*coordinator.SyncAnswer](r, syncing(group, members[0], generation, assignments))
	require.NoError(r.t, a.Err)
	require.Equal(r.t, coordinator.Stable, r.describe(group).State)
	return members, generation
}

// committing is an OffsetCommit of one offset.
func committing(group, member string, generation int32, topic string, partition int32, offset int64) *coordinator.Commit {
	return &coordinator.Commit{
		Group: group, MemberID: member, Generation: generation, RetentionMs: -1,
		Offsets: []coordinator.CommittedOffset{{Topic: topic, Partition: partition, Offset: offset, LeaderEpoch: -1}},
	}
}

// commit commits one offset and returns what is wrong.
func (r *rig) commit(c *coordinator.Commit) error {
	a := do[*coordinator.CommitAnswer](r, c)
	if a.Err != nil {
		return a.Err
	}
	return a.Offsets[0]
}

// committed is the offset of a group, or -1.
func (r *rig) committed(group, topic string, partition int32) int64 {
	a := do[*coordinator.FetchAnswer](r, &coordinator.Fetch{
		Group: group, Topics: []coordinator.FetchTopic{{Topic: topic, Partitions: []int32{partition}}},
	})
	require.NoError(r.t, a.Err)
	return a.Topics[0].Partitions[0].Offset
}
