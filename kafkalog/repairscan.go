package kafkalog

import (
	"errors"
	"fmt"
	"math"
	"path"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs"
)

// repairSegment is a file of records as a repair sees it: whole batches, and between them what is none.
type repairSegment struct {
	repair *Repair
	name   string
	base   int64
	before *repairSegment // nil: it is the first one
	limit  int64          // offsets of this segment lie below it; never: it is the last one

	size    int64
	regions []repairRegion
	batches []repairBatch // the whole ones
	txns    []repairTxn   // those of transactions
	end     int64         // the offset after the last whole batch, base without any
	epoch   int32         // the leader epoch of that, or of the one before the segment; -1 without any
	fillTo  int64         // where the segment has to end, if that is above the last whole batch

	fillMarkers []batch.EndMarkerOptions // that are written behind the last whole batch
}

// repairRegion is a stretch of bytes that hold no whole batch in its place.
type repairRegion struct {
	from, to    int64 // positions
	first, next int64 // offsets that are lost with it; equal if none are, or none are known to be
	epoch       int32 // of the batches before it, -1 without any
	records     int64 // that it speaks of
	zero        bool  // there is nothing but zeros in it
	misplaced   bool  // it is a whole batch but for its base offset, which must be first
	reason      string

	whole   batch.Batch              // what it must have been, nil if that is not known
	markers []batch.EndMarkerOptions // that are restored in its place, by rising offset
}

// isPutRight reports whether the region is a batch that stays, but for what is wrong with it.
func (g *repairRegion) isPutRight() bool { return g.misplaced || g.whole != nil }

// fillsBehind reports whether offsets are filled behind all that is in the file.
func (s *repairSegment) fillsBehind() bool {
	n := len(s.regions)
	return s.fillTo > s.end && (n == 0 || s.regions[n-1].to < s.size || s.regions[n-1].isPutRight())
}

// repairBatch is what the indexes are held against.
type repairBatch struct {
	base     int64
	max      int64 // the largest timestamp up to and including the batch
	position int64
}

// scan reads the file.
func (s *repairSegment) scan() error {
	name := path.Join(s.repair.Dir, s.name)
	f, size, err := openForReading(s.repair.fs, name)
	if err != nil {
		return err
	}
	defer f.Close()
	s.size, s.end = size, s.base
	sc := &repairScanner{segment: s, name: name, file: f, size: size}
	if s.epoch = -1; s.before != nil {
		s.epoch = s.before.epoch
	}
	largest := int64(-1)
	for at := int64(0); at < size; {
		h, moved, err := sc.misplaced(at, s.end)
		if err != nil {
			return err
		}
		if moved {
			s.regions = append(s.regions, repairRegion{
				from: at, to: at + int64(h.Size()), first: s.end, next: s.end, epoch: s.epoch, records: int64(h.Count), misplaced: true,
				reason: fmt.Sprintf("the base offset is %d, and its place is that of %d", h.BaseOffset, s.end),
			})
			h.BaseOffset = s.end
			if err := sc.noteTransaction(at, h); err != nil {
				return err
			}
			largest = max(largest, h.MaxTimestamp)
			at += int64(h.Size())
			s.end = h.NextOffset()
			continue
		}
		h, reason, err := sc.whole(at, s.end)
		if err != nil {
			return err
		}
		if reason != "" {
			marker, err := sc.mendedMarker(at, s.end)
			if err != nil {
				return err
			}
			if marker != nil {
				h = marker.Header()
				s.regions = append(s.regions, repairRegion{
					from: at, to: at + int64(h.Size()), first: h.BaseOffset, next: h.BaseOffset, epoch: s.epoch, records: 1, whole: marker,
					reason: "one byte of the marker of a transaction's end is wrong, and its checksum shows which: " + reason,
				})
				s.noteTransaction(marker, h)
				largest = max(largest, h.MaxTimestamp)
				at += int64(h.Size())
				s.end = h.NextOffset()
				continue
			}
			region, err := sc.region(at, s.end, reason)
			if err != nil {
				return err
			}
			region.epoch = s.epoch
			s.regions = append(s.regions, region)
			at = region.to
			continue
		}
		if n := len(s.regions); n > 0 && s.regions[n-1].to == at && !s.regions[n-1].isPutRight() {
			s.regions[n-1].next = h.BaseOffset
		}
		if err := sc.noteTransaction(at, h); err != nil {
			return err
		}
		s.epoch = max(s.epoch, h.LeaderEpoch)
		largest = max(largest, h.MaxTimestamp)
		s.batches = append(s.batches, repairBatch{base: h.BaseOffset, max: largest, position: at})
		at += int64(h.Size())
		s.end = h.NextOffset()
	}
	return nil
}

