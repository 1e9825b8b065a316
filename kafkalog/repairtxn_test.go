package kafkalog

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// placed is a batch of a log and where it is.
type placed struct {
	segment  int64
	position int
	batch    batch.Batch
}

// placedBatches returns the batches of the log's files by base offset.
func placedBatches(t require.TestingT, fsys vfs.FS) map[int64]placed {
	found := map[int64]placed{}
	for _, base := range segmentBases(t, fsys) {
		data, err := vfs.ReadFile(fsys, logPath(base))
		require.NoError(t, err)
		position := 0
		for rest := data; len(rest) > 0; {
			one, after, err := batch.Next(rest)
			require.NoError(t, err)
			found[one.BaseOffset()] = placed{base, position, one}
			position += len(one)
			rest = after
		}
	}
	return found
}

// wipe overwrites a whole batch, so that nothing shows what it was.
func wipe(t *testing.T, fsys *memfs.FS, p placed) {
	t.Helper()
	edit(t, fsys, logPath(p.segment), func(b []byte) []byte {
		for i := range p.batch {
			b[p.position+i] = 0xee
		}
		return b
	})
}

// txnLog makes a log, lets make append to it, and closes it in order.
func txnLog(t *testing.T, make func(l *Log)) *memfs.FS {
	t.Helper()
	b := newBench(t)
	l := b.open(Options{Config: smallSegments()})
	fill(t, l, 12)
	make(l)
	require.NoError(t, l.Sync())
	require.NoError(t, l.Close())
	return b.fs.(*memfs.FS)
}

// forgetEnd removes the snapshot that a stop in order wrote, as a crash has none.
func forgetEnd(t *testing.T, fsys *memfs.FS, end int64) {
	t.Helper()
	require.NoError(t, fsys.Remove(path.Join(testDir, fileName(end, snapshotSuffix))))
	require.NoError(t, fsys.SyncDir(testDir))
}

func writeTxn(t require.TestingT, l *Log, producer int64, sequence int32) int64 {
	return mustAppend(t, l, data{size: 40, producer: producer, sequence: sequence, txn: true})
}

func endTxn(t require.TestingT, l *Log, producer int64, commit bool) int64 {
	m := batch.EndMarker(batch.EndMarkerOptions{
		LeaderEpoch: -1, ProducerID: producer, Commit: commit, CoordinatorEpoch: 5, Timestamp: epochMs,
	})
	a, err := l.Append(m, AppendOptions{LeaderEpoch: -1, Origin: Coordinator})
	require.NoError(t, err)
	return a.BaseOffset
}

// reopened is the log as the next start finds it.
func reopened(t *testing.T, fsys *memfs.FS, check func(l *Log)) {
	t.Helper()
	after := makeBench(t, fsys)
	l := after.open(Options{Config: smallSegments(), Contiguous: true})
	check(l)
	require.NoError(t, after.env.Close())
}

func TestU08_TheEndOfATransactionIsPutBackIfTheFilesShowWhatItWas(t *testing.T) {
	for _, c := range []struct {
		name           string
		commit, sealed bool // the segment is
		aborted        bool // the next transaction of the producer is
		reason         string
	}{
		{name: "a commit in the active segment", commit: true, reason: "snapshot"},
		{name: "an abort in the active segment", reason: "index of aborted"},
		{name: "a commit in a sealed segment", commit: true, sealed: true, reason: "snapshot"},
		{name: "an abort in a sealed segment", sealed: true, reason: "index of aborted"},
		{name: "a commit in front of an abort", commit: true, aborted: true, reason: "where the next one of its producer begins"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var first, marker, second int64
			fsys := txnLog(t, func(l *Log) {
				endTxn(t, l, 7, true) // from which the coordinator's epoch is known
				first = writeTxn(t, l, 7, 0)
				mustAppend(t, l, data{size: 40})
				marker = endTxn(t, l, 7, c.commit)
				if c.sealed {
					fill(t, l, 12)
				}
				second = writeTxn(t, l, 7, 1)
				if c.sealed || c.aborted {
					endTxn(t, l, 7, !c.aborted)
				}
			})
			whole := placedBatches(t, fsys)
			want := string(whole[marker].batch)
			var aborted []AbortedTxn
			reopened(t, fsys.CrashClean(), func(l *Log) {
				var err error
				aborted, err = l.AbortedInRange(0, l.LogEnd())
				require.NoError(t, err)
			})
			wipe(t, fsys, whole[marker])

			plan := planned(t, fsys, RepairOptions{})
			require.Len(t, plan.Steps, 1)
			require.NotEmpty(t, plan.Transactions)
			got := plan.Transactions[0]
			require.Contains(t, got.Reason, c.reason)
			got.Reason = ""
			require.Equal(t, RepairTransaction{
				End: PutBackEnd, ProducerID: 7, CoordinatorEpoch: 5, First: first, Marker: marker, Commit: c.commit, Lost: true,
			}, got)
			if c.sealed || c.aborted {
				require.Len(t, plan.Transactions, 1)
			} else { // the second one is open, and no damage is behind its beginning
				require.Equal(t, []RepairTransaction{{
					End: StaysOpen, ProducerID: 7, CoordinatorEpoch: 5, First: second, Marker: -1,
				}}, plan.Transactions[1:])
			}
			_, err := plan.Apply()
			require.NoError(t, err)
			require.Equal(t, want, string(placedBatches(t, fsys)[marker].batch), "it is what it was")
			reopened(t, fsys.CrashClean(), func(l *Log) {
				got, err := l.AbortedInRange(0, l.LogEnd())
				require.NoError(t, err)
				require.Equal(t, aborted, got)
				if stable := l.LastStable(l.LogEnd()); c.sealed || c.aborted {
					require.Equal(t, l.LogEnd(), stable)
				} else {
					require.Equal(t, second, stable)
				}
			})
		})
	}
}

