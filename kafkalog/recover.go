package kafkalog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strings"

	"github.com/tidemark-io/tidemark/batch"
)

// findEnd finds the log end, and recovers unless the log is known to be clean. Index files that are missing are made
// from the records.
func (ld *loader) findEnd() error {
	snapshots, err := loadSnapshotFiles(ld.env.fs, ld.dir)
	if err != nil {
		return err
	}
	ld.log.snapshots = snapshots
	if len(ld.segments) == 0 {
		ld.fresh = !ld.startFound && len(snapshots.all()) == 0
		ld.end, ld.flushed = ld.start, ld.start
		return nil
	}
	if err := ld.findOverflow(); err != nil {
		return err
	}
	if ld.options.Clean {
		clean, err := ld.cleanEnd()
		if err != nil || clean {
			return err
		}
	}
	return ld.recover()
}

// cleanEnd walks the headers behind the last index entry. It is false if the files contradict a clean stop.
func (ld *loader) cleanEnd() (bool, error) {
	last := len(ld.segments) - 1
	active := ld.segments[last]
	if active.needsIndex {
		return false, nil
	}
	if err := ld.completeIndexes(ld.segments[:last]); err != nil {
		return false, err
	}
	end, whole, err := active.endByIndex()
	if err != nil || !whole {
		return false, err
	}
	if active.overflows(end - 1) {
		return false, &overflowError{active}
	}
	ld.end, ld.flushed = end, end
	ld.stopped = true
	return true, nil
}

// endByIndex returns the offset after the last batch, found from the last index entry on. It is false if index and
// records do not agree, or the records do not end with a whole batch.
func (s *segment) endByIndex() (end int64, whole bool, err error) {
	last, found, err := s.index.last()
	if err != nil {
		return 0, false, ignoreUnusable(err)
	}
	if found {
		if r, err := s.reader(); err != nil {
			return 0, false, err
		} else if agrees, err := r.agreesWith(last); err != nil || !agrees {
			return 0, false, ignoreUnusable(err)
		}
	}
	end, err = s.walkEnd(last.position, s.base)
	return end, err == nil, ignoreUnusable(err)
}

// agreesWith reports whether a batch that the index entry may mean stands at its position. It closes the reader.
func (r *segmentReader) agreesWith(e indexEntry) (bool, error) {
	defer r.close()
	walk := r.walk(e.position)
	defer walk.close()
	h, found, err := walk.next()
	return found && h.LastOffset() <= e.offset, err
}

// recover checks every segment that may hold unflushed batches, cuts the log at the first bad one, and makes what is
// left durable.
func (ld *loader) recover() error {
	boundary, err := ld.boundary()
	if err != nil {
		return err
	}
	ld.flushed = max(ld.options.RecoveryPoint, boundary)
	from := ld.find(boundary)
	if err := ld.completeIndexes(ld.segments[:from]); err != nil {
		return err
	}
	if err := ld.rebuildProducers(ld.segments[from].base); err != nil {
		return err
	}
	state := ld.log.producers.state
	for i := from; i < len(ld.segments); i++ {
		s := ld.segments[i]
		scan := &recovery{
			loader: ld, segment: s, limit: math.MaxInt64, proven: ld.flushed, state: state, expect: s.base,
			unproven: -1, modified: -1,
			contiguous: ld.options.Contiguous, discardLater: func() error { return ld.discardFrom(i + 1) }, later: ld.segments[i+1:],
		}
		if i+1 < len(ld.segments) {
			scan.limit = ld.segments[i+1].base
		}
		if err := scan.run(); err != nil {
			return err
		}
		ld.end = scan.expect
		if err := ld.boundarySnapshot(i); err != nil {
			return err
		}
	}
	ld.flushed = ld.end
	return nil // settleProducers makes the names durable
}

