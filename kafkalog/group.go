package kafkalog

import (
	"errors"
	"math"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/internal/poison"
	"github.com/tidemark-io/tidemark/vfs"
)

// NextOffset as [GroupItem.At] lets the log choose the offset.
const NextOffset int64 = math.MinInt64

// GroupItem is one batch of [Log.AppendGroup] and its result.
type GroupItem struct {
	Batch   batch.Batch
	Options AppendOptions
	// At is the offset to append at, as for [Log.AppendAt], or [NextOffset].
	At int64
	// Verbatim leaves the bytes of Batch alone, as [Log.AppendVerbatim] does.
	Verbatim bool

	// Result and Err are set by the call. They are what a single append would have returned.
	Result Appended
	Err    error
}

// AppendGroup appends batches in order, under the log's lock as a whole, and writes adjacent batches with one call.
// Every item gets its own result or error, as if the items had been appended one after the other; only a failed write
// fails all batches of the same call. The items may come from different callers: none of them waits for another's turn.
// Items with an offset of their own are one sequence: behind one that could not be appended the others fail with its
// error, since they would leave a hole in its place. One that lies below the log end is no such failure.
//
// If the configuration asks for a flush, one covers all; its failure is the error of every item that was appended.
func (l *Log) AppendGroup(items []GroupItem) {
	l.mu.Lock()
	l.beginStage()
	flush := l.appendLocked(items)
	l.endStage()
	l.mu.Unlock()
	if !flush {
		return
	}
	if _, err := l.flush(false); err != nil {
		for i := range items {
			if items[i].Err == nil && !items[i].Result.Duplicate {
				items[i].Err = err
			}
		}
	}
}

const (
	// stageBatches and stageBytes bound one write.
	stageBatches = 64
	stageBytes   = 1 << 20
)

// stage is the batches that wait for one write. Their offsets are assigned and the producers know them; nothing else
// does. A log has one while it appends. Its memory is used again and again, by whichever log appends next: that of a
// thousand logs at rest would be much.
type stage struct {
	batches []staged
	headers []headerSpace // patched headers of verbatim batches, by index in batches
	buffers [][]byte
	bytes   int64
	end     int64 // log end behind the last batch
	missing error // why a batch with an offset of its own is not in the log, nil if none is missing
	join    []byte
	one     [1]GroupItem
}

type staged struct {
	header  batch.Header
	item    *GroupItem
	stamp   int64 // append time, -1 none
	control batch.ControlRecord
	marker  bool // control ends a transaction
	done    completedTxn
	closed  bool // done was ended
	undo    producerUndo
}

// header returns room for the i-th batch's header. Growing leaves what was handed out before as it is.
func (st *stage) header(i int) *headerSpace {
	for i >= len(st.headers) {
		st.headers = append(st.headers, headerSpace{})
	}
	return &st.headers[i]
}

func (st *stage) clear() {
	clear(st.batches)
	clear(st.buffers)
	st.batches, st.buffers = st.batches[:0], st.buffers[:0]
	st.bytes = 0
}

// beginStage gives the log a stage for the appends, or the question, at hand.
func (l *Log) beginStage() *stage {
	l.mu.stage = l.env.stages.Get().(*stage)
	return l.mu.stage
}

// endStage gives the stage back. It is empty.
func (l *Log) endStage() {
	if poison.On {
		for i := range l.mu.stage.headers {
			poison.Fill(l.mu.stage.headers[i][:])
		}
		poison.Fill(l.mu.stage.join[:cap(l.mu.stage.join)])
	}
	l.mu.stage.missing = nil
	l.env.stages.Put(l.mu.stage)
	l.mu.stage = nil
}

// appendLocked appends the items and reports whether the flush policy wants a flush now. The log has a stage.
func (l *Log) appendLocked(items []GroupItem) (flush bool) {
	c := l.config.Load()
	now := l.env.nowMs()
	for i := range items {
		items[i].Result, items[i].Err = Appended{}, nil
		l.stageItem(c, now, &items[i])
		l.noteMissing(&items[i])
	}
	l.writeStaged(c)
	return l.flushWanted(c, now)
}

