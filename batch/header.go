package batch

import (
	"encoding/binary"
	"io"
	"math"
)

// Header is the header of a batch as a value, for use without the rest of the batch.
type Header struct {
	BaseOffset      int64
	Length          int32 // bytes after this field
	LeaderEpoch     int32
	Magic           int8
	CRC             uint32
	Attributes      Attributes
	LastOffsetDelta int32
	BaseTimestamp   int64 // ms, or the delete horizon
	MaxTimestamp    int64 // ms
	ProducerID      int64
	ProducerEpoch   int16
	BaseSequence    int32
	Count           int32
}

// ParseHeader decodes the header at the start of b, which must hold [HeaderSize] bytes but need not hold the records. It
// checks only what is needed to find the end of the batch: the length is plausible and the version is 2. [Header.Check]
// checks the other fields. Errors are [io.ErrUnexpectedEOF] when b is too short, [*FormatError], and [*MagicError] for
// another version.
func ParseHeader(b []byte) (Header, error) {
	if _, err := frame(b); err != nil {
		return Header{}, err
	}
	if len(b) < HeaderSize {
		return Header{}, io.ErrUnexpectedEOF
	}
	return readHeader(b), nil
}

func readHeader(b []byte) Header {
	_ = b[HeaderSize-1]
	return Header{
		BaseOffset:      int64(binary.BigEndian.Uint64(b[posBaseOffset:])),
		Length:          int32(binary.BigEndian.Uint32(b[posLength:])),
		LeaderEpoch:     int32(binary.BigEndian.Uint32(b[posLeaderEpoch:])),
		Magic:           int8(b[posMagic]),
		CRC:             binary.BigEndian.Uint32(b[posCRC:]),
		Attributes:      Attributes(binary.BigEndian.Uint16(b[posAttributes:])),
		LastOffsetDelta: int32(binary.BigEndian.Uint32(b[posLastOffsetDelta:])),
		BaseTimestamp:   int64(binary.BigEndian.Uint64(b[posBaseTimestamp:])),
		MaxTimestamp:    int64(binary.BigEndian.Uint64(b[posMaxTimestamp:])),
		ProducerID:      int64(binary.BigEndian.Uint64(b[posProducerID:])),
		ProducerEpoch:   int16(binary.BigEndian.Uint16(b[posProducerEpoch:])),
		BaseSequence:    int32(binary.BigEndian.Uint32(b[posBaseSequence:])),
		Count:           int32(binary.BigEndian.Uint32(b[posCount:])),
	}
}

// Put encodes the header into the first [HeaderSize] bytes of b, the checksum as given.
func (h Header) Put(b []byte) {
	_ = b[HeaderSize-1]
	binary.BigEndian.PutUint64(b[posBaseOffset:], uint64(h.BaseOffset))
	binary.BigEndian.PutUint32(b[posLength:], uint32(h.Length))
	binary.BigEndian.PutUint32(b[posLeaderEpoch:], uint32(h.LeaderEpoch))
	b[posMagic] = byte(h.Magic)
	binary.BigEndian.PutUint32(b[posCRC:], h.CRC)
	binary.BigEndian.PutUint16(b[posAttributes:], uint16(h.Attributes))
	binary.BigEndian.PutUint32(b[posLastOffsetDelta:], uint32(h.LastOffsetDelta))
	binary.BigEndian.PutUint64(b[posBaseTimestamp:], uint64(h.BaseTimestamp))
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(h.MaxTimestamp))
	binary.BigEndian.PutUint64(b[posProducerID:], uint64(h.ProducerID))
	binary.BigEndian.PutUint16(b[posProducerEpoch:], uint16(h.ProducerEpoch))
	binary.BigEndian.PutUint32(b[posBaseSequence:], uint32(h.BaseSequence))
	binary.BigEndian.PutUint32(b[posCount:], uint32(h.Count))
}

// Size returns the bytes of the whole batch, header included.
func (h Header) Size() int { return lengthOverhead + int(h.Length) }