// boundary finds the segment base below which everything is on disk, indexes included: the greatest with a snapshot that
// can be read. A recovery point says so of the records alone, except that of a Kafka broker.
func (ld *loader) boundary() (int64, error) {
	if ld.options.Foreign {
		return ld.segments[ld.find(ld.options.RecoveryPoint)].base, nil
	}
	for _, s := range slices.Backward(ld.segments[1:]) {
		if !ld.log.snapshots.has(s.base) {
			continue
		}
		_, err := ld.log.snapshots.read(s.base)
		if err == nil {
			return s.base, nil
		}
		if !damaged(err) {
			return 0, err
		}
	}
	return ld.segments[0].base, nil
}

// find returns the index of the segment that holds the offset, or would.
func (ld *loader) find(offset int64) int {
	return (&view{segments: ld.segments}).find(offset)
}

// completeIndexes makes the index files that are missing in segments that are flushed. The records are not checked, and
// damage does not matter here: an index only saves time.
func (ld *loader) completeIndexes(segments []*segment) error {
	for _, s := range segments {
		if !s.needsIndex {
			continue
		}
		if err := s.reindex(ld.config.IndexIntervalBytes); err != nil {
			return err
		}
	}
	return nil
}

// reindex makes both indexes of a sealed segment from its headers.
func (s *segment) reindex(interval int64) error {
	if err := s.clearIndexes(); err != nil {
		return err
	}
	r, err := s.reader()
	if err != nil {
		return err
	}
	defer r.close()
	walk := r.walk(0)
	defer walk.close()
	for {
		at := walk.position
		h, found, err := walk.next()
		if unusableIndex(err) || err == nil && !found {
			break
		}
		if err != nil {
			return err
		}
		if err := s.indexBatch(&h, at, interval); err != nil {
			return err
		}
	}
	if err := s.seal(); err != nil {
		return err
	}
	if err := errors.Join(s.index.sync(), s.times.sync()); err != nil {
		return err
	}
	return s.nameIndexes()
}

// nameIndexes gives index files that were missing and are made anew, and durable unless a later recovery makes them again,
// their names.
func (s *segment) nameIndexes() error {
	if !s.needsIndex {
		return nil
	}
	for _, h := range []*handle{s.index.file, s.times.file} {
		if err := h.rename(strings.TrimSuffix(h.path(), tempSuffix)); err != nil {
			return err
		}
	}
	s.needsIndex = false
	return nil
}

// clearIndexes empties the offset and time index. Those without files are empty.
func (s *segment) clearIndexes() error {
	s.max.set(-1, -1)
	s.unindexed = 0
	if s.noIndexes {
		return nil
	}
	return errors.Join(s.index.reset(), s.times.reset())
}

// discardFrom removes the segments from the n-th on, the newest first. They do not come back after a power cut.
func (ld *loader) discardFrom(n int) error {
	if len(ld.segments) <= n {
		return nil
	}
	for len(ld.segments) > n {
		last := len(ld.segments) - 1
		if err := ld.discard(ld.segments[last]); err != nil {
			return err
		}
		ld.segments = ld.segments[:last]
	}
	return ld.log.syncDir()
}

// boundarySnapshot writes the producers' state at the base of the segment after i. Everything below was just synced.
func (ld *loader) boundarySnapshot(i int) error {
	if i+1 >= len(ld.segments) {
		return nil
	}
	base := ld.segments[i+1].base
	state := ld.log.producers.state
	state.setEnd(base)
	offset, data, due := state.capture()
	if !due {
		return nil
	}
	if err := ld.log.syncDir(); err != nil {
		return err
	}
	return ld.log.snapshots.publish(offset, data)
}

// rebuildProducers brings the producers to an offset at the base of a segment or at the log end.
func (ld *loader) rebuildProducers(end int64) error {
	v := &view{segments: ld.segments}
	return rebuildProducers(ld.log.producers.state, ld.log.snapshots, rebuildOptions{
		end: end, logStart: ld.start, bases: v.bases(), nowMs: ld.env.nowMs(),
		expirationMs: ld.config.ProducerExpirationMs,
		replay: func(base, from int64) error {
			return v.segments[v.find(base)].replay(ld.log.producers.state, from, end)
		},
	})
}

