package stream

import "encoding/binary"

// ObjectKind is the kind of an object in a bucket, as its bytes show it. The text is for people.
type ObjectKind string

// The kinds of objects.
const (
	UnknownKind     ObjectKind = "unknown object"
	WALKind         ObjectKind = "write-ahead log object" // see [WALHeader]
	DataKind        ObjectKind = "data object"            // see [Footer]
	CompositeKind   ObjectKind = "composite object"       // see [CompositeObject]
	ReservationKind ObjectKind = "reservation"            // see [Reservation]
	RangeIndexKind  ObjectKind = "range index"            // see [StreamRanges]
)

// KindProbeSize is how many bytes of each end of an object [KindOf] needs.
const KindProbeSize = 8

// maxRangeIndex is the largest object that is taken for a range index, which has no magic of its own.
const maxRangeIndex = 64 << 20

// KindOf returns the kind of an object of size bytes from its first and last [KindProbeSize] bytes; a smaller object is
// unknown. Only decoding shows whether it is intact. A data object or composite of another version is a [DataKind]; a
// [RangeIndexKind] is a guess.
func KindOf(size int64, head, tail []byte) ObjectKind {
	if size < KindProbeSize || len(head) < KindProbeSize || len(tail) < KindProbeSize {
		return UnknownKind
	}
	first, last := binary.BigEndian.Uint32(head), binary.BigEndian.Uint64(tail[len(tail)-KindProbeSize:])
	switch {
	case last == footerMagicComposite:
		return CompositeKind
	case isFooterMagic(last):
		return DataKind
	case first == reservationMagic && size == ReservationSize:
		return ReservationKind
	case first == walMagicV0, first == walMagicV1:
		return WALKind
	case binary.BigEndian.Uint16(head) == rangeIndexVersion && size <= maxRangeIndex:
		return RangeIndexKind
	}
	return UnknownKind
}
