package meta_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/metatest"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// The tests of this file are rows of section 10.2 of the specification of object streams, by their numbers there.

// forgetful is a backend that loses the reply of every append while it is told to.
type forgetful struct {
	meta.Backend
	lose bool
}

func (f *forgetful) Append(ctx context.Context, index uint64, entry []byte) error {
	err := f.Backend.Append(ctx, index, entry)
	if err == nil && f.lose {
		return fmt.Errorf("%w: the reply was lost", meta.ErrOutcomeUnknown)
	}
	return err
}

// streamOwner is a catalog with a node that has a stream open.
type streamOwner struct {
	*meta.Catalog
	node   catalog.Node
	stream catalog.StreamID
}

func owner(t *testing.T, b meta.Backend, o meta.Options) streamOwner {
	t.Helper()
	c := meta.NewCatalog(raised(t, open(t, b, o)))
	epoch, err := c.RegisterNode(background, catalog.Registration{ID: 1, Expected: -1, Incarnation: [16]byte{1}})
	require.NoError(t, err)
	own := streamOwner{Catalog: c, node: catalog.Node{ID: 1, Epoch: epoch}}
	own.stream, err = c.CreateStreams(background, own.node, 1)
	require.NoError(t, err)
	_, err = c.OpenStream(background, own.node, own.stream, 1)
	require.NoError(t, err)
	return own
}

// upload is a commit of a stream object with the next count records, under an id that is prepared for an hour.
func (o streamOwner) upload(t *testing.T, count int64, ttl time.Duration) catalog.Commit {
	t.Helper()
	id, err := o.PrepareObjects(background, o.node, 1, ttl)
	require.NoError(t, err)
	row, _ := o.View().Stream(o.stream)
	return catalog.Commit{Object: catalog.NoObject, StreamObjects: []catalog.StreamObject{{
		Object: id, Size: count, Stream: o.stream, Epoch: 1, Start: row.End, End: row.End + count,
	}}}
}

func TestF26_ACommitWhoseReplyIsLostIsInOnce(t *testing.T) {
	b := &forgetful{Backend: metatest.NewMemory("c").Join()}
	o := owner(t, b, meta.Options{})
	commit := o.upload(t, 10, time.Hour)
	b.lose = true
	require.NoError(t, o.Commit(background, o.node, commit), "found by its nonce")
	row, _ := o.View().Stream(o.stream)
	require.Equal(t, int64(10), row.End)
	require.Len(t, o.View().StreamObjects(o.stream), 1)
	require.ErrorIs(t, o.Commit(background, o.node, commit), catalog.ErrRedundant, "for a caller that gave up waiting")
}

func TestF28_IdsThatExpiredAreRefusedAndTheirBytesCleaned(t *testing.T) {
	clock := time.UnixMilli(1_700_000_000_000)
	o := owner(t, metatest.NewMemory("c").Join(), meta.Options{Now: func() time.Time { return clock }})
	late := o.upload(t, 10, time.Hour)
	clock = clock.Add(2 * time.Hour) // an outage
	expired, err := o.ExpirePrepared(background)
	require.NoError(t, err)
	require.Equal(t, 1, expired)
	require.ErrorIs(t, o.Commit(background, o.node, late), catalog.ErrObjectNotPrepared)
	require.NoError(t, o.Commit(background, o.node, o.upload(t, 10, time.Hour)))
	require.Equal(t, []catalog.DestroyedObject{
		{Object: late.StreamObjects[0].Object, Operation: catalog.Delete, MarkedMs: clock.UnixMilli()},
	}, o.View().Destroyed(10))
}

func TestF35_CleaningIsRepeatedWithoutHarm(t *testing.T) {
	o := owner(t, metatest.NewMemory("c").Join(), meta.Options{})
	id := o.upload(t, 1, 0).StreamObjects[0].Object
	_, err := o.ExpirePrepared(background)
	require.NoError(t, err)
	for _, want := range []int{1, 0, 0} { // the cleaner died between bytes and metadata, and does both again
		cleaned, err := o.CleanDestroyed(background, id)
		require.NoError(t, err)
		require.Equal(t, want, cleaned)
	}
}

func TestF37_AClockThatJumpsNeverSetsTheLogsClockBack(t *testing.T) {
	clock := time.UnixMilli(1_700_000_000_000)
	o := owner(t, metatest.NewMemory("c").Join(), meta.Options{Now: func() time.Time { return clock }})
	begun := clock
	var last int64
	for _, jump := range []time.Duration{0, 24 * time.Hour, -24 * time.Hour, -48 * time.Hour, time.Hour} {
		clock = begun.Add(jump)
		require.NoError(t, o.Commit(background, o.node, o.upload(t, 1, 25*time.Hour)), "an id lives as long as was asked for")
		objects := o.View().StreamObjects(o.stream)
		committed := objects[len(objects)-1].DataMs
		require.GreaterOrEqual(t, committed, last)
		last = committed
		expired, err := o.ExpirePrepared(background)
		require.NoError(t, err)
		require.Zero(t, expired)
	}
}

