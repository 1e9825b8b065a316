package tableschema

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
)

func TestTypesAreWrittenForPeople(t *testing.T) {
	var got []string
	for _, kind := range everyType() {
		got = append(got, typeOf(kind).String())
	}
	require.Equal(t, []string{
		"null", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "binary",
		"utf8", "bool", "decimal32(9, 2)", "decimal64(18, 0)", "decimal128(38, -3)", "decimal256(76, 5)", "date32", "date64",
		"time32[s]", "time32[ms]", "time64[us]", "time64[ns]", "timestamp[s, UTC]", "timestamp[ns, Europe/Vienna]",
		"month_interval", "day_time_interval", "month_day_nano_interval", "list<item int16>",
		"struct<item int16, b utf8 not null>", "struct", "sparse_union<item int16, b utf8 not null>",
		"dense_union<item int16, b utf8 not null>", "fixed_size_binary[16]", "fixed_size_list[3]<item int16>",
		"map<entries struct<key utf8 not null, value list<item int16>> not null>", "duration[us]", "large_binary", "large_utf8",
		"large_list<item int16>",
	}, got)
	require.Equal(t, "id int32 not null", fieldOf(arrow.Field{Name: "id", Type: arrow.PrimitiveTypes.Int32}).String())
}
