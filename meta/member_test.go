package meta_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/metatest"
)

// join makes a process a member, over a session of its own.
func join(t *testing.T, storage *metatest.Memory, o meta.MemberOptions) (*meta.Member, *meta.Log) {
	t.Helper()
	l := open(t, storage.Join(), meta.Options{Node: o.Node})
	m, err := meta.Join(t.Context(), l, o)
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m, l
}

// pass lets time pass in a bubble, which takes none.
func pass(d time.Duration) { <-time.After(d) }

func TestMP8_AMemberHoldsItsKeyAndProvesItsEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := metatest.NewMemory("c")
		m, l := join(t, storage, meta.MemberOptions{Node: 5, Address: "host:1", Slots: 2, Build: "v1"})
		require.EqualValues(t, 1, m.Epoch())
		row, _ := l.View().Node(5)
		require.Equal(t, meta.Node{ID: 5, Epoch: 1, Incarnation: m.Incarnation(), Address: "host:1", Slots: 2, WALEpoch: -1}, row)
		live, err := l.Live(t.Context())
		require.NoError(t, err)
		require.Equal(t, "host:1", live[5].Address)
		require.Len(t, live[5].Incarnation, 32)

		first := m.Proved()
		pass(time.Minute)
		require.Equal(t, time.Minute, m.Proved().Sub(first))
		storage.Stall("live/5")
		stalled := m.Proved()
		pass(time.Hour)
		require.Equal(t, stalled, m.Proved(), "a key that is not refreshed proves nothing")

		m.Close()
		again, _ := join(t, storage, meta.MemberOptions{Node: 5})
		require.EqualValues(t, 2, again.Epoch(), "no epoch is given to two processes")
	})
}

func TestMP8_AKeyThatExpiredIsTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := metatest.NewMemory("c")
		m, l := join(t, storage, meta.MemberOptions{Node: 5})
		require.True(t, storage.Expire("live/5"))
		synctest.Wait()
		live, err := l.Live(t.Context())
		require.NoError(t, err)
		require.Contains(t, live, int32(5))
		before := m.Proved()
		pass(time.Second)
		require.Equal(t, time.Second, m.Proved().Sub(before), "and proves the epoch again, which nobody has taken")
		require.NoError(t, m.Err())
	})
}

func TestMD2_AMemberWhoseNodeWasTakenOverHearsOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := metatest.NewMemory("c")
		m, l := join(t, storage, meta.MemberOptions{Node: 5})
		_, survivor := join(t, storage, meta.MemberOptions{Node: 6})
		other, err := storage.Join().Claim(t.Context(), "live/7", nil)
		require.NoError(t, err)
		defer other.Release()

		took, err := survivor.Do(t.Context(), meta.RegisterNode{Node: 5, ExpectedEpoch: m.Epoch(), Incarnation: [16]byte{9}})
		require.NoError(t, err)
		require.EqualValues(t, 2, took.ID)
		_, err = survivor.Do(t.Context(), meta.RegisterNode{Node: 5, ExpectedEpoch: m.Epoch(), Incarnation: [16]byte{8}})
		require.ErrorIs(t, err, meta.NodeEpochMismatch, "F14: of two survivors one wins")
		<-m.Lost()
		var fenced *meta.FencedError
		require.ErrorAs(t, m.Err(), &fenced)
		require.Equal(t, meta.FencedError{Node: 5, Epoch: 1, Then: 2}, *fenced)
		proved := m.Proved()
		pass(time.Minute)
		require.Equal(t, proved, m.Proved())
		_, err = l.Do(t.Context(), meta.AllocateProducerIDs{Node: 5, NodeEpoch: m.Epoch(), Count: 1})
		require.ErrorIs(t, err, meta.NodeEpochMismatch)
	})
}

// A process that stood still finds its key in the hands of the one that took the node over, before it has read of that.
func TestMD2_AMemberWhoseKeyIsTakenHearsThatItsNodeIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := metatest.NewMemory("c")
		m, _ := join(t, storage, meta.MemberOptions{Node: 5})
		heir := storage.Join()
		log := open(t, heir, meta.Options{Node: 5})
		require.True(t, storage.Expire("live/5"))
		key, err := heir.Claim(t.Context(), "live/5", nil)
		require.NoError(t, err, "before the member could ask again")
		defer key.Release()
		pass(10 * time.Second)
		require.NoError(t, m.Err(), "the other process has the key, and not yet the node")

		_, err = log.Do(t.Context(), meta.RegisterNode{Node: 5, ExpectedEpoch: -1, Incarnation: [16]byte{9}})
		require.NoError(t, err)
		pass(10 * time.Second)
		require.Equal(t, &meta.FencedError{Node: 5, Epoch: 1, Then: 2}, m.Err())
	})
}

func TestAMemberMayBeginANewEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, l := join(t, metatest.NewMemory("c"), meta.MemberOptions{Node: 5})
		before := m.Incarnation()
		epoch, err := m.Renew(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 2, epoch)
		require.NotEqual(t, before, m.Incarnation())
		synctest.Wait()
		require.NoError(t, m.Err(), "which is no takeover")
		_, err = l.Do(t.Context(), meta.AllocateProducerIDs{Node: 5, NodeEpoch: epoch, Count: 1})
		require.NoError(t, err)
	})
}

