package tableschema

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// message reads a flatbuffer. After the first fault every read returns zero and err stays. Whatever offset the bytes hold, it is
// within them or it is a fault.
type message struct {
	b   []byte
	err error

	tables int // read so far
	chars  int // of text read so far
}

// What a message may refer to may be the same bytes again and again, so it is bounded how much of it is read.
const (
	maxTables = 8 * MaxFields
	maxChars  = MaxBytes
)

func (m *message) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf(format, args...)
	}
}

// at returns n bytes at an offset.
func (m *message) at(offset, n int) []byte {
	if m.err == nil && (offset < 0 || n < 0 || offset > len(m.b)-n) {
		m.fail("%d bytes at %d are not within the %d of the message", n, offset, len(m.b))
	}
	if m.err != nil {
		return nil
	}
	return m.b[offset : offset+n]
}

func (m *message) u16(offset int) uint16 {
	if p := m.at(offset, 2); p != nil {
		return binary.LittleEndian.Uint16(p)
	}
	return 0
}

func (m *message) u32(offset int) uint32 {
	if p := m.at(offset, 4); p != nil {
		return binary.LittleEndian.Uint32(p)
	}
	return 0
}

// follow returns where the offset at a place points to. Such offsets lead forward only, so nothing is within itself.
func (m *message) follow(offset int) int {
	by := m.u32(offset)
	if m.err == nil && (by == 0 || uint64(by) > uint64(len(m.b))) {
		m.fail("the offset at %d leads nowhere", offset)
	}
	return offset + int(by)
}

// table is a table of the flatbuffer: a record whose fields are found through a list of their places.
type table struct {
	m      *message
	at     int
	fields []byte // the place of each field relative to the table, u16 each; 0 for a field that is not there
	size   int    // what the table takes
}

// table reads the head of a table.
//
//	at                                at - soffset
//	 +---------+----------------+      +-------------+------------+-----------+-----------+---
//	 | soffset | fields         |      | this list's | the        | place of  | place of  | ...
//	 | i32     |                |      | bytes u16   | table's u16| field 0   | field 1   |
//	 +---------+----------------+      +-------------+------------+-----------+-----------+---
func (m *message) table(at int) table {
	if m.tables++; m.tables > maxTables {
		m.fail("there are more than %d tables in the message", maxTables)
	}
	list := at - int(int32(m.u32(at)))
	bytes, size := int(m.u16(list)), int(m.u16(list+2))
	if m.err == nil && (bytes < 4 || bytes%2 != 0 || size < 4) {
		m.fail("the table at %d is not well-formed", at)
	}
	m.at(at, size)
	fields := m.at(list, bytes)
	if m.err != nil {
		return table{m: m}
	}
	return table{m: m, at: at, fields: fields[4:], size: size}
}

// place is where a field of n bytes is, or 0 if it is not there.
func (t table) place(field, n int) int {
	if 2*field+2 > len(t.fields) || t.m.err != nil {
		return 0
	}
	by := int(binary.LittleEndian.Uint16(t.fields[2*field:]))
	if by == 0 {
		return 0
	}
	if by < 4 || by > t.size-n {
		t.m.fail("field %d of the table at %d is not within it", field, t.at)
		return 0
	}
	return t.at + by
}

func (t table) u8(field int, absent uint8) uint8 {
	if at := t.place(field, 1); at > 0 {
		if p := t.m.at(at, 1); p != nil {
			return p[0]
		}
	}
	return absent
}

func (t table) bool(field int) bool {
	v := t.u8(field, 0)
	if v > 1 {
		t.m.fail("field %d of the table at %d is %d, neither 0 nor 1", field, t.at, v)
	}
	return v == 1
}

func (t table) i16(field int, absent int16) int16 {
	if at := t.place(field, 2); at > 0 {
		return int16(t.m.u16(at))
	}
	return absent
}

func (t table) i32(field int, absent int32) int32 {
	if at := t.place(field, 4); at > 0 {
		return int32(t.m.u32(at))
	}
	return absent
}

// isZero reports whether a field of 8 bytes is 0 or not there.
func (t table) isZero(field int) bool {
	at := t.place(field, 8)
	return at == 0 || t.m.u32(at) == 0 && t.m.u32(at+4) == 0
}

func (t table) has(field int) bool { return t.place(field, 4) > 0 }

// table returns a table that a field refers to.
func (t table) table(field int) table {
	at := t.place(field, 4)
	if at == 0 {
		t.m.fail("field %d of the table at %d is missing", field, t.at)
		return table{m: t.m}
	}
	return t.m.table(t.m.follow(at))
}

// vector returns where the items of a list are, and how many.
func (t table) vector(field, itemSize int) (first, n int) {
	at := t.place(field, 4)
	if at == 0 {
		return 0, 0
	}
	list := t.m.follow(at)
	count := t.m.u32(list)
	if t.m.err == nil && uint64(count)*uint64(itemSize) > uint64(len(t.m.b)) {
		t.m.fail("%d items at %d are more than the message holds", count, list)
	}
	if t.m.err != nil {
		return 0, 0
	}
	n = int(count)
	t.m.at(list+4, n*itemSize)
	return list + 4, n
}

// tables yields the tables of a list.
func (t table) tables(field int, each func(table)) {
	first, n := t.vector(field, 4)
	for i := 0; i < n && t.m.err == nil; i++ {
		each(t.m.table(t.m.follow(first + 4*i)))
	}
}

// text returns a string, empty if it is not there. A zero byte follows it, which its length does not count.
func (t table) text(field int) string {
	first, n := t.vector(field, 1)
	if first == 0 {
		return ""
	}
	if end := t.m.at(first+n, 1); end != nil && end[0] != 0 {
		t.m.fail("the text at %d does not end", first)
	}
	if t.m.chars += n; t.m.chars > maxChars {
		t.m.fail("there are more than %d bytes of text in the message", maxChars)
	}
	p := t.m.at(first, n)
	if !utf8.Valid(p) {
		t.m.fail("the text at %d is not valid UTF-8", first)
		return ""
	}
	return string(p)
}
