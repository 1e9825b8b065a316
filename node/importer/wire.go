package importer

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tidemark-io/tidemark/logdir"
)

// A record of Kafka's metadata log is a frame around a message in Kafka's flexible encoding:
//
//	+-----------------+-----------+-------------+--------------------------------+
//	| frame version 1 | api key   | api version | fields in order, tagged fields |
//	| uvarint         | uvarint   | uvarint     |                                |
//	+-----------------+-----------+-------------+--------------------------------+
//
//	int8, int32, int64   big-endian                   uuid           16 bytes
//	string, array        uvarint of length + 1,       tagged fields  uvarint n, then n times in rising order
//	                     0 is null; then the items                   uvarint tag, uvarint size, size bytes
type wireReader struct {
	b   []byte
	err error
}

// errShort is the fault of a record that ends before its fields do.
var errShort = errors.New("the record ends before its fields do")

func (r *wireReader) take(n int) []byte {
	if r.err == nil && (n < 0 || n > len(r.b)) {
		r.err = errShort
	}
	if r.err != nil {
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *wireReader) uvarint() uint32 {
	v, n := binary.Uvarint(r.b)
	if r.err == nil && (n <= 0 || v > 1<<32-1) {
		r.err = errShort
	}
	if r.err != nil {
		return 0
	}
	r.b = r.b[n:]
	return uint32(v)
}

func (r *wireReader) int8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *wireReader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *wireReader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *wireReader) uuid() (u logdir.UUID) {
	copy(u[:], r.take(len(u)))
	return u
}

// length reads the length of a string or an array; ok is false for null.
func (r *wireReader) length() (n int, ok bool) {
	v := r.uvarint()
	if r.err == nil && int64(v) > int64(len(r.b))+1 {
		r.err = errShort
	}
	if v == 0 || r.err != nil {
		return 0, false
	}
	return int(v) - 1, true
}

// text reads a string; ok is false for null.
func (r *wireReader) text() (s string, ok bool) {
	n, ok := r.length()
	return string(r.take(n)), ok
}

// int32s reads an array of int32; null is none.
func (r *wireReader) int32s() []int32 {
	n, _ := r.length()
	var out []int32
	for i := 0; i < n && r.err == nil; i++ {
		out = append(out, r.int32())
	}
	return out
}

// tagged reads the tagged fields that end a message and gives each to visit, which may leave bytes unread.
func (r *wireReader) tagged(visit func(tag uint32, field *wireReader)) {
	for range r.uvarint() {
		tag, size := r.uvarint(), r.uvarint()
		field := &wireReader{b: r.take(int(size)), err: r.err}
		if r.err != nil {
			return
		}
		if visit != nil {
			visit(tag, field)
		}
		if r.err = field.err; r.err != nil {
			return
		}
	}
}

// frame reads what precedes each message.
func (r *wireReader) frame() (key, version uint32) {
	if frame := r.uvarint(); r.err == nil && frame != 1 {
		r.err = fmt.Errorf("frame version %d is not known here; this build reads version 1", frame)
	}
	return r.uvarint(), r.uvarint()
}
