package meta_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/metatest"
)

// deaf is the backend of a process that never hears that it has lost a key, as one that was paused has not heard yet.
type deaf struct{ meta.Backend }

func (d deaf) Claim(ctx context.Context, key string, value []byte) (meta.Claim, error) {
	c, err := d.Backend.Claim(ctx, key, value)
	if err != nil {
		return nil, err
	}
	return deafClaim{c, make(chan struct{})}, nil
}

type deafClaim struct {
	meta.Claim
	never chan struct{}
}

func (c deafClaim) Lost() <-chan struct{} { return c.never }

// joinOver is join over a backend.
func joinOver(t *testing.T, b meta.Backend, o meta.Options) (*meta.Member, *meta.Log) {
	t.Helper()
	l := open(t, b, o)
	m, err := meta.Join(t.Context(), l, meta.MemberOptions{Node: o.Node, Announce: true})
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m, l
}

// count is how many snapshots were taken.
func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.snaps)
}

// tick is more than a tick of a member.
const tick = 3 * time.Second

// led is what a log says of who leads.
func led(l *meta.Log) []any {
	epoch, leads := l.CoordinatorEpoch()
	return []any{l.View().Coordinator(), epoch, leads, l.Leads()}
}

func TestMP9_WhoGainsTheLeaseIsTheCoordinatorUntilAnotherOneIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := metatest.NewMemory("c")
		m, first := joinOver(t, storage.Join(), meta.Options{Node: 1})
		other, second := joinOver(t, storage.Join(), meta.Options{Node: 2})
		require.NoError(t, m.RaiseLevel(t.Context(), meta.LevelStreams))
		require.Equal(t, []any{meta.Coordinator{}, int64(0), true, true}, led(first), "by the key alone")
		pass(tick)
		require.Equal(t, meta.LevelTables, first.View().Level(), "every node understands it")
		require.Equal(t, []any{meta.Coordinator{Epoch: 1, Node: 1}, int64(1), true, true}, led(first))
		require.Equal(t, []any{meta.Coordinator{Epoch: 1, Node: 1}, int64(0), false, false}, led(second))
		index := first.View().Index()
		pass(time.Minute)
		require.Equal(t, index, first.View().Index(), "it is registered once")

		held, end := first.WhileLeading(t.Context())
		defer end()
		require.NoError(t, first.ConfirmLead(t.Context()))
		m.Close()
		require.NoError(t, first.Close())
		pass(tick)
		require.Equal(t, []any{meta.Coordinator{Epoch: 2, Node: 2}, int64(2), true, true}, led(second))
		require.ErrorIs(t, context.Cause(held), meta.ErrNotLeading)

		again, third := joinOver(t, storage.Join(), meta.Options{Node: 1})
		_, err := third.Do(t.Context(), meta.LeadBucket{Node: 1, NodeEpoch: again.Epoch(), CoordinatorEpoch: 1})
		require.ErrorIs(t, err, meta.CoordinatorFenced, "what an earlier coordinator assigns is refused")
		require.ErrorIs(t, third.ConfirmLead(t.Context()), meta.ErrNotLeading)
		other.Close()
		require.NoError(t, second.Close())
		pass(tick)
		require.Equal(t, []any{meta.Coordinator{Epoch: 3, Node: 1}, int64(3), true, true}, led(third))
	})
}

// TestMP9_AProcessThatStartsAgainIsAnotherCoordinator: what its predecessor began under an earlier epoch is fenced.
func TestMP9_AProcessThatStartsAgainIsAnotherCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := metatest.NewMemory("c")
		for epoch := int64(1); epoch <= 3; epoch++ {
			m, l := joinOver(t, storage.Join(), meta.Options{Node: 1})
			require.NoError(t, m.RaiseLevel(t.Context(), meta.LevelStreams))
			pass(tick)
			require.Equal(t, []any{meta.Coordinator{Epoch: epoch, Node: 1}, epoch, true, true}, led(l))
			_, err := m.Renew(t.Context())
			require.NoError(t, err)
			pass(tick)
			require.Equal(t, []any{meta.Coordinator{Epoch: epoch, Node: 1}, epoch, true, true}, led(l), "another epoch of the node is no other process")
			m.Close()
			require.NoError(t, l.Close())
		}
	})
}