// LastOffset returns the last offset that belongs to the batch.
func (h Header) LastOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) }

// NextOffset returns the offset after the batch.
func (h Header) NextOffset() int64 { return h.LastOffset() + 1 }

// LastSequence returns the sequence of the last record, or -1 when the batch carries none.
func (h Header) LastSequence() int32 { return lastSequence(h.BaseSequence, h.LastOffsetDelta) }

// HasProducer reports whether the batch names an idempotent producer.
func (h Header) HasProducer() bool { return h.ProducerID > noProducerID }

// IsControl reports whether the batch holds a control record.
func (h Header) IsControl() bool { return h.Attributes.Control() }

// IsTransactional reports whether the batch is part of a transaction.
func (h Header) IsTransactional() bool { return h.Attributes.Transactional() }

// Check checks the consistency that every batch of a log must have, whoever wrote it: the offsets are not negative and do
// not overflow, the count is not negative, and only a batch without payload has no records. It does not check the
// checksum or the records. The error is a [*FormatError].
func (h Header) Check() error {
	switch {
	case h.BaseOffset < 0:
		return &FormatError{Field: "base offset", Found: h.BaseOffset, Want: "0 or more"}
	case h.LastOffsetDelta < 0:
		return &FormatError{Field: "last offset delta", Found: int64(h.LastOffsetDelta), Want: "0 or more"}
	case h.BaseOffset >= math.MaxInt64-int64(h.LastOffsetDelta):
		return &FormatError{Field: "base offset", Found: h.BaseOffset, Want: "room for the batch's offsets below 2^63"}
	case h.Count < 0:
		return &FormatError{Field: "record count", Found: int64(h.Count), Want: "0 or more"}
	case int64(h.Count) > int64(h.LastOffsetDelta)+1:
		return &FormatError{Field: "record count", Found: int64(h.Count), Want: "at most one for each offset of the batch"}
	case h.Count == 0 && h.Length != minLength:
		return &FormatError{Field: "record count", Found: 0, Want: "1 or more in a batch with a payload"}
	}
	return nil
}

// Next cuts the first batch from buf and returns it with the bytes after it; both alias buf. It looks at nothing but
// length and version, so that a walk over a log costs a few loads per batch.
//
// An empty buf gives [io.EOF]. A batch that is not complete, however little of it is there, gives [io.ErrUnexpectedEOF]
// and rest is buf. A length below the minimum, or a version that never existed, gives a [*FormatError]: these bytes are
// not a batch, and the next one cannot be found. A complete batch of version 0 or 1 gives a [*MagicError], and rest is
// what follows it.
func Next(buf []byte) (b Batch, rest []byte, err error) {
	if len(buf) == 0 {
		return nil, buf, io.EOF
	}
	size, err := frame(buf)
	if size == 0 {
		return nil, buf, err
	}
	if int64(len(buf)) < size {
		return nil, buf, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, buf[size:], err
	}
	return Batch(buf[:size:size]), buf[size:], nil
}

// frame reads length and version. The size is 0 when it cannot be known; with a [*MagicError] it can.
func frame(b []byte) (size int64, err error) {
	if len(b) < framingSize {
		return 0, io.ErrUnexpectedEOF
	}
	length := int32(binary.BigEndian.Uint32(b[posLength:]))
	magic := int8(b[posMagic])
	switch {
	case length < minLegacyLength:
		return 0, &FormatError{Field: "batch length", Found: int64(length), Want: "14 or more"}
	case magic == 0 || magic == 1:
		return lengthOverhead + int64(length), &MagicError{Magic: magic}
	case magic != Magic:
		return 0, &FormatError{Field: "magic", Found: int64(magic), Want: "2", Err: &MagicError{Magic: magic}}
	case length < minLength:
		return 0, &FormatError{Field: "batch length", Found: int64(length), Want: "49 or more"}
	}
	return lengthOverhead + int64(length), nil
}
