package batch

// The bytes of one batch. Offsets are from the start of the batch; everything is big-endian.
//
//	 0        8       12      16 17      21     23      27            35
//	+--------+-------+-------+--+-------+------+-------+-------------+--
//	| base   | batch | leader|m | crc   |attri-| last  | base        |
//	| offset | length| epoch |a | 32c   |butes | offset| timestamp   |  ...
//	| int64  | int32 | int32 |g | uint32|int16 | delta | int64       |
//	+--------+-------+-------+--+-------+------+-------+-------------+--
//	    35            43         51       53         57       61
//	   --+-------------+----------+--------+----------+--------+---------...--+
//	     | max         | producer |producer| base     | record | records      |
//	 ... | timestamp   | id       |epoch   | sequence | count  | or their     |
//	     | int64       | int64    |int16   | int32    | int32  | compression  |
//	   --+-------------+----------+--------+----------+--------+---------...--+
//
// batch length counts the bytes after itself, so a batch has 12 + length bytes and length is at least 49. The checksum is
// CRC-32C over [21, 12+length): everything after itself. The fields before it, base offset, length, leader epoch and
// magic, can therefore be patched without touching it.
//
// The attributes:
//
//	 15                 7   6   5   4   3   2   1   0
//	+---------------------+---+---+---+---+-----------+
//	| unused, zero        | H | C | T | L | codec     |
//	+---------------------+---+---+---+---+-----------+
//	 codec  0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; 5 to 7 are invalid
//	 L      the timestamps are the log's append time: every record's timestamp is max timestamp
//	 T      part of a transaction
//	 C      control batch: its one record is a control record, see control.go
//	 H      base timestamp holds a delete horizon: when compaction may drop tombstones of this batch
//
// Max offset and max sequence follow from last offset delta, which compaction keeps when it removes records; then it is
// larger than record count - 1, and record count may be 0 with no records at all.
//
// Records that are not compressed follow one another. Varints are little-endian base 128 of the zigzag value (varint.go):
// int32 in at most 5 bytes, int64 in at most 10.
//
//	+--------+-----+-----------+---------+--------+-----+--------+-------+---------+---------------------...--+
//	| length | 0   | timestamp | offset  | key    | key | value  | value | header  | per header:              |
//	| varint | int8| delta     | delta   | length |     | length |       | count   | key length varint, key,  |
//	|        |     | varint64  | varint  | varint |     | varint |       | varint  | value length varint,value|
//	+--------+-----+-----------+---------+--------+-----+--------+-------+---------+---------------------...--+
//
// length counts the bytes after itself. A negative key or value length is null; a header key is never null.
const (
	posBaseOffset      = 0
	posLength          = 8
	posLeaderEpoch     = 12
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21
	posLastOffsetDelta = 23
	posBaseTimestamp   = 27
	posMaxTimestamp    = 35
	posProducerID      = 43
	posProducerEpoch   = 51
	posBaseSequence    = 53
	posCount           = 57
	posRecords         = 61

	// HeaderSize is the size of the header in bytes, and of the smallest batch.
	HeaderSize = 61

	// Magic is the format version of every [Batch].
	Magic = 2

	// lengthOverhead is what the length field does not count: the base offset and the field itself.
	lengthOverhead = 12

	// framingSize is how much of any batch, of any version, must be there to know its size and version.
	framingSize = 17

	// minLength is the least batch length of this version: an empty batch. minLegacyLength is the least of any version,
	// an empty message of version 0.
	minLength       = HeaderSize - lengthOverhead
	minLegacyLength = 14
)

const (
	codecMask               = 0x0007
	attrLogAppendTime       = 0x0008
	attrTransactional       = 0x0010
	attrControl             = 0x0020
	attrDeleteHorizon       = 0x0040
	attrKnown               = 0x007f
	noProducerID            = -1
	noProducerEpoch         = -1
	noSequence              = -1
	noTimestamp       int64 = -1
)
