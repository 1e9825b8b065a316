package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/coordinator"
	"github.com/tidemark-io/tidemark/coordinator/records"
	"github.com/tidemark-io/tidemark/coordinator/runner"
)

func TestF12_NothingIsAnsweredBeforeItIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemLog()
		r := newRig(t, []*memLog{l})
		require.NoError(t, r.commit("g", 0, 1))
		l.hold()
		commit := r.runner.Submit(commitOf("g", 0, 2))
		fetch := r.runner.Submit(fetchOf("g", 0)) // it sees what is not durable yet
		synctest.Wait()
		require.True(t, open(commit))
		require.True(t, open(fetch))
		l.release()
		require.NoError(t, wait[*coordinator.CommitAnswer](t, commit).Err)
		require.Equal(t, int64(2), fetched(t, fetch))
		require.Equal(t, int64(2), fetched(t, r.runner.Submit(fetchOf("g", 0))), "nothing is in flight any more")
		r.close()
	})
}

func TestF29_ACommitThatWasAnsweredSurvivesACrash(t *testing.T) {
	l := newMemLog()
	r := newRig(t, []*memLog{l})
	require.NoError(t, r.commit("g", 0, 7))
	after := newRig(t, []*memLog{l.crash()})
	require.NoError(t, after.runner.Start("g"))
	after.ready("g")
	require.Equal(t, int64(7), fetched(t, after.runner.Submit(fetchOf("g", 0))))
	require.Len(t, after.events.loaded, 1)
	require.Equal(t, 1, after.events.loaded[0].Groups)
}

func TestAFailedSyncEndsTheShardAndNobodyIsToldOtherwise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemLog()
		r := newRig(t, []*memLog{l})
		require.NoError(t, r.commit("g", 0, 1))
		l.hold()
		commit := r.runner.Submit(commitOf("g", 0, 2))
		fetch := r.runner.Submit(fetchOf("g", 0))
		synctest.Wait()
		l.set(func() { l.broken = errors.New("the disk is gone") })
		l.release()
		require.ErrorIs(t, wait[*coordinator.CommitAnswer](t, commit).Err, coordinator.ErrNotCoordinator)
		require.ErrorIs(t, wait[*coordinator.FetchAnswer](t, fetch).Err, coordinator.ErrNotCoordinator)
		l.set(func() { l.broken, l.held = nil, false })
		synctest.Wait()
		require.NoError(t, r.runner.Start("g"))
		synctest.Wait()
		require.Equal(t, int64(1), fetched(t, r.runner.Submit(fetchOf("g", 0))), "the next shard reads what is durable")
		require.Len(t, r.events.ended, 1)
		r.close()
	})
}

func TestARefusedAppendIsToldAndChangesNothing(t *testing.T) {
	l := newMemLog()
	r := newRig(t, []*memLog{l})
	require.NoError(t, r.commit("g", 0, 1))
	l.set(func() { l.refuse = coordinator.ErrNotAvailable })
	require.ErrorIs(t, r.commit("g", 0, 2), coordinator.ErrNotAvailable)
	require.Equal(t, int64(1), fetched(t, r.runner.Submit(fetchOf("g", 0))))
	l.set(func() { l.refuse = fmt.Errorf("%w: %w", coordinator.ErrNotCoordinator, runner.ErrEnded) })
	require.ErrorIs(t, r.commit("g", 0, 3), coordinator.ErrNotCoordinator)
	l.set(func() { l.refuse = nil })
	require.NoError(t, r.runner.Start("g"))
	r.ready("g")
	require.ErrorIs(t, r.commit(strings.Repeat("x", 40_000), 0, 1), coordinator.ErrRecordTooLarge)
}

