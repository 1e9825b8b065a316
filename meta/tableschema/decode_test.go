package tableschema

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/require"
)

// encoded is a schema as the reference implementation writes it: one message, without the end of the stream.
func encoded(t testing.TB, fields ...arrow.Field) []byte {
	t.Helper()
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(arrow.NewSchema(fields, nil)))
	require.NoError(t, w.Close())
	return b.Bytes()[:b.Len()-8]
}

// column is a field with an id.
func column(id int, name string, kind arrow.DataType, nullable bool) arrow.Field {
	return arrow.Field{Name: name, Type: kind, Nullable: nullable,
		Metadata: arrow.NewMetadata([]string{"other", FieldIDKey}, []string{"x", fmt.Sprint(id)})}
}

// everyType is each kind that a table may have, with parameters of its own.
func everyType() []arrow.DataType {
	item := arrow.Field{Name: "item", Type: arrow.PrimitiveTypes.Int16, Nullable: true}
	two := []arrow.Field{item, {Name: "b", Type: arrow.BinaryTypes.String}}
	return []arrow.DataType{
		arrow.Null, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64,
		arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint64,
		arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, arrow.BinaryTypes.Binary,
		arrow.BinaryTypes.String, arrow.FixedWidthTypes.Boolean, &arrow.Decimal32Type{Precision: 9, Scale: 2},
		&arrow.Decimal64Type{Precision: 18}, &arrow.Decimal128Type{Precision: 38, Scale: -3},
		&arrow.Decimal256Type{Precision: 76, Scale: 5}, arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Date64,
		arrow.FixedWidthTypes.Time32s, arrow.FixedWidthTypes.Time32ms, arrow.FixedWidthTypes.Time64us,
		arrow.FixedWidthTypes.Time64ns, arrow.FixedWidthTypes.Timestamp_s,
		&arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "Europe/Vienna"}, arrow.FixedWidthTypes.MonthInterval,
		arrow.FixedWidthTypes.DayTimeInterval, arrow.FixedWidthTypes.MonthDayNanoInterval, arrow.ListOfField(item),
		arrow.StructOf(two...), arrow.StructOf(), arrow.SparseUnionOf(two, []arrow.UnionTypeCode{5, 0}),
		arrow.DenseUnionOf(two, []arrow.UnionTypeCode{0, 127}), &arrow.FixedSizeBinaryType{ByteWidth: 16},
		arrow.FixedSizeListOfField(3, item), arrow.MapOf(arrow.BinaryTypes.String, arrow.ListOfField(item)),
		arrow.FixedWidthTypes.Duration_us, arrow.BinaryTypes.LargeBinary, arrow.BinaryTypes.LargeString,
		arrow.LargeListOfField(item),
	}
}

func TestWhatArrowWritesIsReadAsItWasMeant(t *testing.T) {
	for i, kind := range everyType() {
		f := column(i, "c", kind, i%2 == 0)
		b := encoded(t, f)
		got, err := Decode(b)
		require.NoError(t, err, "%s", kind)
		require.Equal(t, Schema{Columns: []Column{{ID: int32(i), Field: fieldOf(f)}}}, got, "%s", kind)
	}
}

func TestTheBytesOfASchemaAreReadForEver(t *testing.T) {
	file, err := os.ReadFile(filepath.Join("testdata", "orders.hex"))
	require.NoError(t, err)
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(file)), ""))
	require.NoError(t, err)
	got, err := Decode(b)
	require.NoError(t, err)
	require.Equal(t, Schema{Columns: []Column{
		{ID: 1, Field: Field{Name: "id", Type: Type{Kind: Int, Bits: 32, Signed: true}}},
		{ID: 2, Field: Field{Name: "tags", Nullable: true, Type: Type{Kind: List, Children: []Field{
			{Name: "item", Nullable: true, Type: Type{Kind: Utf8}},
		}}}},
		{ID: 2147483647, Field: Field{Name: "at", Nullable: true, Type: Type{Kind: Timestamp, Unit: 1, Zone: "UTC"}}},
	}}, got)
}

func TestIPC2_TypesThatNoTableMayHaveAreRefused(t *testing.T) {
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	extension := arrow.NewMetadata([]string{"ARROW:extension:name", FieldIDKey}, []string{"arrow.uuid", "1"})
	for want, kind := range map[string]arrow.DataType{
		"dictionary-encoded": dictionary, "a text view": arrow.BinaryTypes.StringView, "a binary view": arrow.BinaryTypes.BinaryView,
		"a list view": arrow.ListViewOf(arrow.Null), "a large list view": arrow.LargeListViewOf(arrow.Null),
		"run-end-encoded": arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int16, arrow.Null),
	} {
		_, err := Decode(encoded(t, column(1, "c", kind, true)))
		require.ErrorContains(t, err, want)
		_, err = Decode(encoded(t, column(1, "c", arrow.StructOf(arrow.Field{Name: "in", Type: kind}), true)))
		require.ErrorContains(t, err, want, "within another")
	}
	_, err := Decode(encoded(t, arrow.Field{Name: "c", Type: &arrow.FixedSizeBinaryType{ByteWidth: 16}, Metadata: extension}))
	require.ErrorContains(t, err, "extension type")
}

