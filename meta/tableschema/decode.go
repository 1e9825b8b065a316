package tableschema

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
)

// The numbers of Arrow's message format that are read here.
const (
	continuation   = 0xFFFFFFFF
	metadataV5     = 4
	schemaHeader   = 1
	littleEndian   = 0
	extensionKey   = "ARROW:extension:name"
	prefixSize     = 8
	defaultDecimal = 128 // bits
	maxCodes       = 128
)

// Decode reads a schema from one Arrow IPC message and nothing behind it. The error says why it is none, or why no table may
// have it: a type that is not allowed (IPC-2), a column without a name or a field id, or with one that another has. The schema
// keeps no reference to b.
//
//	 0            4        8                      8+n
//	+------------+--------+----------------------+
//	| 0xFFFFFFFF | n i32  | flatbuffer Message   |   little-endian
//	+------------+--------+----------------------+
//
//	Message  0 version i16 = 4     Schema  0 endianness i16 = 0   Field  0 name           4 dictionary (refused)
//	         1 header type u8 = 1          1 list of Field               1 nullable bool  5 list of Field
//	         2 Schema                      2 list of KeyValue            2 kind u8        6 list of KeyValue
//	         3 body length i64 = 0                                       3 its table
func Decode(b []byte) (Schema, error) {
	if len(b) > MaxBytes {
		return Schema{}, fmt.Errorf("a schema has at most %d bytes, not %d", MaxBytes, len(b))
	}
	if len(b) < prefixSize+4 || binary.LittleEndian.Uint32(b) != continuation {
		return Schema{}, errors.New("it is not an Arrow IPC message")
	}
	if n := binary.LittleEndian.Uint32(b[4:]); uint64(n) != uint64(len(b)-prefixSize) {
		return Schema{}, fmt.Errorf("the message has %d bytes and says %d", len(b)-prefixSize, n)
	}
	d := decoder{message: message{b: b[prefixSize:]}}
	s := d.schema()
	if d.err != nil {
		return Schema{}, d.err
	}
	return s, s.check()
}

// decoder reads a schema.
type decoder struct {
	message
	fields int // met so far
}

func (d *decoder) schema() (s Schema) {
	m := d.table(d.follow(0))
	if v := m.i16(0, 0); d.err == nil && v != metadataV5 {
		d.fail("the message has metadata version %d, not V5", v+1)
	}
	if kind := m.u8(1, 0); d.err == nil && kind != schemaHeader {
		d.fail("the message has header %d, which is no schema", kind)
	}
	if !m.isZero(3) {
		d.fail("the message has a body")
	}
	t := m.table(2)
	if endian := t.i16(0, littleEndian); endian != littleEndian {
		d.fail("the schema is not little-endian")
	}
	d.metadata(t, 2)
	t.tables(1, func(f table) {
		field, id := d.field(f, 1)
		s.Columns = append(s.Columns, Column{ID: id, Field: field})
	})
	return s
}

// field reads a field and its id, -1 for none. Fields may share their bytes, so it is counted how often one is read.
func (d *decoder) field(t table, depth int) (f Field, id int32) {
	if d.fields++; d.fields > MaxFields || depth > MaxDepth {
		d.fail("a schema has at most %d fields, %d within each other", MaxFields, MaxDepth)
		return Field{}, -1
	}
	f.Name = t.text(0)
	f.Nullable = t.bool(1)
	if t.has(4) {
		d.fail("field %q is dictionary-encoded, which a table cannot have", f.Name)
	}
	id = d.metadata(t, 6)
	f.Type = d.parameters(t, Kind(t.u8(2, 0)), f.Name)
	t.tables(5, func(c table) {
		child, _ := d.field(c, depth+1)
		f.Type.Children = append(f.Type.Children, child)
	})
	if err := f.Type.checkChildren(); d.err == nil && err != nil {
		d.fail("field %q: %w", f.Name, err)
	}
	if d.err == nil && f.Type.Kind == Map {
		f.Type.nameEntries()
	}
	return f, id
}

// metadata reads what is written beside a field or schema and returns the field id, -1 for none.
func (d *decoder) metadata(t table, field int) (id int32) {
	id = -1
	t.tables(field, func(pair table) {
		key, value := pair.text(0), pair.text(1)
		switch {
		case key == extensionKey:
			d.fail("%q is an extension type, which a table cannot have", value)
		case key == FieldIDKey:
			n, err := strconv.ParseUint(value, 10, 31)
			if err != nil || strconv.FormatUint(n, 10) != value || id >= 0 {
				d.fail("%q is no field id, or not the only one", value)
			}
			id = int32(n)
		}
	})
	return id
}

