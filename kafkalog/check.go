package kafkalog

import (
	"fmt"
	"math"

	"github.com/tidemark-io/tidemark/batch"
)

// Finding is something that [Log.Check] found wrong.
type Finding struct {
	File     string // the file, or the directory if no single one is at fault
	Position int64  // in the file, in bytes
	Problem  string
	Err      error // the error that showed it, or nil
}

// String returns the finding in one line.
func (f Finding) String() string {
	if f.Err != nil {
		return fmt.Sprintf("%s, position %d: %s: %v", f.File, f.Position, f.Problem, f.Err)
	}
	return fmt.Sprintf("%s, position %d: %s", f.File, f.Position, f.Problem)
}

// CheckCounts is how much a check has read.
type CheckCounts struct {
	Segments int   // that have a file of records
	Batches  int64 // whole ones, damaged ones included
	Records  int64 // by the headers of the batches
	Bytes    int64 // of the batches
}

// Check reads the whole log and verifies its invariants: every batch matches its checksum and the offsets rise, every
// index entry points to the right position, epochs and bounds agree with the records. It returns what is wrong, or
// nothing. Appends and reads continue; truncation, syncs and Close wait.
func (l *Log) Check() []Finding {
	findings, _ := l.check(nil)
	return findings
}

// CheckCounted is [Log.Check] that also says how much it has read.
func (l *Log) CheckCounted() ([]Finding, CheckCounts) { return l.check(nil) }

// check is CheckCounted. progress, if it is not nil, is called with the number of bytes of records read since its last
// call.
func (l *Log) check(progress func(bytes int64)) ([]Finding, CheckCounts) {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	if l.closed.Load() {
		return []Finding{{File: l.dir, Problem: "cannot be checked", Err: ErrClosed}}, CheckCounts{}
	}
	c := &checker{log: l, end: l.end.Load(), view: l.view.Load(), progress: progress}
	c.bounds()
	for i := range c.view.segments {
		c.segment(i)
	}
	c.epochs()
	return c.findings, c.counts
}

type checker struct {
	log      *Log
	view     *view
	end      int64
	findings []Finding
	counts   CheckCounts
	progress func(bytes int64)
}

func (c *checker) find(file string, position int64, err error, format string, args ...any) {
	c.findings = append(c.findings, Finding{File: file, Position: position, Problem: fmt.Sprintf(format, args...), Err: err})
}

func (c *checker) bounds() {
	v, dir := c.view, c.log.dir
	if v.start > c.end {
		c.find(dir, 0, nil, "the log start %d is above the log end %d", v.start, c.end)
	}
	if flushed := c.log.flushed.Load(); flushed > c.log.end.Load() {
		c.find(dir, 0, nil, "the recovery point %d is above the log end %d", flushed, c.log.end.Load())
	}
	for i := 1; i < len(v.segments); i++ {
		if v.segments[i].base <= v.segments[i-1].base {
			c.find(dir, 0, nil, "segment base %d does not rise", v.segments[i].base)
		}
	}
}

// checkedBatch is what the indexes are compared with.
type checkedBatch struct {
	last     int64
	max      int64 // largest timestamp up to and including the batch
	ownMax   int64
	position int64
}

func (c *checker) segment(i int) {
	s := c.view.segments[i]
	r, err := s.reader()
	if err != nil {
		if !s.gone.Load() {
			c.find(s.file.path(), 0, err, "cannot be opened")
		}
		return
	}
	defer r.close()
	if !s.unmade.Load() {
		c.counts.Segments++
	}
	batches := c.records(i, &r)
	if s.gone.Load() {
		return
	}
	c.lostEnd(i, &r, batches)
	c.length(i, &r)
	c.offsetIndex(s, batches)
	c.timeIndex(s, batches, i+1 < len(c.view.segments))
	if err := s.txns.verify(); err != nil && !s.gone.Load() {
		c.find(s.txns.file.path(), 0, err, "is damaged")
	}
}

