package stream

import (
	"encoding/binary"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// A WAL object: a header, then frames back to back. The header is not part of the logical space: the frame at logical
// offset L lies at position header size + (L - start offset). Big-endian; the header has no checksum.
//
//	+------------+--------------+----------+------------+---------+------------+-------------+--------+
//	| magic      | start offset | body len | sticky len | node id | node epoch | trim offset | frames |
//	| u32        | i64          | i64      | i64, 0     | u32     | i64        | i64 (v1)    |        |
//	+------------+--------------+----------+------------+---------+------------+-------------+--------+
//	0            4              12         20           28        32           40            48
//
// Version 0 ends before the trim offset: its frames begin at 40. Older writers of both versions may cut a frame where an
// object is full and continue it in the next one, whose sticky length then says how many bytes of it are left: the first
// whole frame is behind them. All others write 0.
const (
	walMagicV0 = 0x12345678
	walMagicV1 = 0xEDCBA987

	walHeaderSizeV0 = 40
	walHeaderSizeV1 = 48

	// WALHeaderSize is the size of the header that is written, which is the largest.
	WALHeaderSize = walHeaderSizeV1
)

// WALHeader is the header of a WAL object.
type WALHeader struct {
	// Version is 1, or 0 for objects of other writers, which are decoded and not recovered.
	Version int
	// Start is the logical offset of the first frame; BodyLen the length of all frames.
	Start, BodyLen int64
	// Sticky is how many bytes are left of a frame that began in an object before, which may be more than this object has;
	// 0 in what is written here.
	Sticky int64
	// Node and Epoch are the writer; in a fence Epoch is greater than the key's.
	Node  catalog.NodeID
	Epoch int64
	// Trim is the logical offset of the newest record that needs no recovery, inclusive; -1 if there is none.
	Trim int64
}

// Size is the header's length in bytes.
func (h WALHeader) Size() int {
	if h.Version == 0 {
		return walHeaderSizeV0
	}
	return walHeaderSizeV1
}

// AppendTo appends the header to b in its version.
func (h WALHeader) AppendTo(b []byte) []byte {
	magic := uint32(walMagicV1)
	if h.Version == 0 {
		magic = walMagicV0
	}
	b = binary.BigEndian.AppendUint32(b, magic)
	b = binary.BigEndian.AppendUint64(b, uint64(h.Start))
	b = binary.BigEndian.AppendUint64(b, uint64(h.BodyLen))
	b = binary.BigEndian.AppendUint64(b, uint64(h.Sticky))
	b = binary.BigEndian.AppendUint32(b, uint32(h.Node))
	b = binary.BigEndian.AppendUint64(b, uint64(h.Epoch))
	if h.Version == 0 {
		return b
	}
	return binary.BigEndian.AppendUint64(b, uint64(h.Trim))
}

// DecodeWALHeader decodes the header at the front of b, of either version. The object has size bytes; more than
// [WALHeaderSize] of them need not be in b.
func DecodeWALHeader(object string, size int64, b []byte) (WALHeader, error) {
	s := source{object: object}
	if len(b) < walHeaderSizeV0 {
		return WALHeader{}, s.short("WAL header", walHeaderSizeV0, len(b))
	}
	magic := binary.BigEndian.Uint32(b)
	h := WALHeader{
		Start:   int64(binary.BigEndian.Uint64(b[4:])),
		BodyLen: int64(binary.BigEndian.Uint64(b[12:])),
		Sticky:  int64(binary.BigEndian.Uint64(b[20:])),
		Node:    catalog.NodeID(binary.BigEndian.Uint32(b[28:])),
		Epoch:   int64(binary.BigEndian.Uint64(b[32:])),
		Trim:    -1,
	}
	switch {
	case magic == walMagicV0:
		h.BodyLen = size - walHeaderSizeV0
		return h, nil
	case magic != walMagicV1:
		return WALHeader{}, s.version("WAL object", hexNumber(magic), "0 (0x12345678) and 1 (0xedcba987)")
	case len(b) < walHeaderSizeV1:
		return WALHeader{}, s.short("WAL header", walHeaderSizeV1, len(b))
	}
	h.Version = 1
	h.Trim = int64(binary.BigEndian.Uint64(b[40:]))
	return h, nil
}

// Check verifies a header against the object's key and size (WOB-1 to WOB-3), as recovery must. Version 0 is refused:
// its frames may run across objects.
func (h WALHeader) Check(object string, node catalog.NodeID, key WALKey, size int64) error {
	s := source{object: object}
	end := h.Start + h.BodyLen
	switch {
	case h.Version != 1:
		return s.version("WAL object", h.Version, 1)
	case h.Start != key.Start:
		return s.at(4).differs("start offset", key.Start, h.Start)
	case h.Start%Window != 0 || h.Start < 0:
		return s.at(4).differs("start offset", "a multiple of the window", h.Start)
	case h.BodyLen != size-walHeaderSizeV1:
		return s.at(12).differs("length of the frames", size-walHeaderSizeV1, h.BodyLen)
	case h.BodyLen > Window:
		return s.at(12).differs("length of the frames", "at most a window", h.BodyLen)
	case h.Sticky != 0:
		return s.at(20).differs("length of the rest of a frame", 0, h.Sticky)
	case h.Node != node:
		return s.at(28).differs("node", node, h.Node)
	case h.Epoch < key.Epoch:
		return s.at(32).differs("node epoch", key.Epoch, h.Epoch)
	case h.Trim < -1 || h.Trim >= end:
		return s.at(40).differs("trim offset", "-1 or below the object's end", h.Trim)
	}
	return nil
}

// EncodeWALObject returns the object of records from start on, with the frames in the order of the records. BodyLen and
// Version of the header are set.
func EncodeWALObject(h WALHeader, records []Record) []byte {
	h.Version = 1
	size := walHeaderSizeV1
	for _, r := range records {
		size += FrameLen(r)
	}
	h.BodyLen = int64(size - walHeaderSizeV1)
	b := h.AppendTo(make([]byte, 0, size))
	for _, r := range records {
		b = AppendFrame(b, h.Start+int64(len(b)-walHeaderSizeV1), r)
	}
	return b
}

// DecodeWALObject decodes a whole object of version 1. The frames must fill it exactly (WOB-1). Frames alias b.
func DecodeWALObject(object string, b []byte) (WALHeader, []Frame, error) {
	h, err := DecodeWALHeader(object, int64(len(b)), b)
	if err != nil {
		return h, nil, err
	}
	s := source{object: object}
	if h.Version != 1 {
		return h, nil, s.version("WAL object", h.Version, 1)
	}
	if h.BodyLen != int64(len(b)-walHeaderSizeV1) {
		return h, nil, s.at(12).differs("length of the frames", len(b)-walHeaderSizeV1, h.BodyLen)
	}
	var frames []Frame
	offset, rest := h.Start, b[walHeaderSizeV1:]
	for len(rest) > 0 {
		var f Frame
		if f, rest, err = DecodeFrame(object, offset, rest); err != nil {
			return h, nil, err
		}
		frames = append(frames, f)
		offset += int64(f.Size)
	}
	return h, frames, nil
}