// repairScanner reads one file through a window.
type repairScanner struct {
	segment *repairSegment
	name    string
	file    vfs.File
	size    int64
	buf     []byte
	at      int64 // position of buf
	read    int64 // up to where the file has been read
}

// noteTransaction remembers the whole batch at a position if it is of a transaction.
func (sc *repairScanner) noteTransaction(at int64, h batch.Header) error {
	if !h.HasProducer() {
		return nil
	}
	b, err := sc.bytes(at, h.Size())
	if err == nil {
		sc.segment.noteTransaction(b, h)
	}
	return err
}

// bytes returns n bytes at a position that the file has, until the next call.
func (sc *repairScanner) bytes(at int64, n int) ([]byte, error) {
	if from := at - sc.at; from >= 0 && from+int64(n) <= int64(len(sc.buf)) {
		return sc.buf[from : from+int64(n)], nil
	}
	want := int(min(max(int64(n), scanSize), sc.size-at))
	if cap(sc.buf) < want {
		sc.buf = make([]byte, want)
	}
	sc.buf, sc.at = sc.buf[:want], at
	if err := readFull(sc.file, sc.name, sc.buf, at); err != nil {
		sc.buf = sc.buf[:0]
		return nil, err
	}
	if more := at + int64(want) - sc.read; more > 0 {
		sc.read += more
		if told := sc.segment.repair.options.Progress; told != nil {
			told(more)
		}
	}
	return sc.buf[:n], nil
}

// framed returns the header at a position if it is that of a batch which ends in the file.
func (sc *repairScanner) framed(at int64) (batch.Header, error, error) {
	head, err := sc.bytes(at, int(min(batch.HeaderSize, sc.size-at)))
	if err != nil {
		return batch.Header{}, nil, err
	}
	h, bad := decodeHeader(head, sc.size-at)
	return h, bad, nil
}

// misplaced reports whether at a position there is a batch with a right checksum, which its base offset is not under, and a wrong
// base offset: the next batch, or segment, follows on it as if it had the given one.
func (sc *repairScanner) misplaced(at, right int64) (batch.Header, bool, error) {
	h, bad, err := sc.framed(at)
	if err != nil || bad != nil || h.Magic != batch.Magic || h.BaseOffset == right {
		return h, false, err
	}
	end, next := at+int64(h.Size()), right+int64(h.LastOffsetDelta)+1
	if end == sc.size {
		if next != sc.segment.limit {
			return h, false, nil
		}
	} else {
		follower, reason, err := sc.whole(end, next)
		if err != nil || reason != "" || follower.BaseOffset != next {
			return h, false, err
		}
	}
	b, err := sc.bytes(at, h.Size())
	return h, err == nil && verify(b) == nil, err
}

// whole returns the header of the batch at a position, or why that is not one which belongs there: offsets from least on,
// below the next segment, and the right checksum.
func (sc *repairScanner) whole(at, least int64) (h batch.Header, reason string, err error) {
	h, bad, err := sc.framed(at)
	if err != nil {
		return h, "", err
	}
	s := sc.segment
	switch {
	case bad != nil:
		return h, bad.Error(), nil
	case h.BaseOffset < least:
		return h, fmt.Sprintf("the base offset is %d, %d or more is expected", h.BaseOffset, least), nil
	case h.LastOffset() >= s.limit:
		return h, fmt.Sprintf("the last offset is %d, the next segment begins at %d", h.LastOffset(), s.limit), nil
	case h.LastOffset()-s.base > math.MaxInt32:
		return h, fmt.Sprintf("the last offset is %d, which is too far from the segment's base", h.LastOffset()), nil
	}
	b, err := sc.bytes(at, h.Size())
	if err != nil {
		return h, "", err
	}
	if bad := verify(b); bad != nil {
		return h, bad.Error(), nil
	}
	return h, "", nil
}

// region measures what begins at a position and is no whole batch: up to the end of the batch that it says it is, if a whole
// one or the end of the file follows, and else up to the next whole batch wherever that begins.
func (sc *repairScanner) region(at, least int64, reason string) (repairRegion, error) {
	r := repairRegion{from: at, first: least, next: least, reason: reason}
	h, bad, err := sc.framed(at)
	if err != nil {
		return r, err
	}
	if bad == nil {
		r.to = at + int64(h.Size())
		follows, err := sc.follows(r.to, least)
		if err != nil {
			return r, err
		}
		if follows {
			r.records = int64(max(h.Count, 0))
			if r.to == sc.size && h.BaseOffset == least && h.Magic == batch.Magic && h.LastOffsetDelta == h.Count-1 {
				r.next = h.NextOffset() // it stood in its place, so somebody may have read these
			}
			return r, nil
		}
	}
	for r.to = at + 1; r.to < sc.size; r.to++ {
		follows, err := sc.follows(r.to, least)
		if err != nil {
			return r, err
		}
		if follows {
			break
		}
	}
	r.zero, err = sc.isZero(r.from, r.to)
	return r, err
}

