package meta

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// writer builds little-endian metadata structures. Strings and blobs carry a u32 length, lists a u32 count, bools are
// one byte. The first value that cannot be encoded is kept in err.
type writer struct {
	b   []byte
	err error
}

func (w *writer) u8(v uint8)   { w.b = append(w.b, v) }
func (w *writer) u32(v uint32) { w.b = binary.LittleEndian.AppendUint32(w.b, v) }
func (w *writer) u64(v uint64) { w.b = binary.LittleEndian.AppendUint64(w.b, v) }
func (w *writer) i16(v int16)  { w.b = binary.LittleEndian.AppendUint16(w.b, uint16(v)) }
func (w *writer) i32(v int32)  { w.u32(uint32(v)) }
func (w *writer) i64(v int64)  { w.u64(uint64(v)) }
func (w *writer) raw(p []byte) { w.b = append(w.b, p...) }

func (w *writer) count(n int) { w.u32(uint32(n)) }

func (w *writer) blob(p []byte) {
	w.count(len(p))
	w.raw(p)
}

func (w *writer) str(s string) {
	if !utf8.ValidString(s) && w.err == nil {
		w.err = fmt.Errorf("meta: %q is not valid UTF-8", s)
	}
	w.count(len(s))
	w.b = append(w.b, s...)
}

// reader takes the same structures apart. After the first fault every read returns zero and err stays. Blobs and raw
// bytes alias the input.
type reader struct {
	b   []byte
	pos int
	err error
}

func (r *reader) remaining() int { return len(r.b) - r.pos }

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = &FormatError{Offset: r.pos, Reason: fmt.Sprintf(format, args...)}
	}
}

func (r *reader) raw(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || n > r.remaining() {
		r.fail("%d bytes wanted, %d left", n, r.remaining())
		return nil
	}
	p := r.b[r.pos : r.pos+n : r.pos+n]
	r.pos += n
	return p
}

func (r *reader) u8() uint8 {
	if p := r.raw(1); p != nil {
		return p[0]
	}
	return 0
}

func (r *reader) i16() int16 {
	if p := r.raw(2); p != nil {
		return int16(binary.LittleEndian.Uint16(p))
	}
	return 0
}

func (r *reader) u32() uint32 {
	if p := r.raw(4); p != nil {
		return binary.LittleEndian.Uint32(p)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if p := r.raw(8); p != nil {
		return binary.LittleEndian.Uint64(p)
	}
	return 0
}

func (r *reader) i32() int32 { return int32(r.u32()) }
func (r *reader) i64() int64 { return int64(r.u64()) }

func (r *reader) id() (id [16]byte) {
	copy(id[:], r.raw(16))
	return id
}

// count reads the length of a list whose items take at least itemSize bytes each, so that a damaged count cannot ask
// for more memory than the input could fill.
func (r *reader) count(itemSize int) int {
	n := r.u32()
	if r.err == nil && uint64(n)*uint64(itemSize) > uint64(r.remaining()) {
		r.fail("a list of %d items does not fit in the %d bytes left", n, r.remaining())
		return 0
	}
	return int(n)
}

func (r *reader) blob() []byte { return r.raw(r.count(1)) }

func (r *reader) str() string {
	p := r.blob()
	if !utf8.Valid(p) {
		r.fail("%q is not valid UTF-8", p)
		return ""
	}
	return string(p)
}

func (w *writer) bool(v bool) {
	if v {
		w.u8(1)
	} else {
		w.u8(0)
	}
}

func (r *reader) bool() bool {
	v := r.u8()
	if v > 1 {
		r.fail("%d is neither 0 nor 1", v)
	}
	return v == 1
}
