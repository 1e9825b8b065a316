package kafkalog

import (
	"errors"
	"slices"

	"github.com/tidemark-io/tidemark/batch"
)

// repairTransactions makes the transaction indexes that cannot be right again from the records. names are the files in
// the directory. A missing index is not found out: a segment without aborted transactions has none.
//
// The records are read from the oldest snapshot on, or from the first one, so this is slow; but readers of committed
// records have no other way to know what was aborted.
func (ld *loader) repairTransactions(names []string) error {
	broken := make(map[*segment]bool)
	last := 0
	for i, s := range ld.segments {
		if !slices.Contains(names, fileName(s.base, txnIndexSuffix)) {
			continue
		}
		err := s.txns.verify()
		if err == nil {
			continue
		}
		if !damaged(err) {
			return err
		}
		if err := ld.env.setAside(ld.dir, fileName(s.base, txnIndexSuffix), err); err != nil {
			return err
		}
		broken[s] = true
		last = i
	}
	if len(broken) == 0 {
		return nil
	}
	state, err := ld.oldestProducers()
	if err != nil {
		return err
	}
	for _, s := range ld.segments[:last+1] {
		aborted, err := s.abortedSince(state)
		if err != nil {
			return err
		}
		if !broken[s] {
			continue
		}
		if err := s.remakeTransactions(aborted); err != nil {
			return err
		}
	}
	return nil
}

// oldestProducers returns the producers at the base of the first segment, as far as anyone knows.
func (ld *loader) oldestProducers() (*producerState, error) {
	state := newProducerState()
	base := ld.segments[0].base
	if !ld.log.snapshots.has(base) {
		return state, nil
	}
	entries, err := ld.log.snapshots.read(base)
	if err != nil {
		if damaged(err) {
			return state, nil
		}
		return nil, err
	}
	state.load(entries, 0, never)
	return state, nil
}

// abortedSince lets the state take in the segment and returns the transactions that it aborts. Damage that readers will
// meet ends the walk.
func (s *segment) abortedSince(state *producerState) (aborted []AbortedTxn, err error) {
	r, err := s.reader()
	if err != nil {
		return nil, err
	}
	defer r.close()
	walk := r.walk(0)
	defer walk.close()
	for {
		at := walk.position
		h, found, err := walk.next()
		if err != nil || !found {
			return aborted, ignoreUnusable(err)
		}
		if h.Magic != batch.Magic || !h.HasProducer() {
			continue
		}
		b := make(batch.Batch, h.Size())
		if err := r.readAt(b, at); err != nil {
			return nil, err
		}
		done, closed, err := state.replay(b)
		if err == nil && closed && done.aborted {
			aborted = append(aborted, done.AbortedTxn)
		}
	}
}

// remakeTransactions replaces the transaction index. It is durable on return.
func (s *segment) remakeTransactions(aborted []AbortedTxn) error {
	if err := s.txns.reset(); err != nil {
		return err
	}
	for _, t := range aborted {
		if err := s.txns.append(t); err != nil {
			return errors.Join(err, s.txns.reset())
		}
	}
	return s.txns.sync()
}
