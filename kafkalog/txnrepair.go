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
		if slices.Contains(ld.retiredTxns, s.base) {
			broken[s], last = true, i
			continue
		}
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
	return ld.forgetRetiredTxns()
}

// noteRetiredTxns reports whether the name is that of the transaction index of a segment that was retired, whose records have
// their name back after a power cut. It may also be that of an earlier segment with the same base, so it is not given back: the
// index is made from the records, and the file stays until that is done.
func (ld *loader) noteRetiredTxns(names []string, name string) bool {
	base, ok := parseOffset(name)
	if !ok || name != fileName(base, txnIndexSuffix+deletedSuffix) ||
		!slices.Contains(names, fileName(base, logSuffix)) || slices.Contains(names, fileName(base, txnIndexSuffix)) {
		return false
	}
	ld.retiredTxns = append(ld.retiredTxns, base)
	return true
}

// forgetRetiredTxns removes what noteRetiredTxns left, once the new ones and their names are durable.
func (ld *loader) forgetRetiredTxns() error {
	if len(ld.retiredTxns) == 0 {
		return nil
	}
	if err := ld.log.syncDir(); err != nil {
		return err
	}
	for _, base := range ld.retiredTxns {
		if err := ld.remove(fileName(base, txnIndexSuffix+deletedSuffix)); err != nil {
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
