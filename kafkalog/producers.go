package kafkalog

import (
	"cmp"
	"maps"
	"slices"
	"sort"

	"github.com/tidemark-io/tidemark/batch"
)

// Origin says who wrote an appended batch, and thereby what is checked.
type Origin int8

const (
	// Client is a producer. Epoch and sequence must be valid, and a batch that is already stored is recognised.
	Client Origin = 0
	// Replication is the partition's leader, which has checked everything. Nothing is refused.
	Replication Origin = 1
	// Coordinator is a group or transaction coordinator. The epoch must be valid; there are no sequences.
	Coordinator Origin = 2
)

// openTxn is a transaction without a marker.
type openTxn struct {
	first      int64 // offset
	producerID int64
}

// completedTxn is a transaction that a marker has just ended.
type completedTxn struct {
	AbortedTxn
	aborted bool
}

// heldTxn is a transaction with a marker that the high watermark has not passed.
type heldTxn struct {
	first  int64 // offset
	marker int64 // offset
}

// producerState is a log's state of its producers and their transactions. It is in memory only: the caller guards it with
// a lock and replays batches into it; the file of a snapshot is made from capture.
//
// Client, replicated and recovered batches change it in the same way, so that a leader, its followers and a log that
// was reopened agree at the same log end.
type producerState struct {
	producers map[int64]*producerEntry
	ongoing   []openTxn // by rising first offset
	held      []heldTxn // by rising first offset

	mapEnd   int64 // the state is complete for the offsets below it
	lastSnap int64 // offset of the newest snapshot that was captured or loaded

	// widened says that the batches before the remembered ones were looked for in the log, see widen.go.
	widened bool
}

func newProducerState() *producerState {
	return &producerState{producers: make(map[int64]*producerEntry)}
}

// check decides whether a data batch may be appended, before anything is. isDup says that the batch is stored already,
// as dup; nothing is appended then. Errors are [*ProducerEpochError], [*OutOfOrderSequenceError] and
// [*TransactionStateError].
func (p *producerState) check(h *batch.Header, origin Origin) (dup retainedBatch, isDup bool, err error) {
	e := p.producers[h.ProducerID]
	if !h.HasProducer() || e == nil {
		return retainedBatch{}, false, nil
	}
	if origin == Client {
		if dup, isDup = e.find(h); isDup {
			return dup, true, nil
		}
	}
	if origin != Replication && h.ProducerEpoch < e.epoch {
		return retainedBatch{}, false, &ProducerEpochError{
			ProducerID: h.ProducerID, ProducerEpoch: h.ProducerEpoch, CurrentEpoch: e.epoch,
		}
	}
	if origin == Client && !e.continuedBy(h) {
		return retainedBatch{}, false, &OutOfOrderSequenceError{
			ProducerID: h.ProducerID, ProducerEpoch: h.ProducerEpoch, FirstSequence: h.BaseSequence,
			CurrentEpoch: e.epoch, LastSequence: e.newest().lastSequence,
		}
	}
	return retainedBatch{}, false, e.admits(h)
}

// checkMarker decides whether a transaction's end marker may be appended by a coordinator. bumped says that the
// coordinator raises the producer's epoch with every marker, as from transaction version 2 on. Errors are
// [*ProducerEpochError] and [*CoordinatorEpochError].
func (p *producerState) checkMarker(h *batch.Header, c batch.ControlRecord, bumped bool) error {
	e := p.producers[h.ProducerID]
	if e == nil {
		return nil
	}
	again := h.ProducerEpoch == e.epoch && e.txnFirst < 0 // a marker that is written again
	if h.ProducerEpoch < e.epoch || bumped && h.ProducerEpoch == e.epoch && !again {
		return &ProducerEpochError{ProducerID: h.ProducerID, ProducerEpoch: h.ProducerEpoch, CurrentEpoch: e.epoch}
	}
	if c.CoordinatorEpoch < e.coordinatorEpoch {
		return &CoordinatorEpochError{
			ProducerID: h.ProducerID, CoordinatorEpoch: c.CoordinatorEpoch, CurrentEpoch: e.coordinatorEpoch,
		}
	}
	return nil
}

// producerUndo is what append and appendMarker changed. The zero value is nothing.
type producerUndo struct {
	changed    bool
	existed    bool
	began      bool // the batch opened a transaction
	closed     bool // the marker ended one
	producerID int64
	before     producerEntry
}

// append accounts for a data batch that was written. It fails, and changes nothing, with a [*TransactionStateError]; it
// checks nothing else.
func (p *producerState) append(h *batch.Header) (producerUndo, error) {
	if !h.HasProducer() {
		return producerUndo{}, nil
	}
	if e := p.producers[h.ProducerID]; e != nil {
		if err := e.admits(h); err != nil {
			return producerUndo{}, err
		}
	}
	e, undo := p.edit(h.ProducerID)
	e.enter(h.ProducerEpoch)
	e.remember(retained(h))
	e.lastTimestamp = h.MaxTimestamp
	if h.IsTransactional() && e.txnFirst < 0 {
		e.txnFirst = h.BaseOffset
		undo.began = true
		p.begin(openTxn{first: h.BaseOffset, producerID: h.ProducerID})
	}
	return undo, nil
}

