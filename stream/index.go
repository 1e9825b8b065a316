package stream

import (
	"encoding/binary"
	"fmt"
	"math"
	"sort"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// An index entry, 36 bytes, big-endian. It describes one block, or several consecutive blocks of one stream.
//
//	+-----------+--------------+-----------+--------------+----------+---------------------------+
//	| stream id | start offset | end delta | record count | position | size                      |
//	| i64       | i64          | i32       | i32          | i64      | i32, with block headers   |
//	+-----------+--------------+-----------+--------------+----------+---------------------------+
//	0           8              16          20             24         32
const indexEntrySize = 36

// IndexEntry says where an object holds a run of one stream's records.
type IndexEntry struct {
	Stream catalog.StreamID
	Start  int64 // offset of the first record
	Delta  int32 // the last record ends at Start+Delta
	// Records is how many records there are.
	Records int32
	// Position and Size are the bytes of the blocks in the object; in a composite, in the component.
	Position int64
	Size     int32
}

// End is the offset behind the last record.
func (e IndexEntry) End() int64 { return e.Start + int64(e.Delta) }

func (e IndexEntry) String() string {
	return fmt.Sprintf("stream %d from %d to %d, %d records in %d bytes at %d",
		e.Stream, e.Start, e.End(), e.Records, e.Size, e.Position)
}

// spans reports whether the distance of two offsets fits into an index entry.
func spans(start, end int64) bool { return end-start <= math.MaxInt32 && end >= start }

func (e IndexEntry) appendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(e.Stream))
	b = binary.BigEndian.AppendUint64(b, uint64(e.Start))
	b = binary.BigEndian.AppendUint32(b, uint32(e.Delta))
	b = binary.BigEndian.AppendUint32(b, uint32(e.Records))
	b = binary.BigEndian.AppendUint64(b, uint64(e.Position))
	return binary.BigEndian.AppendUint32(b, uint32(e.Size))
}

func decodeIndexEntry(b []byte) IndexEntry {
	return IndexEntry{
		Stream:   catalog.StreamID(binary.BigEndian.Uint64(b)),
		Start:    int64(binary.BigEndian.Uint64(b[8:])),
		Delta:    int32(binary.BigEndian.Uint32(b[16:])),
		Records:  int32(binary.BigEndian.Uint32(b[20:])),
		Position: int64(binary.BigEndian.Uint64(b[24:])),
		Size:     int32(binary.BigEndian.Uint32(b[32:])),
	}
}

// check checks an entry by itself; limit is where the blocks must end.
func (e IndexEntry) check(s source, limit int64) error {
	switch {
	case e.Delta < 0 || e.Records < 0 || e.Start > math.MaxInt64-int64(e.Delta):
		return s.differs("index entry", "a range of offsets", e)
	case e.Size < 0 || e.Position < 0 || e.Position > limit-int64(e.Size):
		return s.differs("index entry", fmt.Sprintf("bytes below %d", limit), e)
	}
	return nil
}

// Index is the index of a data object: entries in the order of stream and start.
type Index []IndexEntry

// DecodeIndex decodes a data object's index from its bytes (OBJ-3).
func DecodeIndex(object string, f Footer, b []byte) (Index, error) {
	if len(b) != int(f.IndexLen) {
		return nil, source{object, f.IndexPosition}.differs("bytes of the index", f.IndexLen, len(b))
	}
	index := make(Index, 0, len(b)/indexEntrySize)
	for i := 0; i < len(b); i += indexEntrySize {
		s := source{object, f.IndexPosition + int64(i)}
		e := decodeIndexEntry(b[i:])
		if err := e.check(s, f.IndexPosition); err != nil {
			return nil, err
		}
		if n := len(index); n > 0 {
			last := index[n-1]
			if e.Stream < last.Stream || e.Stream == last.Stream && e.Start < last.End() {
				return nil, s.differs("order of the index: entry behind "+last.String(), "a later one", e)
			}
		}
		index = append(index, e)
	}
	return index, nil
}

