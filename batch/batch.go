package batch

import (
	"encoding/binary"
	"hash/crc32"
)

// Batch is a view of exactly one whole batch: its length is [HeaderSize] or more and equals 12 plus the length field.
// [Next], [Builder.Build], [EndMarker] and [Validate] make such slices; a Batch made by conversion must obey the same
// rule, or methods panic.
//
// The methods read and write the slice itself. They allocate nothing and are as safe for concurrent use as a slice is:
// any number of readers, or one writer.
type Batch []byte

// Size returns the number of bytes of the batch, header included.
func (b Batch) Size() int { return len(b) }

// BaseOffset returns the offset of the first record that the batch was built with.
func (b Batch) BaseOffset() int64 { return int64(binary.BigEndian.Uint64(b[posBaseOffset:])) }

// SetBaseOffset writes the base offset. The checksum does not cover it.
func (b Batch) SetBaseOffset(offset int64) {
	binary.BigEndian.PutUint64(b[posBaseOffset:], uint64(offset))
}

// Length returns the length field: the bytes after the field itself, [Batch.Size] less 12.
func (b Batch) Length() int32 { return int32(binary.BigEndian.Uint32(b[posLength:])) }

// LeaderEpoch returns the epoch of the leader that appended the batch, -1 when unknown.
func (b Batch) LeaderEpoch() int32 { return int32(binary.BigEndian.Uint32(b[posLeaderEpoch:])) }

// SetLeaderEpoch writes the leader epoch. The checksum does not cover it.
func (b Batch) SetLeaderEpoch(epoch int32) {
	binary.BigEndian.PutUint32(b[posLeaderEpoch:], uint32(epoch))
}

// Magic returns the format version.
func (b Batch) Magic() int8 { return int8(b[posMagic]) }

// CRC returns the stored checksum. [Batch.VerifyCRC] compares it.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[posCRC:]) }

// Attributes returns the flags.
func (b Batch) Attributes() Attributes {
	return Attributes(binary.BigEndian.Uint16(b[posAttributes:]))
}

// LastOffsetDelta returns the distance from the base offset to the last offset of the batch.
func (b Batch) LastOffsetDelta() int32 {
	return int32(binary.BigEndian.Uint32(b[posLastOffsetDelta:]))
}

// LastOffset returns the last offset that belongs to the batch, whether or not a record is still there.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// NextOffset returns the offset after the batch.
func (b Batch) NextOffset() int64 { return b.LastOffset() + 1 }

// BaseTimestamp returns the base of the records' timestamp deltas: the first record's timestamp, or the delete horizon
// when [Attributes.HasDeleteHorizon] is set, or -1 in an empty batch.
func (b Batch) BaseTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[posBaseTimestamp:])) }

// MaxTimestamp returns the largest record timestamp, or the append time of a LogAppendTime batch.
func (b Batch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[posMaxTimestamp:])) }

// ProducerID returns the id of an idempotent producer, or -1.
func (b Batch) ProducerID() int64 { return int64(binary.BigEndian.Uint64(b[posProducerID:])) }

// ProducerEpoch returns the epoch of the producer, or -1.
func (b Batch) ProducerEpoch() int16 { return int16(binary.BigEndian.Uint16(b[posProducerEpoch:])) }

// BaseSequence returns the sequence of the first record, or -1.
func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[posBaseSequence:])) }

// LastSequence returns the sequence of the last record, or -1 when the batch carries none.
func (b Batch) LastSequence() int32 { return lastSequence(b.BaseSequence(), b.LastOffsetDelta()) }

// Count returns the number of records, 0 only in an empty batch that compaction left.
func (b Batch) Count() int32 { return int32(binary.BigEndian.Uint32(b[posCount:])) }

// Payload returns the bytes after the header: the records or their compressed form. It aliases the batch.
func (b Batch) Payload() []byte { return b[posRecords:len(b):len(b)] }

// Header returns all fields of the header.
func (b Batch) Header() Header { return readHeader(b) }

// VerifyCRC compares the stored checksum with the bytes and returns a [*CRCError] when they differ. It reads the whole
// batch.
func (b Batch) VerifyCRC() error {
	if stored, computed := b.CRC(), b.computeCRC(); stored != computed {
		return &CRCError{Stored: stored, Computed: computed}
	}
	return nil
}

// StampAppendTime makes the batch one of [LogAppendTime]: it sets the flag, writes ms as the max timestamp and recomputes
// the checksum. Attribute bits that the format does not define are dropped. The records are not touched; readers use the
// max timestamp for each of them. If the batch is in that state already, nothing is written.
//
// The new checksum vouches for whatever bytes are there: verify the old one first.
func (b Batch) StampAppendTime(ms int64) { b.stampTimestamps(LogAppendTime, ms) }

// StampMaxTimestamp makes the batch one of [CreateTime] whose largest record timestamp is ms, and otherwise works like
// [Batch.StampAppendTime]. It is for a batch whose header and records disagree.
func (b Batch) StampMaxTimestamp(ms int64) { b.stampTimestamps(CreateTime, ms) }

func (b Batch) stampTimestamps(t TimestampType, ms int64) {
	attrs := b.Attributes()
	if attrs.TimestampType() == t && b.MaxTimestamp() == ms {
		return
	}
	attrs &= attrKnown &^ attrLogAppendTime
	if t == LogAppendTime {
		attrs |= attrLogAppendTime
	}
	binary.BigEndian.PutUint16(b[posAttributes:], uint16(attrs))
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(ms))
	b.sealCRC()
}

// castagnoli is the polynomial of the format's checksum. The table is built by the standard library and never changes.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (b Batch) computeCRC() uint32 { return crc32.Checksum(b[posAttributes:], castagnoli) }

func (b Batch) sealCRC() { binary.BigEndian.PutUint32(b[posCRC:], b.computeCRC()) }