// settleProducers brings the producers to the log end, and removes the snapshots that nothing will ask for.
func (ld *loader) settleProducers() error {
	if err := ld.log.snapshots.removeStray((&view{segments: ld.segments}).bases()); err != nil {
		return err
	}
	state := ld.log.producers.state
	if ld.stopped {
		if ld.holdsNothing() {
			ld.log.names.changed.Add(1) // a log that never held records was closed without a sync of its names
		}
		if ld.young {
			return ld.replayYoung()
		}
		return ld.rebuildProducers(ld.end)
	}
	state.setEnd(ld.end)
	if err := ld.log.snapshots.removeIf(func(offset int64) bool { return offset > ld.end }); err != nil {
		return err
	}
	return ld.syncNames()
}

// recovery checks one segment from its first byte on: framing, checksum and order of every batch. It makes the indexes
// anew, lets the producers and epochs take the batches in, and cuts the segment at the first bad batch.
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

	unproven int64 // position of the first checked batch that has to be written again, -1 before there is one
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

// bytes returns n bytes at the position, valid until the next call. What the buffer held before was checked.
func (rec *recovery) bytes(n int) ([]byte, error) {
	if from := rec.at - rec.bufAt; rec.bufLen > 0 && from >= 0 && from+int64(n) <= int64(rec.bufLen) {
		return rec.buf[from : from+int64(n)], nil
	}
	if err := rec.writeAgain(); err != nil {
		return nil, err
	}
	if n > len(rec.buf) {
		rec.buf = make([]byte, n)
	}
	rec.bufAt = rec.at
	rec.bufLen = int(min(int64(len(rec.buf)), rec.reader.size-rec.at))
	if err := rec.reader.readAt(rec.buf[:rec.bufLen], rec.at); err != nil {
		return nil, err
	}
	return rec.buf[:n], nil
}

// judge decides about a bad batch. In what may not have been flushed it is the end of the log. In what was flushed it is
// damage: a batch whose end is known is kept, for readers to find, and the scan goes on behind it. Without that, a file
// that simply ends in the middle of a batch is cut all the same, for nothing is lost that the file still holds; anything
// else fails the Open.
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
		behind, err := rec.intactBehind(rec.at+1, 1)
		if err != nil || behind.batches == 0 {
			return false, err
		}
	}
	return false, rec.reader.corrupt(rec.at, "damage in flushed records: "+bad.Error(), "", "")
}

// take accounts for a batch that stays. b is nil for one that is damaged, of which only the framing counts. A batch that
// does not fit the segment is an [*overflowError].
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
		return nil // what is in the log is not refused any more
	}
	if closed && done.aborted {
		return s.txns.append(done.AbortedTxn)
	}
	return nil
}

// outgrown settles that the segment reaches into the next one. A segment takes nothing more once the next one has begun, so if
// the later ones hold nothing, a roll was taken back whose new file stayed, as when the directory was away for a while: the
// file goes and the records stay. Else bad says what is wrong with the batch.
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

// finish cuts the log behind the last good batch, seals the indexes and makes durable what the next recovery relies on. What lies in later
// segments goes first: of a recovery that is itself cut short, the next one must see the reason.
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
	if bad == nil { // else the segment becomes the active one, whose indexes the next recovery makes anew as well
		if err := s.syncIndexes(); err != nil {
			return err
		}
	}
	return s.nameIndexes()
}

// cutOff removes what the segment holds behind the position, and the later segments first. It tells how many whole batches
// went with them.
func (rec *recovery) cutOff(cut int64, bad error) error {
	lost, err := rec.intactBehind(rec.at, math.MaxInt)
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