func TestWhoAsksAgainAfterTheLogEndedFindsTheNextShard(t *testing.T) {
	l := newMemLog()
	r := newRig(t, []*memLog{l})
	require.NoError(t, r.commit("g", 0, 0))
	for i := range int64(100) {
		l.set(func() { l.refuse = fmt.Errorf("%w: %w", coordinator.ErrNotCoordinator, runner.ErrEnded) })
		require.ErrorIs(t, r.commit("g", 0, -1), coordinator.ErrNotCoordinator)
		l.set(func() { l.refuse = nil })
		again := r.commit("g", 0, i)
		if errors.Is(again, coordinator.ErrLoading) {
			r.ready("g")
			again = r.commit("g", 0, i)
		}
		require.NoError(t, again)
	}
}

func TestRequestsAreRefusedWhileTheShardLoads(t *testing.T) {
	l := newMemLog()
	first := newRig(t, []*memLog{l})
	require.NoError(t, first.commit("g", 0, 1))
	loading := l.crash()
	loading.gate = make(chan struct{})
	r := newRig(t, []*memLog{loading})
	r.runner.StartAll()
	require.ErrorIs(t, r.commit("g", 0, 2), coordinator.ErrLoading)
	require.ErrorIs(t, wait[*coordinator.Done](t, r.runner.Submit(&coordinator.Heartbeat{Group: "g"})).Err, coordinator.ErrLoading)
	require.ErrorIs(t, r.runner.List(context.Background()).Err, coordinator.ErrLoading)
	close(loading.gate)
	r.ready("g")
	require.Equal(t, int64(1), fetched(t, r.runner.Submit(fetchOf("g", 0))))
}

func TestARunnerThatClosesWhileItLoadsIsClosed(t *testing.T) {
	l := newMemLog()
	first := newRig(t, []*memLog{l})
	require.NoError(t, first.commit("g", 0, 1))
	loading := l.crash()
	loading.gate = make(chan struct{})
	r := newRig(t, []*memLog{loading})
	r.runner.StartAll()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, r.runner.Close(ctx), context.Canceled)
	close(loading.gate)
}

func TestRecordsOfUnknownTypesArePassedOverAndUnknownVersionsAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemLog()
		first := newRig(t, []*memLog{l})
		require.NoError(t, first.commit("g", 0, 1))
		first.close()
		odd := l.crash()
		odd.entries = append(odd.entries, runner.Entry{Offset: 1, Key: []byte{0, 3, 0, 1, 'g'}, Value: []byte{0, 9}, ProducerID: -1})
		odd.durable++
		r := newRig(t, []*memLog{odd})
		r.runner.StartAll()
		synctest.Wait()
		require.Equal(t, int64(1), fetched(t, r.runner.Submit(fetchOf("g", 0))))
		require.Equal(t, []runner.Skipped{{Records: 1, First: 1}}, r.events.skipped)
		r.close()

		key, value, err := records.Encode(coordinator.GroupRecord{Group: "g", State: &coordinator.GroupMetadata{}})
		require.NoError(t, err)
		value[1] = 9
		odd.entries = append(odd.entries, runner.Entry{Offset: 2, Key: key, Value: value, ProducerID: -1})
		odd.durable++
		r = newRig(t, []*memLog{odd})
		r.runner.StartAll()
		synctest.Wait()
		require.ErrorIs(t, r.commit("g", 0, 2), coordinator.ErrNotAvailable)
		require.Len(t, r.events.failed, 1)
		require.Equal(t, int64(2), r.events.failed[0].Offset)
		var version *records.VersionError
		require.ErrorAs(t, r.events.failed[0].Err, &version)
		require.ErrorIs(t, r.commit("g", 0, 2), coordinator.ErrNotAvailable)
		synctest.Wait()
		require.Len(t, r.events.failed, 1, "not read again at once")
		<-time.After(10 * time.Second) // of the bubble
		_ = r.commit("g", 0, 2)
		synctest.Wait()
		require.Len(t, r.events.failed, 2)
		r.close()
	})
}

func TestSessionsEndByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, []*memLog{newMemLog()})
		a := wait[*coordinator.JoinAnswer](t, r.runner.Submit(&coordinator.Join{
			Group: "g", SessionMs: 10_000, RebalanceMs: 20_000, ProtocolType: "consumer",
			Protocols: []coordinator.Protocol{{Name: "range"}},
		}))
		require.NoError(t, a.Err)
		sync := wait[*coordinator.SyncAnswer](t, r.runner.Submit(&coordinator.Sync{Group: "g", MemberID: a.MemberID, Generation: 1}))
		require.NoError(t, sync.Err)
		state := func() coordinator.State {
			return wait[*coordinator.Description](t, r.runner.Submit(&coordinator.Describe{Group: "g"})).State
		}
		<-time.After(9_999 * time.Millisecond) // of the bubble
		require.Equal(t, coordinator.Stable, state())
		<-time.After(2 * time.Millisecond) // of the bubble
		require.Equal(t, coordinator.Empty, state())
		r.close()
	})
}

func TestWhatIsParkedIsAnsweredAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, []*memLog{newMemLog()}, func(o *runner.Options) { o.Groups.InitialDelayMs = 3000 })
		parked := r.runner.Submit(&coordinator.Join{
			Group: "g", SessionMs: 10_000, RebalanceMs: 20_000, ProtocolType: "consumer",
			Protocols: []coordinator.Protocol{{Name: "range"}},
		})
		synctest.Wait()
		require.True(t, open(parked))
		r.close()
		require.ErrorIs(t, wait[*coordinator.JoinAnswer](t, parked).Err, coordinator.ErrNotAvailable)
		require.ErrorIs(t, r.commit("g", 0, 1), coordinator.ErrNotAvailable)
		require.ErrorIs(t, r.runner.Start("g"), coordinator.ErrNotAvailable)
	})
}

func TestGroupsLiveInTheirPartitionsAndAreListedTogether(t *testing.T) {
	logs := []*memLog{newMemLog(), newMemLog(), newMemLog()}
	r := newRig(t, logs)
	var want []coordinator.ListedGroup
	for i := range 20 {
		group := fmt.Sprintf("g%02d", i)
		at := logs[coordinator.PartitionFor(group, 3)]
		before := at.End()
		require.NoError(t, r.commit(group, 0, 1))
		require.Equal(t, before+1, at.End())
		want = append(want, coordinator.ListedGroup{Group: group, State: coordinator.Empty})
	}
	require.Equal(t, &coordinator.Listing{Groups: want}, r.runner.List(context.Background()))
}

func TestWithoutAnOffsetsTopicThereIsNoCoordinator(t *testing.T) {
	r := newRig(t, nil)
	require.ErrorIs(t, r.commit("g", 0, 1), coordinator.ErrNotAvailable)
	require.ErrorIs(t, r.runner.Start("g"), coordinator.ErrNotAvailable)
	require.Empty(t, r.runner.List(context.Background()).Groups)
}

func TestALargeCommitIsSeveralBatches(t *testing.T) {
	l := newMemLog()
	l.max = 2000
	r := newRig(t, []*memLog{l})
	c := commitOf("g", 0, 1)
	for p := range int32(99) {
		c.Offsets = append(c.Offsets, coordinator.CommittedOffset{Topic: "t", Partition: p + 1, Offset: int64(p)})
	}
	require.NoError(t, wait[*coordinator.CommitAnswer](t, r.runner.Submit(c)).Err)
	require.GreaterOrEqual(t, l.batches, 4)
	require.Equal(t, int64(98), fetched(t, r.runner.Submit(fetchOf("g", 99))))
}