// records walks the batches and checks each.
func (c *checker) records(i int, r *segmentReader) []checkedBatch {
	path := r.segment.file.path()
	upper := int64(math.MaxInt64)
	if i+1 < len(c.view.segments) {
		upper = c.view.segments[i+1].base
	}
	var batches []checkedBatch
	largest := int64(-1)
	walk := r.walk(0)
	defer walk.close()
	for {
		at := walk.position
		h, found, err := walk.next()
		if err != nil {
			c.find(path, at, err, "the batches end in the middle")
		}
		if err != nil || !found {
			return batches
		}
		b := make(batch.Batch, h.Size())
		if err := r.readAt(b, at); err != nil {
			c.find(path, at, err, "cannot be read")
			return batches
		}
		c.counts.Batches++
		c.counts.Records += int64(h.Count)
		c.counts.Bytes += int64(len(b))
		if c.progress != nil {
			c.progress(int64(len(b)))
		}
		if err := verify(b); err != nil {
			c.find(path, at, err, "the batch at offset %d is damaged", h.BaseOffset)
		}
		if h.LastOffset() >= upper {
			c.find(path, at, nil, "offset %d belongs to the next segment", h.LastOffset())
		}
		largest = max(largest, h.MaxTimestamp)
		batches = append(batches, checkedBatch{last: h.LastOffset(), max: largest, ownMax: h.MaxTimestamp, position: at})
	}
}

// lostEnd checks whether batches are missing before the next segment.
func (c *checker) lostEnd(i int, r *segmentReader, batches []checkedBatch) {
	if i+1 == len(c.view.segments) {
		return
	}
	reached := r.segment.base
	if n := len(batches); n > 0 {
		reached = batches[n-1].last + 1
	}
	if err := r.lostBehind(reached, c.view.segments[i+1].base); err != nil {
		c.find(r.segment.file.path(), r.size, err, "the offsets from %d on are lost", reached)
	}
}

func (c *checker) length(i int, r *segmentReader) {
	s, path := r.segment, r.segment.file.path()
	if s.unmade.Load() {
		return
	}
	sealed := i+1 < len(c.view.segments)
	info, err := s.stat()
	switch {
	case err != nil && s.gone.Load():
	case err != nil:
		c.find(path, 0, err, "cannot be described")
	case r.cut(r.size):
	case info.Size() < r.size, sealed && info.Size() != r.size:
		c.find(path, info.Size(), nil, "the file has %d bytes, the log counts %d", info.Size(), r.size)
	}
}

func (c *checker) offsetIndex(s *segment, batches []checkedBatch) {
	path := s.index.file.path()
	next := 0
	for from := int64(0); ; {
		e, found, err := s.index.upperBound(from)
		if err != nil {
			c.find(path, 0, err, "is damaged")
		}
		if err != nil || !found {
			return
		}
		for next < len(batches) && batches[next].position < e.position {
			next++
		}
		switch {
		case next == len(batches):
			return // appended since the records were read
		case batches[next].position != e.position:
			c.find(path, 0, nil, "offset %d leads to %d, where no batch begins", e.offset, e.position)
		case batches[next].last > e.offset:
			c.find(path, 0, nil, "offset %d leads to %d, behind it", e.offset, e.position)
		}
		from = e.position + 1
	}
}

func (c *checker) timeIndex(s *segment, batches []checkedBatch, sealed bool) {
	path := s.times.file.path()
	last := timeEntry{timestamp: -1, offset: s.base}
	next := 0
	for {
		_, packed, _, found, err := s.times.search(func(e packedTimeEntry) bool { return e.timestamp > last.timestamp })
		if err != nil {
			c.find(path, 0, err, "is damaged")
			return
		}
		if !found {
			break
		}
		last = s.times.entry(packed, true)
		for ; next < len(batches) && batches[next].last <= last.offset; next++ {
			if batches[next].ownMax > last.timestamp {
				c.find(path, 0, nil, "timestamp %d is said to be the largest up to offset %d, but offset %d has %d",
					last.timestamp, last.offset, batches[next].last, batches[next].ownMax)
			}
		}
	}
	if n := len(batches); sealed && n > 0 && batches[n-1].max > last.timestamp {
		c.find(path, 0, nil, "ends with timestamp %d, the segment's largest is %d", last.timestamp, batches[n-1].max)
	}
}

func (c *checker) epochs() {
	for _, e := range c.log.epochs.entries() {
		if e.Start > c.log.end.Load() {
			c.find(c.log.epochs.path, 0, nil, "epoch %d starts at %d, above the log end", e.Epoch, e.Start)
		}
	}
}
