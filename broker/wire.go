package broker

import (
	"encoding/binary"
	"errors"
	"io"
	"unsafe"
)

// wireWalker steps over the fields of a request without decoding them. After the first error it yields nothing more.
type wireWalker struct {
	b        []byte
	flexible bool
	err      error
}

func (w *wireWalker) skip(n int) {
	if w.err != nil {
		return
	}
	if n < 0 || n > len(w.b) {
		w.fail()
		return
	}
	w.b = w.b[n:]
}

func (w *wireWalker) fail() { w.b, w.err = nil, io.ErrUnexpectedEOF }

// int8 reads a byte; -1 when there is none.
func (w *wireWalker) int8() int8 {
	if w.err != nil || len(w.b) == 0 {
		w.fail()
		return -1
	}
	v := int8(w.b[0])
	w.b = w.b[1:]
	return v
}

// length reads the length of a string (2 bytes) or of bytes or an array (4 bytes), or the compact form of either. Null is
// -1, and so are all other negative lengths, which kmsg reads as null or empty.
func (w *wireWalker) length(width int) int {
	if w.err != nil {
		return -1
	}
	if w.flexible {
		v, rest, err := uvarint(w.b)
		if err != nil {
			w.fail()
			return -1
		}
		w.b = rest
		return int(int32(v)) - 1
	}
	if len(w.b) < width {
		w.fail()
		return -1
	}
	n := 0
	if width == 2 {
		n = int(int16(binary.BigEndian.Uint16(w.b)))
	} else {
		n = int(int32(binary.BigEndian.Uint32(w.b)))
	}
	w.b = w.b[width:]
	return n
}

// arrayLen reads the declared number of elements of an array. It is never more than the number of bytes left, since every
// element takes at least one.
func (w *wireWalker) arrayLen() int {
	n := w.length(4)
	if n > len(w.b) {
		w.fail()
		return 0
	}
	return n
}

// skipTags steps over a section of tagged fields, if there is one, and returns how many there were.
func (w *wireWalker) skipTags() int {
	if w.err != nil || !w.flexible {
		return 0
	}
	count, _, err := uvarint(w.b)
	if err == nil {
		w.b, err = skipTags(w.b)
	}
	if err != nil {
		w.fail()
		return 0
	}
	return int(count)
}

// aliasString is a string over b, valid for as long as b does not change.
func aliasString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
