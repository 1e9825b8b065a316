package stream

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// A frame, 24 bytes and its body, big-endian. Positions are logical: bytes since the node's log began. Both checksums are
// CRC-32/ISO-HDLC without the top bit.
//
//	+------------+----------+-----------------+----------------+------------------+----------+
//	| magic      | body len | body offset     | body crc       | header crc       | body     |
//	| u32        | u32      | i64, this + 24  | of the body    | of bytes 0 to 20 | a record |
//	+------------+----------+-----------------+----------------+------------------+----------+
//	0            4          8                 16               20                 24
//
// The body of a padding frame is zeros, and its checksum is 0.
const (
	frameMagic   = 0x87654321
	paddingMagic = 0x76543210

	frameHeaderSize = 24

	// FrameHeaderSize is the number of bytes in front of a frame's body.
	FrameHeaderSize = frameHeaderSize
)

// Window is the part of a log's logical space that one WAL object owns, in bytes (WOB-2).
const Window = catalog.Window

// MaxPayload is the largest payload of a record, in bytes (FRM-4).
const MaxPayload = Window - frameHeaderSize - RecordHeaderSize

// Frame is a record in the WAL, or padding of another writer.
type Frame struct {
	// Offset is where the frame begins, in logical bytes.
	Offset int64
	// Size is its length with the header.
	Size int
	// Padding frames have no record.
	Padding bool
	Record  Record
	// HeaderChecksum and BodyChecksum are those in the frame, which decoding has verified.
	HeaderChecksum, BodyChecksum uint32
}

// crc31 is the checksum of frames.
func crc31(b []byte) uint32 { return crc32.ChecksumIEEE(b) & 0x7FFFFFFF }

// FrameLen is the length of a record's frame.
func FrameLen(r Record) int { return frameHeaderSize + r.EncodedLen() }

// AppendFrame appends the frame of a record to b. Its first byte lies at a logical offset of the log.
func AppendFrame(b []byte, offset int64, r Record) []byte {
	start := len(b)
	b = append(b, make([]byte, frameHeaderSize)...)
	b = r.AppendTo(b)
	header, body := b[start:start+frameHeaderSize], b[start+frameHeaderSize:]
	binary.BigEndian.PutUint32(header, frameMagic)
	binary.BigEndian.PutUint32(header[4:], uint32(len(body)))
	binary.BigEndian.PutUint64(header[8:], uint64(offset+frameHeaderSize))
	binary.BigEndian.PutUint32(header[16:], crc31(body))
	binary.BigEndian.PutUint32(header[20:], crc31(header[:20]))
	return b
}

// DecodeFrameLen returns the length in bytes of the frame whose header is at the front of b, header included. The rest of
// the frame need not be in b. The header is verified as [DecodeFrame] verifies it.
func DecodeFrameLen(object string, offset int64, b []byte) (int64, error) {
	s := source{object, offset}
	if len(b) < frameHeaderSize {
		return 0, s.short("frame", frameHeaderSize, len(b))
	}
	stored := binary.BigEndian.Uint32(b[20:])
	if computed := crc31(b[:20]); stored != computed {
		return 0, s.differs("checksum of a frame's header", hexNumber(computed), hexNumber(stored))
	}
	magic := binary.BigEndian.Uint32(b)
	if magic != frameMagic && magic != paddingMagic {
		return 0, s.version("frame", hexNumber(magic), hexNumber(frameMagic))
	}
	if bodyOffset := int64(binary.BigEndian.Uint64(b[8:])); bodyOffset != offset+frameHeaderSize {
		return 0, s.differs("a frame's body offset", offset+frameHeaderSize, bodyOffset)
	}
	size := binary.BigEndian.Uint32(b[4:])
	if size > Window-frameHeaderSize {
		return 0, s.differs("a frame's body length", "at most a window", size)
	}
	return frameHeaderSize + int64(size), nil
}

// DecodeFrame decodes the frame at the front of b, which lies at a logical offset of the log, and returns what follows it
// (FRM-1 to FRM-4). Errors carry the logical offset as their position.
func DecodeFrame(object string, offset int64, b []byte) (f Frame, rest []byte, err error) {
	s := source{object, offset}
	n, err := DecodeFrameLen(object, offset, b)
	if err != nil {
		return f, nil, err
	}
	size := int(n)
	if size > len(b) {
		return f, nil, s.short("a frame's body", size-frameHeaderSize, len(b)-frameHeaderSize)
	}
	f = Frame{
		Offset: offset, Size: size, Padding: binary.BigEndian.Uint32(b) == paddingMagic,
		HeaderChecksum: binary.BigEndian.Uint32(b[20:]), BodyChecksum: binary.BigEndian.Uint32(b[16:]),
	}
	body := b[frameHeaderSize:f.Size]
	if !f.Padding {
		f.Record, err = decodeBody(s, b, body)
	}
	return f, b[f.Size:], err
}

// decodeBody decodes the single record of a data frame (FRM-1).
func decodeBody(s source, frame, body []byte) (Record, error) {
	stored := binary.BigEndian.Uint32(frame[16:])
	if computed := crc31(body); stored != computed {
		return Record{}, s.differs("checksum of a frame's body", hexNumber(computed), hexNumber(stored))
	}
	r, rest, err := decodeRecord(s.at(frameHeaderSize), body)
	if err == nil && len(rest) > 0 {
		err = s.differs("bytes behind a frame's record", 0, len(rest))
	}
	return r, err
}