// Find returns the entries to read for a stream's records from start to end: the one that holds start, then those that
// follow while they begin before end and the budget lasts (OBJ-5). It returns none if no entry holds start. An entry that
// begins at start or above costs the bytes of its payloads; one that begins below it costs nothing, as the reader may
// want only a little of it. The result is a part of the index.
func (x Index) Find(stream catalog.StreamID, start, end int64, maxBytes int) Index {
	first := sort.Search(len(x), func(i int) bool {
		return x[i].Stream > stream || x[i].Stream == stream && x[i].End() > start
	})
	if first == len(x) || x[first].Stream != stream || x[first].Start > start {
		return nil
	}
	budget, last := int64(maxBytes), first
	for ; last < len(x); last++ {
		e := x[last]
		if last > first && (e.Stream != stream || e.Start >= end || budget <= 0) {
			break
		}
		if e.Start >= start {
			budget -= e.payloadBytes()
		}
	}
	return x[first:last]
}

// payloadBytes returns the payload bytes of an entry of one block; for several blocks it is a few bytes more.
func (e IndexEntry) payloadBytes() int64 {
	return int64(e.Size) - int64(e.Records)*RecordHeaderSize - blockHeaderSize
}

// A footer, the last 48 bytes of an object, big-endian.
//
//	+----------------+-----------+----------------+---------------------------+
//	| index position | index len | zeros          | magic                     |
//	| i64            | i32       | 28 bytes       | u64                       |
//	+----------------+-----------+----------------+---------------------------+
//	0                8           12               40
const (
	footerMagic          = 0x88E241B785F4CFF7
	footerMagicComposite = 0x88E241B785F4CFF8

	// FooterSize is the number of bytes at the end of an object that say where its index is.
	FooterSize = 48
)

// Footer is the end of a data object or composite.
type Footer struct {
	// IndexPosition and IndexLen are the bytes of the index.
	IndexPosition int64
	IndexLen      int32
	// Composite objects link blocks of others.
	Composite bool
}

func (f Footer) appendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(f.IndexPosition))
	b = binary.BigEndian.AppendUint32(b, uint32(f.IndexLen))
	b = append(b, make([]byte, 28)...)
	if f.Composite {
		return binary.BigEndian.AppendUint64(b, footerMagicComposite)
	}
	return binary.BigEndian.AppendUint64(b, footerMagic)
}

// isFooterMagic reports whether a footer is of this format, in any version: versions differ in the last byte.
func isFooterMagic(magic uint64) bool { return magic>>8 == footerMagic>>8 }

// DecodeFooter decodes the footer of an object of size bytes from its last bytes, of which there may be more than
// [FooterSize] (OBJ-3, CMP-3).
func DecodeFooter(object string, size int64, tail []byte) (Footer, error) {
	s := source{object, size - FooterSize}
	if len(tail) < FooterSize || size < FooterSize {
		return Footer{}, s.short("footer", FooterSize, len(tail))
	}
	b := tail[len(tail)-FooterSize:]
	f := Footer{
		IndexPosition: int64(binary.BigEndian.Uint64(b)),
		IndexLen:      int32(binary.BigEndian.Uint32(b[8:])),
	}
	switch magic := binary.BigEndian.Uint64(b[40:]); {
	case magic == footerMagicComposite:
		f.Composite = true
	case isFooterMagic(magic) && magic != footerMagic:
		return Footer{}, s.at(40).version("data object", hexNumber(magic), "0x88e241b785f4cff7 and 0x88e241b785f4cff8")
	case magic != footerMagic:
		return Footer{}, s.at(40).differs("magic of the footer", hexNumber(footerMagic), hexNumber(magic))
	}
	if f.IndexLen < 0 || f.IndexLen%indexEntrySize != 0 || f.IndexPosition != size-FooterSize-int64(f.IndexLen) ||
		f.IndexPosition < 0 {
		return Footer{}, s.differs("index", fmt.Sprintf("entries of %d bytes up to the footer", indexEntrySize),
			fmt.Sprintf("%d bytes at %d", f.IndexLen, f.IndexPosition))
	}
	return f, nil
}
