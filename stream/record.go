package stream

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// A record, 33 bytes and its payload, big-endian. It carries no checksum: that of its frame covers it in the WAL, that of
// its payload, if it has one, elsewhere.
//
//	+-------+-----------+---------+-------------+---------+-------------+-------------------+
//	| magic | stream id | epoch   | base offset | count   | payload len | payload           |
//	| 0x22  | i64       | i64     | i64         | i32     | i32 >= 0    | payload len bytes |
//	+-------+-----------+---------+-------------+---------+-------------+-------------------+
//	0       1           9         17            25        29            33
const (
	recordMagic = 0x22

	// RecordHeaderSize is the number of bytes in front of a record's payload.
	RecordHeaderSize = 33
)

// Record is one append of one stream: Count rows from Base on, as bytes that the stream does not interpret.
type Record struct {
	Stream catalog.StreamID // -1 only in a sentinel
	Epoch  int64            // the stream's epoch under which it was appended
	Base   int64            // offset of the first row
	Count  int32            // rows; negative for a link record of another product
	// Payload belongs to whoever created the record; in a decoded one it aliases the input.
	Payload []byte
}

// End is the offset behind the last row (REC-1).
func (r Record) End() int64 {
	if r.Count > 0 {
		return r.Base + int64(r.Count)
	}
	return r.Base - int64(r.Count)
}

// IsLink reports whether this is a link record of another product: it is decoded, and refused everywhere else.
func (r Record) IsLink() bool { return r.Count < 0 }

// Sentinel is the record that carries a trim offset or a fence in the WAL and is skipped by recovery (3.8).
func Sentinel() Record { return Record{Stream: -1, Epoch: -1} }

// IsSentinel reports whether the record is a [Sentinel].
func (r Record) IsSentinel() bool {
	return r.Stream == -1 && r.Epoch == -1 && r.Base == 0 && r.Count == 0 && len(r.Payload) == 0
}

// EncodedLen is the length of the record with its header.
func (r Record) EncodedLen() int { return RecordHeaderSize + len(r.Payload) }

// CheckAppend accepts the records that may be appended (REC-1, REC-5, FRM-4): [ErrLinkRecord], [ErrBadCount],
// [ErrRecordTooLarge].
func (r Record) CheckAppend() error {
	switch {
	case r.IsLink():
		return ErrLinkRecord
	case r.Count < 1, r.Base < 0, r.Base > math.MaxInt64-int64(r.Count):
		return fmt.Errorf("%w: %d rows from offset %d", ErrBadCount, r.Count, r.Base)
	case frameHeaderSize+r.EncodedLen() > Window:
		return fmt.Errorf("%w: %d bytes, at most %d", ErrRecordTooLarge, len(r.Payload), MaxPayload)
	}
	return nil
}

// AppendTo appends the encoded record to b.
func (r Record) AppendTo(b []byte) []byte {
	b = append(b, recordMagic)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Stream))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Epoch))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Base))
	b = binary.BigEndian.AppendUint32(b, uint32(r.Count))
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Payload)))
	return append(b, r.Payload...)
}

// DecodeRecord decodes the record at the front of b, which lies at a position of an object, and returns what follows it
// (REC-2).
func DecodeRecord(object string, position int64, b []byte) (r Record, rest []byte, err error) {
	return decodeRecord(source{object, position}, b)
}

func decodeRecord(s source, b []byte) (r Record, rest []byte, err error) {
	if len(b) < RecordHeaderSize {
		return r, nil, s.short("record", RecordHeaderSize, len(b))
	}
	if b[0] != recordMagic {
		return r, nil, s.version("record", hexNumber(b[0]), hexNumber(recordMagic))
	}
	size := int32(binary.BigEndian.Uint32(b[29:]))
	if size < 0 {
		return r, nil, s.at(29).differs("record's payload length", "0 or more", size)
	}
	if int(size) > len(b)-RecordHeaderSize {
		return r, nil, s.at(29).short("record's payload", int(size), len(b)-RecordHeaderSize)
	}
	end := RecordHeaderSize + int(size)
	return Record{
		Stream:  catalog.StreamID(binary.BigEndian.Uint64(b[1:])),
		Epoch:   int64(binary.BigEndian.Uint64(b[9:])),
		Base:    int64(binary.BigEndian.Uint64(b[17:])),
		Count:   int32(binary.BigEndian.Uint32(b[25:])),
		Payload: b[RecordHeaderSize:end:end],
	}, b[end:], nil
}