// TestMP9_BelowTheLevelOfTablesTheKeyAloneDecides: a cluster without streams, and one with a node that does not know the command.
func TestMP9_BelowTheLevelOfTablesTheKeyAloneDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := metatest.NewMemory("c")
		m, l := joinOver(t, storage.Join(), meta.Options{Node: 1})
		pass(time.Minute)
		require.Equal(t, meta.LevelTopics, l.View().Level(), "an older version may go on with this metadata")
		require.Equal(t, []any{meta.Coordinator{}, int64(0), true, true}, led(l))
		require.NoError(t, l.ConfirmLead(t.Context()))

		older := [16]byte{2}
		key, err := storage.Join().Claim(t.Context(), "live/2", nil)
		require.NoError(t, err)
		results, err := l.Propose(t.Context(), meta.RegisterNode{Node: 2, ExpectedEpoch: -1, Incarnation: older},
			meta.AnnounceLevel{Node: 2, Incarnation: older, Level: meta.LevelStreams, Build: "v0.1"})
		require.NoError(t, err)
		require.NoError(t, results[1].Err())
		require.NoError(t, m.RaiseLevel(t.Context(), meta.LevelStreams))
		index := l.View().Index()
		pass(time.Minute)
		require.Equal(t, []any{index, meta.LevelStreams}, []any{l.View().Index(), l.View().Level()}, "nothing is tried over and over")
		require.Equal(t, []any{meta.Coordinator{}, int64(0), true, true}, led(l))

		key.Release() // it is gone, and is refused if it comes back
		pass(tick)
		require.Equal(t, []any{meta.Coordinator{Epoch: 1, Node: 1}, int64(1), true, true}, led(l))
	})
}

// TestMP9_AHolderThatWasPausedStopsWhenAnotherOneHasRegistered: the lease of the first has expired while it stood still, and it
// does not know. It goes on when the second is the coordinator: it takes no snapshot, leads nothing, and does not depose the second.
func TestMP9_AHolderThatWasPausedStopsWhenAnotherOneHasRegistered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := metatest.NewMemory("c")
		var snapshots recorder
		m, first := joinOver(t, deaf{storage.Join()}, meta.Options{Node: 1, SnapshotEvery: 4, Events: snapshots.events()})
		require.NoError(t, m.RaiseLevel(t.Context(), meta.LevelStreams))
		pass(tick)
		_, second := joinOver(t, storage.Join(), meta.Options{Node: 2, SnapshotEvery: 1 << 60})
		require.Equal(t, []any{meta.Coordinator{Epoch: 1, Node: 1}, int64(1), true, true}, led(first))
		held, end := first.WhileLeading(t.Context())
		defer end()

		require.True(t, storage.Expire(meta.LeaseKey))
		require.NoError(t, second.Lead(t.Context()), "before the first notices anything")
		require.True(t, first.Leads(), "as far as it knows")
		synctest.Wait() // it has applied what the second's start appended, and taken the snapshot that was due
		taken := snapshots.count()
		pass(tick)
		now := meta.Coordinator{Epoch: 2, Node: 2}
		require.Equal(t, []any{now, int64(2), true, true}, led(second))
		require.Equal(t, []any{now, int64(0), false, false}, led(first))
		require.ErrorIs(t, context.Cause(held), meta.ErrNotLeading, "what it does is cut short")
		require.ErrorIs(t, first.ConfirmLead(t.Context()), meta.ErrNotLeading)
		require.False(t, m.Buried(77), "it buries nobody")
		for range 20 {
			_, err := second.Do(t.Context(), put("k", "v"))
			require.NoError(t, err)
		}
		pass(time.Minute)
		require.Equal(t, now, first.View().Coordinator(), "it asks the backend whose the lease is before it registers")
		require.Equal(t, taken, snapshots.count())
	})
}

// hinted is a backend whose hints that there are entries are a test's to give.
type hinted struct {
	meta.Backend
	hints chan struct{}
}

func (h hinted) Notify() <-chan struct{} { return h.hints }