// noteMissing remembers that an item with an offset of its own was not appended.
func (l *Log) noteMissing(it *GroupItem) {
	var below *OffsetMismatchError
	if it.Err != nil && it.At != NextOffset && l.mu.stage.missing == nil && !errors.As(it.Err, &below) {
		l.mu.stage.missing = it.Err
	}
}

// flushWanted applies the flush policy after an append.
func (l *Log) flushWanted(c *Config, now int64) bool {
	if !c.flushesOnAppend() {
		return false
	}
	unflushed := l.end.Load() - l.flushed.Load()
	return unflushed > 0 && (c.FlushOnAppend || unflushed >= c.FlushMessages || now >= addMs(l.mu.lastFlush, c.FlushMs))
}

// stageItem takes a batch in, after the staged ones were written if it cannot go with them. Refused or stored already,
// it gets its answer at once.
func (l *Log) stageItem(c *Config, now int64, it *GroupItem) {
	h, err := checkAppend(it.Batch)
	if err != nil {
		it.Err = err
		return
	}
	st := l.mu.stage
	if it.At == NextOffset {
		h.LeaderEpoch = it.Options.LeaderEpoch
	}
	alone := h.IsControl() || l.startsEpoch(h.LeaderEpoch)
	if alone || len(st.batches) == stageBatches || st.bytes+int64(h.Size()) > stageBytes {
		l.writeStaged(c)
	}
	b := staged{header: h, item: it, stamp: -1}
	if err := b.readControl(); err != nil {
		it.Err = err
		return
	}
	if err := l.place(c, now, &b); err != nil {
		it.Err = err
		return
	}
	if err := l.admit(&b); err != nil || it.Result.Duplicate {
		it.Err = err
		if it.Result.Duplicate && it.Result.LastOffset >= l.end.Load() {
			l.restage(c, now, it)
		}
		return
	}
	l.stageBatch(c, now, &b)
	if alone {
		l.writeStaged(c)
	}
}

// restage takes a batch in again whose first copy is staged, and not in the log for sure.
func (l *Log) restage(c *Config, now int64, it *GroupItem) {
	l.writeStaged(c)
	it.Result, it.Err = Appended{}, nil
	l.stageItem(c, now, it)
}

// place assigns the offset and starts a new segment if the batch needs one. A refused batch changes nothing.
func (l *Log) place(c *Config, now int64, b *staged) error {
	h, it := &b.header, b.item
	for {
		if err := l.writable(); err != nil {
			return err
		}
		if err := l.settle(); err != nil {
			return err
		}
		st := l.mu.stage
		end := l.end.Load()
		if len(st.batches) > 0 {
			end = st.end
		}
		h.BaseOffset = end
		if it.At != NextOffset {
			if it.At < end {
				return &OffsetMismatchError{Expected: end, Actual: it.At}
			}
			if st.missing != nil {
				return st.missing
			}
			h.BaseOffset = it.At
		}
		if h.BaseOffset >= math.MaxInt64-int64(h.LastOffsetDelta) {
			return &ArgumentError{Argument: "base offset", Value: h.BaseOffset, Reason: "leaves no room for the batch"}
		}
		roll, err := l.mustRoll(c, now, h)
		if err != nil || !roll {
			return err
		}
		if len(st.batches) > 0 {
			l.writeStaged(c) // and look again, since the log end may not be what it was going to be
			continue
		}
		// A batch that is refused must not roll, so its producer is asked before.
		if err := l.admit(b); err != nil || it.Result.Duplicate {
			return err
		}
		return l.rollLocked(h.BaseOffset)
	}
}

