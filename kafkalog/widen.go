package kafkalog

import (
	"errors"

	"github.com/tidemark-io/tidemark/batch"
)

// A client may have five batches of a producer under way when the server stops, all of them in the log and none of them
// answered. It sends them again, the oldest first. But a snapshot keeps only the last batch of a producer, so after the
// next start the first of these would be refused as out of order, and the client would give the records up or write them
// a second time under a new epoch. So before a batch is refused that way, the batches before the remembered ones are
// looked for in the log itself: once after each start, in the headers of the records that were written last.

// widenBytes is how far back from the log end batches are looked for: three times what five of the largest batches that
// a topic takes by default are, so that other producers may have written in between.
const widenBytes = 16 << 20

// checkProducer is check of the producer state, for a batch that was not appended yet. The writer's lock is held. It may
// read headers of the log, which blocks on the device, but only the first time that a batch would be refused after the
// log was opened, truncated or reset.
func (l *Log) checkProducer(h *batch.Header, origin Origin) (stored retainedBatch, duplicate bool, err error) {
	stored, duplicate, narrow, err := l.checkNarrow(h, origin)
	if narrow == nil {
		return stored, duplicate, err
	}
	if err := l.widenWindows(narrow); err != nil {
		return retainedBatch{}, false, err
	}
	stored, duplicate, _, err = l.checkNarrow(h, origin)
	return stored, duplicate, err
}

// narrowWindow is a producer of which fewer batches are remembered than the log may hold.
type narrowWindow struct {
	epoch  int16
	below  int64           // first offset of the oldest batch that is remembered
	before []retainedBatch // found in the log, oldest first
}

// checkNarrow checks a batch. It also returns the producers that could be known better if that might change the answer.
func (l *Log) checkNarrow(h *batch.Header, origin Origin) (retainedBatch, bool, map[int64]*narrowWindow, error) {
	l.producers.Lock()
	defer l.producers.Unlock()
	state := l.producers.state
	stored, duplicate, err := state.check(h, origin)
	if !errors.Is(err, ErrOutOfOrderSequence) || state.widened || !state.maybeStored(h) {
		return stored, duplicate, nil, err
	}
	return stored, duplicate, state.narrowWindows(), err
}

// widenWindows looks for older batches of the producers and lets the state remember them.
func (l *Log) widenWindows(narrow map[int64]*narrowWindow) error {
	v := l.view.Load()
	first := len(v.segments) - 1
	bytes := v.segments[first].size.Load()
	for ; first > 0 && bytes < widenBytes; first-- {
		bytes += v.segments[first-1].size.Load()
	}
	skip := max(0, bytes-widenBytes)
	for _, s := range v.segments[first:] {
		if err := s.collectBatches(skip, narrow); err != nil {
			return err
		}
		skip = 0
	}
	l.producers.Lock()
	defer l.producers.Unlock()
	l.producers.state.widen(narrow)
	return nil
}

// collectBatches adds the batches of the segment from about a position on. Damage that readers will meet ends the walk.
func (s *segment) collectBatches(position int64, narrow map[int64]*narrowWindow) error {
	r, err := s.reader()
	if err != nil {
		return err
	}
	defer r.close()
	from := s.base
	if position > 0 {
		entry, found, err := s.index.upperBound(position)
		if err != nil && !unusableIndex(err) {
			return err
		}
		if found {
			from = entry.offset
		}
	}
	walk, err := r.walkFrom(from)
	if err != nil {
		return err
	}
	defer walk.close()
	for {
		h, found, err := walk.next()
		if err != nil || !found {
			return ignoreUnusable(err)
		}
		if w := narrow[h.ProducerID]; w != nil && h.Magic == batch.Magic && !h.IsControl() {
			w.add(&h)
		}
	}
}

// add takes a batch in, behind those before it.
func (w *narrowWindow) add(h *batch.Header) {
	if h.ProducerEpoch != w.epoch || h.BaseSequence < 0 || h.LastOffset() >= w.below {
		return
	}
	if len(w.before) == maxRetainedBatches {
		copy(w.before, w.before[1:])
		w.before = w.before[:maxRetainedBatches-1]
	}
	w.before = append(w.before, retained(h))
}

// maybeStored reports whether the batch has sequences before the remembered ones of its producer, so that the log may
// hold it.
func (p *producerState) maybeStored(h *batch.Header) bool {
	e := p.producers[h.ProducerID]
	if e == nil || h.ProducerEpoch != e.epoch || h.BaseSequence < 0 || !e.isNarrow() {
		return false
	}
	// Sequences wrap, so the distance tells what lies behind.
	const half = 1 << 30
	return batch.DecrementSequence(e.batches[0].firstSequence(), h.BaseSequence) < half
}

// isNarrow reports whether batches may have been forgotten that the window has room for.
func (e *producerEntry) isNarrow() bool {
	return e.retained > 0 && e.retained < maxRetainedBatches && e.batches[0].firstSequence() > 0
}

// narrowWindows returns the producers of which more could be remembered.
func (p *producerState) narrowWindows() map[int64]*narrowWindow {
	narrow := make(map[int64]*narrowWindow)
	for id, e := range p.producers {
		if e.isNarrow() {
			narrow[id] = &narrowWindow{epoch: e.epoch, below: e.batches[0].firstOffset()}
		}
	}
	return narrow
}

// widen puts batches before the remembered ones, as long as their sequences lead up to them. It is done once for a state.
func (p *producerState) widen(found map[int64]*narrowWindow) {
	for id, w := range found {
		e := p.producers[id]
		if e == nil || e.epoch != w.epoch || e.retained == 0 || e.batches[0].firstOffset() != w.below {
			continue
		}
		for i := len(w.before) - 1; i >= 0 && e.retained < maxRetainedBatches; i-- {
			if !batch.SequenceFollows(w.before[i].lastSequence, e.batches[0].firstSequence()) {
				break
			}
			copy(e.batches[1:], e.batches[:e.retained])
			e.batches[0] = w.before[i]
			e.retained++
		}
	}
	p.widened = true
}