func TestACheckpointBoundsWhatAStartReads(t *testing.T) {
	l := newMemLog()
	set := func(o *runner.Options) { o.CheckpointBytes = 4000 }
	r := newRig(t, []*memLog{l}, set)
	most := 0
	for i := range 2000 {
		require.NoError(t, r.commit(fmt.Sprintf("g%d", i%10), int32(i%3), int64(i)))
		if i%100 == 0 {
			after := newRig(t, []*memLog{l.crash()}, set)
			after.runner.StartAll()
			after.ready("g0")
			most = max(most, after.logs[0].replayed)
			after.close()
		}
	}
	require.Less(t, most, 300, "of 2000 records")
	r.close() // what it tells is told
	require.NotEmpty(t, r.events.checked)
	for _, e := range r.events.checked {
		require.NoError(t, e.Err)
	}
	after := newRig(t, []*memLog{l.crash()}, set)
	after.runner.StartAll()
	after.ready("g0")
	for i := 1970; i < 2000; i++ {
		require.Equal(t, int64(i), fetched(t, after.runner.Submit(fetchOf(fmt.Sprintf("g%d", i%10), int32(i%3)))))
	}
}

func TestRecordsOfUnknownTypesOutliveCheckpoints(t *testing.T) {
	l := newMemLog()
	l.max = 300
	odd := func(key string, value []byte) {
		l.entries = append(l.entries, runner.Entry{Offset: l.endLocked(), Key: append([]byte{0, 3}, key...), Value: value, ProducerID: -1})
		l.durable++
	}
	for i := range byte(20) {
		odd(fmt.Sprintf("old %d", i), []byte{0, i})
		odd(fmt.Sprintf("kept %d", i%5), []byte{1, i})
		odd(fmt.Sprintf("old %d", i), nil)
	}
	for range 2 {
		r := newRig(t, []*memLog{l}, func(o *runner.Options) { o.CheckpointBytes = 2000 })
		r.runner.StartAll()
		r.ready("g")
		for i := range 200 {
			require.NoError(t, r.commit("g", int32(i%3), int64(i)))
		}
		r.close()
		require.NotEmpty(t, r.events.checked)
		l = l.crash()
		require.Greater(t, l.start, int64(60))
		left := map[string][]byte{}
		for _, e := range l.entries {
			if e.Key[1] == 3 {
				left[string(e.Key[2:])] = e.Value
			}
		}
		require.Equal(t, map[string][]byte{"kept 0": {1, 15}, "kept 1": {1, 16}, "kept 2": {1, 17}, "kept 3": {1, 18}, "kept 4": {1, 19}}, left)
	}
}

// TestALargeRecordOfAnUnknownTypeDoesNotEndCheckpoints has one that no batch of today may be as large as: the log takes it all the
// same, or a start goes on reading from there.
func TestALargeRecordOfAnUnknownTypeDoesNotEndCheckpoints(t *testing.T) {
	large := bytes.Repeat([]byte("v"), 1000)
	for name, row := range map[string]struct {
		before, maxCarry int // records in front of it; what the log takes of that kind
		stays            bool
	}{
		"it is carried":                           {before: 10},
		"it stays, and what is before it goes":    {before: 10, maxCarry: 500, stays: true},
		"it stays, and there is nothing to go":    {maxCarry: 500, stays: true},
		"it stays once it is among the remainder": {before: 10, maxCarry: 999, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newMemLog()
			l.max, l.maxCarry = 300, row.maxCarry
			odd := func(key string, value []byte) {
				l.entries = append(l.entries, runner.Entry{Offset: l.endLocked(), Key: []byte("\x00\x03" + key), Value: value, ProducerID: -1})
				l.durable++
			}
			for range row.before {
				odd("small", []byte("old"))
			}
			odd("large", large)
			odd("small", []byte("new"))
			for range 3 {
				r := newRig(t, []*memLog{l}, func(o *runner.Options) { o.CheckpointBytes = 2000 })
				r.runner.StartAll()
				r.ready("g")
				for i := range 200 {
					require.NoError(t, r.commit("g", int32(i%3), int64(i)))
				}
				r.close()
				require.NotEmpty(t, r.events.checked)
				for _, e := range r.events.checked {
					require.Equal(t, row.stays && e.From <= int64(row.before) && e.Err != nil, e.Err != nil, e.Err)
				}
				l = l.crash()
				if row.stays {
					require.Equal(t, int64(row.before), l.start)
				} else {
					require.Greater(t, l.start, int64(100))
				}
				last := map[string][]byte{}
				for _, e := range l.entries {
					if e.Key[1] == 3 {
						last[string(e.Key[2:])] = e.Value
					}
				}
				require.Equal(t, map[string][]byte{"large": large, "small": []byte("new")}, last)
				after := newRig(t, []*memLog{l})
				after.runner.StartAll()
				after.ready("g")
				require.Equal(t, int64(199), fetched(t, after.runner.Submit(fetchOf("g", 199%3))))
				after.close()
			}
		})
	}
}

