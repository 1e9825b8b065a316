package stream

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// A composite links the blocks of other objects of one stream. Big-endian.
//
//	+--------+-------+-------------------------------------------------+----------------+---------+
//	| 0x52   | count | count x { object id | first block | bucket }    | index entries  | footer  |
//	|        | i32   |           i64         i32           i16         | 36 bytes each  | 48      |
//	+--------+-------+-------------------------------------------------+----------------+---------+
//	0        1       5                                                 5 + 14*count
//
// The entries are those of all components, in their order; a position is one inside the component. The footer's magic is
// that of composites, its index position the length of the objects block.
const (
	objectsMagic      = 0x52
	objectsHeaderSize = 5
	componentSize     = 14
)

// CompositeObject is the content of a composite: entries of one stream, each beginning where the one before it ends, and
// the objects that hold them.
type CompositeObject struct {
	Components []Component
	Entries    Index
}

// Component is an object whose blocks a composite links. It has the entries from FirstBlock up to the next component's
// (CMP-1).
type Component struct {
	Object     catalog.ObjectID
	FirstBlock int32
	Bucket     int16
}

// EntriesOf returns the entries of the i-th component, as a part of Entries.
func (c CompositeObject) EntriesOf(i int) Index {
	end := len(c.Entries)
	if i+1 < len(c.Components) {
		end = int(c.Components[i+1].FirstBlock)
	}
	return c.Entries[c.Components[i].FirstBlock:end]
}

// LinkedBytes is the sum of the entries' sizes, which is the object's size in metadata (CMP-4).
func (c CompositeObject) LinkedBytes() int64 {
	var sum int64
	for _, e := range c.Entries {
		sum += int64(e.Size)
	}
	return sum
}

// Encode returns the object's bytes. [ErrOrdering] if the entries are not one continuous run of one stream, or the
// components do not divide them in order (CMP-1, CMP-2).
func (c CompositeObject) Encode() ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	b := []byte{objectsMagic}
	b = binary.BigEndian.AppendUint32(b, uint32(len(c.Components)))
	for _, component := range c.Components {
		b = binary.BigEndian.AppendUint64(b, uint64(component.Object))
		b = binary.BigEndian.AppendUint32(b, uint32(component.FirstBlock))
		b = binary.BigEndian.AppendUint16(b, uint16(component.Bucket))
	}
	f := Footer{IndexPosition: int64(len(b)), IndexLen: int32(len(c.Entries) * indexEntrySize), Composite: true}
	for _, e := range c.Entries {
		b = e.appendTo(b)
	}
	return f.appendTo(b), nil
}

func (c CompositeObject) check() error {
	if len(c.Components) == 0 || len(c.Entries) == 0 || len(c.Entries) > math.MaxInt32/indexEntrySize {
		return fmt.Errorf("%w: %d components with %d entries", ErrOrdering, len(c.Components), len(c.Entries))
	}
	next := int32(0)
	for i, component := range c.Components {
		if component.FirstBlock != 0 && i == 0 || component.FirstBlock < next || int(component.FirstBlock) >= len(c.Entries) {
			return fmt.Errorf("%w: component %d begins at entry %d", ErrOrdering, i, component.FirstBlock)
		}
		next = component.FirstBlock + 1
	}
	for i, e := range c.Entries[1:] {
		if last := c.Entries[i]; e.Stream != last.Stream || e.Start != last.End() {
			return fmt.Errorf("%w: entry of %s does not follow %s", ErrOrdering, e, last)
		}
	}
	return nil
}

// DecodeComposite decodes a whole composite (CMP-1 to CMP-3). An order that is broken matches [ErrCorrupt] and
// [ErrOrdering].
func DecodeComposite(object string, b []byte) (CompositeObject, error) {
	var c CompositeObject
	f, err := DecodeFooter(object, int64(len(b)), b)
	if err != nil {
		return c, err
	}
	s := source{object: object}
	if !f.Composite {
		return c, s.corrupt("an object with data, not a composite")
	}
	if f.IndexPosition < objectsHeaderSize {
		return c, s.short("objects block", objectsHeaderSize, int(f.IndexPosition))
	}
	if b[0] != objectsMagic {
		return c, s.version("objects block", hexNumber(b[0]), hexNumber(objectsMagic))
	}
	count := int32(binary.BigEndian.Uint32(b[1:]))
	if objectsHeaderSize+int64(count)*componentSize != f.IndexPosition {
		return c, s.at(1).differs("bytes of the objects block", f.IndexPosition, objectsHeaderSize+int64(count)*componentSize)
	}
	for i := range int(count) {
		at := b[objectsHeaderSize+i*componentSize:]
		c.Components = append(c.Components, Component{
			Object:     catalog.ObjectID(binary.BigEndian.Uint64(at)),
			FirstBlock: int32(binary.BigEndian.Uint32(at[8:])),
			Bucket:     int16(binary.BigEndian.Uint16(at[12:])),
		})
	}
	for i := int(f.IndexPosition); i < len(b)-FooterSize; i += indexEntrySize {
		e := decodeIndexEntry(b[i:])
		if err := e.check(s.at(i), math.MaxInt64); err != nil {
			return c, err
		}
		c.Entries = append(c.Entries, e)
	}
	if err := c.check(); err != nil {
		return c, fmt.Errorf("%w: %w", s.corrupt("composite"), err)
	}
	return c, nil
}
