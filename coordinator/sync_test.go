package coordinator_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/coordinator"
)

func TestSyncIsRefusedInKafkasOrder(t *testing.T) {
	r := newRig(t)
	var generation int32
	id := r.joinStatic("g", "x", &generation)
	text := func(s string) *string { return &s }
	for name, test := range map[string]struct {
		sync coordinator.Sync
		want error
	}{
		"an unknown group":   {coordinator.Sync{Group: "other", MemberID: id}, coordinator.ErrUnknownMember},
		"an unknown member":  {coordinator.Sync{Group: "g", MemberID: "m", Generation: 99}, coordinator.ErrUnknownMember},
		"another instance":   {coordinator.Sync{Group: "g", MemberID: "m", InstanceID: "x"}, coordinator.ErrFencedInstance},
		"another generation": {coordinator.Sync{Group: "g", MemberID: id, Generation: generation + 1, Protocol: text("y")}, coordinator.ErrIllegalGeneration},
		"another type":       {coordinator.Sync{Group: "g", MemberID: id, Generation: generation, ProtocolType: text("y")}, coordinator.ErrInconsistentProtocol},
		"another protocol":   {coordinator.Sync{Group: "g", MemberID: id, Generation: generation, Protocol: text("y")}, coordinator.ErrInconsistentProtocol},
	} {
		require.ErrorIs(t, do[*coordinator.SyncAnswer](r, &test.sync).Err, test.want, name)
	}
	ok := &coordinator.Sync{Group: "g", MemberID: id, Generation: generation, ProtocolType: text("consumer"), Protocol: text("range")}
	a := do[*coordinator.SyncAnswer](r, ok)
	require.Equal(t, &coordinator.SyncAnswer{ProtocolType: "consumer", Protocol: "range", Assignment: []byte{7}}, a)
}

func TestFollowersWaitForTheLeaderAndWhoIsForgottenIsAssignedNothing(t *testing.T) {
	r := newRig(t)
	members, generation := r.stable("g", 3)
	for _, m := range members {
		r.send(joining("g", m, ""))
	}
	second := r.send(syncing("g", members[1], generation+1, nil))
	r.pass(session * 2 / 3)
	require.True(t, r.parked(second))
	a := do[*coordinator.SyncAnswer](r, syncing("g", members[0], generation+1, map[string][]byte{members[1]: {5}}))
	require.NoError(t, a.Err)
	require.Empty(t, a.Assignment)
	require.Equal(t, []byte{5}, answer[*coordinator.SyncAnswer](r, second).Assignment)
	require.Empty(t, do[*coordinator.SyncAnswer](r, syncing("g", members[2], generation+1, nil)).Assignment, "later, at once")
}

func TestAssignmentsThatCannotBeRecordedAreNobodys(t *testing.T) {
	r := newRig(t)
	members, generation := r.stable("g", 2)
	for _, m := range members {
		r.send(joining("g", m, ""))
	}
	follower := r.send(syncing("g", members[1], generation+1, nil))
	r.refuse = errors.New("the disk is full")
	leader := do[*coordinator.SyncAnswer](r, syncing("g", members[0], generation+1, map[string][]byte{members[1]: {5}}))
	require.ErrorIs(t, leader.Err, r.refuse)
	require.ErrorIs(t, answer[*coordinator.SyncAnswer](r, follower).Err, r.refuse)
	require.Equal(t, coordinator.PreparingRebalance, r.describe("g").State)
	r.refuse = nil
	one, two := r.send(joining("g", members[0], "")), r.send(joining("g", members[1], ""))
	require.Equal(t, generation+2, answer[*coordinator.JoinAnswer](r, one).Generation)
	require.Equal(t, generation+2, answer[*coordinator.JoinAnswer](r, two).Generation)
}

func TestHeartbeatsTellOfTheState(t *testing.T) {
	r := newRig(t)
	require.ErrorIs(t, r.beat("g", "m", 1), coordinator.ErrUnknownMember)
	members, generation := r.stable("g", 2)
	require.NoError(t, r.beat("g", members[0], generation))
	require.ErrorIs(t, r.beat("g", members[0], generation-1), coordinator.ErrIllegalGeneration)
	require.ErrorIs(t, r.beat("g", "m", generation), coordinator.ErrUnknownMember)
	r.send(joining("g", members[0], ""))
	require.ErrorIs(t, r.beat("g", members[1], generation), coordinator.ErrRebalancing)
	r.send(joining("g", members[1], ""))
	require.NoError(t, r.beat("g", members[1], generation+1), "while it completes")
}

func TestASessionEndsUnlessTheMemberIsHeardOf(t *testing.T) {
	r := newRig(t)
	members, generation := r.stable("g", 2)
	for range 5 {
		r.pass(session - 1)
		err := r.beat("g", members[0], generation)
		if err != nil {
			require.ErrorIs(t, err, coordinator.ErrRebalancing)
			break
		}
	}
	r.pass(1)
	d := r.describe("g")
	require.Equal(t, coordinator.PreparingRebalance, d.State)
	require.Len(t, d.Members, 1)
	require.Equal(t, members[0], d.Members[0].ID)
}

func TestACommitIsASignOfLife(t *testing.T) {
	r := newRig(t)
	members, generation := r.stable("g", 1)
	for i := range 5 {
		r.pass(session - 1)
		require.NoError(t, r.commit(committing("g", members[0], generation, "t", 0, int64(i))))
	}
	r.pass(session)
	require.Equal(t, coordinator.Empty, r.describe("g").State)
}

