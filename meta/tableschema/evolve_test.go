package tableschema

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
)

// schemaOf reads a schema of columns through its bytes.
func schemaOf(t testing.TB, fields ...arrow.Field) Schema {
	t.Helper()
	s, err := Decode(encoded(t, fields...))
	require.NoError(t, err)
	return s
}

func TestCAT2_OnlyTheNamedChangesMayFollow(t *testing.T) {
	i32, i64, text := arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String
	a, b, c := column(1, "a", i32, false), column(2, "b", text, true), column(3, "c", arrow.Null, true)
	before := schemaOf(t, a, b, c)
	used := func(id int32) bool { return id <= 5 } // 4 and 5 were dropped earlier
	for _, next := range []struct {
		name    string
		columns []arrow.Field
		refused string // empty: it may follow
	}{
		{"the same", []arrow.Field{a, b, c}, ""},
		{"a new nullable column at the end", []arrow.Field{a, b, c, column(6, "d", text, true)}, ""},
		{"a new nullable column in the middle", []arrow.Field{a, column(6, "d", text, true), b, c}, ""},
		{"a new column that is not nullable", []arrow.Field{a, b, c, column(6, "d", text, false)}, "new but not nullable"},
		{"a column that comes back", []arrow.Field{a, b, c, column(4, "d", text, true)}, "an earlier version had"},
		{"one column less", []arrow.Field{a, c}, ""},
		{"none of the old columns", []arrow.Field{column(6, "d", text, true)}, ""},
		{"another name", []arrow.Field{column(1, "z", i32, false), b, c}, ""},
		{"names that change places", []arrow.Field{column(1, "b", i32, false), column(2, "a", text, true), c}, ""},
		{"a wider column", []arrow.Field{column(1, "a", i64, false), b, c}, ""},
		{"a wider column of another name", []arrow.Field{column(1, "z", i64, false), b}, ""},
		{"a narrower column", []arrow.Field{column(1, "a", arrow.PrimitiveTypes.Int16, false), b, c}, "one that is not wider"},
		{"another type", []arrow.Field{column(1, "a", text, false), b, c}, "one that is not wider"},
		{"a column that becomes nullable", []arrow.Field{column(1, "a", i32, true), b, c}, "whether it is nullable"},
		{"a column that becomes not nullable", []arrow.Field{a, column(2, "b", text, false), c}, "whether it is nullable"},
		{"columns in another order", []arrow.Field{b, a, c}, `column "a" has moved`},
	} {
		err := schemaOf(t, next.columns...).Follows(before, used)
		if next.refused == "" {
			require.NoError(t, err, next.name)
		} else {
			require.ErrorContains(t, err, next.refused, next.name)
		}
	}
}

func TestCAT2_AWiderTypeHoldsEveryValueOfTheOld(t *testing.T) {
	p, text := arrow.PrimitiveTypes, arrow.BinaryTypes
	wider := [][2]arrow.DataType{
		{p.Int8, p.Int16}, {p.Int16, p.Int64}, {p.Int32, p.Int64}, {p.Uint8, p.Uint16}, {p.Uint8, p.Int16}, {p.Uint32, p.Int64},
		{arrow.FixedWidthTypes.Float16, p.Float32}, {p.Float32, p.Float64}, {text.String, text.LargeString},
		{text.Binary, text.LargeBinary},
		{&arrow.Decimal128Type{Precision: 10, Scale: 2}, &arrow.Decimal128Type{Precision: 12, Scale: 2}},
		{&arrow.Decimal128Type{Precision: 38, Scale: 2}, &arrow.Decimal256Type{Precision: 39, Scale: 2}},
	}
	not := [][2]arrow.DataType{
		{p.Int32, p.Uint64}, {p.Uint32, p.Int32}, {p.Uint64, p.Int64}, {p.Int32, p.Float64}, {p.Float32, p.Int64},
		{text.Binary, text.LargeString}, {text.String, text.Binary}, {p.Date32, p.Date64},
		{&arrow.Decimal128Type{Precision: 10, Scale: 2}, &arrow.Decimal128Type{Precision: 12, Scale: 3}},
		{&arrow.Decimal128Type{Precision: 10, Scale: 2}, &arrow.Decimal64Type{Precision: 12, Scale: 2}},
		{arrow.FixedWidthTypes.Timestamp_s, arrow.FixedWidthTypes.Timestamp_ms}, {arrow.ListOf(p.Int32), arrow.ListOf(p.Int64)},
		{arrow.ListOf(p.Int32), arrow.LargeListOf(p.Int32)},
	}
	none := func(int32) bool { return false }
	for _, pair := range wider {
		narrow, wide := schemaOf(t, column(1, "c", pair[0], true)), schemaOf(t, column(1, "c", pair[1], true))
		require.NoError(t, wide.Follows(narrow, none), "%v", pair)
		require.Error(t, narrow.Follows(wide, none), "%v back", pair)
	}
	for _, pair := range not {
		from, to := schemaOf(t, column(1, "c", pair[0], true)), schemaOf(t, column(1, "c", pair[1], true))
		require.Error(t, to.Follows(from, none), "%v", pair)
	}
}
