package coordinator_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/coordinator"
)

func delay(ms int32) func(*coordinator.Config) {
	return func(c *coordinator.Config) { c.InitialDelayMs = ms }
}

func TestJoinIsRefusedInKafkasOrder(t *testing.T) {
	r := newRig(t, func(c *coordinator.Config) { c.MaxSize = 2 })
	r.stable("full", 2)
	change := func(f func(*coordinator.Join)) *coordinator.Join {
		j := joining("g", "", "")
		f(j)
		return j
	}
	for name, test := range map[string]struct {
		join *coordinator.Join
		want error
	}{
		"no group":            {change(func(j *coordinator.Join) { j.Group, j.SessionMs = "", 0 }), coordinator.ErrInvalidGroup},
		"a short session":     {change(func(j *coordinator.Join) { j.SessionMs, j.MemberID = 5999, "m" }), coordinator.ErrInvalidSession},
		"a long session":      {change(func(j *coordinator.Join) { j.SessionMs = 1800001 }), coordinator.ErrInvalidSession},
		"an id without group": {change(func(j *coordinator.Join) { j.MemberID, j.Protocols = "m", nil }), coordinator.ErrUnknownMember},
		"a full group":        {change(func(j *coordinator.Join) { j.Group, j.ProtocolType = "full", "x" }), coordinator.ErrGroupFull},
		"no protocol type":    {change(func(j *coordinator.Join) { j.ProtocolType = "" }), coordinator.ErrInconsistentProtocol},
		"no protocols":        {change(func(j *coordinator.Join) { j.Protocols = nil }), coordinator.ErrInconsistentProtocol},
	} {
		a := do[*coordinator.JoinAnswer](r, test.join)
		require.ErrorIs(t, a.Err, test.want, name)
		require.Equal(t, int32(-1), a.Generation, name)
	}
	require.Equal(t, coordinator.Dead, r.describe("g").State, "a refused join makes no group")
}

func TestAMemberMustFitTheGroupsProtocols(t *testing.T) {
	r := newRig(t)
	r.stable("g", 1)
	other := joining("g", "", "", "roundrobin")
	require.ErrorIs(t, do[*coordinator.JoinAnswer](r, other).Err, coordinator.ErrInconsistentProtocol)
	other = joining("g", "", "", "range")
	other.ProtocolType = "connect"
	require.ErrorIs(t, do[*coordinator.JoinAnswer](r, other).Err, coordinator.ErrInconsistentProtocol)
}

func TestTheProtocolIsTheOneThatMostPreferAmongThoseThatAllKnow(t *testing.T) {
	r := newRig(t, delay(3000))
	var tickets []coordinator.Ticket
	for _, protocols := range [][]string{{"a", "b", "c"}, {"c", "b"}, {"c", "b", "a"}} {
		j := joining("g", "", "", protocols...)
		j.RequireKnownID = false
		tickets = append(tickets, r.send(j))
	}
	r.pass(rebalance)
	for _, ticket := range tickets {
		require.Equal(t, "c", answer[*coordinator.JoinAnswer](r, ticket).Protocol)
	}
}

func TestTheFirstMembersAreWaitedForAndEachNewcomerAddsToTheWait(t *testing.T) {
	r := newRig(t, delay(3000))
	_, first := r.enter("g")
	r.pass(2900)
	require.True(t, r.parked(first))
	_, second := r.enter("g")
	r.pass(3000)
	require.True(t, r.parked(first), "extended by the second")
	r.pass(200)
	a, b := answer[*coordinator.JoinAnswer](r, first), answer[*coordinator.JoinAnswer](r, second)
	require.Equal(t, int32(1), a.Generation)
	require.Equal(t, int32(1), b.Generation)
	require.Len(t, a.Members, 2, "the leader sees all")
	require.Empty(t, b.Members)
	require.Equal(t, a.MemberID, b.Leader)
}

func TestTheWaitForTheFirstMembersEndsAtTheRebalanceTimeout(t *testing.T) {
	r := newRig(t, delay(3000))
	_, first := r.enter("g")
	began := r.now
	for r.parked(first) {
		r.enter("g")
		r.pass(1000)
		require.LessOrEqual(t, r.now-began, int64(rebalance+1000))
	}
	require.GreaterOrEqual(t, r.now-began, int64(rebalance-3000))
}