func TestU08_ATransactionWhoseEndIsLostIsToldAndAbortedWhenThatIsAskedFor(t *testing.T) {
	var first, marker, last int64
	fsys := txnLog(t, func(l *Log) {
		first = writeTxn(t, l, 7, 0)
		marker = endTxn(t, l, 7, true)
		last = mustAppend(t, l, data{size: 40, seed: 3})
	})
	forgetEnd(t, fsys, last+1)
	wipe(t, fsys, placedBatches(t, fsys)[marker])
	left := RepairTransaction{End: StaysOpen, ProducerID: 7, CoordinatorEpoch: -1, First: first, Marker: -1, Lost: true}
	plan := planned(t, fsys, RepairOptions{Abort: func(id int64) bool { return id == 8 }})
	require.Equal(t, []RepairTransaction{left}, plan.Transactions)
	require.Equal(t, last+1, plan.End)
	_, err := plan.Apply()
	require.NoError(t, err)
	reopened(t, fsys.CrashClean(), func(l *Log) {
		require.Equal(t, first, l.LastStable(l.LogEnd()), "readers of committed records wait")
	})

	// The log is sound, and the transaction can still be ended.
	left.Lost = false
	plan = planned(t, fsys, RepairOptions{})
	require.Empty(t, plan.Steps)
	require.False(t, plan.Changes())
	require.Equal(t, []RepairTransaction{left}, plan.Transactions)
	before := files(t, fsys, testDir)
	plan = planned(t, fsys, RepairOptions{Abort: func(id int64) bool { return id == 7 }})
	require.True(t, plan.Changes())
	left.End, left.CoordinatorEpoch, left.Marker = AbortAtEnd, 0, last+1
	require.Equal(t, []RepairTransaction{left}, plan.Transactions)
	require.Equal(t, last+2, plan.End)
	require.Equal(t, before, files(t, fsys, testDir), "a plan writes nothing")
	kept, err := plan.Apply()
	require.NoError(t, err)
	require.Empty(t, kept)
	written := placedBatches(t, fsys)[last+1].batch
	require.Equal(t, string(batch.EndMarker(batch.EndMarkerOptions{
		BaseOffset: last + 1, LeaderEpoch: -1, ProducerID: 7, Timestamp: repairClock().UnixMilli(),
	})), string(written))
	reopened(t, fsys.CrashClean(), func(l *Log) {
		require.Equal(t, last+2, l.LastStable(l.LogEnd()))
		aborted, err := l.AbortedInRange(0, l.LogEnd())
		require.NoError(t, err)
		require.Equal(t, []AbortedTxn{{ProducerID: 7, FirstOffset: first, LastOffset: last + 1, LastStableOffset: last + 2}}, aborted)
	})
	require.Empty(t, planned(t, fsys, RepairOptions{}).Transactions)
}

func TestU08_AMarkerOfWhichOneByteIsWrongIsPutRight(t *testing.T) {
	for _, commit := range []bool{true, false} {
		var marker int64
		fsys := txnLog(t, func(l *Log) {
			writeTxn(t, l, 7, 0)
			marker = endTxn(t, l, 7, commit)
			mustAppend(t, l, data{size: 40})
		})
		forgetEnd(t, fsys, marker+2)
		p := placedBatches(t, fsys)[marker]
		for at := range len(p.batch) {
			if at >= 12 && at < 16 {
				continue // the leader epoch is under no checksum
			}
			spoilt := fsys.CrashClean()
			edit(t, spoilt, logPath(p.segment), func(b []byte) []byte {
				b[p.position+at] ^= 0x41
				return b
			})
			plan := planned(t, spoilt, RepairOptions{})
			require.Len(t, plan.Steps, 1, "byte %d", at)
			require.Equal(t, PutRight, plan.Steps[0].Action, "byte %d: %s", at, plan.Steps[0].Reason)
			require.Empty(t, plan.Transactions)
			_, err := plan.Apply()
			require.NoError(t, err)
			require.Equal(t, string(p.batch), string(placedBatches(t, spoilt)[marker].batch), "byte %d", at)
		}
	}
}

