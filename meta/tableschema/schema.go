package tableschema

import "slices"

// Limits of a schema. They are part of how commands apply, so they are the same on every node forever.
const (
	// MaxBytes is the largest schema message.
	MaxBytes = 256 << 10
	// MaxFields is the most fields of a schema, those within others included.
	MaxFields = 4096
	// MaxDepth is how deep fields may be within each other; a column is at depth 1.
	MaxDepth = 32
)

// FieldIDKey is the key of a field's metadata that holds a column's id: 0 to 2147483647 as decimal text. It is the key by which
// Arrow's implementations keep the ids of Parquet and Iceberg.
const FieldIDKey = "PARQUET:field_id"

// Schema is the columns of a table, in order.
type Schema struct{ Columns []Column }

// Column is one column of a table.
type Column struct {
	// ID identifies the column for the whole life of the table; it is at least 0 and never reused.
	ID int32
	Field
}

// Field is a named part of a schema: a column, or a child of a nested type.
type Field struct {
	Name     string
	Nullable bool
	Type     Type
}

// Type is an Arrow type. Which of its parameters have a meaning depends on the kind; the others are zero.
type Type struct {
	Kind Kind
	// Bits is the width of an integer, a float, a decimal or a time. Signed says that an integer is signed.
	Bits   int32
	Signed bool
	// Precision and Scale are those of a decimal, in digits.
	Precision, Scale int32
	// Unit is that of a date, time, timestamp, duration or interval, and the mode of a union, as Arrow numbers them.
	Unit int16
	// Size is the length of fixed-size binary, in bytes, and of fixed-size lists, in items. Sorted says that a map's keys
	// are sorted.
	Size   int32
	Sorted bool
	// Zone is a timestamp's time zone.
	Zone string
	// Codes are the type ids of a union, one for each child.
	Codes []int32
	// Children are the fields that the type holds.
	Children []Field
}

// Kind is the kind of a type. The numbers are those of Arrow's message format.
type Kind uint8

// The kinds that a table may have.
const (
	Null            Kind = 1
	Int             Kind = 2
	Float           Kind = 3
	Binary          Kind = 4
	Utf8            Kind = 5
	Bool            Kind = 6
	Decimal         Kind = 7
	Date            Kind = 8
	Time            Kind = 9
	Timestamp       Kind = 10
	Interval        Kind = 11
	List            Kind = 12
	Struct          Kind = 13
	Union           Kind = 14
	FixedSizeBinary Kind = 15
	FixedSizeList   Kind = 16
	Map             Kind = 17
	Duration        Kind = 18
	LargeBinary     Kind = 19
	LargeUtf8       Kind = 20
	LargeList       Kind = 21
)

// The kinds that a table may not have (IPC-2), with the names by which they are refused.
var refusedKinds = map[Kind]string{
	22: "run-end-encoded", 23: "a binary view", 24: "a text view", 25: "a list view", 26: "a large list view",
}

// Equal reports whether two types are the same, names of what they hold included.
func (t Type) Equal(other Type) bool {
	return t.Kind == other.Kind && t.Bits == other.Bits && t.Signed == other.Signed && t.Precision == other.Precision &&
		t.Scale == other.Scale && t.Unit == other.Unit && t.Size == other.Size && t.Sorted == other.Sorted &&
		t.Zone == other.Zone && slices.Equal(t.Codes, other.Codes) && slices.EqualFunc(t.Children, other.Children, Field.equal)
}

func (f Field) equal(other Field) bool {
	return f.Name == other.Name && f.Nullable == other.Nullable && f.Type.Equal(other.Type)
}

// column finds a column by its id, and where it stands.
func (s Schema) column(id int32) (at int, known bool) {
	at = slices.IndexFunc(s.Columns, func(c Column) bool { return c.ID == id })
	return at, at >= 0
}
