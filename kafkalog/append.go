package kafkalog

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs"
)

// Appended is the result of an append.
type Appended struct {
	// BaseOffset and LastOffset are the offsets of the batch; those of the first copy if Duplicate is set.
	BaseOffset int64
	LastOffset int64
	// AppendTime is the clock reading in ms that was stamped into the batch, -1 if none was.
	AppendTime int64
	// Duplicate says that the batch is in the log already and nothing was written.
	Duplicate bool
}

// AppendOptions describes the source of an append.
type AppendOptions struct {
	// LeaderEpoch is written into the batch; -1 is unknown and starts no epoch.
	LeaderEpoch int32
	// Origin decides which producer checks apply to the batch. [Client], the zero value, refuses stale epochs
	// and out-of-order sequences and recognises duplicates.
	Origin Origin
}

// Append assigns the next offset to the batch and writes it, all or nothing. It stamps offset, leader epoch and, on a
// log with append time, the clock into the caller's bytes. It does not verify the checksum or look at the records,
// except of control batches, whose transaction it ends.
//
// The producer check and the write are one atomic step. A duplicate returns the offsets of the first copy. Nothing is
// durable before [Log.Sync], unless the [Config] asks for it; then the call blocks on the device. It may also block
// when it starts a new segment.
//
// Errors to match: [ErrOutOfOrderSequence], [ErrInvalidProducerEpoch], [ErrInvalidTransactionState],
// [ErrCoordinatorFenced], [ErrInvalidBatch], [ErrFenced], [ErrClosed], [ErrStorage]. After an error nothing was
// appended, except when a flush that the configuration asked for failed: then the batch is in the log but not durable,
// and the log accepts no more appends.
func (l *Log) Append(b batch.Batch, o AppendOptions) (Appended, error) {
	return l.appendOne(GroupItem{Batch: b, Options: o, At: NextOffset})
}

// AppendVerbatim is [Log.Append] that leaves the caller's bytes alone: header fields that must change are written from
// a copy of the header.
func (l *Log) AppendVerbatim(b batch.Batch, o AppendOptions) (Appended, error) {
	return l.appendOne(GroupItem{Batch: b, Options: o, At: NextOffset, Verbatim: true})
}

// AppendAt writes the batch at an offset chosen by the caller, as a follower does, at or above the log end. Offsets
// between the two stay unused. The batch keeps its leader epoch and timestamps, and its producer is not checked. The
// offset is stamped into the caller's bytes. An offset below the log end is an [*OffsetMismatchError]. Otherwise it is
// [Log.Append].
func (l *Log) AppendAt(b batch.Batch, offset int64) (Appended, error) {
	return l.appendOne(atItem(b, offset, false))
}

// AppendVerbatimAt is [Log.AppendAt] that leaves the caller's bytes alone.
func (l *Log) AppendVerbatimAt(b batch.Batch, offset int64) (Appended, error) {
	return l.appendOne(atItem(b, offset, true))
}

func atItem(b batch.Batch, offset int64, verbatim bool) GroupItem {
	return GroupItem{Batch: b, Options: AppendOptions{Origin: Replication}, At: max(offset, math.MinInt64+1), Verbatim: verbatim}
}

func (l *Log) appendOne(item GroupItem) (Appended, error) {
	l.mu.Lock()
	st := l.beginStage()
	st.one[0] = item
	flush := l.appendLocked(st.one[:])
	result, err := st.one[0].Result, st.one[0].Err
	st.one[0] = GroupItem{}
	l.endStage()
	l.mu.Unlock()
	if err == nil && flush {
		_, err = l.flush(false)
	}
	return result, err
}

// tail is the open end of the active segment, held from the first write on until a sync covered all of them. So a log that
// nobody writes to keeps no descriptor, and what could not be written is told to the descriptor that wrote it.
type tail struct {
	handle *handle          // of the active segment, pinned; nil while there is nothing to sync
	file   vfs.File         // its file
	vector vfs.VectorWriter // the same file, if it can
}

// hold opens the file of a segment for writing, unless it is. A file that does not reach to the end of the log is another
// one, put in its place while it was not open, and a write to it would leave a hole: that is a [*CorruptionError]. So is a file
// with something in it where there was none.
func (t *tail) hold(active *segment) error {
	if t.handle != nil {
		return nil
	}
	file, err := active.file.pin()
	if err != nil {
		return err
	}
	t.handle, t.file = active.file, file
	t.vector, _ = file.(vfs.VectorWriter)
	info, err := active.stat()
	if err == nil && info.Size() < active.size.Load() {
		err = &CorruptionError{Path: active.file.path(), Position: info.Size(), Reason: "the file is shorter than the log"}
	}
	if err == nil && active.unmade.Load() && info.Size() > 0 {
		err = &CorruptionError{Path: active.file.path(), Reason: "the file was put there while the log was open"}
	}
	if err != nil {
		t.letGo()
	}
	return err
}

// cut takes away what was written behind the end of the segment. A tail that is not held wrote nothing.
func (t *tail) cut(active *segment) error {
	if t.handle == nil {
		return nil
	}
	if err := t.file.Truncate(active.size.Load()); err != nil {
		return &IOError{Op: "truncate", Path: active.file.path(), Err: err}
	}
	return nil
}

