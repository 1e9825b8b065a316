package coordinator_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/coordinator"
)

func TestWhoMayCommit(t *testing.T) {
	r := newRig(t)
	var generation int32
	static := r.joinStatic("static", "x", &generation)
	members, stable := r.stable("stable", 1)
	completing, at := r.stable("completing", 2)
	for _, m := range completing {
		r.send(joining("completing", m, ""))
	}
	preparing, before := r.stable("preparing", 2)
	r.send(joining("preparing", preparing[0], ""))

	of := func(c *coordinator.Commit, instance string) *coordinator.Commit { c.InstanceID = instance; return c }
	for name, test := range map[string]struct {
		commit *coordinator.Commit
		want   error
	}{
		"no group":                           {committing("", "", -1, "t", 0, 1), coordinator.ErrInvalidGroup},
		"nobody, a new group":                {committing("new", "", -1, "t", 0, 1), nil},
		"nobody, the same group again":       {committing("new", "", -1, "t", 0, 2), nil},
		"a member of no group":               {committing("none", "m", 1, "t", 0, 1), coordinator.ErrGroupNotFound},
		"nobody, a group with members":       {committing("stable", "", -1, "t", 0, 1), coordinator.ErrUnknownMember},
		"no member id":                       {committing("stable", "", stable, "t", 0, 1), coordinator.ErrUnknownMember},
		"an unknown member":                  {committing("stable", "m", stable, "t", 0, 1), coordinator.ErrUnknownMember},
		"a member":                           {committing("stable", members[0], stable, "t", 0, 1), nil},
		"a member of an old generation":      {committing("stable", members[0], stable-1, "t", 0, 1), coordinator.ErrIllegalGeneration},
		"a replaced static member":           {of(committing("static", "m", generation, "t", 0, 1), "x"), coordinator.ErrFencedInstance},
		"a static member":                    {of(committing("static", static, generation, "t", 0, 1), "x"), nil},
		"a member that has not synced yet":   {committing("completing", completing[0], at+1, "t", 0, 1), coordinator.ErrRebalancing},
		"a member that is to join once more": {committing("preparing", preparing[1], before, "t", 0, 1), nil},
	} {
		require.Equal(t, test.want, r.commit(test.commit), name)
	}
}

func TestACommitIsFoundAndOthersAreNot(t *testing.T) {
	r := newRig(t)
	id, other := [16]byte{1}, [16]byte{2}
	c := committing("g", "", -1, "t", 3, 42)
	c.Offsets[0].TopicID, c.Offsets[0].LeaderEpoch, c.Offsets[0].Metadata = id, 5, "note"
	require.NoError(t, r.commit(c))
	fetch := func(group string, topic string, id [16]byte, p int32) coordinator.FetchedOffset {
		a := do[*coordinator.FetchAnswer](r, &coordinator.Fetch{
			Group: group, Topics: []coordinator.FetchTopic{{Topic: topic, TopicID: id, Partitions: []int32{p}}},
		})
		return a.Topics[0].Partitions[0]
	}
	there := coordinator.FetchedOffset{Partition: 3, Offset: 42, LeaderEpoch: 5, Metadata: "note"}
	none := coordinator.FetchedOffset{Partition: 3, Offset: -1, LeaderEpoch: -1}
	require.Equal(t, there, fetch("g", "t", id, 3))
	require.Equal(t, there, fetch("g", "t", [16]byte{}, 3))
	require.Equal(t, none, fetch("g", "t", other, 3), "of a topic that was made anew")
	require.Equal(t, none, fetch("g", "u", id, 3))
	require.Equal(t, none, fetch("h", "t", id, 3), "a group that there is not")
	r.restart()
	require.Equal(t, there, fetch("g", "t", id, 3))
	require.Equal(t, &coordinator.FetchAnswer{Topics: []coordinator.FetchedTopic{
		{Topic: "t", TopicID: id, Partitions: []coordinator.FetchedOffset{there}},
	}}, do[*coordinator.FetchAnswer](r, &coordinator.Fetch{Group: "g", All: true}))
	require.Equal(t, &coordinator.FetchAnswer{}, do[*coordinator.FetchAnswer](r, &coordinator.Fetch{Group: "h", All: true}))
}

func TestACommitThatIsNotInTheLogIsNowhere(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.commit(committing("g", "", -1, "t", 0, 1)))
	r.refuse = errors.New("the disk is full")
	require.ErrorIs(t, r.commit(committing("g", "", -1, "t", 0, 2)), r.refuse)
	require.ErrorIs(t, r.commit(committing("h", "", -1, "t", 0, 2)), r.refuse)
	require.Equal(t, int64(1), r.committed("g", "t", 0))
	require.Equal(t, coordinator.Dead, r.describe("h").State)
	require.ErrorIs(t, do[*coordinator.Done](r, &coordinator.DeleteGroup{Group: "g"}).Err, r.refuse)
	require.ErrorIs(t, do[*coordinator.DeleteAnswer](r, deleting("g", "t")).Err, r.refuse)
	require.Equal(t, int64(1), r.committed("g", "t", 0))
}