// appendMarker accounts for a control batch with a record that was written. closed says that it ended a transaction,
// which is then done. Records other than end markers change nothing.
func (p *producerState) appendMarker(h *batch.Header, c batch.ControlRecord) (done completedTxn, closed bool, undo producerUndo) {
	if !h.HasProducer() || !c.EndsTransaction() {
		return completedTxn{}, false, producerUndo{}
	}
	e, undo := p.edit(h.ProducerID)
	e.enter(h.ProducerEpoch)
	e.coordinatorEpoch = c.CoordinatorEpoch
	e.lastTimestamp = h.MaxTimestamp
	if e.txnFirst < 0 {
		return completedTxn{}, false, undo
	}
	undo.closed = true
	done = completedTxn{
		AbortedTxn: AbortedTxn{
			ProducerID: h.ProducerID, FirstOffset: e.txnFirst, LastOffset: h.BaseOffset,
			LastStableOffset: p.stableAfter(h.ProducerID, h.BaseOffset),
		},
		aborted: c.Type == batch.Abort,
	}
	p.end(e.txnFirst)
	p.hold(heldTxn{first: e.txnFirst, marker: h.BaseOffset})
	e.txnFirst = -1
	return done, true, undo
}

// undo takes back the last append or appendMarker, whose batch is not in the log after all.
func (p *producerState) undo(u producerUndo) {
	if !u.changed {
		return
	}
	p.widened = false // u.before may be from before
	e := p.producers[u.producerID]
	if u.began {
		p.end(e.txnFirst)
	}
	if u.closed {
		p.unhold(u.before.txnFirst)
		p.begin(openTxn{first: u.before.txnFirst, producerID: u.producerID})
	}
	if !u.existed {
		delete(p.producers, u.producerID)
		return
	}
	*e = u.before
}

// edit returns the producer's entry, creating it if there is none, and what undoes the change.
func (p *producerState) edit(id int64) (*producerEntry, producerUndo) {
	e := p.producers[id]
	if e == nil {
		e = newProducerEntry()
		p.producers[id] = e
		return e, producerUndo{changed: true, producerID: id}
	}
	return e, producerUndo{changed: true, existed: true, producerID: id, before: *e}
}

// replay accounts for a batch of the log that this process did not append, or not since the log was opened. A control
// batch that cannot be decoded is a [*BatchError]; a data batch may be refused as in append.
func (p *producerState) replay(b batch.Batch) (done completedTxn, closed bool, err error) {
	h := b.Header()
	switch {
	case !h.HasProducer():
	case h.IsControl():
		c, found, err := b.Control()
		if err != nil {
			return completedTxn{}, false, &BatchError{Offset: h.BaseOffset, Err: err}
		}
		if found {
			done, closed, _ = p.appendMarker(&h, c)
		}
	default:
		if _, err := p.append(&h); err != nil {
			return completedTxn{}, false, err
		}
	}
	p.mapEnd = h.NextOffset()
	return done, closed, nil
}

// begin adds an open transaction.
func (p *producerState) begin(t openTxn) {
	i := sort.Search(len(p.ongoing), func(i int) bool { return p.ongoing[i].first >= t.first })
	p.ongoing = slices.Insert(p.ongoing, i, t)
}

// end removes the open transaction with the given first offset.
func (p *producerState) end(first int64) {
	i := sort.Search(len(p.ongoing), func(i int) bool { return p.ongoing[i].first >= first })
	p.ongoing = slices.Delete(p.ongoing, i, i+1)
}

// hold adds a transaction whose marker the high watermark has not passed.
func (p *producerState) hold(t heldTxn) {
	i := sort.Search(len(p.held), func(i int) bool { return p.held[i].first >= t.first })
	p.held = slices.Insert(p.held, i, t)
}

// unhold removes the transaction with the given first offset, unless it was released.
func (p *producerState) unhold(first int64) {
	p.held = slices.DeleteFunc(p.held, func(t heldTxn) bool { return t.first == first })
}

// stableAfter returns the last stable offset behind a marker: the first offset of the earliest transaction of another
// producer, or the offset after the marker.
func (p *producerState) stableAfter(producerID, marker int64) int64 {
	for _, t := range p.ongoing {
		if t.producerID != producerID {
			return t.first
		}
	}
	return marker + 1
}

// firstUnstable returns the first offset of the earliest transaction that is open or whose marker the high watermark
// has not passed, but no offset below the log start. It is false when there is none.
func (p *producerState) firstUnstable(logStart int64) (int64, bool) {
	switch {
	case len(p.ongoing) == 0 && len(p.held) == 0:
		return 0, false
	case len(p.ongoing) == 0:
		return max(p.held[0].first, logStart), true
	case len(p.held) == 0:
		return max(p.ongoing[0].first, logStart), true
	}
	return max(min(p.ongoing[0].first, p.held[0].first), logStart), true
}

