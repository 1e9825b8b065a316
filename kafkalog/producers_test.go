package kafkalog

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/batch"
)

const maxSequence = math.MaxInt32

// dataHeader is a batch of count records by a producer.
func dataHeader(pid int64, epoch int16, sequence int32, base int64, count int32) *batch.Header {
	return &batch.Header{
		BaseOffset: base, LastOffsetDelta: count - 1, Count: count, MaxTimestamp: 1000 + base,
		ProducerID: pid, ProducerEpoch: epoch, BaseSequence: sequence, Magic: 2,
	}
}

const transactional = batch.Attributes(1 << 4)

func txnHeader(pid int64, epoch int16, sequence int32, base int64, count int32) *batch.Header {
	h := dataHeader(pid, epoch, sequence, base, count)
	h.Attributes |= transactional
	return h
}

func markerHeader(pid int64, epoch int16, offset int64) *batch.Header {
	h := dataHeader(pid, epoch, -1, offset, 1)
	h.Attributes |= transactional | 1<<5
	return h
}

func commitBy(coordinatorEpoch int32) batch.ControlRecord {
	return batch.ControlRecord{Type: batch.Commit, CoordinatorEpoch: coordinatorEpoch}
}

func abortBy(coordinatorEpoch int32) batch.ControlRecord {
	return batch.ControlRecord{Type: batch.Abort, CoordinatorEpoch: coordinatorEpoch}
}

func mustTake(t require.TestingT, p *producerState, h *batch.Header) producerUndo {
	undo, err := p.append(h)
	require.NoError(t, err)
	return undo
}

// acceptAndTake checks a client's batch and appends it.
func acceptAndTake(t require.TestingT, p *producerState, h *batch.Header) {
	_, isDup, err := p.check(h, Client)
	require.NoError(t, err)
	require.False(t, isDup)
	mustTake(t, p, h)
}

// requireSameState compares everything that matters of two states.
func requireSameState(t require.TestingT, want, got *producerState) {
	require.Equal(t, want.recovered(), got.recovered())
	require.True(t, slices.Equal(want.ongoing, got.ongoing), "ongoing: want %v, got %v", want.ongoing, got.ongoing)
	require.True(t, slices.Equal(want.held, got.held), "held: want %v, got %v", want.held, got.held)
	require.Equal(t, want.mapEnd, got.mapEnd)
	require.Equal(t, want.lastSnap, got.lastSnap)
}

func TestABatchWithoutAProducerChangesNothing(t *testing.T) {
	p := newProducerState()
	h := dataHeader(-1, -1, -1, 0, 3)
	_, isDup, err := p.check(h, Client)
	require.NoError(t, err)
	require.False(t, isDup)
	undo := mustTake(t, p, h)
	_, closed, _ := p.appendMarker(markerHeader(-1, -1, 3), abortBy(1))
	require.False(t, closed)
	require.Empty(t, p.recovered())
	p.undo(undo)
}

func TestTheStateOfAProducerIsThatOfItsLastBatches(t *testing.T) {
	p := newProducerState()
	mustTake(t, p, dataHeader(7, 2, 10, 100, 5))
	mustTake(t, p, dataHeader(7, 2, 15, 105, 1))
	mustTake(t, p, dataHeader(3, 0, -1, 106, 2)) // a coordinator's: without sequences
	require.Equal(t, []RecoveredProducer{
		{ProducerSnapshotEntry: ProducerSnapshotEntry{
			ProducerID: 3, LastSequence: -1, LastOffset: 107, OffsetDelta: 1, Timestamp: 1106, CoordinatorEpoch: -1, TxnFirstOffset: -1,
		}},
		{
			ProducerSnapshotEntry: ProducerSnapshotEntry{
				ProducerID: 7, ProducerEpoch: 2, LastSequence: 15, LastOffset: 105, Timestamp: 1105, CoordinatorEpoch: -1,
				TxnFirstOffset: -1,
			},
			Earlier: []RetainedBatch{{FirstSequence: 10, LastSequence: 14, FirstOffset: 100, LastOffset: 104, Timestamp: 1100}},
		},
	}, p.recovered())
	require.Equal(t, []ActiveProducer{
		{ProducerID: 3, LastSequence: -1, LastTimestamp: 1106, CoordinatorEpoch: -1, TxnStartOffset: -1},
		{ProducerID: 7, ProducerEpoch: 2, LastSequence: 15, LastTimestamp: 1105, CoordinatorEpoch: -1, TxnStartOffset: -1},
	}, p.active())
	entry, found := p.entry(7)
	require.True(t, found)
	require.EqualValues(t, 15, entry.LastSequence)
	_, found = p.entry(8)
	require.False(t, found)
}