func TestF39_ABackendThatIsAwayDelaysChangesAndKeepsTheView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &away{Backend: metatest.NewMemory("c").Join()}
		o := owner(t, a, meta.Options{})
		commit := o.upload(t, 10, 48*time.Hour)
		a.set(true)
		done := make(chan error)
		go func() { done <- o.Commit(background, o.node, commit) }()
		pass(10 * time.Minute)
		row, known := o.View().Stream(o.stream)
		require.True(t, known)
		require.Zero(t, row.End)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, o.TrimStream(short, o.node, o.stream, 1, 0), context.DeadlineExceeded)
		a.set(false)
		require.NoError(t, <-done)
		row, _ = o.View().Stream(o.stream)
		require.Equal(t, int64(10), row.End)
	})
}

func TestF42_ACrashAtAnyWriteOfSnapshotAndTruncationLeavesNoGap(t *testing.T) {
	for write := 1; write <= 12; write++ {
		for _, keep := range []bool{false, true} {
			storage := metatest.NewMemory("c")
			r := start(t, storage.Open, meta.Options{SnapshotEvery: 2})
			crashed := storage.CrashAtWrite(write, keep)
			acked := 0
			for !closed(crashed) {
				if _, err := r.Do(background, put(fmt.Sprint("key-", acked), "v")); err == nil {
					acked++
				}
			}
			r.restart(t)
			for i := range acked {
				_, ok := r.View().Get(fmt.Sprint("key-", i))
				require.True(t, ok, "crash at write %d: key %d was acknowledged", write, i)
			}
			for range 9 { // the next holder of the lease does what was left undone
				_, err := r.Do(background, put("more", "v"))
				require.NoError(t, err)
			}
			r.restart(t)
			b := r.backend
			found, err := meta.Inspect(background, b)
			require.NoError(t, err)
			require.Empty(t, found.Findings)
			r.stop()
		}
	}
}

func TestF43_AHolderOfTheLeaseThatWasPausedChangesNothingWhenItResumes(t *testing.T) {
	storage := metatest.NewMemory("c")
	paused, other := storage.Join(), storage.Join()
	l := open(t, storage.Join(), meta.Options{SnapshotEvery: 1 << 60})
	var old []byte
	for i := range 12 {
		_, err := l.Do(background, put(fmt.Sprint(i), "v"))
		require.NoError(t, err)
		if i == 4 {
			old = l.View().EncodeSnapshot() // taken by the one that is paused, and not stored yet
		}
	}
	for _, index := range []uint64{8, 12} {
		s, err := l.WaitApplied(background, index)
		require.NoError(t, err)
		require.NoError(t, other.PutSnapshot(background, index, s.EncodeSnapshot()))
	}
	_, err := other.Truncate(background)
	require.NoError(t, err)
	require.NoError(t, other.Close())

	require.NoError(t, paused.PutSnapshot(background, 5, old))
	through, err := paused.Truncate(background)
	require.NoError(t, err)
	require.Equal(t, uint64(8), through, "what was gone already")
	index, _, err := paused.Snapshot(background)
	require.NoError(t, err)
	require.Equal(t, uint64(12), index)
	require.EqualValues(t, 12, open(t, paused, meta.Options{}).View().Index())
}