func TestF56_TwoConsumersOnAUsedEmptyGroupMakeOneGeneration(t *testing.T) {
	r := newRig(t, delay(3000))
	members, generation := r.stable("g", 1)
	require.NoError(t, do[*coordinator.LeaveAnswer](r, &coordinator.Leave{
		Group: "g", Members: []coordinator.LeavingMember{{ID: members[0]}},
	}).Members[0])
	require.Equal(t, coordinator.Empty, r.describe("g").State)

	_, first := r.enter("g")
	r.pass(1000)
	_, second := r.enter("g")
	r.pass(6000)
	a, b := answer[*coordinator.JoinAnswer](r, first), answer[*coordinator.JoinAnswer](r, second)
	require.Equal(t, generation+2, a.Generation, "one for the empty group, one for both")
	require.Equal(t, a.Generation, b.Generation)
	require.Len(t, a.Members, 2)
}

func TestF56_AnIDThatIsNeverUsedIsForgotten(t *testing.T) {
	r := newRig(t)
	id := r.knock("g")
	r.pass(session)
	require.Equal(t, coordinator.Dead, r.describe("g").State, "nothing is left of the group")
	require.ErrorIs(t, do[*coordinator.JoinAnswer](r, joining("g", id, "")).Err, coordinator.ErrUnknownMember)
	_, more := r.shard.Next()
	require.True(t, more, "the sweep")
	r.pass(600_000)
	_, more = r.shard.Next()
	require.False(t, more, "an empty shard has nothing to do, ever")
}

func TestF56_AnIDThatIsNeverUsedHoldsUpARebalanceForOneSession(t *testing.T) {
	r := newRig(t)
	members, generation := r.stable("g", 1)
	r.knock("g")
	leader := r.send(joining("g", members[0], ""))
	require.True(t, r.parked(leader))
	r.pass(session)
	require.Equal(t, generation+1, answer[*coordinator.JoinAnswer](r, leader).Generation)
}

func TestF56_AMemberThatNeverSyncsIsRemoved(t *testing.T) {
	r := newRig(t)
	members, generation := r.stable("g", 2)
	for _, m := range members {
		r.send(joining("g", m, ""))
	}
	require.NoError(t, do[*coordinator.SyncAnswer](r, syncing("g", members[0], generation+1, nil)).Err)
	for range 6 { // the second one is alive and does not sync
		r.pass(rebalance / 6)
		_ = r.beat("g", members[0], generation+1)
		_ = r.beat("g", members[1], generation+1)
	}
	require.ErrorIs(t, r.beat("g", members[1], generation+1), coordinator.ErrUnknownMember)
	require.ErrorIs(t, r.beat("g", members[0], generation+1), coordinator.ErrRebalancing)
}

func TestF56_ALeaderThatNeverSyncsIsRemovedAndTheOthersGoOn(t *testing.T) {
	r := newRig(t)
	members, generation := r.stable("g", 2)
	for _, m := range members {
		r.send(joining("g", m, ""))
	}
	follower := r.send(syncing("g", members[1], generation+1, nil))
	require.True(t, r.parked(follower))
	r.pass(session)
	require.ErrorIs(t, answer[*coordinator.SyncAnswer](r, follower).Err, coordinator.ErrRebalancing)
	a := do[*coordinator.JoinAnswer](r, joining("g", members[1], ""))
	require.NoError(t, a.Err)
	require.Equal(t, members[1], a.Leader)
	require.Len(t, a.Members, 1)
}

func TestF56_AMemberThatDoesNotComeAgainIsOutAfterTheRebalanceTimeout(t *testing.T) {
	r := newRig(t)
	members, generation := r.stable("g", 3)
	leader := r.send(joining("g", members[0], ""))
	second := r.send(joining("g", members[1], ""))
	for range 29 { // alive, but busy
		r.pass(rebalance / 30)
		require.ErrorIs(t, r.beat("g", members[2], generation), coordinator.ErrRebalancing)
	}
	require.True(t, r.parked(leader))
	r.pass(rebalance / 30)
	require.Len(t, answer[*coordinator.JoinAnswer](r, leader).Members, 2)
	require.Equal(t, generation+1, answer[*coordinator.JoinAnswer](r, second).Generation)
	require.ErrorIs(t, r.beat("g", members[2], generation), coordinator.ErrUnknownMember)
}