// TestACheckpointThatFailsIsNotWrittenAgainAtOnce has state that is more than CheckpointBytes, and a record among it that can
// neither be carried nor left behind.
func TestACheckpointThatFailsIsNotWrittenAgainAtOnce(t *testing.T) {
	l := newMemLog()
	l.max, l.maxCarry = 300, 500
	odd := func(key string, value []byte) {
		l.entries = append(l.entries, runner.Entry{Offset: l.endLocked(), Key: []byte("\x00\x03" + key), Value: value, ProducerID: -1})
		l.durable++
	}
	odd("large", bytes.Repeat([]byte("v"), 1000))
	for i := range 50 {
		odd(fmt.Sprint("small ", i), bytes.Repeat([]byte("v"), 100))
	}
	r := newRig(t, []*memLog{l}, func(o *runner.Options) { o.CheckpointBytes = 2000 })
	r.runner.StartAll()
	r.ready("g")
	for i := range int64(200) {
		require.NoError(t, r.commit("g", 0, i))
	}
	r.close()
	require.NotEmpty(t, r.events.checked)
	require.Less(t, len(r.events.checked), 10)
}

func TestAFaultOfTheLogicEndsTheShardAndNotTheServer(t *testing.T) {
	l := newMemLog()
	faulty := true
	r := newRig(t, []*memLog{l}, func(o *runner.Options) {
		o.Groups.TopicExists = func(string, [16]byte) bool {
			if faulty {
				panic("a fault")
			}
			return true
		}
	})
	require.NoError(t, r.commit("g", 0, 1))
	all := r.runner.Submit(&coordinator.Fetch{Group: "g", All: true})
	require.ErrorIs(t, wait[*coordinator.FetchAnswer](t, all).Err, coordinator.ErrNotCoordinator)
	faulty = false
	r.ready("g")
	require.Equal(t, int64(1), fetched(t, r.runner.Submit(fetchOf("g", 0))))
	require.ErrorContains(t, r.events.ended[0].Err, "a fault")
}

func TestAFaultLeavesNoRequestUnanswered(t *testing.T) {
	reached, release := make(chan struct{}), make(chan struct{})
	looks := 0
	r := newRig(t, []*memLog{newMemLog()}, func(o *runner.Options) {
		o.Groups.TopicExists = func(string, [16]byte) bool {
			looks++
			switch looks {
			case 1:
				close(reached)
				<-release
			case 2:
				panic("a fault")
			}
			return true
		}
	})
	require.NoError(t, r.commit("g", 0, 1))
	held := r.runner.Submit(&coordinator.Fetch{Group: "g", All: true})
	<-reached
	var behind []*runner.Call // taken together, and the first of them does not come back
	for range 3 {
		behind = append(behind, r.runner.Submit(&coordinator.Fetch{Group: "g", All: true}))
	}
	close(release)
	require.NoError(t, wait[*coordinator.FetchAnswer](t, held).Err)
	for _, c := range behind {
		require.ErrorIs(t, wait[*coordinator.FetchAnswer](t, c).Err, coordinator.ErrNotCoordinator)
	}
	r.ready("g")
	require.Equal(t, int64(1), fetched(t, r.runner.Submit(fetchOf("g", 0))))
}