func TestANewEpochForgetsTheBatchesOfTheOldOne(t *testing.T) {
	p := newProducerState()
	mustTake(t, p, dataHeader(7, 0, 0, 0, 5))
	mustTake(t, p, dataHeader(7, 1, 0, 5, 1))
	require.Empty(t, p.recovered()[0].Earlier)
	_, isDup, err := p.check(dataHeader(7, 0, 0, 0, 5), Client)
	require.False(t, isDup)
	require.ErrorIs(t, err, ErrInvalidProducerEpoch)
}

func TestF23_FiveBatchesAreRememberedAndAnOlderOneIsOutOfOrder(t *testing.T) {
	p := newProducerState()
	for i := range int32(7) {
		acceptAndTake(t, p, dataHeader(7, 0, i*10, int64(i)*10, 10))
	}
	for i := range int32(7) {
		dup, isDup, err := p.check(dataHeader(7, 0, i*10, 999, 10), Client)
		if i < 2 {
			require.False(t, isDup, "batch %d", i)
			require.Equal(t, &OutOfOrderSequenceError{
				ProducerID: 7, ProducerEpoch: 0, FirstSequence: i * 10, CurrentEpoch: 0, LastSequence: 69,
			}, err)
			continue
		}
		require.NoError(t, err)
		require.True(t, isDup, "batch %d", i)
		require.Equal(t, int64(i)*10, dup.firstOffset())
		require.Equal(t, int64(i)*10+9, dup.lastOffset)
		require.Equal(t, 1000+int64(i)*10, dup.timestamp)
	}
}

func TestADuplicateHasExactlyTheSequencesOfAStoredBatch(t *testing.T) {
	p := newProducerState()
	acceptAndTake(t, p, dataHeader(7, 0, 0, 0, 10))
	for _, h := range []*batch.Header{
		dataHeader(7, 0, 0, 99, 9), dataHeader(7, 0, 0, 99, 11), dataHeader(7, 0, 1, 99, 9), dataHeader(7, 0, 5, 99, 5),
	} {
		_, isDup, err := p.check(h, Client)
		require.False(t, isDup)
		require.ErrorIs(t, err, ErrOutOfOrderSequence)
	}
}

func TestOnlyAClientsBatchIsTakenForADuplicate(t *testing.T) {
	p := newProducerState()
	mustTake(t, p, dataHeader(7, 0, 0, 0, 10))
	for _, origin := range []Origin{Replication, Coordinator} {
		_, isDup, err := p.check(dataHeader(7, 0, 0, 0, 10), origin)
		require.NoError(t, err)
		require.False(t, isDup)
	}
	mustTake(t, p, dataHeader(8, 0, -1, 10, 2))
	_, isDup, _ := p.check(dataHeader(8, 0, -1, 10, 2), Client)
	require.False(t, isDup, "without a sequence nothing says that it is the same")
}