// follows reports whether a whole batch of today's format begins at a position, or the file ends there.
func (sc *repairScanner) follows(at, least int64) (bool, error) {
	if at == sc.size {
		return true, nil
	}
	if sc.size-at < batch.HeaderSize {
		return false, nil
	}
	head, err := sc.bytes(at, batch.HeaderSize)
	if err != nil || head[16] != batch.Magic {
		return false, err
	}
	_, reason, err := sc.whole(at, least)
	return err == nil && reason == "", err
}

func (sc *repairScanner) isZero(from, to int64) (bool, error) {
	for from < to {
		n := int(min(to-from, scanSize))
		b, err := sc.bytes(from, n)
		if err != nil || !isZero(b) {
			return false, err
		}
		from += int64(n)
	}
	return true, nil
}

// settleRecords says what is to be done about the records, now that all segments are known.
func (r *Repair) settleRecords() {
	if len(r.segments) == 0 {
		r.End = max(r.Start, 0)
		return
	}
	for i, s := range r.segments {
		s.settle(i+1 == len(r.segments))
	}
	last := r.last()
	r.End = max(last.end, last.fillTo)
	if r.End < r.Start {
		r.note("the log ends below its start, so it begins anew at %d", r.Start)
		r.End = r.Start
	}
	r.Start = max(r.Start, r.segments[0].base)
}

// settle makes a step of each region.
func (s *repairSegment) settle(last bool) {
	r := s.repair
	for i := range s.regions {
		g := &s.regions[i]
		if g.isPutRight() {
			r.add(RepairStep{
				Action: PutRight, File: s.name, Reason: g.reason, Position: g.from, Bytes: g.to - g.from, First: g.first, Next: g.next,
				Records: g.records,
			})
			continue
		}
		atEnd := g.to == s.size
		if atEnd && !last {
			g.next = max(g.next, min(s.limit, s.base+math.MaxInt32))
		}
		if atEnd && last {
			g.next = max(g.next, s.knownEnd(r.options.Flushed), s.knownEnd(r.options.Visible))
			if g.zero && g.next == g.first {
				s.regions = s.regions[:i] // room that was reserved for records to come
				return
			}
		}
		step := RepairStep{
			Action: LeaveOut, File: s.name, Reason: g.reason, Position: g.from, Bytes: g.to - g.from, First: g.first, Next: g.next,
			Records: g.records,
		}
		if atEnd && g.next == g.first {
			step.Action = CutTail
		}
		if atEnd && g.next > g.first {
			s.fillTo = g.next
		}
		r.add(step)
	}
	if known := s.knownEnd(r.options.Flushed); last && known > max(s.end, s.fillTo) {
		s.fillTo = known
		r.add(RepairStep{
			Action: FillEnd, File: s.name, Position: s.size, First: s.end, Next: known,
			Reason: "the file ends before what is known to have been on disk",
		})
	}
	if !last && len(s.regions) == 0 && s.lostEnd() {
		s.fillTo = min(s.limit, s.base+math.MaxInt32)
		r.add(RepairStep{
			Action: FillEnd, File: s.name, Position: s.size, First: s.end, Next: s.fillTo,
			Reason: "the file ends before a batch that its index names",
		})
	} else if !last && len(s.regions) == 0 && s.end < s.limit {
		r.note("%s: there are no records of the offsets %d to %d, and nothing shows whether there were", s.name, s.end, s.limit-1)
	}
}

// lostEnd reports whether an index names a batch between the last one and the next segment, see lostend.go.
func (s *repairSegment) lostEnd() bool {
	r := s.repair
	offsets, _ := ReadOffsetIndexFile(r.fs, filePath(r.Dir, s.base, indexSuffix)) // one that cannot be read is ignored
	times, _ := ReadTimeIndexFile(r.fs, filePath(r.Dir, s.base, timeIndexSuffix))
	names := func(offset int64) bool { return offset >= s.end && offset < s.limit }
	return len(offsets) > 0 && names(offsets[len(offsets)-1].Offset) || len(times) > 0 && names(times[len(times)-1].Offset)
}

// knownEnd is the offset if the segment may have ended there. A checkpoint may be damaged too.
func (s *repairSegment) knownEnd(offset int64) int64 {
	if offset <= s.end || offset-s.base > math.MaxInt32 {
		return s.end
	}
	return offset
}

// errUnreadable reports whether a file could not be read, as opposed to one that holds what it should not.
func errUnreadable(err error) bool {
	var io *IOError
	var read *ReadError
	return errors.As(err, &io) || errors.As(err, &read)
}
