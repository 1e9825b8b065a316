package stream

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// A range index of other writers, version 0, big-endian. The engine takes its object lists from metadata and reads this
// for tools only.
//
//	+---------+---------+ +-----------+-------+ +-------+-----+-----------+
//	| version | streams | | stream id | n     | | start | end | object id | n times, then the next stream
//	| i16, 0  | i32     | | i64       | i32   | | i64   | i64 | i64       |
//	+---------+---------+ +-----------+-------+ +-------+-----+-----------+
//	0         2           6
const (
	rangeIndexVersion = 0

	rangeIndexHeaderSize = 6
	streamRangesSize     = 12
	objectRangeSize      = 24
)

// StreamRanges is what a range index knows of one stream.
type StreamRanges struct {
	Stream catalog.StreamID
	Ranges []IndexedRange
}

// IndexedRange is a range of offsets and the object that holds it.
type IndexedRange struct {
	Start, End int64
	Object     catalog.ObjectID
}

// EncodeRangeIndex returns the bytes of a range index, with the streams in the order given.
func EncodeRangeIndex(streams []StreamRanges) []byte {
	b := binary.BigEndian.AppendUint16(nil, rangeIndexVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(len(streams)))
	for _, s := range streams {
		b = binary.BigEndian.AppendUint64(b, uint64(s.Stream))
		b = binary.BigEndian.AppendUint32(b, uint32(len(s.Ranges)))
		for _, r := range s.Ranges {
			b = binary.BigEndian.AppendUint64(b, uint64(r.Start))
			b = binary.BigEndian.AppendUint64(b, uint64(r.End))
			b = binary.BigEndian.AppendUint64(b, uint64(r.Object))
		}
	}
	return b
}

// DecodeRangeIndex decodes a whole range index.
func DecodeRangeIndex(object string, b []byte) ([]StreamRanges, error) {
	s := source{object: object}
	if len(b) < rangeIndexHeaderSize {
		return nil, s.short("range index", rangeIndexHeaderSize, len(b))
	}
	if version := int16(binary.BigEndian.Uint16(b)); version != rangeIndexVersion {
		return nil, s.version("range index", version, rangeIndexVersion)
	}
	count := binary.BigEndian.Uint32(b[2:])
	if count > math.MaxInt32 {
		return nil, s.at(2).differs("number of streams", "0 or more", int32(count))
	}
	s, b = s.at(rangeIndexHeaderSize), b[rangeIndexHeaderSize:]
	var streams []StreamRanges
	for range count {
		one, rest, err := decodeStreamRanges(s, b)
		if err != nil {
			return nil, err
		}
		streams = append(streams, one)
		s, b = s.at(len(b)-len(rest)), rest
	}
	if len(b) > 0 {
		return nil, s.differs("bytes behind the range index", 0, len(b))
	}
	return streams, nil
}

func decodeStreamRanges(s source, b []byte) (StreamRanges, []byte, error) {
	if len(b) < streamRangesSize {
		return StreamRanges{}, nil, s.short("stream of a range index", streamRangesSize, len(b))
	}
	one := StreamRanges{Stream: catalog.StreamID(binary.BigEndian.Uint64(b))}
	n := int64(binary.BigEndian.Uint32(b[8:]))
	s, b = s.at(streamRangesSize), b[streamRangesSize:]
	if n*objectRangeSize > int64(len(b)) {
		return one, nil, s.short(fmt.Sprintf("ranges of stream %d", one.Stream), int(n*objectRangeSize), len(b))
	}
	for range n {
		one.Ranges = append(one.Ranges, IndexedRange{
			Start:  int64(binary.BigEndian.Uint64(b)),
			End:    int64(binary.BigEndian.Uint64(b[8:])),
			Object: catalog.ObjectID(binary.BigEndian.Uint64(b[16:])),
		})
		b = b[objectRangeSize:]
	}
	return one, b, nil
}

// RangeIndexKey returns the key of a node's range index.
func RangeIndexKey(namespace string, node catalog.NodeID) string {
	var h int32
	for _, c := range []byte(fmt.Sprintf("sparse-index%d", node)) {
		h = 31*h + int32(c)
	}
	return fmt.Sprintf("%08x/%s/node-%d", uint32(h), namespace, node)
}