func TestAcceptanceOfADataBatch(t *testing.T) {
	for name, test := range map[string]struct {
		known    *batch.Header // the producer's last batch
		next     *batch.Header
		origin   Origin
		expected error
	}{
		"an unknown producer may begin anywhere": {nil, dataHeader(7, 3, 55, 10, 1), Client, nil},
		"the next sequence follows":              {dataHeader(7, 0, 0, 0, 10), dataHeader(7, 0, 10, 10, 1), Client, nil},
		"a gap":                                  {dataHeader(7, 0, 0, 0, 10), dataHeader(7, 0, 11, 10, 1), Client, ErrOutOfOrderSequence},
		"behind":                                 {dataHeader(7, 0, 20, 0, 10), dataHeader(7, 0, 5, 10, 1), Client, ErrOutOfOrderSequence},
		"the largest sequence is followed by 0":  {dataHeader(7, 0, maxSequence, 0, 1), dataHeader(7, 0, 0, 10, 1), Client, nil},
		"the largest sequence is not followed by 1": {dataHeader(7, 0, maxSequence, 0, 1), dataHeader(7, 0, 1, 10, 1), Client,
			ErrOutOfOrderSequence},
		"a batch across the largest sequence":     {dataHeader(7, 0, maxSequence-1, 0, 4), dataHeader(7, 0, 2, 10, 1), Client, nil},
		"a new epoch begins with 0":               {dataHeader(7, 0, 0, 0, 10), dataHeader(7, 1, 0, 10, 1), Client, nil},
		"a new epoch cannot begin elsewhere":      {dataHeader(7, 0, 0, 0, 10), dataHeader(7, 1, 10, 10, 1), Client, ErrOutOfOrderSequence},
		"an old epoch":                            {dataHeader(7, 5, 0, 0, 10), dataHeader(7, 4, 0, 10, 1), Client, ErrInvalidProducerEpoch},
		"an old epoch of a coordinator":           {dataHeader(7, 5, 0, 0, 10), dataHeader(7, 4, -1, 10, 1), Coordinator, ErrInvalidProducerEpoch},
		"an old epoch from the leader":            {dataHeader(7, 5, 0, 0, 10), dataHeader(7, 4, 0, 10, 1), Replication, nil},
		"a gap from the leader":                   {dataHeader(7, 0, 0, 0, 10), dataHeader(7, 0, 99, 10, 1), Replication, nil},
		"a coordinator has no sequences":          {dataHeader(7, 0, -1, 0, 1), dataHeader(7, 0, -1, 1, 1), Coordinator, nil},
		"after a batch without sequences comes 0": {dataHeader(7, 0, -1, 0, 1), dataHeader(7, 0, 0, 1, 1), Client, nil},
		"after a batch without sequences not 1":   {dataHeader(7, 0, -1, 0, 1), dataHeader(7, 0, 1, 1, 1), Client, ErrOutOfOrderSequence},
		"no sequence after one":                   {dataHeader(7, 0, 0, 0, 10), dataHeader(7, 0, -1, 10, 1), Client, ErrOutOfOrderSequence},
		"a plain batch in an open transaction":    {txnHeader(7, 0, 0, 0, 10), dataHeader(7, 0, 10, 10, 1), Client, ErrInvalidTransactionState},
		"the same, of a coordinator":              {txnHeader(7, 0, -1, 0, 10), dataHeader(7, 0, -1, 10, 1), Coordinator, ErrInvalidTransactionState},
		"another transactional batch":             {txnHeader(7, 0, 0, 0, 10), txnHeader(7, 0, 10, 10, 1), Client, nil},
		"a transaction after plain batches":       {dataHeader(7, 0, 0, 0, 10), txnHeader(7, 0, 10, 10, 1), Client, nil},
	} {
		p := newProducerState()
		if test.known != nil {
			mustTake(t, p, test.known)
		}
		before := p.clone()
		_, isDup, err := p.check(test.next, test.origin)
		require.False(t, isDup, name)
		if test.expected == nil {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, test.expected, name)
		requireSameState(t, before, p)
	}
}

func TestAfterAMarkerOfANewEpochTheProducerBeginsWithZero(t *testing.T) {
	p := newProducerState()
	mustTake(t, p, txnHeader(7, 0, 0, 0, 10))
	p.appendMarker(markerHeader(7, 1, 10), abortBy(0))
	_, _, err := p.check(txnHeader(7, 1, 10, 11, 1), Client)
	require.ErrorIs(t, err, ErrOutOfOrderSequence)
	_, _, err = p.check(txnHeader(7, 0, 10, 11, 1), Client)
	require.Equal(t, &ProducerEpochError{ProducerID: 7, ProducerEpoch: 0, CurrentEpoch: 1}, err)
	acceptAndTake(t, p, txnHeader(7, 1, 0, 11, 1))
}