func TestF38_OfTwoNodesThatAppendAtOnceOneWinsEachIndexAndTheOtherGoesOn(t *testing.T) {
	storage := metatest.NewMemory("c")
	var logs [2]*meta.Log
	var recs [2]recorder
	for i := range logs {
		logs[i] = open(t, storage.Join(), meta.Options{Node: int32(i + 1), SnapshotEvery: 1 << 60, Events: recs[i].events()})
	}
	const rounds = 50
	for range rounds {
		var both sync.WaitGroup
		for i, l := range logs {
			both.Go(func() {
				_, err := l.Do(background, put(fmt.Sprint("node-", i), "v"))
				if err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
	}
	for _, l := range logs {
		s, err := l.WaitApplied(background, 2*rounds)
		require.NoError(t, err)
		require.EqualValues(t, 2*rounds, s.Index(), "each command is in once")
		require.Equal(t, logs[0].View().EncodeSnapshot(), s.EncodeSnapshot())
		require.NoError(t, l.Close())
	}
	for i := range recs[0].applied {
		one, two := recs[0].applied[i], recs[1].applied[i]
		require.NotEqual(t, one.Own, two.Own, "of index %d one node is the winner", one.Index)
		one.Own, two.Own = false, false
		require.Equal(t, one, two)
	}
}

// watched is a backend whose wake-ups come when the test sends them.
type watched struct {
	meta.Backend
	hints chan struct{}
}

func (w watched) Notify() <-chan struct{} { return w.hints }

func TestF40_ALaggingNodeThatProposesAtATruncatedIndexInstallsTheSnapshot(t *testing.T) {
	storage := metatest.NewMemory("c")
	b := watched{storage.Join(), make(chan struct{})}
	lagging := open(t, b, meta.Options{Node: 2, SnapshotEvery: 1 << 60})
	leader := open(t, storage.Join(), meta.Options{Node: 1, SnapshotEvery: 4})
	for i := range 30 {
		_, err := leader.Do(background, put(fmt.Sprint("key-", i%7), fmt.Sprint(i)))
		require.NoError(t, err)
	}
	require.Zero(t, lagging.View().Index(), "nobody told it")
	entry, err := meta.Entry{Node: 2, Commands: []meta.Command{put("k", "v")}}.Encode()
	require.NoError(t, err)
	require.ErrorIs(t, b.Append(background, 1, entry), meta.ErrConflict)
	_, err = b.Read(background, 1, 1)
	require.ErrorIs(t, err, meta.ErrTruncated)

	_, err = lagging.Do(background, put("too late", "v"))
	require.ErrorIs(t, err, meta.ErrOutcomeUnknown, "what was at its index is gone, so it cannot look whether it is its own")
	caughtUp, err := lagging.WaitApplied(background, 30)
	require.NoError(t, err)
	require.Equal(t, leader.View().EncodeSnapshot(), caughtUp.EncodeSnapshot())
	_, err = lagging.Do(background, put("from behind", "v"))
	require.NoError(t, err)
	_, in := lagging.View().Get("too late")
	require.False(t, in)
	require.EqualValues(t, 31, lagging.View().Index())
	s, err := leader.WaitApplied(background, 31)
	require.NoError(t, err)
	require.Equal(t, s.EncodeSnapshot(), lagging.View().EncodeSnapshot())
}

func TestF41_ADamagedEntryIsNeverPassedOver(t *testing.T) {
	for _, index := range []uint64{21, 23, 25} {
		storage, _ := twoSnapshots(t)
		storage.Corrupt(false, index, flip(40))
		b := storage.Join()
		_, err := meta.Open(background, b, meta.Options{})
		require.NoError(t, b.Close())
		require.ErrorContains(t, err, fmt.Sprintf("meta: memory: log entry %d: at byte ", index))
	}
}

func TestF44_WakeUpsThatAreDroppedDoubledOrOutOfOrderLeaveTheSameLog(t *testing.T) {
	for name, wake := range map[string]func(hint func(), entry int){
		"dropped but for the last": func(hint func(), entry int) {
			if entry == 40 {
				hint()
			}
		},
		"every third, late":    func(hint func(), entry int) { many(hint, entry%3/2); many(hint, entry/40) },
		"doubled":              func(hint func(), _ int) { many(hint, 3) },
		"before the entry":     func(hint func(), entry int) { many(hint, (entry+1)%2); many(hint, entry/40) },
		"all of them, at once": func(hint func(), entry int) { many(hint, entry/40*40) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				storage := metatest.NewMemory("c")
				var rec recorder
				b := watched{storage.Join(), make(chan struct{}, 64)}
				follower := open(t, b, meta.Options{Node: 2, SnapshotEvery: 1 << 60, Events: rec.events()})
				leader := open(t, storage.Join(), meta.Options{Node: 1, SnapshotEvery: 1 << 60})
				for i := 1; i <= 40; i++ {
					_, err := leader.Do(background, put(fmt.Sprint("key-", i%7), fmt.Sprint(i)))
					require.NoError(t, err)
					wake(func() { b.hints <- struct{}{} }, i)
					if i%5 == 0 {
						synctest.Wait()
					}
				}
				s, err := follower.WaitApplied(background, 40)
				require.NoError(t, err)
				require.Equal(t, leader.View().EncodeSnapshot(), s.EncodeSnapshot())
				require.NoError(t, follower.Close())
				var applied []uint64
				for _, e := range rec.applied {
					applied = append(applied, e.Index)
				}
				require.Len(t, applied, 40, "each entry once")
				require.IsIncreasing(t, applied)
			})
		})
	}
}

func many(f func(), n int) {
	for range n {
		f()
	}
}