func TestF56_AParkedJoinOfANewMemberExpires(t *testing.T) {
	r := newRig(t, func(c *coordinator.Config) { c.NewMemberJoinMs = 20_000 })
	members, _ := r.stable("g", 1)
	_, newcomer := r.enter("g")
	r.pass(20_000) // the old member is silent, too
	require.False(t, r.parked(newcomer))
	_ = members
	d := r.describe("g")
	for _, m := range d.Members {
		require.NotEqual(t, members[0], m.ID)
	}
}

func TestT22_AFollowerThatComesBackUnchangedCausesNoRebalance(t *testing.T) {
	r := newRig(t)
	members, generation := r.stable("g", 2)
	a := do[*coordinator.JoinAnswer](r, joining("g", members[1], ""))
	require.NoError(t, a.Err)
	require.Equal(t, generation, a.Generation)
	require.Empty(t, a.Members)
	require.Equal(t, coordinator.Stable, r.describe("g").State)

	changed := joining("g", members[1], "")
	changed.Protocols[0].Metadata = subscription("t", "u")
	require.True(t, r.parked(r.send(changed)), "what it owns or reads has changed")
	require.ErrorIs(t, r.beat("g", members[0], generation), coordinator.ErrRebalancing)
}

func TestALeaderThatComesBackCausesARebalance(t *testing.T) {
	r := newRig(t)
	members, generation := r.stable("g", 2)
	require.True(t, r.parked(r.send(joining("g", members[0], ""))))
	require.ErrorIs(t, r.beat("g", members[1], generation), coordinator.ErrRebalancing)
}

func TestAJoinThatWasNotHeardIsAnsweredAgainWhileTheGroupCompletes(t *testing.T) {
	r := newRig(t)
	members, generation := r.stable("g", 2)
	for _, m := range members {
		r.send(joining("g", m, ""))
	}
	leader := do[*coordinator.JoinAnswer](r, joining("g", members[0], ""))
	require.Equal(t, generation+1, leader.Generation)
	require.Len(t, leader.Members, 2)
	follower := do[*coordinator.JoinAnswer](r, joining("g", members[1], ""))
	require.Equal(t, generation+1, follower.Generation)
	require.Empty(t, follower.Members)
}

func TestAJoinThatIsSentAgainReplacesTheParkedOne(t *testing.T) {
	r := newRig(t)
	members, _ := r.stable("g", 2)
	first := r.send(joining("g", members[0], ""))
	again := r.send(joining("g", members[0], ""))
	require.ErrorIs(t, answer[*coordinator.JoinAnswer](r, first).Err, coordinator.ErrRebalancing)
	require.True(t, r.parked(again))
	r.send(joining("g", members[1], ""))
	require.NoError(t, answer[*coordinator.JoinAnswer](r, again).Err)
}

func TestAnOldClientJoinsAtOnce(t *testing.T) {
	r := newRig(t)
	j := joining("g", "", "")
	j.RequireKnownID = false
	a := do[*coordinator.JoinAnswer](r, j)
	require.NoError(t, a.Err)
	require.Equal(t, int32(1), a.Generation)
}

func TestAGroupThatIsFullTakesWhoIsInIt(t *testing.T) {
	r := newRig(t, func(c *coordinator.Config) { c.MaxSize = 2 })
	members, _ := r.stable("g", 2)
	require.ErrorIs(t, do[*coordinator.JoinAnswer](r, joining("g", "", "")).Err, coordinator.ErrGroupFull)
	one := r.send(joining("g", members[0], ""))
	two := r.send(joining("g", members[1], ""))
	require.NoError(t, answer[*coordinator.JoinAnswer](r, one).Err)
	require.NoError(t, answer[*coordinator.JoinAnswer](r, two).Err)
}

// joinStatic has a static member join and returns its id once the group is stable around it.
func (r *rig) joinStatic(group, instance string, generationOf *int32) string {
	ticket := r.send(joining(group, "", instance))
	r.pass(0)
	a := answer[*coordinator.JoinAnswer](r, ticket)
	require.NoError(r.t, a.Err)
	*generationOf = a.Generation
	s := syncing(group, a.MemberID, a.Generation, map[string][]byte{a.MemberID: {7}})
	s.InstanceID = instance
	require.NoError(r.t, do[*coordinator.SyncAnswer](r, s).Err)
	return a.MemberID
}