func TestAMarkerOfTheSameEpochKeepsTheSequenceGoing(t *testing.T) {
	p := newProducerState()
	acceptAndTake(t, p, txnHeader(7, 0, 0, 0, 10))
	p.appendMarker(markerHeader(7, 0, 10), commitBy(4))
	_, isDup, _ := p.check(txnHeader(7, 0, 0, 99, 10), Client)
	require.True(t, isDup)
	acceptAndTake(t, p, txnHeader(7, 0, 10, 11, 1))
	epoch, coordinatorEpoch, open := p.markerState(7)
	require.EqualValues(t, 0, epoch)
	require.EqualValues(t, 4, coordinatorEpoch)
	require.True(t, open)
}

func TestAcceptanceOfAMarker(t *testing.T) {
	for name, test := range map[string]struct {
		open             bool
		epoch            int16 // the producer's last one is 5
		coordinatorEpoch int32 // the last one is 2
		bumped           bool
		expected         error
	}{
		"the same epochs":                         {true, 5, 2, false, nil},
		"newer epochs":                            {true, 6, 3, false, nil},
		"an older producer epoch":                 {true, 4, 2, false, ErrInvalidProducerEpoch},
		"an older coordinator":                    {true, 5, 1, false, ErrCoordinatorFenced},
		"nothing open":                            {false, 5, 2, false, nil},
		"raised: the next epoch":                  {true, 6, 2, true, nil},
		"raised: the same epoch":                  {true, 5, 2, true, ErrInvalidProducerEpoch},
		"raised: the same epoch, nothing open":    {false, 5, 2, true, nil},
		"raised: an older epoch, nothing open":    {false, 4, 2, true, ErrInvalidProducerEpoch},
		"raised: the next epoch, an older one":    {true, 6, 1, true, ErrCoordinatorFenced},
		"raised: both old: the producer is first": {true, 4, 1, true, ErrInvalidProducerEpoch},
	} {
		p := newProducerState()
		mustTake(t, p, txnHeader(7, 5, 0, 0, 1))
		p.appendMarker(markerHeader(7, 5, 1), commitBy(2))
		if test.open {
			mustTake(t, p, txnHeader(7, 5, 1, 2, 1))
		}
		err := p.checkMarker(markerHeader(7, test.epoch, 3), abortBy(test.coordinatorEpoch), test.bumped)
		if test.expected == nil {
			require.NoError(t, err, name)
		} else {
			require.ErrorIs(t, err, test.expected, name)
		}
	}
	require.NoError(t, newProducerState().checkMarker(markerHeader(7, 0, 3), abortBy(0), true), "an unknown producer")
}

func TestAnOpenTransactionHoldsTheLastStableOffset(t *testing.T) {
	p := newProducerState()
	require.EqualValues(t, 50, p.lastStable(50, 0))
	mustTake(t, p, txnHeader(7, 0, 0, 10, 5))
	mustTake(t, p, txnHeader(8, 0, 0, 15, 5))
	mustTake(t, p, txnHeader(7, 0, 5, 20, 5))
	require.EqualValues(t, 10, p.lastStable(25, 0))
	require.EqualValues(t, 7, p.lastStable(7, 0), "never above the high watermark")
	require.EqualValues(t, 12, p.lastStable(25, 12), "never below the log start")
	start, open := p.transactionStart(8)
	require.True(t, open)
	require.EqualValues(t, 15, start)

	done, closed, _ := p.appendMarker(markerHeader(7, 0, 25), abortBy(1))
	require.True(t, closed)
	require.Equal(t, completedTxn{AbortedTxn{7, 10, 25, 15}, true}, done, "producer 8 is open since 15")
	_, open = p.transactionStart(7)
	require.False(t, open)

	require.EqualValues(t, 10, p.lastStable(25, 0), "the marker itself may still be cut off")
	require.EqualValues(t, 15, p.lastStable(26, 0))

	done, closed, _ = p.appendMarker(markerHeader(8, 0, 26), commitBy(1))
	require.True(t, closed)
	require.Equal(t, completedTxn{AbortedTxn{8, 15, 26, 27}, false}, done)
	first, unstable := p.firstUnstable(0)
	require.True(t, unstable)
	require.EqualValues(t, 15, first)
	require.EqualValues(t, 27, p.lastStable(27, 0))
	_, unstable = p.firstUnstable(0)
	require.False(t, unstable)
}

