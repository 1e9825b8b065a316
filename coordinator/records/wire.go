package records

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

func appendInt16(b []byte, v int16) []byte { return binary.BigEndian.AppendUint16(b, uint16(v)) }

func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

func appendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// appendString appends a string of at most 32767 bytes; longer ones were refused.
func appendString(b []byte, s string) []byte {
	return append(appendInt16(b, int16(len(s))), s...)
}

func appendNullableString(b []byte, s *string) []byte {
	if s == nil {
		return appendInt16(b, -1)
	}
	return appendString(b, *s)
}

func appendCompactString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))+1), s...)
}

func appendBytes(b, v []byte) []byte {
	return append(appendInt32(b, int32(len(v))), v...)
}

// reader reads fields from the front of bytes. After the first one that is missing it yields zeros.
type reader struct {
	b        []byte
	flexible bool // str, nullableStr, bytes and count read the compact form
	failed   bool
}

func (r *reader) expect(ok bool) bool {
	if !ok {
		r.failed, r.b = true, nil
	}
	return ok
}

func (r *reader) take(n int) []byte {
	if r.failed || !r.expect(n >= 0 && n <= len(r.b)) {
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if r.failed || !r.expect(n > 0 && v <= math.MaxUint32) {
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) string() string { return string(r.take(int(r.int16()))) }

// compactLength reads a compact length, -1 for null.
func (r *reader) compactLength() int { return int(r.uvarint()) - 1 }

func (r *reader) compactString() string { return string(r.take(r.compactLength())) }

func (r *reader) str() string {
	if r.flexible {
		return r.compactString()
	}
	return r.string()
}

func (r *reader) nullableStr() *string {
	n := 0
	if r.flexible {
		n = r.compactLength()
	} else {
		n = int(r.int16())
	}
	if r.failed || n < 0 {
		r.expect(r.failed || n == -1)
		return nil
	}
	s := string(r.take(n))
	return &s
}

// bytes returns a copy, which is nil only for null.
func (r *reader) bytes() []byte {
	n := 0
	if r.flexible {
		n = r.compactLength()
	} else {
		n = int(r.int32())
	}
	return bytes.Clone(r.take(n))
}

// count reads the length of an array whose elements take at least that many bytes each.
func (r *reader) count(least int) int {
	n := 0
	if r.flexible {
		n = r.compactLength()
	} else {
		n = int(r.int32())
	}
	if r.failed || !r.expect(n >= 0 && n <= len(r.b)/least) {
		return 0
	}
	return n
}

// tags reads tagged fields.
func (r *reader) tags(field func(tag uint64, b []byte)) {
	for range r.uvarint() {
		tag := r.uvarint()
		b := r.take(int(r.uvarint()))
		if r.failed {
			return
		}
		field(tag, b)
	}
}

// ignoreTags skips the tagged fields of a flexible value: none is known.
func (r *reader) ignoreTags() {
	if r.flexible {
		r.tags(func(uint64, []byte) {})
	}
}

// end returns an error unless every field was there and nothing is left.
func (r *reader) end(what string) error {
	switch {
	case r.failed:
		return fmt.Errorf("%w: %s is cut short", ErrMalformed, what)
	case len(r.b) > 0:
		return fmt.Errorf("%w: %s has %d bytes too many", ErrMalformed, what, len(r.b))
	}
	return nil
}