// admit checks the producer of a batch, or the coordinator of a marker. A duplicate gets the first copy's offsets as its
// result.
func (l *Log) admit(b *staged) error {
	h, it := &b.header, b.item
	if !h.HasProducer() {
		return nil
	}
	if h.IsControl() {
		if !b.marker || it.Options.Origin == Replication {
			return nil
		}
		l.producers.Lock()
		defer l.producers.Unlock()
		return l.producers.state.checkMarker(h, b.control, false)
	}
	stored, duplicate, err := l.checkProducer(h, it.Options.Origin)
	if err != nil || !duplicate {
		return err
	}
	it.Result = Appended{BaseOffset: stored.firstOffset(), LastOffset: stored.lastOffset, AppendTime: -1, Duplicate: true}
	if l.config.Load().LogAppendTime {
		it.Result.AppendTime = stored.timestamp
	}
	return nil
}

// stageBatch patches the header and queues the bytes.
func (l *Log) stageBatch(c *Config, now int64, b *staged) {
	st, h, it := l.mu.stage, &b.header, b.item
	if c.LogAppendTime && it.At == NextOffset {
		b.stamp = now
	}
	if it.Verbatim {
		header := st.header(len(st.batches))
		copy(header[:], it.Batch)
		patch(header[:], it.Batch.Payload(), h, b.stamp)
		st.buffers = append(st.buffers, header[:], it.Batch.Payload())
	} else {
		patch(it.Batch, it.Batch.Payload(), h, b.stamp)
		st.buffers = append(st.buffers, it.Batch)
	}
	if err := l.enterProducer(b); err != nil {
		it.Err = err
		st.buffers = st.buffers[:len(st.buffers)-1]
		if it.Verbatim {
			st.buffers = st.buffers[:len(st.buffers)-1]
		}
		return
	}
	st.batches = append(st.batches, *b)
	st.bytes += int64(h.Size())
	st.end = h.NextOffset()
}

// readControl decodes the record of a control batch.
func (b *staged) readControl() error {
	if !b.header.IsControl() {
		return nil
	}
	control, found, err := b.item.Batch.Control()
	if err != nil {
		return &BatchError{Offset: -1, Err: err}
	}
	b.control, b.marker = control, found && control.EndsTransaction()
	return nil
}

// enterProducer updates the producer state with the batch, which can be undone.
func (l *Log) enterProducer(b *staged) (err error) {
	if !b.header.HasProducer() {
		return nil
	}
	l.producers.Lock()
	defer l.producers.Unlock()
	switch {
	case b.marker:
		b.done, b.closed, b.undo = l.producers.state.appendMarker(&b.header, b.control)
	case !b.header.IsControl():
		b.undo, err = l.producers.state.append(&b.header)
	}
	return err
}

// writeStaged writes the staged batches in one go and answers their items.
func (l *Log) writeStaged(c *Config) {
	st := l.mu.stage
	if len(st.batches) == 0 {
		return
	}
	err := l.commitStaged(c)
	for i := range st.batches {
		b := &st.batches[i]
		if err != nil {
			b.item.Err = err
			l.noteMissing(b.item)
			continue
		}
		b.item.Result = Appended{BaseOffset: b.header.BaseOffset, LastOffset: b.header.LastOffset(), AppendTime: b.stamp}
	}
	st.clear()
}

// commitStaged makes the staged batches part of the log, or leaves everything as it was.
func (l *Log) commitStaged(c *Config) error {
	st := l.mu.stage
	active := l.view.Load().active()
	held := l.mu.tail.handle != nil
	before, err := l.markAppend(active)
	if err == nil {
		err = l.mu.tail.hold(active)
	}
	written := false
	if err == nil {
		l.noteMade(active)
		err = l.writeBuffers(active.size.Load())
		written = err == nil
	}
	if written {
		err = l.applyStaged(c, active)
	}
	if err != nil {
		err = l.rollBack(active, before, err)
		if !written && deviceFailed(err) {
			l.fail(err)
		}
		if !held {
			l.mu.tail.letGo()
		}
		return err
	}
	active.dirty = true
	l.mu.fresh = false
	l.mu.hole = never
	active.size.Add(st.bytes)
	l.producers.Lock()
	l.producers.state.setEnd(st.end)
	l.producers.Unlock()
	l.end.Store(st.end)
	return nil
}