func TestF65_AStaticMemberComesBackWithoutARebalance(t *testing.T) {
	r := newRig(t)
	var generation int32
	old := r.joinStatic("g", "x", &generation)
	records := len(r.log)
	a := do[*coordinator.JoinAnswer](r, joining("g", "", "x"))
	require.NoError(t, a.Err)
	require.NotEqual(t, old, a.MemberID)
	require.Equal(t, generation, a.Generation)
	require.True(t, a.SkipAssignment, "it leads and need not assign")
	require.Len(t, a.Members, 1)
	require.Equal(t, a.MemberID, a.Leader)
	require.Len(t, r.log, records+1, "the new id is recorded")

	s := syncing("g", a.MemberID, generation, nil)
	s.InstanceID = "x"
	require.Equal(t, []byte{7}, do[*coordinator.SyncAnswer](r, s).Assignment, "what its predecessor had")

	fenced := beating("g", old, generation)
	fenced.InstanceID = "x"
	require.ErrorIs(t, do[*coordinator.Done](r, fenced).Err, coordinator.ErrFencedInstance)
	require.ErrorIs(t, r.beat("g", old, generation), coordinator.ErrUnknownMember)
}

func TestF65_AnOlderClientIsToldThatItFollows(t *testing.T) {
	r := newRig(t)
	var generation int32
	old := r.joinStatic("g", "x", &generation)
	j := joining("g", "", "x")
	j.CanSkipAssignment = false
	a := do[*coordinator.JoinAnswer](r, j)
	require.Equal(t, old, a.Leader)
	require.False(t, a.SkipAssignment)
	require.Empty(t, a.Members)
}

func TestF65_AStaticMembersIDIsNoUseToAnother(t *testing.T) {
	r := newRig(t)
	var generation int32
	id := r.joinStatic("g", "x", &generation)
	require.ErrorIs(t, do[*coordinator.JoinAnswer](r, joining("g", id, "")).Err, coordinator.ErrFencedInstance)
	require.ErrorIs(t, do[*coordinator.JoinAnswer](r, joining("g", id, "y")).Err, coordinator.ErrUnknownMember)
	// The instance that was named is not pinned by that.
	require.True(t, r.parked(r.send(joining("g", "", "y"))))
	require.ErrorIs(t, r.beat("g", id, generation), coordinator.ErrRebalancing)
}

func TestF65_AStaticMemberThatComesBackWhileTheGroupCompletesGetsAnAssignment(t *testing.T) {
	r := newRig(t)
	first := answer[*coordinator.JoinAnswer](r, r.send(joining("g", "", "x")))
	require.Equal(t, coordinator.CompletingRebalance, r.describe("g").State)
	j := joining("g", "", "x")
	j.SessionMs = 20_000
	a := do[*coordinator.JoinAnswer](r, j)
	require.NoError(t, a.Err)
	require.Equal(t, first.Generation+1, a.Generation, "the leader has to assign again")
	require.Len(t, a.Members, 1)
	s := syncing("g", a.MemberID, a.Generation, map[string][]byte{a.MemberID: {9}})
	s.InstanceID = "x"
	require.Equal(t, []byte{9}, do[*coordinator.SyncAnswer](r, s).Assignment)
	d := r.describe("g")
	require.Len(t, d.Members, 1)
	require.Equal(t, int32(20_000), d.Members[0].SessionMs)
	r.pass(19_999)
	require.NoError(t, r.beat("g", a.MemberID, a.Generation))
}

func TestF65_AStaticMemberWhoseProtocolIsNoLongerTheGroupsCausesARebalance(t *testing.T) {
	r := newRig(t)
	var generation int32
	r.joinStatic("g", "x", &generation)
	j := joining("g", "", "x", "range", "sticky")
	j.Protocols[0], j.Protocols[1] = j.Protocols[1], j.Protocols[0]
	a := do[*coordinator.JoinAnswer](r, j)
	require.Equal(t, generation+1, a.Generation)
	require.Equal(t, "sticky", a.Protocol)
}

func TestF65_AStaticMemberThatCannotBeReplacedStaysWhoItWas(t *testing.T) {
	r := newRig(t)
	var generation int32
	id := r.joinStatic("g", "x", &generation)
	r.refuse = errors.New("the disk is full")
	a := do[*coordinator.JoinAnswer](r, joining("g", "", "x"))
	require.ErrorIs(t, a.Err, r.refuse)
	require.Empty(t, a.MemberID)
	r.refuse = nil
	require.NoError(t, r.beat("g", id, generation))
	require.Equal(t, id, r.describe("g").Members[0].ID)
}