func TestAMemberThatWasTakenOverBeginsNoNewEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, l := join(t, metatest.NewMemory("c"), meta.MemberOptions{Node: 5})
		m.Close() // nobody looks for whoever takes it over
		_, err := l.Do(t.Context(), meta.RegisterNode{Node: 5, ExpectedEpoch: -1, Incarnation: [16]byte{9}})
		require.NoError(t, err)
		_, err = m.Renew(t.Context())
		require.ErrorIs(t, err, meta.NodeEpochMismatch)
		row, _ := l.View().Node(5)
		require.EqualValues(t, 2, row.Epoch)
	})
}

// heldAppends is a backend whose appends wait while it is held.
type heldAppends struct {
	meta.Backend
	gate atomic.Pointer[chan struct{}]
}

func (h *heldAppends) Append(ctx context.Context, index uint64, entry []byte) error {
	if gate := h.gate.Load(); gate != nil {
		<-*gate
	}
	return h.Backend.Append(ctx, index, entry)
}

// TestANewEpochWhoseOutcomeWasNotKnownIsTheMembers: the call's context ended before the log was done.
func TestANewEpochWhoseOutcomeWasNotKnownIsTheMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := &heldAppends{Backend: metatest.NewMemory("c").Join()}
		l := open(t, held, meta.Options{Node: 5})
		m, err := meta.Join(t.Context(), l, meta.MemberOptions{Node: 5})
		require.NoError(t, err)
		t.Cleanup(m.Close)
		gate := make(chan struct{})
		held.gate.Store(&gate)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = m.Renew(ctx)
		require.ErrorIs(t, err, meta.ErrOutcomeUnknown)
		held.gate.Store(nil)
		close(gate)
		pass(time.Second)
		epoch, err := m.Renew(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 3, epoch)
		require.NoError(t, m.Err())
	})
}

// TestANewEpochMayBeAskedForAgainBeforeTheOutcomeIsKnown: what comes of both calls is this member's.
func TestANewEpochMayBeAskedForAgainBeforeTheOutcomeIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := &heldAppends{Backend: metatest.NewMemory("c").Join()}
		l := open(t, held, meta.Options{Node: 5})
		m, err := meta.Join(t.Context(), l, meta.MemberOptions{Node: 5})
		require.NoError(t, err)
		t.Cleanup(m.Close)
		gate := make(chan struct{})
		held.gate.Store(&gate)
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err = m.Renew(ctx)
			cancel()
			require.Error(t, err)
		}
		third := make(chan error, 1)
		go func() {
			_, err := m.Renew(t.Context())
			third <- err
		}()
		synctest.Wait()
		held.gate.Store(nil)
		close(gate)
		assert.NoError(t, <-third)
		pass(time.Second)
		require.NoError(t, m.Err())
		row, _ := l.View().Node(5)
		require.Equal(t, []any{row.Epoch, row.Incarnation}, []any{m.Epoch(), m.Incarnation()})
		require.Greater(t, m.Epoch(), int64(1))
	})
}

func TestASecondProcessWaitsForTheKeyAndSaysWhoHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := metatest.NewMemory("c")
		m, _ := join(t, storage, meta.MemberOptions{Node: 5, Address: "first:1"})
		l := open(t, storage.Join(), meta.Options{Node: 5})
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := meta.Join(short, l, meta.MemberOptions{Node: 5})
		var taken *meta.TakenError
		require.ErrorAs(t, err, &taken)
		require.Equal(t, "first:1", taken.By.Address)
		require.ErrorIs(t, err, meta.ErrClaimed)
		row, _ := l.View().Node(5)
		require.Equal(t, m.Epoch(), row.Epoch, "nobody was fenced")

		joined := make(chan *meta.Member)
		go func() {
			second, err := meta.Join(context.Background(), l, meta.MemberOptions{Node: 5})
			require.NoError(t, err)
			joined <- second
		}()
		pass(time.Minute)
		m.Close()
		second := <-joined
		require.EqualValues(t, 2, second.Epoch())
		second.Close()
	})
}

func TestMP9_OneMemberLeadsAndAnotherFollowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := metatest.NewMemory("c")
		a, first := join(t, storage, meta.MemberOptions{Node: 1})
		_, second := join(t, storage, meta.MemberOptions{Node: 2})
		require.True(t, first.Leads())
		require.False(t, second.Leads())
		require.ErrorIs(t, second.Lead(t.Context()), meta.ErrClaimed)

		require.True(t, storage.Expire(meta.LeaseKey))
		require.False(t, first.Leads(), "at once, and without asking")
		pass(3 * time.Second)
		require.True(t, first.Leads() != second.Leads(), "one of them took it again")

		leading, following := first, second
		if second.Leads() {
			leading, following = second, first
		}
		if leading == first {
			a.Close()
		}
		require.NoError(t, leading.Close())
		pass(3 * time.Second)
		require.True(t, following.Leads())
		require.ErrorIs(t, leading.Lead(t.Context()), meta.ErrClosed)
	})
}

