package kafkalog

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs/memfs"
)

func TestARefusedBatchChangesNothing(t *testing.T) {
	b := newBench(t)
	c := smallSegments()
	l := b.open(Options{Config: c})
	put := func(d data, epoch int32) (Appended, error) {
		return l.Append(d.build(t), AppendOptions{LeaderEpoch: epoch})
	}
	_, err := put(data{records: 3, producer: 7, size: 180}, 0)
	require.NoError(t, err)
	before := logState(t, l)
	bases := l.view.Load().bases()
	_, err = put(data{records: 3, producer: 7, sequence: 4, size: 180}, 5) // would roll and start an epoch
	require.ErrorIs(t, err, ErrOutOfOrderSequence)
	_, err = put(data{producer: 7, epoch: 2, sequence: 1}, 0)
	require.ErrorIs(t, err, ErrOutOfOrderSequence)
	_, err = l.Append(marker(7, -1, true), AppendOptions{Origin: Coordinator})
	require.ErrorIs(t, err, ErrInvalidProducerEpoch)
	require.Equal(t, bases, l.view.Load().bases())
	after := logState(t, l)
	require.Equal(t, before.records, after.records)
	require.Equal(t, before.epochs[:1], after.epochs[:1])
	require.Equal(t, before.producers, after.producers)
}

func TestF54_AnExpiredProducerGoesOnAndAnOpenTransactionNeverExpires(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{})
	put := func(d data) error {
		_, err := l.Append(d.build(t), AppendOptions{LeaderEpoch: -1})
		return err
	}
	require.NoError(t, put(data{records: 2, producer: 1, ts: epochMs}))
	require.NoError(t, put(data{records: 2, producer: 2, txn: true, ts: epochMs}))
	require.ErrorIs(t, put(data{producer: 1, sequence: 9}), ErrOutOfOrderSequence)
	l.RemoveExpiredProducers(b.advance(30*time.Second), 30*time.Second+2*time.Millisecond)
	require.Len(t, l.ActiveProducers(), 2)
	l.RemoveExpiredProducers(b.advance(30*time.Second), 30*time.Second)
	require.Equal(t, []ActiveProducer{{
		ProducerID: 2, LastSequence: 1, LastTimestamp: epochMs + 1, CoordinatorEpoch: -1, TxnStartOffset: 2,
	}}, l.ActiveProducers())
	require.NoError(t, put(data{producer: 1, sequence: 2}), "without state any sequence is the first")
}

func TestTransactionsHoldTheLastStableOffsetUntilTheMarkerIsPassed(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{Config: smallSegments()})
	put := func(d data) { _, err := l.Append(d.build(t), AppendOptions{LeaderEpoch: -1}); require.NoError(t, err) }
	put(data{records: 2})                                    // 0, 1
	put(data{records: 2, producer: 4, txn: true})            // 2, 3
	put(data{records: 2, producer: 5, txn: true, size: 200}) // 4, 5
	require.Equal(t, int64(2), l.LastStable(6))
	a, err := l.Append(marker(4, 0, false), AppendOptions{LeaderEpoch: -1, Origin: Coordinator}) // 6
	require.NoError(t, err)
	require.Equal(t, int64(6), a.BaseOffset)
	require.Equal(t, int64(2), l.LastStable(6), "the marker is not replicated")
	require.Equal(t, int64(4), l.LastStable(7))
	_, err = l.AppendVerbatimAt(marker(5, 0, true), 7)
	require.NoError(t, err)
	require.Equal(t, int64(8), l.LastStable(100))
	aborted, err := l.AbortedInRange(0, math.MaxInt64)
	require.NoError(t, err)
	want := []AbortedTxn{{ProducerID: 4, FirstOffset: 2, LastOffset: 6, LastStableOffset: 4}}
	require.Equal(t, want, aborted)

	// The same after every kind of reopen, as for a log that Kafka wrote.
	for _, clean := range []bool{true, false} {
		require.NoError(t, l.Sync())
		require.NoError(t, l.Close())
		l = b.open(Options{Config: smallSegments(), Clean: clean})
		aborted, err := l.AbortedInRange(0, math.MaxInt64)
		require.NoError(t, err)
		require.Equal(t, want, aborted)
		require.Equal(t, int64(8), l.LastStable(8))
		none, err := l.AbortedInRange(7, 8)
		require.NoError(t, err)
		require.Empty(t, none)
	}
}