// deviceFailed reports whether a write failed for another reason than a lack of room, or of descriptors, which may pass.
func deviceFailed(err error) bool {
	var failed *IOError
	return errors.As(err, &failed) && failed.Op == opAppend && !vfs.IsNoSpace(err)
}

// writeBuffers writes what is staged at the position.
func (l *Log) writeBuffers(position int64) (err error) {
	st, t := l.mu.stage, &l.mu.tail
	switch {
	case len(st.buffers) == 1:
		_, err = t.file.WriteAt(st.buffers[0], position)
	case t.vector != nil:
		_, err = t.vector.WriteVectorAt(st.buffers, position)
	default:
		st.join = st.join[:0]
		for _, b := range st.buffers {
			st.join = append(st.join, b...)
		}
		_, err = t.file.WriteAt(st.join, position)
		if cap(st.join) > 2*stageBytes {
			st.join = nil
		}
	}
	if err != nil {
		return &IOError{Op: opAppend, Path: l.view.Load().active().file.path(), Err: err}
	}
	return nil
}

// applyStaged brings the sidecars up to what was written: first those that are files.
func (l *Log) applyStaged(c *Config, active *segment) error {
	st := l.mu.stage
	position := active.size.Load()
	for i := range st.batches {
		b := &st.batches[i]
		if b.closed && b.done.aborted {
			if err := l.noteAborted(active, b.done.AbortedTxn); err != nil {
				return err
			}
		}
		if l.startsEpoch(b.header.LeaderEpoch) {
			if err := l.epochs.assign(b.header.LeaderEpoch, b.header.BaseOffset); err != nil {
				return err
			}
		}
		if position == 0 {
			active.firstStamp = b.header.MaxTimestamp
		}
		if err := active.indexBatch(&b.header, position, c.IndexIntervalBytes); err != nil {
			return err
		}
		position += int64(b.header.Size())
	}
	return nil
}

// noteAborted adds to the transaction index, whose first entry makes its file.
func (l *Log) noteAborted(active *segment, t AbortedTxn) error {
	there, err := active.txns.exists()
	if err != nil {
		return err
	}
	err = active.txns.append(t)
	if !there {
		l.names.changed.Add(1)
	}
	return err
}

// appendMark is what an append that fails is rolled back to.
type appendMark struct {
	timestamp, stampOffset int64
	unindexed              int64
	firstStamp             int64
	index, times, aborted  int
	epochs                 []EpochEntry
}

func (l *Log) markAppend(active *segment) (appendMark, error) {
	timestamp, offset, err := active.largest()
	if err != nil {
		return appendMark{}, err
	}
	m := appendMark{
		timestamp: timestamp, stampOffset: offset, unindexed: active.unindexed, firstStamp: active.firstStamp,
		epochs: l.epochs.entries(), index: active.index.mark(), times: active.times.mark(),
	}
	m.aborted, err = active.txns.mark()
	return m, err
}

// rollBack undoes everything that the staged batches changed and returns cause. If that fails the log accepts no
// more appends, since what is on disk is not known.
func (l *Log) rollBack(active *segment, m appendMark, cause error) error {
	st := l.mu.stage
	l.producers.Lock()
	for i := len(st.batches) - 1; i >= 0; i-- {
		l.producers.state.undo(st.batches[i].undo)
	}
	l.producers.Unlock()

	active.unindexed, active.firstStamp = m.unindexed, m.firstStamp
	active.max.set(m.timestamp, m.stampOffset)
	err := active.index.rewind(m.index)
	err = errors.Join(err, active.times.rewind(m.times), active.txns.rewind(m.aborted), l.epochs.restore(m.epochs))
	err = errors.Join(err, l.mu.tail.cut(active))
	if err != nil {
		err = errors.Join(cause, err)
		l.fail(err)
		return err
	}
	return cause
}
