package broker

import (
	"github.com/tidemark-io/tidemark/partition"
)

// readAll reads every partition, in order, within the limits of the request. It reports whether the answer may be sent
// now: enough was found, or something that the client must know at once.
func (f *fetchAnswer) readAll() (ready bool) {
	left := f.maxBytes
	var total int64
	for i := range f.items {
		it := &f.items[i]
		limit := max(min(int64(it.maxBytes), left), 0)
		it.found = f.read(it, int(limit), total == 0)
		total += it.found.size
		left -= it.found.size
		ready = ready || it.found.isNews()
	}
	return ready || total >= f.minBytes || len(f.items) == 0
}

// isNews reports whether the client must not wait for more.
func (r *fetched) isNews() bool { return r.code != codeNone || r.diverging.epoch >= 0 }

// read reads one partition. minOne returns the first batch even if it is larger than maxBytes.
func (f *fetchAnswer) read(it *fetchItem, maxBytes int, minOne bool) fetched {
	if it.err != nil {
		return f.failed(it.err)
	}
	diverging, err := checkEpochs(it)
	if err != nil {
		return f.failed(err)
	}
	if diverging.epoch >= 0 {
		maxBytes, minOne = 0, false
	}
	r, err := it.log.Read(it.offset, f.isolation, maxBytes, minOne)
	if diverging.epoch >= 0 && codeOf(err) == codeOffsetOutOfRange {
		err = nil // the client truncates to where it diverged
	}
	if err != nil {
		return f.failed(err)
	}
	size := r.Records.Len()
	if size == 0 {
		r.Records.Release()
		r.Records = partition.Records{}
	}
	return fetched{
		highWatermark: r.Offsets.HighWatermark,
		lastStable:    r.Offsets.LastStable,
		logStart:      r.Offsets.LogStart,
		aborted:       r.Aborted,
		records:       r.Records,
		size:          size,
		diverging:     diverging,
	}
}

func (f *fetchAnswer) failed(err error) fetched {
	code := codeByTopic(err, f.byID())
	return fetched{
		code: code, highWatermark: -1, lastStable: -1, logStart: -1, diverging: epochEnd{noEpoch, -1},
		namesLeader: code == codeNotLeaderOrFollower || code == codeFencedLeaderEpoch,
	}
}

// checkEpochs compares the leader epochs that the client knows with the log. A client whose last record was written in an
// epoch that ended earlier, or that the log does not have, has diverged from the log.
func checkEpochs(it *fetchItem) (epochEnd, error) {
	none := epochEnd{noEpoch, -1}
	if err := it.log.CheckLeaderEpoch(it.currentEpoch); err != nil {
		return none, err
	}
	if it.lastEpoch < 0 {
		return none, nil
	}
	epoch, end := it.log.EndOffsetForEpoch(it.lastEpoch)
	switch {
	case epoch < 0 || end < 0:
		return none, errDivergedEpoch
	case epoch < it.lastEpoch || end < it.offset:
		return epochEnd{epoch, end}, nil
	}
	return none, nil
}

// release releases all records that were read.
func (f *fetchAnswer) release() {
	for i := range f.items {
		f.items[i].found.records.Release()
		f.items[i].found.records = partition.Records{}
	}
}

// park waits until min bytes can be read, a partition has other news, max wait is over, or the connection stops reading
// requests. It registers one waker on all logs and starts no goroutine.
func (f *fetchAnswer) park(w *answerWriter) {
	waker := w.takeWaker()
	for i := range f.items {
		if log := f.items[i].log; log != nil {
			log.Watch(waker)
		}
	}
	defer func() {
		for i := range f.items {
			if log := f.items[i].log; log != nil {
				log.Unwatch(waker)
			}
		}
	}()
	expired := w.startTimer(f.deadline)
	defer w.stopTimer()
	for !f.enough() {
		select {
		case <-waker.C():
		case <-expired:
			return
		case <-w.hurry:
			return
		case <-w.ctx.Done():
			return
		}
	}
}

// takeWaker returns the connection's waker, registered with no log.
func (w *answerWriter) takeWaker() *partition.Waker {
	if w.waker == nil {
		w.waker = partition.NewWaker()
	}
	select {
	case <-w.waker.C():
	default:
	}
	return w.waker
}

// enough reports whether a parked fetch can be answered. It looks at positions, and reads again only what has moved.
func (f *fetchAnswer) enough() bool {
	var total int64
	for i := range f.items {
		it := &f.items[i]
		probe := f.read(it, 0, false) // reads no records
		if probe.isNews() {
			return true
		}
		if f.bound(&probe) != f.bound(&it.found) && f.bound(&probe) > it.offset {
			if f.minBytes <= 1 {
				return true
			}
			it.found.records.Release()
			it.found = f.read(it, int(it.maxBytes), true)
			it.found.size = min(it.found.size, int64(it.maxBytes)) // a larger first batch counts as Kafka counts it
		}
		total += it.found.size
		if total >= f.minBytes {
			return true
		}
	}
	return false
}

func (f *fetchAnswer) bound(r *fetched) int64 {
	if f.isolation == partition.ReadCommitted {
		return r.lastStable
	}
	return r.highWatermark
}
