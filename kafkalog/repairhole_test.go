package kafkalog

import (
	"errors"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs/faultfs"
)

// The marker of the next transaction of a producer, lost or not, does not end the one before it as well.
func TestU08_ACommitThatIsLostWithTheBeginningOfAnAbortStaysOne(t *testing.T) {
	for _, stopped := range []bool{true, false} {
		for _, lost := range []int64{2, 3} { // the marker and the next one's first batch, and that one's marker
			var first, marker, last int64
			fsys := txnLog(t, func(l *Log) {
				endTxn(t, l, 7, true)
				first = writeTxn(t, l, 7, 0)
				marker = endTxn(t, l, 7, true)
				writeTxn(t, l, 7, 1)
				endTxn(t, l, 7, false)
				last = mustAppend(t, l, data{size: 40})
			})
			if !stopped {
				forgetEnd(t, fsys, last+1)
			}
			all := placedBatches(t, fsys)
			for offset := marker; offset < marker+lost; offset++ {
				require.Equal(t, all[first].segment, all[offset].segment)
				wipe(t, fsys, all[offset])
			}
			plan := planned(t, fsys, RepairOptions{})
			require.NotEmpty(t, plan.Transactions)
			require.True(t, plan.Transactions[0].Commit)
			require.Equal(t, marker, plan.Transactions[0].Marker)
			_, err := plan.Apply()
			require.NoError(t, err)
			reopened(t, fsys.CrashClean(), func(l *Log) {
				got, err := l.AbortedInRange(0, l.LogEnd())
				require.NoError(t, err)
				require.Empty(t, got, "nothing is left of the one that was aborted")
				require.Equal(t, last+1, l.LastStable(l.LogEnd()))
			})
		}
	}
}

// A Kafka broker rolls with a snapshot on disk, and then syncs the segment and the index of its aborted transactions.
func TestU08_NoCommitIsMadeOfAnAbortThatAPowerCutTook(t *testing.T) {
	var first, marker int64
	fsys := txnLog(t, func(l *Log) {
		first = writeTxn(t, l, 7, 0)
		marker = endTxn(t, l, 7, false)
		rolled, err := l.Roll()
		require.NoError(t, err)
		require.True(t, rolled)
		mustAppend(t, l, data{size: 40})
	})
	forgetEnd(t, fsys, marker+2)
	all := placedBatches(t, fsys)
	wipe(t, fsys, all[marker])
	require.NoError(t, fsys.Remove(path.Join(testDir, fileName(all[marker].segment, txnIndexSuffix))))
	_, err := fsys.Stat(path.Join(testDir, fileName(marker+1, snapshotSuffix)))
	require.NoError(t, err)
	require.NoError(t, fsys.SyncDir(testDir))

	plan := planned(t, fsys, RepairOptions{Foreign: true, Flushed: marker})
	require.Equal(t, []RepairTransaction{{
		End: StaysOpen, ProducerID: 7, CoordinatorEpoch: -1, First: first, Marker: -1, Lost: true,
	}}, plan.Transactions)
	_, err = plan.Apply()
	require.NoError(t, err)
	reopened(t, fsys.CrashClean(), func(l *Log) {
		require.Equal(t, first, l.LastStable(l.LogEnd()), "nobody reads it as committed")
	})
}

// The next transaction was aborted in a later segment, of which the disk has the index; the one with the lost marker was not flushed.
func TestU08_AnIndexThatWasNotDurableProvesNoCommit(t *testing.T) {
	var first, marker, last int64
	fsys := txnLog(t, func(l *Log) {
		first = writeTxn(t, l, 7, 0)
		marker = endTxn(t, l, 7, false)
		_, err := l.Roll()
		require.NoError(t, err)
		writeTxn(t, l, 7, 1)
		last = endTxn(t, l, 7, false)
	})
	forgetEnd(t, fsys, last+1)
	all := placedBatches(t, fsys)
	wipe(t, fsys, all[marker])
	require.NoError(t, fsys.Remove(path.Join(testDir, fileName(all[marker].segment, txnIndexSuffix))))
	require.NoError(t, fsys.Remove(path.Join(testDir, fileName(marker+1, snapshotSuffix))))
	require.NoError(t, fsys.SyncDir(testDir))

	plan := planned(t, fsys, RepairOptions{})
	require.Empty(t, plan.Transactions, "one marker ends both")
	_, err := plan.Apply()
	require.NoError(t, err)
	reopened(t, fsys.CrashClean(), func(l *Log) {
		got, err := l.AbortedInRange(0, l.LogEnd())
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.Equal(t, first, got[0].FirstOffset)
	})
}