func TestALongTextIsRefusedByItself(t *testing.T) {
	r := newRig(t)
	c := committing("g", "", -1, "t", 0, 1)
	c.Offsets = append(c.Offsets, c.Offsets[0])
	c.Offsets[0].Metadata, c.Offsets[1].Partition = strings.Repeat("x", 4097), 1
	a := do[*coordinator.CommitAnswer](r, c)
	require.Equal(t, []error{coordinator.ErrMetadataTooLarge, nil}, a.Offsets)
	require.Equal(t, int64(-1), r.committed("g", "t", 0))
	require.Equal(t, int64(1), r.committed("g", "t", 1))
}

func deleting(group string, topics ...string) *coordinator.DeleteOffsets {
	d := &coordinator.DeleteOffsets{Group: group}
	for _, t := range topics {
		d.Offsets = append(d.Offsets, coordinator.TopicPartition{Topic: t})
	}
	return d
}

func TestDeleteOffsets(t *testing.T) {
	r := newRig(t)
	require.ErrorIs(t, do[*coordinator.DeleteAnswer](r, deleting("g", "t")).Err, coordinator.ErrGroupNotFound)
	members, generation := r.stable("g", 1) // reads t
	require.NoError(t, r.commit(committing("g", members[0], generation, "t", 0, 1)))
	require.NoError(t, r.commit(committing("g", members[0], generation, "u", 0, 1)))
	a := do[*coordinator.DeleteAnswer](r, deleting("g", "t", "u", "v"))
	require.Equal(t, []error{coordinator.ErrSubscribed, nil, nil}, a.Offsets)
	require.Equal(t, int64(1), r.committed("g", "t", 0))
	require.Equal(t, int64(-1), r.committed("g", "u", 0))
	r.restart()
	require.Equal(t, int64(-1), r.committed("g", "u", 0))

	j := joining("h", "", "")
	j.ProtocolType, j.RequireKnownID = "connect", false
	r.send(j)
	require.ErrorIs(t, do[*coordinator.DeleteAnswer](r, deleting("h", "t")).Err, coordinator.ErrNonEmptyGroup)

	garbage := joining("k", "", "")
	garbage.RequireKnownID, garbage.Protocols[0].Metadata = false, []byte{1}
	r.send(garbage)
	require.Equal(t, []error{coordinator.ErrSubscribed}, do[*coordinator.DeleteAnswer](r, deleting("k", "any")).Offsets)
}

func TestDeleteGroup(t *testing.T) {
	r := newRig(t)
	require.ErrorIs(t, do[*coordinator.Done](r, &coordinator.DeleteGroup{Group: "g"}).Err, coordinator.ErrGroupNotFound)
	require.ErrorIs(t, do[*coordinator.Done](r, &coordinator.DeleteGroup{}).Err, coordinator.ErrGroupNotFound)
	members, generation := r.stable("g", 1)
	require.NoError(t, r.commit(committing("g", members[0], generation, "t", 0, 1)))
	require.ErrorIs(t, do[*coordinator.Done](r, &coordinator.DeleteGroup{Group: "g"}).Err, coordinator.ErrNonEmptyGroup)
	do[*coordinator.LeaveAnswer](r, &coordinator.Leave{Group: "g", Members: []coordinator.LeavingMember{{ID: members[0]}}})
	require.NoError(t, do[*coordinator.Done](r, &coordinator.DeleteGroup{Group: "g"}).Err)
	for range 2 {
		require.Equal(t, &coordinator.Description{Err: coordinator.ErrGroupNotFound, State: coordinator.Dead}, r.describe("g"))
		require.Equal(t, int64(-1), r.committed("g", "t", 0))
		r.restart()
	}
}

func TestListAndDescribe(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.commit(committing("simple", "", -1, "t", 0, 1)))
	members, _ := r.stable("busy", 2)
	require.Equal(t, &coordinator.Listing{Groups: []coordinator.ListedGroup{
		{Group: "busy", ProtocolType: "consumer", State: coordinator.Stable},
		{Group: "simple", State: coordinator.Empty},
	}}, do[*coordinator.Listing](r, &coordinator.List{}))
	d := r.describe("busy")
	require.Equal(t, coordinator.DescribedMember{
		ID: members[0], ClientID: "c", ClientHost: "/h", SessionMs: session, RebalanceMs: rebalance,
		Metadata: subscription("t"), Assignment: []byte{1},
	}, d.Members[0])
	require.Equal(t, "range", d.Protocol)
	r.send(joining("busy", members[0], ""))
	d = r.describe("busy")
	require.Empty(t, d.Protocol)
	require.Nil(t, d.Members[0].Metadata)
	require.Nil(t, d.Members[0].Assignment)
}