// TestMP9_ALeadIsConfirmedByAllThatIsInTheLog: a process that has not read yet who the coordinator is waits until it has.
func TestMP9_ALeadIsConfirmedByAllThatIsInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage, hints := metatest.NewMemory("c"), make(chan struct{})
		m, first := joinOver(t, deaf{hinted{storage.Join(), hints}}, meta.Options{Node: 1})
		require.NoError(t, m.RaiseLevel(t.Context(), meta.LevelStreams))
		pass(tick)
		_, second := joinOver(t, storage.Join(), meta.Options{Node: 2})
		require.True(t, storage.Expire(meta.LeaseKey))
		pass(tick)
		require.Equal(t, meta.Coordinator{Epoch: 2, Node: 2}, second.View().Coordinator())
		require.True(t, first.Leads(), "as far as it knows")
		confirmed := make(chan error, 1)
		go func() { confirmed <- first.ConfirmLead(t.Context()) }()
		pass(time.Minute)
		require.Empty(t, confirmed)
		hints <- struct{}{}
		require.ErrorIs(t, <-confirmed, meta.ErrNotLeading)
	})
}

// TestMP9_WhoLosesTheRaceLooksAgain: the second gains the lease and registers while the first's registration is under way.
func TestMP9_WhoLosesTheRaceLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := metatest.NewMemory("c")
		held := &heldAppends{Backend: deaf{storage.Join()}}
		m, first := joinOver(t, held, meta.Options{Node: 1})
		_, second := joinOver(t, storage.Join(), meta.Options{Node: 2})
		require.NoError(t, m.RaiseLevel(t.Context(), meta.LevelTables))
		gate := make(chan struct{})
		held.gate.Store(&gate)
		pass(tick)
		require.True(t, storage.Expire(meta.LeaseKey))
		pass(tick)
		now := meta.Coordinator{Epoch: 1, Node: 2}
		require.Equal(t, []any{now, int64(1), true, true}, led(second))
		held.gate.Store(nil)
		close(gate) // its own is refused: it expected none
		pass(time.Minute)
		require.Equal(t, []any{now, int64(0), false, false}, led(first))
		require.Equal(t, []any{now, int64(1), true, true}, led(second))
	})
}

// lostReplies is a backend of whose appends the replies are lost while it is told to lose them.
type lostReplies struct {
	*heldAppends
	losing bool
}

func (l *lostReplies) Append(ctx context.Context, index uint64, entry []byte) error {
	err := l.heldAppends.Append(ctx, index, entry)
	if err == nil && l.losing {
		err = errors.Join(meta.ErrOutcomeUnknown, errors.New("the reply was lost"))
	}
	return err
}

func TestMP9_ARegistrationWhoseReplyIsLostCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := metatest.NewMemory("c")
		lossy := &lostReplies{heldAppends: &heldAppends{Backend: storage.Join()}, losing: true}
		m, l := joinOver(t, lossy, meta.Options{Node: 1})
		require.NoError(t, m.RaiseLevel(t.Context(), meta.LevelStreams))
		pass(tick)
		require.Equal(t, []any{meta.Coordinator{Epoch: 1, Node: 1}, int64(1), true, true}, led(l))
		index := l.View().Index()
		pass(time.Minute)
		require.Equal(t, index, l.View().Index(), "and is not repeated")
	})
}

func TestALeaseThatIsResignedIsLeftToOthersForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := metatest.NewMemory("c")
		m, first := joinOver(t, storage.Join(), meta.Options{Node: 1})
		other, second := joinOver(t, storage.Join(), meta.Options{Node: 2})
		require.NoError(t, m.RaiseLevel(t.Context(), meta.LevelStreams))
		pass(tick)
		held, end := first.WhileLeading(t.Context())
		defer end()
		first.Resign(time.Minute)
		require.False(t, first.Leads())
		require.ErrorIs(t, first.Lead(t.Context()), meta.ErrClaimed)
		pass(tick)
		require.ErrorIs(t, context.Cause(held), meta.ErrNotLeading)
		require.True(t, second.Leads())

		other.Close()
		require.NoError(t, second.Close())
		pass(50 * time.Second)
		require.False(t, first.Leads(), "nobody has it, and it was promised to others")
		pass(10 * time.Second)
		require.Equal(t, []any{meta.Coordinator{Epoch: 3, Node: 1}, int64(3), true, true}, led(first))
		first.Resign(time.Hour)
		first.Candidate()
		pass(tick)
		require.True(t, first.Leads(), "the pause was ended")
	})
}