func TestAStaticMemberThatIsAwayIsKeptUntilItsSessionEnds(t *testing.T) {
	r := newRig(t)
	var generation int32
	r.joinStatic("g", "x", &generation)
	_, newcomer := r.enter("g")
	require.True(t, r.parked(newcomer))
	r.pass(session - 1)
	require.True(t, r.parked(newcomer))
	require.Len(t, r.describe("g").Members, 2)
	r.pass(1)
	require.Len(t, answer[*coordinator.JoinAnswer](r, newcomer).Members, 1)
}

func TestARebalanceWaitsForOneOfTheStaticMembers(t *testing.T) {
	r := newRig(t)
	var generation int32
	id := r.joinStatic("g", "x", &generation)
	leaving, ticket := r.enter("g")
	require.True(t, r.parked(ticket))
	do[*coordinator.LeaveAnswer](r, &coordinator.Leave{Group: "g", Members: []coordinator.LeavingMember{{ID: leaving}}})
	require.ErrorIs(t, answer[*coordinator.JoinAnswer](r, ticket).Err, coordinator.ErrUnknownMember)
	for range 40 { // alive and busy, past the end of the join phase
		r.pass(1000)
		beat := beating("g", id, generation)
		beat.InstanceID = "x"
		require.ErrorIs(t, do[*coordinator.Done](r, beat).Err, coordinator.ErrRebalancing)
	}
	back := joining("g", id, "x")
	require.Equal(t, generation+1, do[*coordinator.JoinAnswer](r, back).Generation)
}

func TestALeaderThatDoesNotComeAgainIsReplacedByOneWhoDoes(t *testing.T) {
	r := newRig(t)
	members, generation := r.stable("g", 3)
	second := r.send(joining("g", members[1], "", "range", "sticky"))
	third := r.send(joining("g", members[2], ""))
	for range 29 {
		r.pass(rebalance / 30)
		require.ErrorIs(t, r.beat("g", members[0], generation), coordinator.ErrRebalancing)
	}
	r.pass(rebalance)
	a := answer[*coordinator.JoinAnswer](r, second)
	require.Equal(t, members[1], a.Leader)
	require.Len(t, a.Members, 2)
	require.Empty(t, answer[*coordinator.JoinAnswer](r, third).Members)
}

func TestAStaticLeaderThatIsAwayDoesNotLead(t *testing.T) {
	r := newRig(t)
	var generation int32
	static := r.joinStatic("g", "x", &generation)
	joined := joining("g", static, "x")
	joined.SessionMs = 60_000 // it outlives the join phase
	require.False(t, r.parked(r.send(joined)))
	sync := syncing("g", static, generation+1, nil)
	sync.InstanceID = "x"
	do[*coordinator.SyncAnswer](r, sync)
	id, newcomer := r.enter("g")
	r.pass(rebalance)
	a := answer[*coordinator.JoinAnswer](r, newcomer)
	require.Equal(t, id, a.Leader)
	require.Len(t, a.Members, 2, "the static member keeps its place")
}

func TestALimitThatCameDownIsKeptInTheNextRebalance(t *testing.T) {
	r := newRig(t)
	members, _ := r.stable("g", 3)
	r.config.MaxSize = 2
	r.restart()
	first := r.send(joining("g", members[0], ""))
	second := r.send(joining("g", members[1], ""))
	require.ErrorIs(t, do[*coordinator.JoinAnswer](r, joining("g", members[2], "")).Err, coordinator.ErrGroupFull)
	require.Len(t, answer[*coordinator.JoinAnswer](r, first).Members, 2)
	require.NoError(t, answer[*coordinator.JoinAnswer](r, second).Err)
}

func TestAMemberWithoutARebalanceTimeoutHasItsSessions(t *testing.T) {
	r := newRig(t)
	protocol, leader := "range", "m"
	r.log = []coordinator.Entry{{ProducerID: -1, Record: coordinator.GroupRecord{Group: "g", State: &coordinator.GroupMetadata{
		ProtocolType: "consumer", Generation: 4, Protocol: &protocol, Leader: &leader, SinceMs: -1,
		Members: []coordinator.MemberMetadata{{ID: "m", RebalanceMs: -1, SessionMs: session}},
	}}}}
	r.restart()
	d := r.describe("g")
	require.Equal(t, int32(session), d.Members[0].RebalanceMs)
	require.NoError(t, r.beat("g", "m", 4))
}
