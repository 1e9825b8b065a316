package batch

import (
	"errors"
	"math"
)

// Record is one record. Key and Value are nil when null; a record with a null value is a tombstone.
type Record struct {
	Offset    int64
	Timestamp int64 // ms; in a LogAppendTime batch the append time
	Key       []byte
	Value     []byte
	Headers   []RecordHeader
}

// RecordHeader is one of a record's headers. Value is nil when null. Keys may repeat within a record.
type RecordHeader struct {
	Key   string
	Value []byte
}

// rawRecord is a record as it lies in the batch: deltas, not values. The slices alias the record's bytes.
type rawRecord struct {
	attributes     int8
	offsetDelta    int32
	timestampDelta int64
	key, value     []byte // nil when null
	headerCount    int32
	headers        []byte // still encoded, and known to be well formed
}

// Faults of a record's bytes, after its length.
var (
	errRecordShort   = errors.New("the record's length is less than its fields need")
	errRecordLong    = errors.New("the record's length is more than its fields need")
	errVarint        = errors.New("a variable-length integer does not end")
	errHeaderCount   = errors.New("the header count is negative or more than the record can hold")
	errHeaderKey     = errors.New("a header key is null")
	errRecordCount   = errors.New("the record count is negative")
	errRecordLength  = errors.New("the record's length is negative or more than what remains")
	errRecordMissing = errors.New("there are fewer records than the header counts")
	errRecordsExtra  = errors.New("something follows the last record that the header counts")
)

// parse decodes a record from body, which must be exactly what the record's length says.
func (r *rawRecord) parse(body []byte) error {
	if len(body) == 0 {
		return errRecordShort
	}
	r.attributes = int8(body[0])
	p := body[1:]
	var n int
	if r.timestampDelta, n = varint64(p); n <= 0 {
		return varintError(n)
	}
	p = p[n:]
	if r.offsetDelta, n = varint32(p); n <= 0 {
		return varintError(n)
	}
	p = p[n:]
	var err error
	if r.key, p, err = cutBytes(p); err != nil {
		return err
	}
	if r.value, p, err = cutBytes(p); err != nil {
		return err
	}
	if r.headerCount, n = varint32(p); n <= 0 {
		return varintError(n)
	}
	p = p[n:]
	if r.headerCount == 0 {
		r.headers = nil
		if len(p) != 0 {
			return errRecordLong
		}
		return nil
	}
	r.headers = p
	return checkHeaders(p, r.headerCount)
}

func varintError(n int) error {
	if n < 0 {
		return errVarint
	}
	return errRecordShort
}

// cutBytes decodes a length and that many bytes, nil when the length is negative.
func cutBytes(p []byte) (field, rest []byte, err error) {
	size, n := varint32(p)
	if n <= 0 {
		return nil, nil, varintError(n)
	}
	p = p[n:]
	if size < 0 {
		return nil, p, nil
	}
	if int64(size) > int64(len(p)) {
		return nil, nil, errRecordShort
	}
	return p[:size:size], p[size:], nil
}

// checkHeaders verifies that p is exactly count headers.
func checkHeaders(p []byte, count int32) error {
	if count < 0 || int64(count) > int64(len(p)) {
		return errHeaderCount
	}
	for range count {
		key, rest, err := cutBytes(p)
		if err != nil {
			return err
		}
		if key == nil {
			return errHeaderKey
		}
		if _, p, err = cutBytes(rest); err != nil {
			return err
		}
	}
	if len(p) != 0 {
		return errRecordLong
	}
	return nil
}

// appendHeaders appends the decoded headers to dst. Keys that equal the key at the same place in before, the headers of an
// earlier record, share its string: records of one producer carry the same headers.
func (r *rawRecord) appendHeaders(dst, before []RecordHeader) []RecordHeader {
	p := r.headers
	for i := range int(r.headerCount) {
		key, rest, _ := cutBytes(p)
		value, rest, _ := cutBytes(rest)
		p = rest
		h := RecordHeader{Value: value}
		if i < len(before) && before[i].Key == string(key) {
			h.Key = before[i].Key
		} else {
			h.Key = string(key)
		}
		dst = append(dst, h)
	}
	return dst
}

// bodySize returns the length of a record's body, or more than [math.MaxInt32] when that cannot be encoded.
func bodySize(timestampDelta int64, offsetDelta int32, key, value []byte, headers []RecordHeader) int64 {
	size := int64(1 + sizeVarint64(timestampDelta) + sizeVarint32(offsetDelta))
	size += fieldSize(key) + fieldSize(value) + int64(sizeVarint32(int32(len(headers))))
	for i := range headers {
		size += fieldSizeOf(len(headers[i].Key)) + fieldSize(headers[i].Value)
	}
	return size
}

func fieldSize(field []byte) int64 {
	if field == nil {
		return 1
	}
	return fieldSizeOf(len(field))
}

func fieldSizeOf(n int) int64 {
	if n > math.MaxInt32 {
		return int64(n)
	}
	return int64(sizeVarint32(int32(n)) + n)
}

// appendRecord appends an encoded record to dst. size is its bodySize.
func appendRecord(
	dst []byte, size int32, timestampDelta int64, offsetDelta int32, key, value []byte, headers []RecordHeader,
) []byte {
	dst = appendVarint32(dst, size)
	dst = append(dst, 0)
	dst = appendVarint64(dst, timestampDelta)
	dst = appendVarint32(dst, offsetDelta)
	dst = appendField(dst, key)
	dst = appendField(dst, value)
	dst = appendVarint32(dst, int32(len(headers)))
	for i := range headers {
		dst = appendVarint32(dst, int32(len(headers[i].Key)))
		dst = append(dst, headers[i].Key...)
		dst = appendField(dst, headers[i].Value)
	}
	return dst
}

func appendField(dst, field []byte) []byte {
	if field == nil {
		return append(dst, 1) // -1
	}
	dst = appendVarint32(dst, int32(len(field)))
	return append(dst, field...)
}