func TestAMarkerWithNothingOpenChangesTheEntryAlone(t *testing.T) {
	p := newProducerState()
	_, closed, _ := p.appendMarker(markerHeader(7, 3, 10), abortBy(4))
	require.False(t, closed)
	require.Equal(t, []ProducerSnapshotEntry{{
		ProducerID: 7, ProducerEpoch: 3, LastSequence: -1, LastOffset: -1, Timestamp: 1010, CoordinatorEpoch: 4, TxnFirstOffset: -1,
	}}, p.snapshotEntries())
	_, unstable := p.firstUnstable(0)
	require.False(t, unstable)
}

func TestAControlRecordThatEndsNothingChangesNothing(t *testing.T) {
	p := newProducerState()
	mustTake(t, p, txnHeader(7, 0, 0, 0, 1))
	before := p.clone()
	_, closed, _ := p.appendMarker(markerHeader(7, 9, 1), batch.ControlRecord{Type: 2, CoordinatorEpoch: -1})
	require.False(t, closed)
	requireSameState(t, before, p)
}

func TestF54_AnIdleProducerIsForgottenAndItsNextSequenceAccepted(t *testing.T) {
	p := newProducerState()
	acceptAndTake(t, p, dataHeader(7, 0, 0, 0, 10)) // at 1000 ms
	p.expire(1000+29999, 30000)
	_, _, err := p.check(dataHeader(7, 0, 55, 10, 1), Client)
	require.ErrorIs(t, err, ErrOutOfOrderSequence, "not idle for long enough")

	p.expire(1000+30000, 30000)
	require.Empty(t, p.recovered())
	acceptAndTake(t, p, dataHeader(7, 0, 10, 10, 1))
}

func TestF54_AnOpenTransactionIsNeverForgottenAndAMarkerCountsAsActivity(t *testing.T) {
	p := newProducerState()
	mustTake(t, p, txnHeader(7, 0, 0, 0, 10)) // at 1000 ms
	p.expire(math.MaxInt64, 30000)
	require.Len(t, p.recovered(), 1)
	p.appendMarker(markerHeader(7, 0, 20000), commitBy(0)) // at 21000 ms
	p.expire(1000+30000, 30000)
	require.Len(t, p.recovered(), 1)
	p.expire(21000+30000, 30000)
	require.Empty(t, p.recovered())
}

func TestReplayTakesDataAndMarkersAndSkipsWhatCompactionEmptied(t *testing.T) {
	p := newProducerState()
	data := newTestBatch(t, txnHeader(7, 0, 3, 10, 2))
	_, closed, err := p.replay(data)
	require.NoError(t, err)
	require.False(t, closed)
	require.EqualValues(t, 12, p.mapEnd)

	marker := batch.EndMarker(batch.EndMarkerOptions{BaseOffset: 12, ProducerID: 7, CoordinatorEpoch: 5, Timestamp: 77})
	emptied := slices.Clone(marker)
	header := marker.Header()
	header.Count = 0
	header.Put(emptied)
	before := p.clone()
	_, closed, err = p.replay(emptied)
	require.NoError(t, err)
	require.False(t, closed)
	before.mapEnd = 13
	requireSameState(t, before, p)

	done, closed, err := p.replay(marker)
	require.NoError(t, err)
	require.True(t, closed)
	require.Equal(t, completedTxn{AbortedTxn{7, 10, 12, 13}, true}, done)
	require.Equal(t, []ProducerSnapshotEntry{{
		ProducerID: 7, LastSequence: 4, LastOffset: 11, OffsetDelta: 1, Timestamp: 77, CoordinatorEpoch: 5, TxnFirstOffset: -1,
	}}, p.snapshotEntries())
}

