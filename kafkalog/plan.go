package kafkalog

import (
	"errors"
	"math"
	"sync/atomic"

	"github.com/tidemark-io/tidemark/batch"
)

// ErrTruncated says that the log was truncated, within the range, after a plan or regions were made. The caller
// reads again; the methods of [Log] that return bytes do so themselves.
var ErrTruncated = errors.New("kafkalog: truncated while being read")

// ReadPlan is a read of the log as it was when the plan was made. It holds the files it needs, so that segments
// dropped later stay readable, and sees no later append. It is not safe for concurrent use, and ends with
// [ReadPlan.Release].
type ReadPlan struct {
	log      *Log
	view     *view
	fetch    int64
	limit    int64 // not above the log end of that moment
	maxBytes int64
	next     int // index in view of the segment after the last one in parts
	parts    []planPart
	space    [2]planPart // for parts, mostly enough
	released bool
	holders  atomic.Int32 // the plan and the regions made from it; the last one closes the files
}

// planPart is a segment that the read may walk, from about the position from.
type planPart struct {
	reader segmentReader
	from   int64
}

// PlanRead captures what a read needs of the log, without reading any record: the segments from the one that holds
// fetch on, until they can fill maxBytes. [ReadPlan.Regions] and [ReadPlan.Bytes] then return what
// [Log.ReadRegions] and [Log.ReadRaw] would have returned at this moment. It may open files, and does not wait for
// an append.
//
// The selection is that of [Log.ReadRaw], with the same errors.
func (l *Log) PlanRead(fetch, limit int64, maxBytes int) (*ReadPlan, error) {
	for {
		p, err := l.planOnce(fetch, limit, maxBytes)
		if err == nil || !l.viewChanged(p.view, err) {
			if err != nil {
				return nil, err
			}
			return p, nil
		}
	}
}

// viewChanged reports whether a read failed because the log moved on under the view it used, so that it can be retried.
func (l *Log) viewChanged(v *view, err error) bool {
	return v != nil && l.view.Load() != v && (errors.Is(err, ErrTruncated) || errors.Is(err, ErrClosed)) && !l.closed.Load()
}

func (l *Log) planOnce(fetch, limit int64, maxBytes int) (*ReadPlan, error) {
	p := &ReadPlan{log: l, fetch: fetch, limit: limit, maxBytes: int64(max(maxBytes, 0))}
	p.holders.Store(1)
	p.parts = p.space[:0]
	if l.closed.Load() {
		return p, ErrClosed
	}
	// The end first, then the view: segments only ever hold more than an end that was read before.
	end := l.end.Load()
	p.view = l.view.Load()
	if err := p.view.checkFetch(fetch, end); err != nil {
		return p, err
	}
	p.limit = min(limit, end) // later appends do not belong to the plan
	if fetch >= p.limit {
		p.next = len(p.view.segments)
		return p, nil
	}
	p.next = p.view.find(fetch)
	for held := int64(0); held < p.maxBytes || len(p.parts) == 0; {
		more, err := p.addPart()
		if err != nil {
			p.Release()
			return p, err
		}
		if !more {
			break
		}
		last := &p.parts[len(p.parts)-1]
		held += last.reader.size - last.from
	}
	return p, nil
}

// checkFetch refuses offsets that the log does not hold. Offsets at or above the end are not refused here.
func (v *view) checkFetch(fetch, end int64) error {
	if fetch < v.start {
		return &OffsetTooLowError{Requested: fetch, LogStart: v.start}
	}
	if local := v.localStart(); fetch < local {
		return &OffsetBelowLocalStartError{Requested: fetch, LocalStart: local}
	}
	if base := v.segments[v.find(fetch)].base; fetch < end && fetch-base > math.MaxInt32 {
		return &ArgumentError{Argument: "fetch offset", Value: fetch, Reason: "lies in a hole of more than 2^31-1 offsets"}
	}
	return nil
}

// addPart adds the next segment to the plan. It is false if there is none.
func (p *ReadPlan) addPart() (bool, error) {
	if p.next >= len(p.view.segments) {
		return false, nil
	}
	s := p.view.segments[p.next]
	reader, err := s.reader()
	if err != nil {
		return false, err
	}
	p.next++
	var from int64
	if p.fetch > s.base {
		if from, err = s.floor(p.fetch); err != nil {
			reader.close()
			return false, err
		}
	}
	p.parts = append(p.parts, planPart{reader: reader, from: min(from, reader.size)})
	return true, nil
}

// Release ends the plan. Regions and bytes that it returned stay valid. It may be called more than once.
func (p *ReadPlan) Release() {
	if p.released {
		return
	}
	p.released = true
	p.drop()
}

// drop ends one hold on the files.
func (p *ReadPlan) drop() {
	if p.holders.Add(-1) > 0 {
		return
	}
	for i := range p.parts {
		p.parts[i].reader.close()
	}
}

// Bytes reads what was planned into memory of the caller's. It blocks on the device. Errors are [ErrTruncated], and of
// class [ErrStorage].
func (p *ReadPlan) Bytes() (RawRead, error) {
	regions, err := p.Regions()
	if err != nil {
		return RawRead{}, err
	}
	defer regions.Release()
	data, err := regions.AppendTo(make([]byte, 0, regions.Len()))
	if err != nil {
		return RawRead{}, err
	}
	return RawRead{StartOffset: regions.StartOffset, LastOffset: regions.LastOffset, Bytes: data}, nil
}