// day is ms.
const day = 24 * 3600 * 1000

// alive lets time pass with a member that beats.
func (r *rig) alive(ms int64, group, member string, generation int32) {
	for left := ms; left > 0; left -= session / 2 {
		r.pass(min(left, session/2))
		require.NoError(r.t, r.beat(group, member, generation))
	}
}

func TestF29_OffsetsOfAGroupThatLivesDoNotExpire(t *testing.T) {
	r := newRig(t, func(c *coordinator.Config) { c.RetentionMs, c.SweepMs = 60_000, 5_000 })
	members, generation := r.stable("g", 1)
	require.NoError(t, r.commit(committing("g", members[0], generation, "t", 0, 7)))
	r.alive(180_000, "g", members[0], generation)
	require.Equal(t, int64(7), r.committed("g", "t", 0), "idle for three times the retention")

	do[*coordinator.LeaveAnswer](r, &coordinator.Leave{Group: "g", Members: []coordinator.LeavingMember{{ID: members[0]}}})
	r.pass(55_000)
	require.Equal(t, int64(7), r.committed("g", "t", 0), "the retention counts from when the last member left")
	r.restart()
	r.pass(4_999)
	require.Equal(t, int64(7), r.committed("g", "t", 0), "also over a restart")
	r.pass(5_001)
	require.Equal(t, int64(-1), r.committed("g", "t", 0))
	require.Equal(t, coordinator.Dead, r.describe("g").State, "and then the group is gone")
	r.restart()
	require.Empty(t, do[*coordinator.Listing](r, &coordinator.List{}).Groups)
}

func TestF29_OffsetsOfAGroupWithoutMembersExpireAfterTheLastCommit(t *testing.T) {
	r := newRig(t, func(c *coordinator.Config) { c.RetentionMs, c.SweepMs = 60_000, 1_000 })
	require.NoError(t, r.commit(committing("g", "", -1, "t", 0, 7)))
	r.pass(59_000)
	require.NoError(t, r.commit(committing("g", "", -1, "t", 1, 8)))
	r.pass(2_000)
	require.Equal(t, int64(-1), r.committed("g", "t", 0), "each by its own commit")
	require.Equal(t, int64(8), r.committed("g", "t", 1))
	r.pass(57_000)
	require.Equal(t, int64(8), r.committed("g", "t", 1))
	r.pass(3_000)
	require.Equal(t, int64(-1), r.committed("g", "t", 1))
}

func TestF29_ARetentionOfMinusOneIsTheServers(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.commit(committing("g", "", -1, "t", 0, 7)))
	c := committing("g", "", -1, "t", 1, 8)
	c.RetentionMs = 3_600_000
	require.NoError(t, r.commit(c))
	zero := committing("g", "", -1, "t", 2, 9)
	zero.RetentionMs = 0
	require.NoError(t, r.commit(zero))
	r.pass(3_600_000 + 600_000)
	require.Equal(t, int64(7), r.committed("g", "t", 0))
	require.Equal(t, int64(-1), r.committed("g", "t", 1), "as long as its client wanted")
	require.Equal(t, int64(-1), r.committed("g", "t", 2))
	r.pass(7 * day)
	require.Equal(t, int64(-1), r.committed("g", "t", 0))
}

func TestF29_OffsetsOfTopicsThatNobodyReadsExpire(t *testing.T) {
	r := newRig(t, func(c *coordinator.Config) { c.RetentionMs, c.SweepMs = 60_000, 1_000 })
	members, generation := r.stable("g", 1) // reads t
	require.NoError(t, r.commit(committing("g", members[0], generation, "t", 0, 7)))
	require.NoError(t, r.commit(committing("g", members[0], generation, "old", 0, 8)))
	r.alive(62_000, "g", members[0], generation)
	require.Equal(t, int64(7), r.committed("g", "t", 0))
	require.Equal(t, int64(-1), r.committed("g", "old", 0))
}

func TestOffsetsOfATopicThatIsGoneAreRemoved(t *testing.T) {
	gone := map[string]bool{}
	r := newRig(t, func(c *coordinator.Config) {
		c.TopicExists = func(name string, _ [16]byte) bool { return !gone[name] }
	})
	members, generation := r.stable("g", 1)
	for p := range int32(2500) {
		require.NoError(t, r.commit(committing("g", members[0], generation, "t", p, 7)))
	}
	require.NoError(t, r.commit(committing("g", members[0], generation, "u", 0, 8)))
	gone["t"] = true
	require.NoError(t, do[*coordinator.Done](r, &coordinator.TopicGone{}).Err)
	delete(gone, "t")
	for p := range int32(2500) {
		require.Equal(t, int64(-1), r.committed("g", "t", p))
	}
	require.Equal(t, int64(8), r.committed("g", "u", 0))
	r.restart()
	require.Equal(t, int64(-1), r.committed("g", "t", 0))
}

