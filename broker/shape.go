package broker

import (
	"errors"
	"math"
)

// shape is the layout of a request, in just enough detail to know how much memory it will take when decoded. A list may
// declare any number of elements, an element may be a byte or two on the wire, and kmsg makes a struct of each; an
// unknown tagged field makes a map. So a request of 1 MiB could take 90 MiB, and one of 100 MiB all memory. Walking the
// bytes first, without allocating, gives the sum before memory is taken.
//
// A shape may be more lenient than the decoder, which still refuses what the shape accepts.
type shape []field

type field struct {
	kind  fieldKind
	width int   // fixed: bytes
	cost  int   // list: bytes of memory of an element, decoded, executed and answered, excluding what it points to
	elems shape // list, maybe
	plain bool  // list: elements are not structs and have no tagged fields
	from  int16 // first version that has the field
	to    int16 // last one
}

type fieldKind int8

const (
	fixedField fieldKind = 1
	textField  fieldKind = 2
	blobField  fieldKind = 3 // bytes that are not copied
	listField  fieldKind = 4
	maybeField fieldKind = 5 // a struct that may be null
)

// fixed is one or more fields of n bytes in all.
func fixed(n int) field { return field{kind: fixedField, width: n, to: math.MaxInt16} }

func text() field { return field{kind: textField, to: math.MaxInt16} }

func blob() field { return field{kind: blobField, to: math.MaxInt16} }

// list is an array of structs.
func list(cost int, elems ...field) field {
	return field{kind: listField, cost: cost, elems: elems, to: math.MaxInt16}
}

// listOf is an array of something that is not a struct.
func listOf(cost int, elem field) field {
	return field{kind: listField, cost: cost, elems: shape{elem}, plain: true, to: math.MaxInt16}
}

// maybe is a nullable struct; a byte before it says whether it is there.
func maybe(elems ...field) field {
	return field{kind: maybeField, elems: elems, to: math.MaxInt16}
}

func (f field) since(version int16) field { f.from = version; return f }

func (f field) until(version int16) field { f.to = version; return f }

const (
	textCost = 32  // of a string or a pointer to one, without its bytes
	tagCost  = 400 // of a map with one entry
)

var errInflated = errors.New("the request would take too much memory decoded")

// cost estimates how many bytes of memory a request takes beyond its own. It fails when that is more than limit, and when
// the request does not parse.
func (s shape) cost(body []byte, version int16, flexible bool, limit int64) (int64, error) {
	m := meter{wireWalker: wireWalker{b: body, flexible: flexible}, version: version, limit: limit}
	m.structure(s)
	return m.total, m.err
}

// meter adds up what a request costs.
type meter struct {
	wireWalker
	version int16
	limit   int64
	total   int64
}

func (m *meter) structure(s shape) {
	m.fields(s)
	m.add(int64(m.skipTags()) * tagCost)
}

func (m *meter) fields(s shape) {
	for i := range s {
		f := &s[i]
		if m.version < f.from || m.version > f.to {
			continue
		}
		switch f.kind {
		case fixedField:
			m.skip(f.width)
		case textField:
			n := max(m.length(2), 0)
			m.skip(n)
			m.add(textCost + int64(n))
		case blobField:
			m.skip(max(m.length(4), 0))
		case listField:
			m.list(f)
		case maybeField:
			if m.int8() >= 0 {
				m.structure(f.elems)
			}
		}
	}
}

func (m *meter) list(f *field) {
	for n := m.arrayLen(); n > 0 && m.err == nil; n-- {
		m.add(int64(f.cost))
		if f.plain {
			m.fields(f.elems)
		} else {
			m.structure(f.elems)
		}
	}
}

func (m *meter) add(n int64) {
	if m.total += n; m.total > m.limit && m.err == nil {
		m.fail()
		m.err = errInflated
	}
}