func TestReplayRefusesAControlRecordThatDoesNotDecode(t *testing.T) {
	header := markerHeader(7, 0, 12)
	broken := newTestBatch(t, header) // its record has no key
	_, _, err := newProducerState().replay(broken)
	var wrong *BatchError
	require.ErrorAs(t, err, &wrong)
	require.EqualValues(t, 12, wrong.Offset)
	var size *batch.ControlSizeError
	require.ErrorAs(t, err, &size)
}

// newTestBatch builds a batch with records without key and value for a header.
func newTestBatch(t testing.TB, h *batch.Header) batch.Batch {
	t.Helper()
	builder := batch.NewBuilder(batch.BuilderOptions{
		BaseOffset: h.BaseOffset, HasProducer: h.HasProducer(), ProducerID: h.ProducerID, ProducerEpoch: h.ProducerEpoch,
		BaseSequence: h.BaseSequence, Transactional: h.IsTransactional(), Control: h.IsControl(),
	})
	for range h.Count {
		builder.Add(h.MaxTimestamp, nil, nil)
	}
	built, err := builder.Build()
	require.NoError(t, err)
	return built
}

func TestF10_UndoBringsBackEveryState(t *testing.T) {
	states := map[string]func(p *producerState){
		"nothing known": func(*producerState) {},
		"one batch":     func(p *producerState) { mustTake(t, p, dataHeader(7, 0, 0, 0, 1)) },
		"a full window": func(p *producerState) {
			for i := range int32(6) {
				mustTake(t, p, dataHeader(7, 0, i, int64(i), 1))
			}
		},
		"an open transaction": func(p *producerState) {
			mustTake(t, p, txnHeader(8, 0, 0, 0, 1))
			mustTake(t, p, txnHeader(7, 0, 0, 1, 1))
			mustTake(t, p, txnHeader(9, 0, 0, 2, 1))
		},
		"a transaction that was ended": func(p *producerState) {
			mustTake(t, p, txnHeader(7, 0, 0, 0, 1))
			p.appendMarker(markerHeader(7, 0, 1), abortBy(2))
		},
	}
	changes := map[string]func(p *producerState) producerUndo{
		"a plain batch":          func(p *producerState) producerUndo { undo, _ := p.append(dataHeader(7, 0, 9, 100, 1)); return undo },
		"a batch of a new epoch": func(p *producerState) producerUndo { undo, _ := p.append(txnHeader(7, 1, 0, 100, 1)); return undo },
		"a transactional batch":  func(p *producerState) producerUndo { undo, _ := p.append(txnHeader(7, 0, 9, 100, 1)); return undo },
		"a marker": func(p *producerState) producerUndo {
			_, _, undo := p.appendMarker(markerHeader(7, 0, 100), abortBy(3))
			return undo
		},
		"a marker of a new epoch": func(p *producerState) producerUndo {
			_, _, undo := p.appendMarker(markerHeader(7, 1, 100), commitBy(3))
			return undo
		},
		"a marker without a transaction": func(p *producerState) producerUndo {
			_, _, undo := p.appendMarker(markerHeader(6, 1, 100), commitBy(3))
			return undo
		},
	}
	for state, prepare := range states {
		for change, apply := range changes {
			p := newProducerState()
			prepare(p)
			before := p.clone()
			p.undo(apply(p))
			require.Equal(t, before.recovered(), p.recovered(), "%s after %s", change, state)
			requireSameState(t, before, p)
		}
	}
}

func TestAppendingForAKnownProducerDoesNotAllocate(t *testing.T) {
	p := newProducerState()
	mustTake(t, p, dataHeader(7, 0, 0, 0, 1))
	h := dataHeader(7, 0, 1, 1, 1)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _, err := p.check(h, Client)
		if err != nil {
			t.Error(err)
		}
		undo, err := p.append(h)
		if err != nil {
			t.Error(err)
		}
		p.undo(undo)
	}))
}

