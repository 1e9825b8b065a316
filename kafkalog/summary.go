package kafkalog

import (
	"maps"
	"math"
	"slices"
)

// Summary is what a log was when [Log.Close] had closed it. With it [Open] reads no record after a clean stop, and a young
// log, which is its records alone (young.go), needs none of them to know its leader epochs and producers. It is got from
// [Log.Summary], kept by the caller, and given back in [Options]. It never changes.
//
// A summary is believed only if the files are those that it is of: as many segments with as many bytes, and a last one with
// the same base offset, length, modification time and index entries. Whoever keeps it must all the same not give it back
// after the log was written to, and so has to remove it durably before opening the log.
type Summary struct {
	young bool

	// Of the active segment.
	base         int64
	size         int64 // bytes of the record file
	modified     int64 // its modification time, ns since the Unix epoch
	indexEntries int64 // in the file of the offset index
	timeEntries  int64 // in that of the time index
	maxTimestamp int64 // the largest one, ms, -1 if there is none
	maxOffset    int64 // the last offset of the earliest batch that has it
	firstStamp   int64 // the largest timestamp of the first batch, or unknownStamp

	// Of the log.
	end      int64
	segments int64
	bytes    int64 // of all record files

	// Of a young log. Others have files for these.
	epochs    []EpochEntry
	producers []summarisedProducer // by rising id
}

// summarisedProducer is a producer with everything that is remembered of it.
type summarisedProducer struct {
	id    int64
	entry producerEntry
}

// Summary returns what [Open] needs to know to open the log again without reading a record. Call it after [Log.Close]. It
// is false if the log is not closed, was fenced, or could not be made durable as a whole, and if there is nothing to say
// because it never held a record. It asks the file system for the state of one file.
func (l *Log) Summary() (*Summary, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end, v := l.end.Load(), l.view.Load()
	active := v.active()
	switch {
	case !l.mu.whole, active.unmade.Load(), l.neverHeldRecords():
		return nil, false
	case end > l.mu.hole, end < active.base:
		return nil, false // the next Open finds another end
	}
	name := filePath(l.dir, active.base, logSuffix)
	info, err := l.env.fs.Stat(name)
	if err != nil || info.Size() != active.size.Load() {
		return nil, false
	}
	s := &Summary{
		young: l.isYoung(), base: active.base, size: info.Size(), modified: info.ModTime().UnixNano(),
		firstStamp: active.firstStamp, end: end, segments: int64(len(v.segments)), bytes: l.Size(),
	}
	var known bool
	if s.maxTimestamp, s.maxOffset, known = active.max.get(); !known {
		return nil, false
	}
	if s.young {
		s.epochs = l.epochs.entries()
		s.producers = l.summariseProducers()
	} else if s.indexEntries, s.timeEntries, err = active.indexed(); err != nil {
		return nil, false
	}
	return s, s.implausible() == ""
}

// indexed returns how many entries the indexes have.
func (s *segment) indexed() (index, times int64, err error) {
	inIndex, err := s.index.entries()
	if err != nil {
		return 0, 0, err
	}
	inTimes, err := s.times.entries()
	return int64(inIndex), int64(inTimes), err
}

func (l *Log) summariseProducers() []summarisedProducer {
	l.producers.Lock()
	defer l.producers.Unlock()
	state := l.producers.state
	all := make([]summarisedProducer, 0, len(state.producers))
	for _, id := range slices.Sorted(maps.Keys(state.producers)) {
		all = append(all, summarisedProducer{id, *state.producers[id]})
	}
	return all
}

// loadSummary puts in what a summary says, except for the producers that have expired.
func (p *producerState) loadSummary(producers []summarisedProducer, nowMs, expirationMs int64) {
	for _, s := range producers {
		if s.entry.txnFirst < 0 && nowMs-s.entry.lastTimestamp >= expirationMs {
			continue
		}
		e := s.entry
		p.producers[s.id] = &e
		if e.txnFirst >= 0 {
			p.begin(openTxn{first: e.txnFirst, producerID: s.id})
		}
	}
}

