package kafkalog

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The offset index of a segment is an array of entries, big-endian, without header or checksum, whose offsets and
// positions both rise strictly:
//
//	+------------------------------+------------------------+
//	| int32 offset - segment base  | int32 position         |
//	+------------------------------+------------------------+
//	0                              4                        8
//
// It says that the batch which starts at the position in the `.log` file ends with the offset. Kafka brokers that index
// once for a whole append say of the append's first batch that it ends with the append's last offset; that is as good
// to start a search from.
//
// Example, base 0, a batch at position 4200 that ends with offset 43: 00 00 00 2b 00 00 10 68.
const indexEntrySize = 8

// indexEntry is an entry of the offset index.
type indexEntry struct {
	offset   int64
	position int64
}

// offsetIndex finds the position in a segment from which to look for an offset. Readers call lookup and upperBound at
// any time; everything else belongs to the log's writer.
type offsetIndex struct {
	entryList[packedIndexEntry, indexCodec]
}

// packedIndexEntry is an entry as it lies on disk.
type packedIndexEntry struct {
	relative int32
	position int32
}

type indexCodec struct{}

func (indexCodec) size() int { return indexEntrySize }

func (indexCodec) get(b []byte) packedIndexEntry {
	_ = b[indexEntrySize-1]
	return packedIndexEntry{
		relative: int32(binary.BigEndian.Uint32(b)),
		position: int32(binary.BigEndian.Uint32(b[4:])),
	}
}

func (indexCodec) put(b []byte, e packedIndexEntry) {
	_ = b[indexEntrySize-1]
	binary.BigEndian.PutUint32(b, uint32(e.relative))
	binary.BigEndian.PutUint32(b[4:], uint32(e.position))
}

func (indexCodec) inspect(base int64, limits indexLimits, prev, next packedIndexEntry, first bool) string {
	switch {
	case next.relative < 0:
		return "an offset below the segment's base"
	case next.position <= 0:
		return "a position that is not above 0"
	case !first && next.relative <= prev.relative:
		return "an offset that does not rise"
	case !first && next.position <= prev.position:
		return "a position that does not rise"
	case base+int64(next.relative) >= limits.end:
		return "an offset past the end of the segment"
	case int64(next.position) >= limits.size:
		return "a position past the end of the segment"
	}
	return ""
}

// newOffsetIndex returns the index of a new segment, whose index file is empty. It takes appends.
func newOffsetIndex(file *handle, base int64, maxEntries int) *offsetIndex {
	x := new(offsetIndex)
	x.create(file, base, maxEntries)
	return x
}

// openOffsetIndex returns the index of a segment on disk. It reads nothing: that happens when the index is first asked,
// or takes appends, and fails then with a [*CorruptionError] if the file cannot be right, or with an error that matches
// [fs.ErrNotExist]. The caller rebuilds it then.
func openOffsetIndex(file *handle, base int64, maxEntries int, limits indexLimits) *offsetIndex {
	x := new(offsetIndex)
	x.open(file, base, maxEntries, limits)
	return x
}

// relativeOffset returns offset - base, and false when that does not fit an index entry: 0 to 2^31-1.
func relativeOffset(base, offset int64) (int32, bool) {
	relative := offset - base
	return int32(relative), relative >= 0 && relative <= math.MaxInt32
}

// lookup returns the entry with the greatest offset at or below the given one, or (base, 0): a walk from its position
// finds the batch that holds the offset.
func (x *offsetIndex) lookup(offset int64) (indexEntry, error) {
	before, _, index, _, err := x.search(func(e packedIndexEntry) bool { return x.base+int64(e.relative) > offset })
	if err != nil {
		return indexEntry{}, err
	}
	if index == 0 {
		return indexEntry{offset: x.base}, nil
	}
	return x.entry(before), nil
}

// upperBound returns the entry with the smallest position at or above the given one, and false when there is none.
func (x *offsetIndex) upperBound(position int64) (indexEntry, bool, error) {
	_, at, _, found, err := x.search(func(e packedIndexEntry) bool { return int64(e.position) >= position })
	if err != nil || !found {
		return indexEntry{}, false, err
	}
	return x.entry(at), true, nil
}

// last returns the last entry, and false when there is none.
func (x *offsetIndex) last() (indexEntry, bool, error) {
	last, found, err := x.final()
	if err != nil || !found {
		return indexEntry{}, false, err
	}
	return x.entry(last), true, nil
}

// full reports whether the index takes no more entries, so that the segment has to roll.
func (x *offsetIndex) full() bool { return x.fullBut(0) }

// append adds an entry: the batch at the position ends with the offset. It fails, and adds nothing, when the index is
// full, when the offset is not within 2^31-1 of the base and when offset or position do not rise.
func (x *offsetIndex) append(offset, position int64) error {
	if x.full() {
		return &IndexFullError{Path: x.file.path(), Entries: x.max}
	}
	relative, fits := relativeOffset(x.base, offset)
	if !fits {
		return &ArgumentError{Argument: "offset", Value: offset, Reason: outOfSegment(x.base)}
	}
	if position > math.MaxInt32 {
		return &ArgumentError{Argument: "position", Value: position, Reason: "is above 2^31-1"}
	}
	entry := packedIndexEntry{relative: relative, position: int32(position)}
	prev, found := x.view.Load().last()
	if wrong := x.codec.inspect(x.base, unlimited(), prev, entry, !found); wrong != "" {
		return &ArgumentError{Argument: "offset", Value: offset, Reason: "would index " + wrong}
	}
	return x.push(entry)
}

// truncateTo drops the entries at or above the offset. The index takes appends afterwards, also when it was sealed.
func (x *offsetIndex) truncateTo(offset int64) error {
	_, _, index, _, err := x.search(func(e packedIndexEntry) bool { return x.base+int64(e.relative) >= offset })
	if err != nil {
		return err
	}
	if err := x.activate(); err != nil {
		return err
	}
	return x.truncate(index)
}

func (x *offsetIndex) entry(e packedIndexEntry) indexEntry {
	return indexEntry{offset: x.base + int64(e.relative), position: int64(e.position)}
}

func outOfSegment(base int64) string {
	return fmt.Sprintf("is not within 2^31-1 of the segment's base %d", base)
}
