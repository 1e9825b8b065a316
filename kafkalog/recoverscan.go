package kafkalog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/tidemark-io/tidemark/batch"
)

// recovery checks one segment from its first byte on: framing, checksum and order of every batch. It rebuilds the
// indexes, passes the batches to the producers and epochs, and cuts the segment at the first bad batch.
type recovery struct {
	loader  *loader
	segment *segment
	limit   int64 // offsets of this segment lie below it
	proven  int64 // what lies below was flushed and is never cut
	state   *producerState

	contiguous   bool         // an offset that is missing above proven was lost
	discardLater func() error // removes the segments behind this one
	later        []*segment   // those

	reader segmentReader
	at     int64 // position of the next batch
	expect int64 // the next batch's base offset may not be lower, nor, if contiguous, higher
	buf    []byte
	bufAt  int64
	bufLen int

	unproven int64 // position of the first checked batch that must be written again, -1 before there is one
	modified int64 // ms: the file's time before one was, -1 if none was
}

// scanSize is how much recovery reads at once.
const scanSize = 1 << 20

func (rec *recovery) run() (err error) {
	s := rec.segment
	if s.noIndexes && s.size.Load() == 0 && rec.limit == math.MaxInt64 {
		return errors.Join(s.txns.reset(), s.syncRecords()) // an empty log stays as it is
	}
	if err := errors.Join(s.clearIndexes(), s.txns.reset()); err != nil {
		return err
	}
	if rec.reader, err = s.reader(); err != nil {
		return err
	}
	defer rec.reader.close()
	rec.buf = make([]byte, min(scanSize, rec.reader.size))
	for rec.at < rec.reader.size {
		b, h, bad, err := rec.next()
		if err != nil {
			return err
		}
		if bad != nil {
			keep, err := rec.judge(&h, b != nil, bad)
			if err != nil {
				return err
			}
			if !keep {
				return rec.finish(bad)
			}
			b = nil
		}
		if err := rec.take(b, &h); err != nil {
			return err
		}
	}
	return rec.finish(nil)
}

// next reads the batch at the position. bad says what is wrong with it; b is then nil unless its end is known.
func (rec *recovery) next() (b batch.Batch, h batch.Header, bad, err error) {
	head, err := rec.bytes(int(min(batch.HeaderSize, rec.reader.size-rec.at)))
	if err != nil {
		return nil, h, nil, err
	}
	h, bad = decodeHeader(head, rec.reader.size-rec.at)
	if bad != nil {
		return nil, h, bad, nil
	}
	if b, err = rec.bytes(h.Size()); err != nil {
		return nil, h, nil, err
	}
	switch {
	case h.BaseOffset < rec.expect:
		bad = fmt.Errorf("base offset is %d, want %d or more", h.BaseOffset, rec.expect)
	case rec.lost(h.BaseOffset):
		bad = fmt.Errorf("base offset is %d, and what begins at %d was lost", h.BaseOffset, rec.expect)
	default:
		bad = verify(b)
	}
	if bad == nil && h.LastOffset() >= rec.limit {
		bad, err = rec.outgrown(&h)
	}
	if bad == nil && rec.segment.overflows(h.LastOffset()) {
		bad, err = rec.overflow(&h)
	}
	return b, h, bad, err
}

// lost reports whether the offsets from the expected one up to the given one were written and are missing. Below the log
// start, some of the segments that were deleted may be back after a power cut.
func (rec *recovery) lost(up int64) bool {
	return rec.contiguous && rec.expect >= rec.proven && up > rec.expect && up > rec.loader.start
}

// verify checks the checksum of a batch of any version.
func verify(b batch.Batch) error {
	if b.Magic() == batch.Magic {
		return b.VerifyCRC()
	}
	const crcAt, coveredFrom = 12, 16
	stored := binary.BigEndian.Uint32(b[crcAt:])
	if computed := crc32.ChecksumIEEE(b[coveredFrom:]); stored != computed {
		return &batch.CRCError{Stored: stored, Computed: computed}
	}
	return nil
}

// bytes returns n bytes at the position, valid until the next call. What the buffer held before the position was checked. No
// byte is read twice.
func (rec *recovery) bytes(n int) ([]byte, error) {
	if from := rec.at - rec.bufAt; rec.bufLen > 0 && from >= 0 && from+int64(n) <= int64(rec.bufLen) {
		return rec.buf[from : from+int64(n)], nil
	}
	if err := rec.writeAgain(); err != nil {
		return nil, err
	}
	var begun []byte // what is there already
	if from := rec.at - rec.bufAt; from >= 0 && from < int64(rec.bufLen) {
		begun = rec.buf[from:rec.bufLen]
	}
	if n > len(rec.buf) {
		rec.buf = make([]byte, n)
	}
	have := copy(rec.buf, begun)
	rec.bufAt = rec.at
	rec.bufLen = int(min(int64(len(rec.buf)), rec.reader.size-rec.at))
	if err := rec.reader.readAt(rec.buf[have:rec.bufLen], rec.at+int64(have)); err != nil {
		rec.bufLen = 0
		return nil, err
	}
	return rec.buf[:n], nil
}