func TestColumnsThatCannotBeToldApartAreRefused(t *testing.T) {
	text := arrow.BinaryTypes.String
	withID := func(id string) arrow.Field {
		return arrow.Field{Name: "c", Type: text, Metadata: arrow.NewMetadata([]string{FieldIDKey}, []string{id})}
	}
	for want, fields := range map[string][]arrow.Field{
		"at least one column":      {},
		"no field id":              {{Name: "c", Type: text}},
		"has no name":              {column(1, "", text, true)},
		"field id 1 appears twice": {column(1, "a", text, true), column(1, "b", text, true)},
		`column "a" appears twice`: {column(1, "a", text, true), column(2, "a", text, true)},
		`"-1" is no field id`:      {withID("-1")},
		`"01" is no field id`:      {withID("01")},
		`"" is no field id`:        {withID("")},
		`"2147483648" is no fie`:   {withID("2147483648")},
		"not the only one": {{Name: "c", Type: text,
			Metadata: arrow.NewMetadata([]string{FieldIDKey, FieldIDKey}, []string{"1", "1"})}},
	} {
		_, err := Decode(encoded(t, fields...))
		require.ErrorContains(t, err, want)
	}
}

func TestEveryCutAndEveryChangeOfASchemaIsAnErrorOrReadAsArrowReadsIt(t *testing.T) {
	var fields []arrow.Field
	for i, kind := range everyType() {
		fields = append(fields, column(i, fmt.Sprint("c", i), kind, true))
	}
	b := encoded(t, fields...)
	for n := range b {
		_, err := Decode(b[:n])
		require.Error(t, err, "%d bytes", n)
	}
	_, err := Decode(append(bytes.Clone(b), 0))
	require.Error(t, err)
	for i := range b {
		damaged := bytes.Clone(b)
		damaged[i] ^= 1 << (i / 4 % 8)
		requireArrowAgrees(t, damaged)
	}
}

// requireArrowAgrees reads bytes in both ways, if they are accepted here.
func requireArrowAgrees(t testing.TB, b []byte) {
	t.Helper()
	got, err := Decode(b)
	if err != nil {
		return
	}
	r, err := ipc.NewReader(bytes.NewReader(append(bytes.Clone(b), 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0)))
	require.NoError(t, err, "%x", b)
	defer r.Release()
	require.Equal(t, r.Schema().NumFields(), len(got.Columns))
	for i, c := range got.Columns {
		require.Equal(t, fieldOf(r.Schema().Field(i)), c.Field, "%x", b)
		id, _ := r.Schema().Field(i).Metadata.GetValue(FieldIDKey)
		require.Equal(t, id, fmt.Sprint(c.ID))
	}
}

func TestAHostileSchemaCostsAnErrorAndLittleMemory(t *testing.T) {
	_, err := Decode(bomb(MaxDepth - 1))
	require.ErrorContains(t, err, "a schema has at most 4096 fields")
	_, err = Decode(bomb(MaxDepth + 1))
	require.ErrorContains(t, err, "a schema has at most 4096 fields")

	deep := arrow.DataType(arrow.BinaryTypes.String)
	for range MaxDepth {
		deep = arrow.StructOf(arrow.Field{Name: "in", Type: deep})
	}
	_, err = Decode(encoded(t, column(1, "c", deep, true)))
	require.ErrorContains(t, err, "within each other")
	many := make([]arrow.Field, MaxFields+1)
	for i := range many {
		many[i] = arrow.Field{Name: "c", Type: arrow.Null}
	}
	_, err = Decode(encoded(t, many...))
	require.ErrorContains(t, err, "at most")
	_, err = Decode(make([]byte, MaxBytes+1))
	require.ErrorContains(t, err, "at most 262144 bytes")
}