// lastStable returns the offset up to which committed records may be read, and drops what the high watermark has passed.
func (p *producerState) lastStable(highWatermark, logStart int64) int64 {
	p.release(highWatermark)
	if first, found := p.firstUnstable(logStart); found {
		return min(first, highWatermark)
	}
	return highWatermark
}

// release forgets the transactions whose marker lies below the high watermark: no change of leader can take it away.
func (p *producerState) release(highWatermark int64) {
	if len(p.held) > 0 {
		p.held = slices.DeleteFunc(p.held, func(t heldTxn) bool { return t.marker < highWatermark })
	}
}

// raiseStart says that the log start rose. newest is the offset of the newest snapshot file, if one was found.
func (p *producerState) raiseStart(start, newest int64, found bool) {
	p.release(start)
	p.mapEnd = max(p.mapEnd, start)
	p.lastSnap = start
	if found {
		p.lastSnap = newest
	}
}

// setEnd says that the state is complete for the offsets below end.
func (p *producerState) setEnd(end int64) { p.mapEnd = end }

// reset forgets everything. The log is empty from the offset on.
func (p *producerState) reset(offset int64) {
	p.clear()
	p.mapEnd, p.lastSnap = offset, offset
}

func (p *producerState) clear() {
	clear(p.producers)
	p.ongoing, p.held = nil, nil
	p.widened = false
}

// expire forgets the producers without an open transaction whose last batch or marker is at least expirationMs older
// than nowMs.
func (p *producerState) expire(nowMs, expirationMs int64) {
	maps.DeleteFunc(p.producers, func(_ int64, e *producerEntry) bool {
		return e.txnFirst < 0 && nowMs-e.lastTimestamp >= expirationMs
	})
}

// load adds the producers of a snapshot, except for those that have expired.
func (p *producerState) load(entries []ProducerSnapshotEntry, nowMs, expirationMs int64) {
	for _, s := range entries {
		if s.TxnFirstOffset < 0 && nowMs-s.Timestamp >= expirationMs {
			continue
		}
		e := &producerEntry{
			epoch: s.ProducerEpoch, coordinatorEpoch: s.CoordinatorEpoch, lastTimestamp: s.Timestamp, txnFirst: -1,
		}
		if s.LastOffset >= 0 {
			e.remember(retainedBatch{
				lastSequence: s.LastSequence, offsetDelta: s.OffsetDelta, lastOffset: s.LastOffset, timestamp: s.Timestamp,
			})
		}
		if s.TxnFirstOffset >= 0 {
			e.txnFirst = s.TxnFirstOffset
			p.begin(openTxn{first: s.TxnFirstOffset, producerID: s.ProducerID})
		}
		p.producers[s.ProducerID] = e
	}
}

// capture returns the bytes of a snapshot at mapEnd and the offset for its name, and counts it as taken. It is false
// when there is nothing new since the last one.
func (p *producerState) capture() (offset int64, data []byte, due bool) {
	if p.mapEnd <= p.lastSnap {
		return 0, nil, false
	}
	p.lastSnap = p.mapEnd
	return p.mapEnd, encodeSnapshot(p.snapshotEntries()), true
}

// ids returns the producers in rising order.
func (p *producerState) ids() []int64 { return slices.Sorted(maps.Keys(p.producers)) }

// snapshotEntries returns the entries of a snapshot of the state, in the order of producer ids.
func (p *producerState) snapshotEntries() []ProducerSnapshotEntry {
	entries := make([]ProducerSnapshotEntry, 0, len(p.producers))
	for id, e := range p.producers {
		entries = append(entries, e.snapshot(id))
	}
	slices.SortFunc(entries, func(a, b ProducerSnapshotEntry) int { return cmp.Compare(a.ProducerID, b.ProducerID) })
	return entries
}

// entry returns one producer's entry of a snapshot.
func (p *producerState) entry(id int64) (ProducerSnapshotEntry, bool) {
	e := p.producers[id]
	if e == nil {
		return ProducerSnapshotEntry{}, false
	}
	return e.snapshot(id), true
}

// recovered returns the whole state by rising producer id.
func (p *producerState) recovered() []RecoveredProducer {
	all := make([]RecoveredProducer, 0, len(p.producers))
	for _, id := range p.ids() {
		e := p.producers[id]
		r := RecoveredProducer{ProducerSnapshotEntry: e.snapshot(id)}
		for _, b := range e.window()[:max(0, e.retained-1)] {
			r.Earlier = append(r.Earlier, b.export())
		}
		all = append(all, r)
	}
	return all
}

// active returns every producer by rising id.
func (p *producerState) active() []ActiveProducer {
	all := make([]ActiveProducer, 0, len(p.producers))
	for _, id := range p.ids() {
		e := p.producers[id]
		all = append(all, ActiveProducer{
			ProducerID: id, ProducerEpoch: e.epoch, LastSequence: e.newest().lastSequence,
			LastTimestamp: e.lastTimestamp, CoordinatorEpoch: e.coordinatorEpoch, TxnStartOffset: e.txnFirst,
		})
	}
	return all
}
