package kafkalog

import (
	"github.com/tidemark-io/tidemark/batch"
)

// ProducerSnapshotEntry is the entry of one producer in a producer state snapshot.
type ProducerSnapshotEntry struct {
	ProducerID       int64
	ProducerEpoch    int16
	LastSequence     int32 // of the last batch; -1 without one, and for one without sequences
	LastOffset       int64 // of the last batch; -1 without one
	OffsetDelta      int32 // last offset - first offset of that batch
	Timestamp        int64 // of the last batch or marker, ms
	CoordinatorEpoch int32 // of the last marker; -1 without one
	TxnFirstOffset   int64 // of the open transaction; -1 without one
}

// ActiveProducer describes a producer for which the log holds state, as in Kafka's DescribeProducers.
type ActiveProducer struct {
	ProducerID       int64
	ProducerEpoch    int16
	LastSequence     int32 // -1 if unknown
	LastTimestamp    int64 // of the last batch or marker, ms; -1 if unknown
	CoordinatorEpoch int32 // of the last marker; -1 if there was none
	TxnStartOffset   int64 // of the open transaction; -1 without one
}

// RetainedBatch is a batch that the log remembers in order to recognise a retry.
type RetainedBatch struct {
	FirstSequence int32 // -1 for a batch without sequences
	LastSequence  int32
	FirstOffset   int64
	LastOffset    int64
	Timestamp     int64 // ms
}

// RecoveredProducer is the state of a producer, with the batches remembered in addition to the last one, oldest first.
type RecoveredProducer struct {
	ProducerSnapshotEntry
	Earlier []RetainedBatch
}

// maxRetainedBatches is how many batches of a producer are remembered: as many as a client may have in flight.
const maxRetainedBatches = 5

// retainedBatch is [RetainedBatch] as the state holds it.
type retainedBatch struct {
	lastSequence int32
	offsetDelta  int32
	lastOffset   int64
	timestamp    int64
}

// retained returns what is remembered of a batch.
func retained(h *batch.Header) retainedBatch {
	return retainedBatch{
		lastSequence: h.LastSequence(), offsetDelta: h.LastOffsetDelta,
		lastOffset: h.LastOffset(), timestamp: h.MaxTimestamp,
	}
}

func (b retainedBatch) firstOffset() int64 { return b.lastOffset - int64(b.offsetDelta) }

func (b retainedBatch) firstSequence() int32 {
	if b.lastSequence < 0 {
		return -1
	}
	return batch.DecrementSequence(b.lastSequence, b.offsetDelta)
}

func (b retainedBatch) export() RetainedBatch {
	return RetainedBatch{
		FirstSequence: b.firstSequence(), LastSequence: b.lastSequence,
		FirstOffset: b.firstOffset(), LastOffset: b.lastOffset, Timestamp: b.timestamp,
	}
}

// producerEntry is the state of one producer.
type producerEntry struct {
	epoch            int16
	retained         int8  // how many batches
	coordinatorEpoch int32 // -1 none
	lastTimestamp    int64 // ms
	txnFirst         int64 // first offset of the open transaction, -1 none
	batches          [maxRetainedBatches]retainedBatch
}

func newProducerEntry() *producerEntry {
	return &producerEntry{epoch: -1, coordinatorEpoch: -1, lastTimestamp: -1, txnFirst: -1}
}

// window returns the remembered batches, oldest first.
func (e *producerEntry) window() []retainedBatch { return e.batches[:e.retained] }

// newest returns the last remembered batch, or one that says nothing.
func (e *producerEntry) newest() retainedBatch {
	if e.retained == 0 {
		return retainedBatch{lastSequence: -1, lastOffset: -1}
	}
	return e.batches[e.retained-1]
}

// enter moves the producer to an epoch. The batches of another epoch are forgotten.
func (e *producerEntry) enter(epoch int16) {
	if e.epoch != epoch {
		e.epoch = epoch
		e.retained = 0
	}
}

// remember adds the newest batch of the producer's epoch. A batch whose sequence does not follow was accepted only
// because the log had forgotten the producer, through expiry or a truncation: the producer started over, and its earlier
// batches are not first copies of what it sends from now on. So a log that reads its records again remembers what it did
// when they were appended, or less.
func (e *producerEntry) remember(b retainedBatch) {
	if e.retained > 0 && b.lastSequence >= 0 && !batch.SequenceFollows(e.newest().lastSequence, b.firstSequence()) {
		e.retained = 0
	}
	if e.retained == maxRetainedBatches {
		copy(e.batches[:], e.batches[1:])
		e.retained--
	}
	e.batches[e.retained] = b
	e.retained++
}

// find returns the remembered batch that has the epoch and exactly the sequences of h.
func (e *producerEntry) find(h *batch.Header) (retainedBatch, bool) {
	if h.ProducerEpoch != e.epoch || h.BaseSequence < 0 {
		return retainedBatch{}, false
	}
	last := h.LastSequence()
	for _, b := range e.window() {
		if b.lastSequence == last && b.firstSequence() == h.BaseSequence {
			return b, true
		}
	}
	return retainedBatch{}, false
}

// continuedBy reports whether the sequence of h is the producer's next one. A new epoch begins with 0.
func (e *producerEntry) continuedBy(h *batch.Header) bool {
	if e.epoch < 0 {
		return true
	}
	if h.ProducerEpoch != e.epoch {
		return h.BaseSequence == 0
	}
	return batch.SequenceFollows(e.newest().lastSequence, h.BaseSequence)
}

// admits refuses a batch without a transaction while the producer has one open.
func (e *producerEntry) admits(h *batch.Header) error {
	if e.txnFirst >= 0 && !h.IsTransactional() {
		return &TransactionStateError{ProducerID: h.ProducerID, FirstOffset: e.txnFirst}
	}
	return nil
}

func (e *producerEntry) snapshot(id int64) ProducerSnapshotEntry {
	newest := e.newest()
	return ProducerSnapshotEntry{
		ProducerID: id, ProducerEpoch: e.epoch, LastSequence: newest.lastSequence, LastOffset: newest.lastOffset,
		OffsetDelta: newest.offsetDelta, Timestamp: e.lastTimestamp, CoordinatorEpoch: e.coordinatorEpoch,
		TxnFirstOffset: e.txnFirst,
	}
}