// parameters reads the table of a type, all but its children.
func (d *decoder) parameters(f table, kind Kind, name string) Type {
	if refused, is := refusedKinds[kind]; is {
		d.fail("field %q is %s, which a table cannot have", name, refused)
	}
	t := f.table(3)
	p := Type{Kind: kind}
	valid := true
	switch kind {
	case Null, Binary, Utf8, Bool, List, Struct, LargeBinary, LargeUtf8, LargeList:
	case Int:
		p.Bits, p.Signed = t.i32(0, 0), t.bool(1)
		valid = p.Bits == 8 || p.Bits == 16 || p.Bits == 32 || p.Bits == 64
	case Float:
		precision := t.i16(0, 0)
		valid = precision >= 0 && precision <= 2
		p.Bits = 16 << (precision & 3)
	case Decimal:
		p.Precision, p.Scale, p.Bits = t.i32(0, 0), t.i32(1, 0), t.i32(2, defaultDecimal)
		most := map[int32]int32{32: 9, 64: 18, 128: 38, 256: 76}[p.Bits]
		valid = p.Precision >= 1 && p.Precision <= most && p.Scale >= -most && p.Scale <= most
	case Date:
		p.Unit = t.i16(0, 1)
		valid = p.Unit == 0 || p.Unit == 1
	case Time:
		p.Unit, p.Bits = t.i16(0, 1), t.i32(1, 32)
		valid = (p.Unit == 0 || p.Unit == 1) && p.Bits == 32 || (p.Unit == 2 || p.Unit == 3) && p.Bits == 64
	case Timestamp:
		p.Unit, p.Zone = t.i16(0, 0), t.text(1)
		valid = p.Unit >= 0 && p.Unit <= 3
	case Duration:
		p.Unit = t.i16(0, 1)
		valid = p.Unit >= 0 && p.Unit <= 3
	case Interval:
		p.Unit = t.i16(0, 0)
		valid = p.Unit >= 0 && p.Unit <= 2
	case FixedSizeBinary, FixedSizeList:
		p.Size = t.i32(0, 0)
		valid = p.Size >= 1
	case Map:
		p.Sorted = t.bool(0)
	case Union:
		p.Unit, p.Codes = t.i16(0, 0), d.codes(t)
		valid = p.Unit == 0 || p.Unit == 1
	default:
		d.fail("field %q has type %d, which a table cannot have", name, kind)
	}
	if d.err == nil && !valid {
		d.fail("field %q has a type %d that is not well-formed", name, kind)
	}
	return p
}

func (d *decoder) codes(t table) (codes []int32) {
	first, n := t.vector(1, 4)
	if n > maxCodes {
		d.fail("a union has %d type ids, at most %d are possible", n, maxCodes)
		return nil
	}
	for i := range n {
		codes = append(codes, int32(d.u32(first+4*i)))
	}
	return codes
}

// checkChildren makes sure that a type holds as many fields as it must.
func (t Type) checkChildren() error {
	n := len(t.Children)
	switch t.Kind {
	case Struct:
		return nil
	case List, LargeList, FixedSizeList:
		if n != 1 {
			return fmt.Errorf("a list has one field, not %d", n)
		}
	case Map:
		if n != 1 || t.Children[0].Type.Kind != Struct || len(t.Children[0].Type.Children) != 2 || t.Children[0].Nullable ||
			t.Children[0].Type.Children[0].Nullable {
			return errors.New("a map has entries of a key and a value, and no entry and no key is null")
		}
	case Union:
		seen := map[int32]bool{}
		for _, code := range t.Codes {
			if code < 0 || code >= maxCodes || seen[code] {
				return fmt.Errorf("a union has the type id %d, which is out of range or repeated", code)
			}
			seen[code] = true
		}
		if n != len(t.Codes) || n == 0 {
			return fmt.Errorf("a union has %d fields and %d type ids", n, len(t.Codes))
		}
	default:
		if n > 0 {
			return fmt.Errorf("type %d has no fields, and not %d", t.Kind, n)
		}
	}
	return nil
}

// nameEntries gives what a map holds the names that Arrow recommends and does not require: they mean nothing.
func (t Type) nameEntries() {
	entries := &t.Children[0]
	entries.Name, entries.Type.Children[0].Name, entries.Type.Children[1].Name = "entries", "key", "value"
}

// check ensures that columns are distinct by id and by name.
func (s Schema) check() error {
	if len(s.Columns) == 0 {
		return errors.New("a schema has at least one column")
	}
	ids, names := make(map[int32]bool, len(s.Columns)), make(map[string]bool, len(s.Columns))
	for _, c := range s.Columns {
		switch {
		case c.Name == "":
			return fmt.Errorf("the column with field id %d has no name", c.ID)
		case c.ID < 0:
			return fmt.Errorf("column %q has no field id under %s", c.Name, FieldIDKey)
		case ids[c.ID]:
			return fmt.Errorf("field id %d appears twice", c.ID)
		case names[c.Name]:
			return fmt.Errorf("column %q appears twice", c.Name)
		}
		ids[c.ID], names[c.Name] = true, true
	}
	return nil
}