func TestTheLogStartMovesAsItsMoversSay(t *testing.T) {
	b := newBench(t)
	c := smallSegments()
	l := b.open(Options{Config: c})
	transactions(t, l)
	require.ErrorIs(t, l.SetLogStart(-1), ErrInvalidArgument)
	require.ErrorIs(t, l.SetLogStart(l.LogEnd()+1), ErrInvalidArgument)
	require.NoError(t, l.SetLogStart(14))
	epoch, found := l.LogStartEpoch()
	require.True(t, found)
	require.Equal(t, int32(1), epoch)
	require.Equal(t, EpochEntry{Epoch: 1, Start: 14}, l.Epochs()[0])
	require.NoError(t, l.SetLogStart(3), "never down")
	require.Equal(t, int64(14), l.LogStart())
	start, err := l.TrimTo(math.MaxInt64)
	require.NoError(t, err)
	require.Equal(t, l.LogEnd(), start)
	require.Len(t, l.view.Load().segments, 1)
	l = b.reopen(l, Options{Config: c})
	require.Equal(t, l.LogEnd(), l.LogStart())
	require.Len(t, l.view.Load().segments, 1, "the active segment stays")

	remote := c
	remote.RemoteStorage = true
	l.SetConfig(remote)
	require.True(t, l.DiffersFromLeaderLogStart(5))
	start, err = l.FollowLeaderLogStart(5)
	require.NoError(t, err)
	require.Equal(t, int64(5), start)
	_, found = l.LogStartEpoch()
	require.False(t, found)
	require.Greater(t, l.LocalLogStart(), l.LogStart())
	_, err = l.ReadRaw(6, math.MaxInt64, 1)
	require.Equal(t, &OffsetBelowLocalStartError{Requested: 6, LocalStart: l.FirstSegmentBase()}, err)
	require.False(t, l.DiffersFromLeaderLogStart(5))
}

func TestAFreshRemoteLogReportsZeroUntilItsStartIsEstablished(t *testing.T) {
	b := newBench(t)
	c := smallSegments()
	l := b.open(Options{Config: c})
	fill(t, l, 9)
	require.NoError(t, l.Sync())
	require.NoError(t, l.Close())
	for _, suffix := range []string{logSuffix, indexSuffix, timeIndexSuffix} {
		require.NoError(t, b.fs.Remove(filePath(testDir, 0, suffix)))
	}
	c.RemoteStorage = true
	l = b.open(Options{Config: c, Clean: true})
	require.Equal(t, int64(0), l.ReportedLogStart())
	require.Equal(t, int64(6), l.LocalLogStart())
	_, established := l.EstablishedLogStart()
	require.False(t, established)
	start, err := l.FollowLeaderLogStart(8)
	require.NoError(t, err)
	require.Equal(t, int64(8), start)
	require.Equal(t, int64(8), l.ReportedLogStart())
}

// A log forgets a producer whose records are gone or old, and takes whatever it sends next as its first. Recovery, which
// reads the records from before as well, must not take these for copies of what the producer sends from then on.
func TestAProducerThatBeganAnewIsNotAnsweredWithItsOldBatches(t *testing.T) {
	const start = 3 // the producer's first life ends below it
	forget := map[string]func(l *Log){
		"its records are trimmed and the log is truncated at its start": func(l *Log) {
			require.NoError(t, l.SetLogStart(start))
			require.NoError(t, l.TruncateTo(start))
		},
		"it expired": func(l *Log) {
			l.RemoveExpiredProducers(time.UnixMilli(epochMs).Add(time.Hour), time.Minute)
		},
	}
	for name, forgets := range forget {
		for _, how := range []string{"clean", "unclean", "power cut"} {
			t.Run(name+", "+how, func(t *testing.T) {
				b := makeBench(t, memfs.New())
				l := b.open(Options{})
				first := data{records: 1, producer: 3, sequence: 0, seed: 1}
				second := data{records: 2, producer: 3, sequence: 1, seed: 2}
				mustAppend(t, l, first)
				mustAppend(t, l, second)
				mustAppend(t, l, data{seed: 3})
				forgets(l)
				began := l.LogEnd()
				require.Equal(t, began, mustAppend(t, l, first))

				old := b.env
				l = stopAndStart(b, l, how)
				again, err := l.Append(first.build(t), AppendOptions{LeaderEpoch: -1})
				require.NoError(t, err)
				require.Equal(t, Appended{BaseOffset: began, LastOffset: began, AppendTime: -1, Duplicate: true}, again)
				end := l.LogEnd()
				next, err := l.Append(second.build(t), AppendOptions{LeaderEpoch: -1})
				require.NoError(t, err)
				require.Equal(t, Appended{BaseOffset: end, LastOffset: end + 1, AppendTime: -1}, next)
				require.NoError(t, b.env.Close())
				require.NoError(t, old.Close())
			})
		}
	}
}