func TestT31_ReplayFollowsTransactionMarkers(t *testing.T) {
	r := newRig(t)
	offset := func(at, producer, value int64) coordinator.Entry {
		return coordinator.Entry{At: at, ProducerID: producer, Record: coordinator.OffsetRecord{
			Group: "g", Topic: "t", Offset: &coordinator.Offset{Offset: value, ExpireMs: -1, LeaderEpoch: -1, CommitMs: r.now},
		}}
	}
	stable := func(s *coordinator.Shard) (int64, error) {
		out := s.Handle(r.now, 1, &coordinator.Fetch{
			Group: "g", RequireStable: true, Topics: []coordinator.FetchTopic{{Topic: "t", Partitions: []int32{0}}},
		})
		a, _ := out.Settle(nil)[0].Answer.(*coordinator.FetchAnswer)
		return a.Topics[0].Partitions[0].Offset, a.Topics[0].Partitions[0].Err
	}
	s := coordinator.NewShard(r.config)
	s.Replay(offset(0, -1, 10))
	s.Replay(offset(1, 5, 20)) // of an open transaction
	_, err := stable(s)
	require.ErrorIs(t, err, coordinator.ErrUnstableOffset)
	require.Equal(t, 1, s.Transactions())
	s.ReplayMarker(5, false)
	got, err := stable(s)
	require.NoError(t, err)
	require.Equal(t, int64(10), got, "aborted")
	s.Replay(offset(3, 5, 30))
	s.Replay(offset(4, 6, 40))
	s.ReplayMarker(6, true)
	s.ReplayMarker(5, true)
	got, err = stable(s)
	require.NoError(t, err)
	require.Equal(t, int64(40), got, "an earlier offset does not replace a later one")
}

func TestRecordsAreAllThatAStartNeeds(t *testing.T) {
	r := newRig(t)
	members, generation := r.stable("g", 2)
	for i := range int32(20) {
		require.NoError(t, r.commit(committing("g", members[0], generation, "t", i%3, int64(i))))
	}
	require.NoError(t, r.commit(committing("h", "", -1, "t", 0, 5)))
	r.send(joining("g", members[0], "")) // a rebalance that is under way is nothing yet
	r.send(joining("g", members[1], ""))
	all := r.shard.Records()
	r.log = nil
	for _, group := range all {
		for _, record := range group {
			r.log = append(r.log, coordinator.Entry{At: int64(len(r.log)), Record: record, ProducerID: -1})
		}
	}
	require.Len(t, r.log, 1+3+1)
	r.restart()
	d := r.describe("g")
	require.Equal(t, coordinator.Stable, d.State)
	require.Equal(t, []byte{1}, d.Members[0].Assignment, "of the last generation that was recorded")
	for p := range int32(3) {
		require.NotEqual(t, int64(-1), r.committed("g", "t", p))
	}
	require.Equal(t, int64(5), r.committed("h", "t", 0))
	require.Equal(t, all, r.shard.Records())
}

func TestPartitionForIsJavasHash(t *testing.T) {
	// What String.hashCode says in Java.
	for group, hash := range map[string]int32{
		"": 0, "a": 97, "hello world": 1794106052, "polygenelubricants": -2147483648, "é": 233, "😀": 1772899,
	} {
		require.Equal(t, (hash&0x7fffffff)%50, coordinator.PartitionFor(group, 50), fmt.Sprintf("%q", group))
	}
}

func TestF70_OffsetsOfATopicThatWentAwayWhileTheCoordinatorWasDownAreResidue(t *testing.T) {
	gone := map[string]bool{}
	r := newRig(t, func(c *coordinator.Config) {
		c.TopicExists = func(name string, _ [16]byte) bool { return !gone[name] }
	})
	members, generation := r.stable("g", 1)
	require.NoError(t, r.commit(committing("g", members[0], generation, "t", 0, 7)))
	require.NoError(t, r.commit(committing("g", members[0], generation, "u", 0, 8)))
	gone["t"] = true // and nobody was told
	r.restart()
	all := do[*coordinator.FetchAnswer](r, &coordinator.Fetch{Group: "g", All: true})
	require.Len(t, all.Topics, 1)
	require.Equal(t, "u", all.Topics[0].Topic)
	r.pass(600_000)
	delete(gone, "t")
	r.restart()
	require.Equal(t, int64(-1), r.committed("g", "t", 0), "the sweep has removed it")
	require.Equal(t, int64(8), r.committed("g", "u", 0))
}