// TestU08_ARepairTurnsNoTransactionIntoItsOpposite loses runs of batches of many transactions at random. Their indexes stay.
func TestU08_ARepairTurnsNoTransactionIntoItsOpposite(t *testing.T) {
	put := 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 99))
		type written struct {
			producer int64
			txn      int
		}
		batches, ends, count := map[int64]written{}, map[int]bool{}, 0
		fsys := txnLog(t, func(l *Log) {
			open, sequence := map[int64]int{}, map[int64]int32{}
			for range 60 {
				producer := int64(7 + random.IntN(2))
				if at := open[producer]; at > 0 && random.IntN(3) > 0 {
					ends[at] = random.IntN(2) == 0
					endTxn(t, l, producer, ends[at])
					open[producer] = 0
					continue
				}
				if open[producer] == 0 {
					count++
					open[producer] = count
				}
				batches[writeTxn(t, l, producer, sequence[producer])] = written{producer, open[producer]}
				sequence[producer]++
			}
		})
		all := placedBatches(t, fsys)
		offsets := slices.Sorted(maps.Keys(all))
		if seed%2 == 0 {
			forgetEnd(t, fsys, all[offsets[len(offsets)-1]].batch.NextOffset())
		}
		for range 1 + random.IntN(3) {
			at := random.IntN(len(offsets))
			for _, offset := range offsets[at:min(at+1+random.IntN(6), len(offsets))] {
				wipe(t, fsys, all[offset])
				delete(batches, offset)
			}
		}
		plan := planned(t, fsys, RepairOptions{})
		for _, transaction := range plan.Transactions {
			if transaction.End == PutBackEnd {
				put++
			}
		}
		_, err := plan.Apply()
		require.NoError(t, err, "seed %d", seed)
		reopened(t, fsys.CrashClean(), func(l *Log) {
			require.Empty(t, l.Check(), "seed %d", seed)
			aborted, err := l.AbortedInRange(0, l.LogEnd())
			require.NoError(t, err)
			for offset, w := range batches {
				if l.producers.state.producers[w.producer] != nil {
					if first := l.producers.state.producers[w.producer].txnFirst; first >= 0 && first <= offset {
						continue // nobody reads it
					}
				}
				gone := slices.ContainsFunc(aborted, func(a AbortedTxn) bool {
					return a.ProducerID == w.producer && a.FirstOffset <= offset && offset <= a.LastOffset
				})
				committed, ended := ends[w.txn]
				require.True(t, ended, "seed %d: %d was not ended", seed, offset)
				require.Equal(t, committed, !gone, "seed %d: offset %d of producer %d; %+v", seed, offset, w.producer, plan.Transactions)
			}
		})
	}
	require.Greater(t, put, 100)
}

// A repair takes no file for damaged, and away, that the device does not give.
func TestU08_AnIndexOfAbortsThatTheDeviceDoesNotGiveIsNotMadeAgain(t *testing.T) {
	fsys := txnLog(t, func(l *Log) {
		writeTxn(t, l, 7, 0)
		endTxn(t, l, 7, false)
	})
	broken := faultfs.New(fsys, faultfs.FailMatching(faultfs.OpReadAt, "*"+txnIndexSuffix, syscall.EIO))
	plan, err := PlanRepair(broken, testDir, RepairOptions{})
	require.NoError(t, err)
	require.Empty(t, plan.Steps)
	require.Len(t, plan.Unrepairable, 1)
	require.ErrorIs(t, plan.Unrepairable[0], syscall.EIO)
}

func TestAReadThatFailedLeavesNothingInDoubt(t *testing.T) {
	require.True(t, passing(&ReadError{Path: "a.log", Err: syscall.EIO}))
	require.False(t, passing(errors.Join(&ReadError{Err: syscall.EIO}, &IOError{Op: opSync, Err: syscall.EIO})))
}