// takeSummary takes the log end, and all that is else in the records of the active segment, from the summary. It is false
// if there is none, or if it is not of these files.
func (ld *loader) takeSummary() (bool, error) {
	last := len(ld.segments) - 1
	if !ld.options.Clean || ld.options.Summary == nil {
		return false, nil
	}
	active, s := ld.segments[last], ld.options.Summary
	if agrees, err := ld.agreesWith(s); err != nil || !agrees {
		return false, err
	}
	if err := ld.completeIndexes(ld.segments[:last]); err != nil {
		return false, err
	}
	active.max.set(s.maxTimestamp, s.maxOffset)
	active.firstStamp = s.firstStamp
	ld.end, ld.flushed = s.end, s.end
	ld.stopped, ld.summary = true, s
	return true, nil
}

// agreesWith reports whether the files are those of the summary, as far as can be told without reading records.
func (ld *loader) agreesWith(s *Summary) (bool, error) {
	active := ld.segments[len(ld.segments)-1]
	bytes := int64(0)
	for _, segment := range ld.segments {
		bytes += segment.size.Load()
	}
	if active.base != s.base || active.size.Load() != s.size || ld.modified != s.modified || ld.young != s.young ||
		int64(len(ld.segments)) != s.segments || bytes != s.bytes || active.needsIndex {
		return false, nil
	}
	if s.young {
		return true, nil
	}
	index, err := active.index.verify()
	if err != nil {
		return false, active.withoutIndex(err)
	}
	times, err := active.times.verify()
	if err != nil {
		return false, active.withoutIndex(err)
	}
	return index.count.Load() == s.indexEntries && times.count.Load() == s.timeEntries, nil
}

// implausible says what keeps a decoded summary from being one that was written here, or is empty.
func (s *Summary) implausible() string {
	switch {
	case s.base < 0 || s.end < s.base || s.end == math.MaxInt64:
		return "offsets that do not exist"
	case s.size < 0 || s.bytes < s.size || s.segments < 1 || s.indexEntries < 0 || s.timeEntries < 0:
		return "a negative number"
	case s.maxTimestamp < -1 || s.maxOffset < -1 || s.maxOffset >= s.end:
		return "a largest timestamp that no record has"
	case s.young && (s.base != 0 || s.segments != 1 || s.bytes != s.size || s.size > youngBytes || s.indexEntries+s.timeEntries > 0):
		return "a young log that is none"
	case !s.young && len(s.epochs)+len(s.producers) > 0:
		return "leader epochs or producers that stand in files"
	}
	for i, e := range s.epochs {
		if e.Epoch < 0 || e.Start < 0 || e.Start > s.end || i > 0 && (e.Epoch <= s.epochs[i-1].Epoch || e.Start <= s.epochs[i-1].Start) {
			return "leader epochs that do not rise"
		}
	}
	for i, p := range s.producers {
		if p.id < 0 || i > 0 && p.id <= s.producers[i-1].id {
			return "producers that do not rise"
		}
		if wrong := p.entry.implausible(s.end); wrong != "" {
			return wrong
		}
	}
	return ""
}

// implausible says what keeps the entry from being one of a log that ends there, or is empty.
func (e *producerEntry) implausible(end int64) string {
	if e.epoch < -1 || e.coordinatorEpoch < -1 || e.txnFirst < -1 || e.txnFirst >= end {
		return "a producer that is none"
	}
	for i, b := range e.window() {
		if b.offsetDelta < 0 || b.firstOffset() < 0 || b.lastOffset >= end || b.lastSequence < -1 ||
			i > 0 && b.firstOffset() <= e.batches[i-1].lastOffset {
			return "batches of a producer that are none"
		}
	}
	return ""
}