// TestU08_WhatAPlanSaysOfTransactionsIsWhatTheNextStartFinds damages logs of many transactions at random.
func TestU08_WhatAPlanSaysOfTransactionsIsWhatTheNextStartFinds(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 88))
		var markers []int64
		fsys := txnLog(t, func(l *Log) {
			open, sequence := map[int64]bool{}, map[int64]int32{}
			for range 60 {
				producer := int64(7 + random.IntN(3))
				if open[producer] && random.IntN(2) == 0 {
					markers = append(markers, endTxn(t, l, producer, random.IntN(2) == 0))
					open[producer] = false
					continue
				}
				writeTxn(t, l, producer, sequence[producer])
				sequence[producer]++
				open[producer] = true
			}
		})
		all := placedBatches(t, fsys)
		if seed%2 == 0 {
			forgetEnd(t, fsys, all[slices.Max(slices.Collect(maps.Keys(all)))].batch.NextOffset())
		}
		lost := map[string]bool{} // what the markers said that are gone
		kind := func(producer int64, commit bool) string { return fmt.Sprint(producer, " ", commit) }
		for range 1 + random.IntN(3) {
			p := all[markers[random.IntN(len(markers))]]
			control, _, err := p.batch.Control()
			require.NoError(t, err)
			lost[kind(p.batch.ProducerID(), control.Type == batch.Commit)] = true
			wipe(t, fsys, p)
		}
		var o RepairOptions
		if seed%3 == 0 {
			o.Abort = func(int64) bool { return true }
		}
		plan := planned(t, fsys, o)
		var want []string
		for _, transaction := range plan.Transactions {
			if transaction.End == PutBackEnd {
				require.True(t, lost[kind(transaction.ProducerID, transaction.Commit)], "seed %d: %+v", seed, transaction)
			}
			if transaction.End == StaysOpen {
				want = append(want, fmt.Sprint(transaction.ProducerID, " from ", transaction.First))
			}
		}
		_, err := plan.Apply()
		require.NoError(t, err, "seed %d", seed)
		reopened(t, fsys.CrashClean(), func(l *Log) {
			require.Equal(t, plan.End, l.LogEnd(), "seed %d", seed)
			require.Empty(t, l.Check(), "seed %d", seed)
			var got []string
			for _, open := range l.producers.state.ongoing {
				got = append(got, fmt.Sprint(open.producerID, " from ", open.first))
			}
			require.Equal(t, want, got, "seed %d", seed)
		})
	}
}

func TestU08_ACrashWhileTransactionsAreEndedLeavesALogThatAnotherRepairFinishes(t *testing.T) {
	var first, marker int64
	disk := txnLog(t, func(l *Log) {
		first = writeTxn(t, l, 7, 0)
		marker = endTxn(t, l, 7, true)
		writeTxn(t, l, 8, 0)
	})
	forgetEnd(t, disk, marker+2)
	wipe(t, disk, placedBatches(t, disk)[marker])
	o := RepairOptions{Now: repairClock, Abort: func(int64) bool { return true }}
	broken := errors.New("broken")
	for call := 0; ; call++ {
		fsys := disk.CrashClean()
		failing := faultfs.New(fsys, faultfs.When(faultfs.Writes, faultfs.FailFrom(call, broken)))
		plan, err := PlanRepair(failing, testDir, o)
		if err == nil {
			_, err = plan.Apply()
		}
		for _, keep := range []float64{0, 0.5, 1} {
			after := fsys.Crash(memfs.CrashOptions{Seed: uint64(call), KeepUnsynced: keep, Torn: true})
			_, err := planned(t, after, o).Apply()
			require.NoError(t, err, "call %d", call)
			reopened(t, after.CrashClean(), func(l *Log) {
				require.Equal(t, marker+4, l.LogEnd(), "call %d", call)
				require.Equal(t, l.LogEnd(), l.LastStable(l.LogEnd()), "call %d", call)
				aborted, err := l.AbortedInRange(0, l.LogEnd())
				require.NoError(t, err)
				require.Len(t, aborted, 2, "call %d", call)
				require.Equal(t, first, aborted[0].FirstOffset, "call %d", call)
			})
		}
		if err == nil {
			require.Greater(t, call, 20)
			return
		}
		require.ErrorIs(t, err, broken)
	}
}