func TestTheHolderOfTheLeaseKnowsWhoIsDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := metatest.NewMemory("c")
		leading, _ := join(t, storage, meta.MemberOptions{Node: 1})
		other, _ := join(t, storage, meta.MemberOptions{Node: 2})
		require.False(t, leading.Buried(2), "nobody has looked yet")
		pass(3 * time.Second)
		require.False(t, leading.Buried(2))
		require.True(t, leading.Buried(3), "there is no such node")
		require.False(t, leading.Buried(1))
		require.False(t, other.Buried(3), "who does not hold the lease buries nobody")
		other.Close()
		pass(3 * time.Second)
		require.True(t, leading.Buried(2))
	})
}

// TestANodeThatCameBackSinceTheLastLookIsNotBuried: it was restarted, and the look found nobody at its key in between.
func TestANodeThatCameBackSinceTheLastLookIsNotBuried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := metatest.NewMemory("c")
		leading, l := join(t, storage, meta.MemberOptions{Node: 1})
		other, _ := join(t, storage, meta.MemberOptions{Node: 2})
		other.Close()
		pass(3 * time.Second)
		require.True(t, leading.Buried(2))
		row, _ := l.View().Node(2)
		_, err := l.Do(t.Context(), meta.RegisterNode{Node: 2, ExpectedEpoch: row.Epoch, Incarnation: leading.Incarnation()})
		require.NoError(t, err)
		require.True(t, leading.Buried(2), "it is being taken over by who asks")
		back, _ := join(t, storage, meta.MemberOptions{Node: 2})
		_, err = l.Do(t.Context(), meta.PutKv{Key: "all before this is applied"})
		require.NoError(t, err)
		require.False(t, leading.Buried(2), "its registration tells")
		pass(3 * time.Second)
		require.False(t, leading.Buried(2))
		back.Close()
		pass(3 * time.Second)
		require.True(t, leading.Buried(2))
	})
}

// Streams commit several times a second: a member that waited for a tick without a change looked for nobody.
func TestAMemberLooksAfterTheClusterWhileTheLogChangesAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := metatest.NewMemory("c")
		first, _ := join(t, storage, meta.MemberOptions{Node: 1})
		second, log := join(t, storage, meta.MemberOptions{Node: 2})
		third := open(t, storage.Join(), meta.Options{Node: 3})
		first.Close()
		require.True(t, storage.Expire(meta.LeaseKey))
		for range 60 {
			_, err := third.Do(t.Context(), meta.PutKv{Key: "key"})
			require.NoError(t, err)
			pass(100 * time.Millisecond)
		}
		require.True(t, log.Leads())
		require.True(t, second.Buried(1))
	})
}

func TestNewCommandsWaitUntilEveryNodeUnderstandsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := metatest.NewMemory("c")
		m, l := join(t, storage, meta.MemberOptions{Node: 1, Build: "new"})
		// A build that announces nothing understands the first level only.
		old := open(t, storage.Join(), meta.Options{Node: 2})
		key, err := storage.Join().Claim(t.Context(), "live/2", []byte(`{"node":2,"build":"old"}`))
		require.NoError(t, err)
		_, err = old.Do(t.Context(), meta.RegisterNode{Node: 2, ExpectedEpoch: -1, Incarnation: [16]byte{2}})
		require.NoError(t, err)

		create := meta.CreateStreams{Node: 1, NodeEpoch: m.Epoch(), Count: 1}
		_, err = l.Do(t.Context(), create)
		var level *meta.LevelError
		require.ErrorAs(t, err, &level)
		require.EqualError(t, err, "meta: CreateStreams needs level 1 and the log is at level 0")

		err = m.RaiseLevel(t.Context(), meta.LevelStreams)
		require.ErrorAs(t, err, &level)
		require.EqualError(t, err, `meta: the log cannot rise from level 0 to 1; node 2 runs "old", which understands level 0`)
		require.Equal(t, meta.LevelTopics, l.View().Level())

		key.Release() // it is gone, and if it comes back it is refused
		require.NoError(t, m.RaiseLevel(t.Context(), meta.LevelStreams))
		require.NoError(t, m.RaiseLevel(t.Context(), meta.LevelStreams), "again")
		require.Equal(t, meta.LevelStreams, l.View().Level())
		_, err = l.Do(t.Context(), create)
		require.NoError(t, err)
		_, err = l.Do(t.Context(), meta.AnnounceLevel{Node: 2, Incarnation: [16]byte{2}, Level: 0, Build: "old"})
		require.ErrorIs(t, err, meta.LevelTooLow)
	})
}

func TestASnapshotIsOfVersion1UntilSomebodyAnnounces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, l := join(t, metatest.NewMemory("c"), meta.MemberOptions{Node: 1})
		require.EqualValues(t, 1, l.View().EncodeSnapshot()[4])
		require.NoError(t, m.RaiseLevel(t.Context(), meta.LevelStreams))
		require.EqualValues(t, 2, l.View().EncodeSnapshot()[4])
	})
}