// seal ends the hold of a file that no sync has covered.
func (t *tail) seal() {
	if t.handle != nil {
		t.handle.oweSync()
	}
	t.letGo()
}

// letGo ends the hold, if there is one.
func (t *tail) letGo() {
	if t.handle != nil {
		t.handle.unpin()
	}
	*t = tail{}
}

// headerSpace is room for a patched header.
type headerSpace [batch.HeaderSize]byte

// castagnoli is the polynomial of a batch's checksum. The table belongs to the standard library.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// patch writes the fields that the log decides into the header: offset, epoch and, if stamp is not -1, the append time
// with a new checksum. The payload is not touched. It changes h likewise.
func patch(header, payload []byte, h *batch.Header, stamp int64) {
	binary.BigEndian.PutUint64(header, uint64(h.BaseOffset))
	binary.BigEndian.PutUint32(header[12:], uint32(h.LeaderEpoch))
	if stamp < 0 || h.Attributes.LogAppendTime() && h.MaxTimestamp == stamp {
		return
	}
	const attributesAt, maxTimestampAt, crcAt = 21, 35, 17
	h.Attributes = h.Attributes&knownAttributes | appendTimeAttribute
	h.MaxTimestamp = stamp
	binary.BigEndian.PutUint16(header[attributesAt:], uint16(h.Attributes))
	binary.BigEndian.PutUint64(header[maxTimestampAt:], uint64(stamp))
	h.CRC = crc32.Update(crc32.Checksum(header[attributesAt:batch.HeaderSize], castagnoli), castagnoli, payload)
	binary.BigEndian.PutUint32(header[crcAt:], h.CRC)
}

const (
	appendTimeAttribute batch.Attributes = 0x08
	knownAttributes     batch.Attributes = 0x7f
)

// checkAppend parses the header of a batch that is to be appended and holds it against its bytes.
func checkAppend(b batch.Batch) (batch.Header, error) {
	h, err := batch.ParseHeader(b)
	if err == nil && h.Size() != len(b) {
		err = &batch.FormatError{Field: "batch length", Found: int64(h.Length), Want: "the length of the batch"}
	}
	if err == nil && h.LastOffsetDelta < 0 {
		err = &batch.FormatError{Field: "last offset delta", Found: int64(h.LastOffsetDelta), Want: "0 or more"}
	}
	if err != nil {
		return h, &BatchError{Offset: -1, Err: err}
	}
	return h, nil
}

// mustRoll reports whether the batch, which comes behind the staged ones, needs a new segment.
func (l *Log) mustRoll(c *Config, now int64, h *batch.Header) (bool, error) {
	s := l.view.Load().active()
	if last := h.LastOffset() - s.base; last > math.MaxInt32 {
		return true, nil
	}
	staged := l.mu.stage
	size := s.size.Load() + staged.bytes
	if size == 0 {
		return false, nil
	}
	if size+int64(h.Size()) > c.SegmentBytes {
		return true, nil
	}
	entries, err := s.index.entries()
	if err != nil {
		return false, err
	}
	stamps, err := s.times.entries()
	if err != nil {
		return false, err
	}
	if entries+len(staged.batches) >= c.offsetEntries() || stamps+len(staged.batches) >= c.timeEntries()-1 {
		return true, nil
	}
	return s.tooOld(c, now, h.MaxTimestamp)
}

// tooOld reports whether a segment that holds batches is to be left behind by one with this largest timestamp. Without
// timestamps the clock decides.
func (s *segment) tooOld(c *Config, now, timestamp int64) (bool, error) {
	age := c.segmentAge() - s.jitter
	first, err := s.firstTimestamp()
	if err != nil {
		return false, err
	}
	if first >= 0 {
		return timestamp > first && timestamp-first > age, nil
	}
	return now-s.created > age, nil
}

// AppendMayBlock reports whether an append of the given number of bytes, whose newest record has the given timestamp,
// may have to wait for the device: because a flush policy is set, or because it would start a new segment. It errs on
// the side of true, and concurrent appends may make a false result stale.
func (l *Log) AppendMayBlock(bytes int, maxTimestamp int64) bool {
	c := l.config.Load()
	if c.flushesOnAppend() {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beginStage()
	defer l.endStage()
	h := batch.Header{Length: int32(bytes - 12), MaxTimestamp: maxTimestamp, BaseOffset: l.end.Load()}
	roll, err := l.mustRoll(c, l.env.nowMs(), &h)
	return roll || err != nil
}

// VerbatimAppendMayBlock is [Log.AppendMayBlock] for one batch with its options. It is also true when the batch starts a
// leader epoch, and for control batches.
func (l *Log) VerbatimAppendMayBlock(b batch.Batch, o AppendOptions) bool {
	h, err := checkAppend(b)
	if err != nil || h.IsControl() || l.startsEpoch(o.LeaderEpoch) {
		return true
	}
	return l.AppendMayBlock(len(b), h.MaxTimestamp)
}

// startsEpoch reports whether a batch of this leader epoch changes the epoch cache.
func (l *Log) startsEpoch(epoch int32) bool {
	latest, found := l.epochs.latest()
	return epoch >= 0 && (!found || latest.Epoch != epoch)
}