// judge decides about a bad batch. In what may not have been flushed it is the end of the log. In what was flushed it is
// damage: a batch whose end is known is kept, for readers to find, and the scan continues behind it. Without that, a
// log that simply ends in the middle of a batch is cut all the same, for nothing is lost that its files still hold;
// anything else fails the Open.
func (rec *recovery) judge(h *batch.Header, framed bool, bad error) (keep bool, err error) {
	if rec.expect >= rec.proven {
		return false, nil
	}
	var crc *batch.CRCError
	if framed && errors.As(bad, &crc) && h.LastOffset() < rec.proven {
		rec.loader.env.events.DamagedBatch(DamagedBatchEvent{
			File: rec.segment.file.path(), Position: rec.at, Offset: h.BaseOffset,
			Err: &ChecksumError{Path: rec.segment.file.path(), Position: rec.at, Want: crc.Stored, Got: crc.Computed},
		})
		return true, nil
	}
	if errors.Is(bad, errPartial) {
		nothing, err := rec.nothingBehind()
		if err != nil || nothing {
			return false, err
		}
	}
	return false, rec.reader.corrupt(rec.at, "damage in flushed records: "+bad.Error(), "", "")
}

// take accounts for a batch that stays. b is nil for a damaged one, of which only the framing counts. A batch that does
// not fit the segment is an [*overflowError].
func (rec *recovery) take(b batch.Batch, h *batch.Header) error {
	s := rec.segment
	if s.overflows(h.LastOffset()) {
		return &overflowError{s}
	}
	rec.noteUnproven(h.LastOffset())
	if err := s.indexBatch(h, rec.at, rec.loader.config.IndexIntervalBytes); err != nil {
		return err
	}
	rec.at += int64(h.Size())
	rec.expect = h.NextOffset()
	if b == nil || h.Magic != batch.Magic {
		return nil
	}
	rec.loader.epochs.replay(h.LeaderEpoch, h.BaseOffset)
	done, closed, err := rec.state.replay(b)
	if err != nil {
		return nil // records in the log are not refused any more
	}
	if closed && done.aborted {
		return s.txns.append(done.AbortedTxn)
	}
	return nil
}

// outgrown decides about a segment that reaches into the next one. A segment gets no more records once the next one has
// begun. So if the later ones hold nothing, a roll was undone but its new file remained, as when the directory was
// unavailable for a while: the file is removed and the records stay. Otherwise bad says what is wrong with the batch.
func (rec *recovery) outgrown(h *batch.Header) (bad, err error) {
	later, err := rec.laterIntact()
	if err != nil {
		return nil, err
	}
	if later.batches > 0 {
		return fmt.Errorf("last offset is %d, the next segment begins at %d", h.LastOffset(), rec.limit), nil
	}
	rec.limit, rec.later = math.MaxInt64, nil
	return nil, rec.discardLater()
}

// finish cuts the log after the last good batch, seals the indexes and makes durable what the next recovery relies on.
// Later segments are removed first: if the recovery itself is interrupted, the next one must still see the reason.
func (rec *recovery) finish(bad error) error {
	s := rec.segment
	cut := rec.reader.size - rec.at
	if gap := bad == nil && rec.limit < math.MaxInt64 && rec.lost(rec.limit); gap {
		bad = fmt.Errorf("the next segment begins at %d, and what begins at %d was lost", rec.limit, rec.expect)
	}
	if cut > 0 || bad != nil {
		if err := rec.cutOff(cut, bad); err != nil {
			return err
		}
	}
	if err := errors.Join(rec.writeAgain(), rec.keepTime()); err != nil {
		return err
	}
	s.openedAt = rec.at
	if rec.limit == math.MaxInt64 { // the active segment, whose index entries stay in memory
		s.needsIndex = false
		return s.syncRecords()
	}
	if err := s.seal(); err != nil {
		return err
	}
	if err := s.syncRecords(); err != nil {
		return err
	}
	if bad == nil { // else the segment becomes the active one, whose indexes the next recovery rebuilds as well
		if err := s.syncIndexes(); err != nil {
			return err
		}
	}
	return s.nameIndexes()
}

// cutOff removes what the segment holds after the position, and the later segments first. It reports how many whole
// batches were removed with them.
func (rec *recovery) cutOff(cut int64, bad error) error {
	lost, err := rec.intactBehind(rec.at, lookAhead, math.MaxInt)
	if err != nil {
		return err
	}
	later, err := rec.laterIntact()
	if err != nil {
		return err
	}
	lost.add(later)
	if err := rec.discardLater(); err != nil {
		return err
	}
	return rec.cutFile(cut, bad, lost)
}

func (rec *recovery) cutFile(cut int64, bad error, lost intactBatches) error {
	s := rec.segment
	file, err := s.file.acquire()
	if err != nil {
		return err
	}
	defer s.file.release()
	if err := file.Truncate(rec.at); err != nil {
		return &IOError{Op: "truncate", Path: s.file.path(), Err: err}
	}
	s.size.Store(rec.at)
	rec.loader.env.events.PartialBatch(PartialBatchEvent{
		File: s.file.path(), Position: rec.at, Cut: cut, Offset: rec.expect, Reason: bad,
		LostBatches: lost.batches, LostBytes: lost.bytes, LostOffsets: lost.offsets,
	})
	return nil
}
