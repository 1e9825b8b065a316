package kafkalog

import (
	"slices"

	"github.com/tidemark-io/tidemark/vfs"
)

// What only tests ask of the parts of a log.

// openFiles returns how many descriptors are open, pinned ones included.
func (c *handleCache) openFiles() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.open + c.mu.pinned
}

// create makes a file with one of the creating modes and returns its handle, which opens it for reading and writing
// from then on. The directory is not synced.
func (c *handleCache) create(name string, mode vfs.Mode) (*handle, error) {
	h := &handle{cache: c, name: name, mode: mode}
	if _, err := h.acquire(); err != nil {
		return nil, err
	}
	h.release()
	return h, nil
}

// clone returns a copy that shares nothing.
func (p *producerState) clone() *producerState {
	c := &producerState{
		producers: make(map[int64]*producerEntry, len(p.producers)),
		ongoing:   slices.Clone(p.ongoing), held: slices.Clone(p.held),
		mapEnd: p.mapEnd, lastSnap: p.lastSnap, widened: p.widened,
	}
	for id, e := range p.producers {
		copied := *e
		c.producers[id] = &copied
	}
	return c
}

// transactionStart returns the first offset of the producer's open transaction.
func (p *producerState) transactionStart(id int64) (int64, bool) {
	if e := p.producers[id]; e != nil && e.txnFirst >= 0 {
		return e.txnFirst, true
	}
	return 0, false
}

// markerState returns what a coordinator's marker is checked against; -1 is an epoch that is not known.
func (p *producerState) markerState(id int64) (epoch int16, coordinatorEpoch int32, open bool) {
	e := p.producers[id]
	if e == nil {
		return -1, -1, false
	}
	return e.epoch, e.coordinatorEpoch, e.txnFirst >= 0
}

// all returns every aborted transaction of the segment.
func (x *txnIndex) all() ([]AbortedTxn, error) {
	var all []AbortedTxn
	return all, x.each(func(_ int, t AbortedTxn) error {
		all = append(all, t)
		return nil
	})
}