// Regions finds the file ranges of what was planned. It reads batch headers, and blocks on the device for these. The
// caller releases the regions. Errors are [ErrTruncated], and of class [ErrStorage].
func (p *ReadPlan) Regions() (*Regions, error) {
	if p.released {
		return nil, ErrClosed
	}
	out := &Regions{StartOffset: p.fetch, LastOffset: p.fetch - 1, plan: p}
	p.holders.Add(1)
	out.parts = out.space[:0]
	sel := selection{fetch: p.fetch, limit: p.limit, budget: p.maxBytes}
	for i := 0; !sel.done; i++ {
		if i == len(p.parts) {
			// What was held when the plan was made begins before the first batch, so there may be room for more.
			more, err := p.addPart()
			if errors.Is(err, ErrClosed) && !p.log.closed.Load() {
				err = ErrTruncated // the log dropped the segment meanwhile
			}
			if err != nil && !sel.found {
				out.Release()
				return nil, err
			}
			if err != nil || !more {
				break
			}
		}
		part := &p.parts[i]
		from, to, err := sel.take(&part.reader)
		if err == nil && !sel.done {
			err = p.leave(i, &sel)
		}
		if err != nil {
			out.Release()
			return nil, err
		}
		if to > from {
			out.add(part.reader, from, to)
		}
	}
	if sel.found {
		out.StartOffset, out.LastOffset = sel.first, sel.last
	}
	return out, nil
}

// leave checks whether the read may continue after the i-th part, which it has read to the end: not if the segment has
// lost its own end. What precedes the loss is served first; a read of what is lost gets a [*CorruptionError].
func (p *ReadPlan) leave(i int, sel *selection) error {
	behind := p.next - len(p.parts) + i + 1 // index in view
	if behind >= len(p.view.segments) {
		return nil
	}
	lost := p.parts[i].reader.lostBehind(sel.reached, p.view.segments[behind].base)
	if lost == nil || !sel.found {
		return lost
	}
	sel.done = true
	return nil
}

// selection walks the parts of a read in order and says which bytes of each belong to it: whole batches, from the one
// that holds or follows fetch, as long as they begin below limit and fit the budget, but always the first one.
type selection struct {
	fetch  int64
	limit  int64
	budget int64 // bytes left

	found       bool // the first batch is taken
	done        bool // nothing more belongs to the read
	first, last int64
	reached     int64 // the offset behind the last batch of a part that was read to its end
}

// take returns the range [start, end) of the segment that belongs to the read.
func (sel *selection) take(r *segmentReader) (start, end int64, err error) {
	walk, err := sel.begin(r)
	if err != nil {
		return 0, 0, err
	}
	defer walk.close()
	defer func() { sel.reached = walk.least }()
	start, end = walk.position, walk.position
	if !sel.found {
		h, at, ok, err := walk.seek(sel.fetch)
		if err != nil || !ok {
			return 0, 0, err
		}
		if h.BaseOffset >= sel.limit {
			sel.done = true
			return 0, 0, nil
		}
		sel.found = true
		sel.first = h.BaseOffset
		sel.include(&h)
		start, end = at, walk.position
	}
	if err := sel.skipByIndex(r, &walk); err != nil {
		return 0, 0, err
	}
	for {
		end = walk.position
		h, ok, err := walk.next()
		if err != nil || !ok {
			return start, end, err
		}
		if !sel.fits(&h) {
			sel.done = true
			return start, end, nil
		}
		sel.include(&h)
	}
}

// begin walks the first segment from about where the read starts, and later ones from their start.
func (sel *selection) begin(r *segmentReader) (walker, error) {
	if sel.found {
		return r.walk(0), nil
	}
	return r.walkFrom(sel.fetch)
}

func (sel *selection) fits(h *batch.Header) bool {
	return h.BaseOffset < sel.limit && int64(h.Size()) <= sel.budget
}

func (sel *selection) include(h *batch.Header) {
	sel.budget -= int64(h.Size())
	sel.last = h.LastOffset()
}

// skipByIndex moves the walk behind an indexed batch that still belongs to the read, so that a large read does not visit
// every header. Where no such batch stands, because the index lies, the walk stays.
func (sel *selection) skipByIndex(r *segmentReader, walk *walker) error {
	if sel.budget < skipAtLeast {
		return nil
	}
	from, least := walk.position, walk.least
	to, err := r.segment.floorWithin(from, sel.budget, sel.limit)
	if err != nil || to <= from || to >= r.size {
		return err
	}
	walk.position = to
	h, ok, err := walk.next()
	if skipped := to - from; err == nil && ok && h.BaseOffset < sel.limit && skipped+int64(h.Size()) <= sel.budget {
		sel.budget -= skipped
		sel.include(&h)
		return nil
	}
	walk.position, walk.least = from, least
	return nil
}

// skipAtLeast is the budget from which the index is asked; below it the headers are walked.
const skipAtLeast = 16 << 10