func TestAClonedStateSharesNothing(t *testing.T) {
	p := newProducerState()
	mustTake(t, p, txnHeader(7, 0, 0, 0, 1))
	c := p.clone()
	before := p.clone()
	c.appendMarker(markerHeader(7, 0, 1), abortBy(0))
	mustTake(t, c, txnHeader(8, 0, 0, 2, 1))
	c.release(100)
	requireSameState(t, before, p)
}

func TestCaptureIsDueOnceForAnOffset(t *testing.T) {
	p := newProducerState()
	p.reset(10)
	_, _, due := p.capture()
	require.False(t, due)
	mustTake(t, p, dataHeader(7, 0, 0, 10, 5))
	p.setEnd(15)
	offset, data, due := p.capture()
	require.True(t, due)
	require.EqualValues(t, 15, offset)
	entries, err := decodeSnapshot("x", data)
	require.NoError(t, err)
	require.Equal(t, p.snapshotEntries(), entries)
	_, _, due = p.capture()
	require.False(t, due)
}

func TestARaisedLogStartReleasesWhatEndedBelowIt(t *testing.T) {
	p := newProducerState()
	mustTake(t, p, txnHeader(7, 0, 0, 0, 1))
	p.appendMarker(markerHeader(7, 0, 1), abortBy(0))
	mustTake(t, p, txnHeader(7, 0, 1, 2, 1))
	p.setEnd(3)
	p.raiseStart(1, 0, false)
	first, _ := p.firstUnstable(1)
	require.EqualValues(t, 1, first, "the marker at 1 is still in the log")
	p.raiseStart(3, 0, false)
	first, unstable := p.firstUnstable(3)
	require.True(t, unstable, "an open transaction stays open")
	require.EqualValues(t, 3, first)
	require.EqualValues(t, 3, p.lastSnap)
	p.raiseStart(5, 2, true)
	require.EqualValues(t, 5, p.mapEnd)
	require.EqualValues(t, 2, p.lastSnap)
}

// naiveProducer keeps every batch of its epoch and looks at the newest five.
type naiveProducer struct {
	epoch   int16
	batches []*batch.Header
	open    int64 // -1 none
}

func (n *naiveProducer) window() []*batch.Header { return n.batches[max(0, len(n.batches)-5):] }

// verdict is the acceptance rules in the order in which they are written down.
func (n *naiveProducer) verdict(h *batch.Header) (dup *batch.Header, class error) {
	if h.ProducerEpoch == n.epoch {
		for _, b := range n.window() {
			if b.BaseSequence == h.BaseSequence && b.Count == h.Count {
				return b, nil
			}
		}
	}
	if h.ProducerEpoch < n.epoch {
		return nil, ErrInvalidProducerEpoch
	}
	want := int64(0)
	if h.ProducerEpoch == n.epoch && len(n.batches) > 0 {
		last := n.batches[len(n.batches)-1]
		want = (int64(last.BaseSequence) + int64(last.Count)) % (maxSequence + 1)
	}
	if int64(h.BaseSequence) != want {
		return nil, ErrOutOfOrderSequence
	}
	if n.open >= 0 && !h.IsTransactional() {
		return nil, ErrInvalidTransactionState
	}
	return nil, nil
}

func (n *naiveProducer) take(h *batch.Header) {
	if h.ProducerEpoch != n.epoch {
		n.epoch, n.batches = h.ProducerEpoch, nil
	}
	n.batches = append(n.batches, h)
	if n.open < 0 && h.IsTransactional() {
		n.open = h.BaseOffset
	}
}

func TestTheProducerWindowAgreesWithANaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newProducerState()
		naive := map[int64]*naiveProducer{}
		end := int64(0)
		draw := func(t *rapid.T) *batch.Header {
			pid := rapid.Int64Range(1, 3).Draw(t, "producer")
			count := rapid.Int32Range(1, 5).Draw(t, "records")
			n := naive[pid]
			if n == nil {
				sequence := rapid.SampledFrom([]int32{0, 17, maxSequence - 6, maxSequence}).Draw(t, "first sequence")
				return dataHeader(pid, int16(rapid.IntRange(0, 2).Draw(t, "epoch")), sequence, end, count)
			}
			h := dataHeader(pid, n.epoch, 0, end, count)
			if len(n.batches) > 0 {
				last := n.batches[len(n.batches)-1]
				h.BaseSequence = batch.IncrementSequence(last.BaseSequence, last.Count)
			}
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0: // sent again
				if len(n.batches) > 0 {
					again := rapid.SampledFrom(n.batches[max(0, len(n.batches)-8):]).Draw(t, "again")
					h.BaseSequence, h.Count, h.LastOffsetDelta = again.BaseSequence, again.Count, again.LastOffsetDelta
				}
			case 1:
				h.BaseSequence = batch.IncrementSequence(h.BaseSequence, rapid.Int32Range(1, 3).Draw(t, "gap"))
			case 2:
				h.ProducerEpoch += int16(rapid.IntRange(-1, 1).Draw(t, "epoch"))
			case 3:
				h.ProducerEpoch, h.BaseSequence = h.ProducerEpoch+1, 0
			}
			if rapid.IntRange(0, 3).Draw(t, "transactional") == 0 || n.open >= 0 && rapid.IntRange(0, 5).Draw(t, "stay") > 0 {
				h.Attributes |= transactional
			}
			return h
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				h := draw(t)
				if h.ProducerEpoch < 0 {
					return
				}
				n := naive[h.ProducerID]
				var wantDup *batch.Header
				var class error
				if n != nil {
					wantDup, class = n.verdict(h)
				}
				before := p.clone()
				dup, isDup, err := p.check(h, Client)
				require.Equal(t, wantDup != nil, isDup, "%+v", h)
				if isDup {
					require.Equal(t, wantDup.BaseOffset, dup.firstOffset())
					require.Equal(t, wantDup.LastOffset(), dup.lastOffset)
					require.NoError(t, err)
					return
				}
				if class != nil {
					require.ErrorIs(t, err, class)
					requireSameState(t, before, p)
					return
				}
				require.NoError(t, err)
				undo := mustTake(t, p, h)
				if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
					p.undo(undo)
					requireSameState(t, before, p)
					return
				}
				if n == nil {
					n = &naiveProducer{epoch: h.ProducerEpoch, open: -1}
					naive[h.ProducerID] = n
				}
				n.take(h)
				end += int64(h.Count)
			},
			"marker": func(t *rapid.T) {
				pid := rapid.Int64Range(1, 3).Draw(t, "producer")
				n := naive[pid]
				if n == nil {
					return
				}
				epoch := n.epoch + int16(rapid.IntRange(0, 1).Draw(t, "raise"))
				done, closed, undo := p.appendMarker(markerHeader(pid, epoch, end), abortBy(1))
				require.Equal(t, n.open >= 0, closed)
				if closed {
					stable := end + 1
					for id, other := range naive {
						if id != pid && other.open >= 0 {
							stable = min(stable, other.open)
						}
					}
					require.Equal(t, completedTxn{AbortedTxn{pid, n.open, end, stable}, true}, done)
				}
				if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
					p.undo(undo)
					return
				}
				if epoch != n.epoch {
					n.epoch, n.batches = epoch, nil
				}
				n.open = -1
				end++
				p.release(end)
			},
			"": func(t *rapid.T) {
				stable := end
				for id, n := range naive {
					e, found := p.entry(id)
					require.True(t, found)
					require.Equal(t, n.epoch, e.ProducerEpoch)
					require.Equal(t, n.open, e.TxnFirstOffset)
					if n.open >= 0 {
						stable = min(stable, n.open)
					}
					if window := n.window(); len(window) > 0 {
						require.Equal(t, window[len(window)-1].LastOffset(), e.LastOffset)
						require.Equal(t, window[len(window)-1].LastSequence(), e.LastSequence)
					} else {
						require.EqualValues(t, -1, e.LastOffset)
					}
				}
				require.Equal(t, stable, p.lastStable(end, 0))
			},
		})
	})
}