// bomb is a schema in which every field has two fields that are the same bytes, on so many levels.
func bomb(levels int) []byte {
	var b []byte
	u16 := func(values ...uint16) {
		for _, v := range values {
			b = binary.LittleEndian.AppendUint16(b, v)
		}
	}
	u32 := func(values ...uint32) {
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
	}
	u32(16)                         // where the message is
	u16(12, 12, 4, 6, 8, 0)         // its places
	u32(12, 4|schemaHeader<<16, 12) // the message; the schema is 12 behind its field
	u16(8, 8, 0, 4)                 // the places of the schema
	u32(8, 4)                       // the schema; its list follows
	u32(1, 4+16)                    // one field
	for range levels {
		u16(16, 16, 0, 0, 4, 8, 0, 12)   // the places of a field
		u32(16, uint32(Struct), 12, 8+4) // the field: its type, and behind that its list
		u16(4, 4)                        // the places of a type without any
		u32(4)                           // the type
		u32(2, 8+16, 4+16)               // two fields, both the next one
	}
	u16(16, 16, 0, 0, 4, 8, 0, 0)
	u32(16, uint32(Null), 12, 0)
	u16(4, 4)
	u32(4)
	return append(binary.LittleEndian.AppendUint32([]byte{0xFF, 0xFF, 0xFF, 0xFF}, uint32(len(b))), b...)
}

// fieldOf is a field of Arrow's library in our words.
func fieldOf(f arrow.Field) Field {
	return Field{Name: f.Name, Nullable: f.Nullable, Type: typeOf(f.Type)}
}

func typeOf(d arrow.DataType) Type {
	var t Type
	switch d := d.(type) {
	case *arrow.NullType:
		t.Kind = Null
	case *arrow.Float16Type, *arrow.Float32Type, *arrow.Float64Type:
		t = Type{Kind: Float, Bits: int32(d.(arrow.FixedWidthDataType).BitWidth())}
	case *arrow.BinaryType:
		t.Kind = Binary
	case *arrow.StringType:
		t.Kind = Utf8
	case *arrow.LargeBinaryType:
		t.Kind = LargeBinary
	case *arrow.LargeStringType:
		t.Kind = LargeUtf8
	case *arrow.BooleanType:
		t.Kind = Bool
	case arrow.DecimalType:
		t = Type{Kind: Decimal, Bits: int32(d.BitWidth()), Precision: d.GetPrecision(), Scale: d.GetScale()}
	case *arrow.Date32Type:
		t.Kind = Date
	case *arrow.Date64Type:
		t = Type{Kind: Date, Unit: 1}
	case *arrow.Time32Type:
		t = Type{Kind: Time, Bits: 32, Unit: int16(d.Unit)}
	case *arrow.Time64Type:
		t = Type{Kind: Time, Bits: 64, Unit: int16(d.Unit)}
	case *arrow.TimestampType:
		t = Type{Kind: Timestamp, Unit: int16(d.Unit), Zone: d.TimeZone}
	case *arrow.DurationType:
		t = Type{Kind: Duration, Unit: int16(d.Unit)}
	case *arrow.MonthIntervalType:
		t.Kind = Interval
	case *arrow.DayTimeIntervalType:
		t = Type{Kind: Interval, Unit: 1}
	case *arrow.MonthDayNanoIntervalType:
		t = Type{Kind: Interval, Unit: 2}
	case *arrow.FixedSizeBinaryType:
		t = Type{Kind: FixedSizeBinary, Size: int32(d.ByteWidth)}
	case *arrow.FixedSizeListType:
		t = Type{Kind: FixedSizeList, Size: d.Len()}
	case *arrow.ListType:
		t.Kind = List
	case *arrow.LargeListType:
		t.Kind = LargeList
	case *arrow.MapType:
		t = Type{Kind: Map, Sorted: d.KeysSorted}
	case *arrow.StructType:
		t.Kind = Struct
	case arrow.UnionType:
		t = Type{Kind: Union, Unit: int16(d.Mode() - arrow.SparseMode)}
		for _, code := range d.TypeCodes() {
			t.Codes = append(t.Codes, int32(code))
		}
	default:
		t = intOf(d)
	}
	if nested, is := d.(arrow.NestedType); is {
		for _, f := range nested.Fields() {
			t.Children = append(t.Children, fieldOf(f))
		}
	}
	if t.Kind == Map {
		t.nameEntries()
	}
	return t
}

func intOf(d arrow.DataType) Type {
	return Type{Kind: Int, Bits: int32(d.(arrow.FixedWidthDataType).BitWidth()), Signed: arrow.IsSignedInteger(d.ID())}
}

func FuzzDecode(f *testing.F) {
	var fields []arrow.Field
	for i, kind := range everyType() {
		f.Add(encoded(f, column(i, "c", kind, true)))
		fields = append(fields, column(i, fmt.Sprint("c", i), kind, true))
	}
	f.Add(encoded(f, fields...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= 8 { // let it get past the frame
			b = bytes.Clone(b)
			binary.LittleEndian.PutUint32(b, 0xFFFFFFFF)
			binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-8))
		}
		requireArrowAgrees(t, b)
	})
}
