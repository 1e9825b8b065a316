package stream

import (
	"encoding/binary"
	"fmt"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// A data block: a header of 10 bytes, then records of one stream, ascending and without overlap. Big-endian, no checksum.
//
//	+-------+-------+--------------+----------+-------------------+
//	| magic | flag  | record count | data len | records           |
//	| 0x5A  | 0x02  | i32          | i32      | data len bytes    |
//	+-------+-------+--------------+----------+-------------------+
//	0       1       2              6          10
const (
	blockMagic      = 0x5A
	blockFlag       = 0x02
	blockHeaderSize = 10

	// BlockHeaderSize is the number of bytes in front of a block's records.
	BlockHeaderSize = blockHeaderSize
)

// AppendBlock appends the block of records, which are of one stream and in order, to b.
func AppendBlock(b []byte, records []Record) []byte {
	start := len(b)
	b = append(b, make([]byte, blockHeaderSize)...)
	for _, r := range records {
		b = r.AppendTo(b)
	}
	header := b[start : start+blockHeaderSize]
	header[0], header[1] = blockMagic, blockFlag
	binary.BigEndian.PutUint32(header[2:], uint32(len(records)))
	binary.BigEndian.PutUint32(header[6:], uint32(len(b)-start-blockHeaderSize))
	return b
}

// DecodeBlock decodes the block at the front of b, which lies at a position of an object, and returns what follows it.
// Payloads alias b.
func DecodeBlock(object string, position int64, b []byte) (records []Record, rest []byte, err error) {
	s := source{object, position}
	if len(b) < blockHeaderSize {
		return nil, nil, s.short("block", blockHeaderSize, len(b))
	}
	if b[0] != blockMagic || b[1] != blockFlag {
		return nil, nil, s.version("block", hexNumber(binary.BigEndian.Uint16(b)), hexNumber(blockMagic<<8|blockFlag))
	}
	count, size := int32(binary.BigEndian.Uint32(b[2:])), int32(binary.BigEndian.Uint32(b[6:]))
	if count < 0 || int64(count)*RecordHeaderSize > int64(size) {
		return nil, nil, s.at(2).differs("number of records", "what the block can hold", count)
	}
	if size < 0 || int(size) > len(b)-blockHeaderSize {
		return nil, nil, s.at(6).short("block's records", int(size), len(b)-blockHeaderSize)
	}
	end := blockHeaderSize + int(size)
	records, err = decodeRecords(s.at(blockHeaderSize), b[blockHeaderSize:end], int(count))
	return records, b[end:], err
}

// DecodeBlockLen returns the length in bytes of the block whose header is at the front of b, as the header gives it. It is
// false if b is shorter than [BlockHeaderSize] or the length is impossible; decoding then reports why.
func DecodeBlockLen(b []byte) (n int64, ok bool) {
	if len(b) < blockHeaderSize {
		return 0, false
	}
	size := int32(binary.BigEndian.Uint32(b[6:]))
	return blockHeaderSize + int64(size), size >= 0
}

// decodeRecords decodes exactly count records of one stream, in order.
func decodeRecords(s source, b []byte, count int) ([]Record, error) {
	records := make([]Record, 0, count)
	for len(b) > 0 {
		r, rest, err := decodeRecord(s, b)
		if err != nil {
			return nil, err
		}
		if len(records) > 0 {
			last := records[len(records)-1]
			if r.Stream != last.Stream || r.Base < last.End() {
				return nil, s.differs("record", fmt.Sprintf("stream %d from %d on", last.Stream, last.End()),
					fmt.Sprintf("stream %d from %d on", r.Stream, r.Base))
			}
		}
		records = append(records, r)
		s, b = s.at(len(b)-len(rest)), rest
	}
	if len(records) != count {
		return nil, s.differs("number of records in a block", count, len(records))
	}
	return records, nil
}

// DecodeBlocks decodes all blocks of one index entry from their bytes (OBJ-4), which must have its Size and match the
// entry. Payloads alias b.
func DecodeBlocks(object string, e IndexEntry, b []byte) ([]Record, error) {
	s := source{object, e.Position}
	if len(b) != int(e.Size) {
		return nil, s.differs("bytes of the blocks of an index entry", e.Size, len(b))
	}
	var all []Record
	for len(b) > 0 {
		records, rest, err := DecodeBlock(object, s.position, b)
		if err != nil {
			return nil, err
		}
		if all == nil { // usually there is one block
			all = records
		} else {
			all = append(all, records...)
		}
		s, b = s.at(len(b)-len(rest)), rest
	}
	return all, e.checkRecords(source{object, e.Position}, all)
}

// checkRecords checks decoded records against their index entry.
func (e IndexEntry) checkRecords(s source, records []Record) error {
	if len(records) != int(e.Records) {
		return s.differs("records of an index entry", e.Records, len(records))
	}
	next := e.Start
	for i, r := range records {
		if r.Stream != e.Stream || r.Base < next || i == 0 && r.Base != e.Start || r.End() > e.End() {
			return s.differs("record of an index entry", e, fmt.Sprintf("stream %d from %d to %d", r.Stream, r.Base, r.End()))
		}
		next = r.End()
	}
	if next != e.End() {
		return s.differs("end of an index entry", e.End(), next)
	}
	return nil
}

// blockBuilder gathers the records of the next block of one stream, and cuts where they no longer fit into one.
type blockBuilder struct {
	records []Record
	size    int // of the payloads (REC-3)
}

// fits reports whether a record of the same stream may join: the block's offsets must fit into an index entry (F-06).
func (b *blockBuilder) fits(r Record) bool {
	return len(b.records) == 0 || spans(b.records[0].Base, r.End())
}

func (b *blockBuilder) add(r Record) {
	b.records = append(b.records, r)
	b.size += len(r.Payload)
}

func (b *blockBuilder) stream() catalog.StreamID { return b.records[0].Stream }

func (b *blockBuilder) end() int64 { return b.records[len(b.records)-1].End() }