func TestAParkedMemberIsAlive(t *testing.T) {
	r := newRig(t)
	members, generation := r.stable("g", 2)
	ticket := r.send(joining("g", members[0], ""))
	for range 25 {
		r.pass(1000)
		require.ErrorIs(t, r.beat("g", members[1], generation), coordinator.ErrRebalancing)
	}
	require.True(t, r.parked(ticket), "far beyond its session")
	r.send(joining("g", members[1], ""))
	require.NoError(t, answer[*coordinator.JoinAnswer](r, ticket).Err)
}

func TestLeave(t *testing.T) {
	r := newRig(t)
	var generation int32
	id := r.joinStatic("g", "x", &generation)
	parked := r.knock("g")
	ticket := r.send(joining("g", parked, ""))
	handedOut := r.knock("g")
	leave := func(group string, m ...coordinator.LeavingMember) []error {
		a := do[*coordinator.LeaveAnswer](r, &coordinator.Leave{Group: group, Members: m})
		require.NoError(t, a.Err)
		return a.Members
	}
	require.Equal(t, []error{coordinator.ErrUnknownMember}, leave("other", coordinator.LeavingMember{ID: id}))
	require.Equal(t,
		[]error{coordinator.ErrUnknownMember, coordinator.ErrFencedInstance, coordinator.ErrUnknownMember, nil},
		leave("g",
			coordinator.LeavingMember{ID: "m"}, coordinator.LeavingMember{ID: parked, InstanceID: "x"},
			coordinator.LeavingMember{InstanceID: "y"}, coordinator.LeavingMember{ID: handedOut}))
	require.Equal(t, []error{nil, nil}, leave("g", coordinator.LeavingMember{InstanceID: "x"}, coordinator.LeavingMember{ID: parked}))
	require.ErrorIs(t, answer[*coordinator.JoinAnswer](r, ticket).Err, coordinator.ErrUnknownMember)
	require.Equal(t, coordinator.Empty, r.describe("g").State)
	require.ErrorIs(t, r.beat("g", id, generation), coordinator.ErrUnknownMember)
}

func TestTheLastMemberThatLeavesIsRecorded(t *testing.T) {
	r := newRig(t)
	members, generation := r.stable("g", 1)
	r.pass(500)
	do[*coordinator.LeaveAnswer](r, &coordinator.Leave{Group: "g", Members: []coordinator.LeavingMember{{ID: members[0]}}})
	require.Equal(t, coordinator.GroupRecord{Group: "g", State: &coordinator.GroupMetadata{
		ProtocolType: "consumer", Generation: generation + 1, SinceMs: r.now,
	}}, r.log[len(r.log)-1].Record)
}

func TestMembersSurviveARestartWithAWholeSession(t *testing.T) {
	r := newRig(t)
	members, generation := r.stable("g", 2)
	before := r.describe("g")
	require.Positive(t, before.Rebalances)
	r.pass(session - 1)
	r.restart()
	before.Rebalances = 0
	require.Equal(t, before, r.describe("g"), "and rebalances are counted anew")
	r.pass(session - 1)
	require.NoError(t, r.beat("g", members[0], generation))
	require.NoError(t, r.beat("g", members[1], generation))
	require.Equal(t, []byte{1}, do[*coordinator.SyncAnswer](r, syncing("g", members[0], generation, nil)).Assignment)
}

func TestARestartInTheMiddleOfARebalanceOrphansNothing(t *testing.T) {
	r := newRig(t)
	members, generation := r.stable("g", 2)
	newcomer, _ := r.enter("g")
	one := r.send(joining("g", members[0], ""))
	r.send(joining("g", members[1], ""))
	require.Equal(t, generation+1, answer[*coordinator.JoinAnswer](r, one).Generation)
	r.restart() // before the leader has synced
	require.ErrorIs(t, do[*coordinator.SyncAnswer](r, syncing("g", members[0], generation+1, nil)).Err, coordinator.ErrIllegalGeneration)
	require.ErrorIs(t, do[*coordinator.JoinAnswer](r, joining("g", newcomer, "")).Err, coordinator.ErrUnknownMember)
	require.Equal(t, coordinator.Stable, r.describe("g").State, "the last generation that was recorded")
	_, third := r.enter("g")
	r.send(joining("g", members[1], ""))
	one = r.send(joining("g", members[0], ""))
	require.Len(t, answer[*coordinator.JoinAnswer](r, one).Members, 3)
	require.NoError(t, answer[*coordinator.JoinAnswer](r, third).Err)
}

func TestWhatIsParkedIsAnsweredWhenTheShardIsAbandoned(t *testing.T) {
	r := newRig(t)
	members, generation := r.stable("g", 3)
	for _, m := range members {
		r.send(joining("g", m, ""))
	}
	sync := r.send(syncing("g", members[1], generation+1, nil))
	r.stable("h", 1)
	_, join := r.enter("h")
	require.True(t, r.parked(join))
	answered := map[coordinator.Ticket]error{}
	for _, reply := range r.shard.Abandon(coordinator.ErrNotAvailable) {
		answered[reply.To] = reply.Answer.Error()
	}
	require.Equal(t, map[coordinator.Ticket]error{
		sync: coordinator.ErrNotAvailable, join: coordinator.ErrNotAvailable,
	}, answered)
}
