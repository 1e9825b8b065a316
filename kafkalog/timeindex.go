package kafkalog

import (
	"encoding/binary"
)

// The time index of a segment is an array of entries, big-endian, without header or checksum, whose timestamps rise
// strictly and whose offsets do not fall:
//
//	+--------------------------------------------------+------------------------------+
//	| int64 timestamp, ms since the Unix epoch         | int32 offset - segment base  |
//	+--------------------------------------------------+------------------------------+
//	0                                                  8                             12
//
// It says that the timestamp is the largest one in the segment up to the offset, with which the earliest batch ends that
// has it. A record with a larger timestamp lies behind the offset. The last entry of a sealed segment is its maximum.
//
// Example, base 0, timestamp 1700000000005 at offset 43: 00 00 01 8b cf e5 68 05 00 00 00 2b.
const timeIndexEntrySize = 12

// timeEntry is an entry of the time index.
type timeEntry struct {
	timestamp int64 // ms since the Unix epoch, -1 unknown
	offset    int64
}

// timeIndex finds the offset in a segment from which to look for a timestamp. Readers call lookup at any time;
// everything else belongs to the log's writer.
type timeIndex struct {
	entryList[packedTimeEntry, timeCodec]
}

// packedTimeEntry is an entry as it lies on disk.
type packedTimeEntry struct {
	timestamp int64
	relative  int32
}

type timeCodec struct{}

func (timeCodec) size() int { return timeIndexEntrySize }

func (timeCodec) get(b []byte) packedTimeEntry {
	_ = b[timeIndexEntrySize-1]
	return packedTimeEntry{
		timestamp: int64(binary.BigEndian.Uint64(b)),
		relative:  int32(binary.BigEndian.Uint32(b[8:])),
	}
}

func (timeCodec) put(b []byte, e packedTimeEntry) {
	_ = b[timeIndexEntrySize-1]
	binary.BigEndian.PutUint64(b, uint64(e.timestamp))
	binary.BigEndian.PutUint32(b[8:], uint32(e.relative))
}

func (timeCodec) inspect(base int64, limits indexLimits, prev, next packedTimeEntry, first bool) string {
	switch {
	case next.timestamp < 0:
		return "a negative timestamp"
	case next.relative < 0:
		return "an offset below the segment's base"
	case !first && next.timestamp <= prev.timestamp:
		return "a timestamp that does not rise"
	case !first && next.relative < prev.relative:
		return "an offset that falls"
	case base+int64(next.relative) >= limits.end:
		return "an offset past the end of the segment"
	}
	return ""
}

// newTimeIndex returns the index of a new segment, whose index file is empty. It takes appends.
func newTimeIndex(file *handle, base int64, maxEntries int) *timeIndex {
	x := new(timeIndex)
	x.create(file, base, maxEntries)
	return x
}

// openTimeIndex returns the index of a segment on disk; see [openOffsetIndex].
func openTimeIndex(file *handle, base int64, maxEntries int, limits indexLimits) *timeIndex {
	x := new(timeIndex)
	x.open(file, base, maxEntries, limits)
	return x
}

// lookup returns the entry with the greatest timestamp at or below the given one, or (-1, base).
func (x *timeIndex) lookup(timestamp int64) (timeEntry, error) {
	before, _, index, _, err := x.search(func(e packedTimeEntry) bool { return e.timestamp > timestamp })
	if err != nil {
		return timeEntry{}, err
	}
	return x.entry(before, index > 0), nil
}

// last returns the last entry, or (-1, base). In a sealed segment it is the largest timestamp.
func (x *timeIndex) last() (timeEntry, error) {
	last, found, err := x.final()
	if err != nil {
		return timeEntry{}, err
	}
	return x.entry(last, found), nil
}

// full reports whether the index takes no more entries but the one that seals it, so that the segment has to roll.
func (x *timeIndex) full() bool { return x.fullBut(1) }

// maybeAppend adds an entry if the timestamp is larger than the last one's. A smaller one, and an offset below the last
// one's, is an error, and so is a full index unless skipFull says that the entry seals it.
func (x *timeIndex) maybeAppend(timestamp, offset int64, skipFull bool) error {
	if !skipFull && x.full() {
		return &IndexFullError{Path: x.file.path(), Entries: x.max}
	}
	last, found := x.view.Load().last()
	if found && offset < x.base+int64(last.relative) {
		return &ArgumentError{Argument: "offset", Value: offset, Reason: "is below the last one in the time index"}
	}
	if found && timestamp < last.timestamp {
		return &ArgumentError{Argument: "timestamp", Value: timestamp, Reason: "is below the last one in the time index"}
	}
	if timestamp <= x.entry(last, found).timestamp {
		return nil
	}
	relative, fits := relativeOffset(x.base, offset)
	if !fits {
		return &ArgumentError{Argument: "offset", Value: offset, Reason: outOfSegment(x.base)}
	}
	return x.push(packedTimeEntry{timestamp: timestamp, relative: relative})
}

// truncateTo drops the entries whose offset is at or above the given one. The index takes appends afterwards, also when
// it was sealed.
func (x *timeIndex) truncateTo(offset int64) error {
	_, _, index, _, err := x.search(func(e packedTimeEntry) bool { return x.base+int64(e.relative) >= offset })
	if err != nil {
		return err
	}
	if err := x.activate(); err != nil {
		return err
	}
	return x.truncate(index)
}

func (x *timeIndex) entry(e packedTimeEntry, found bool) timeEntry {
	if !found {
		return timeEntry{timestamp: -1, offset: x.base}
	}
	return timeEntry{timestamp: e.timestamp, offset: x.base + int64(e.relative)}
}
