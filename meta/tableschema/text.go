package tableschema

import (
	"fmt"
	"strings"
)

var kindNames = map[Kind]string{
	Null: "null", Binary: "binary", Utf8: "utf8", Bool: "bool", Decimal: "decimal", Date: "date", Time: "time",
	Timestamp: "timestamp", Interval: "interval", List: "list", Struct: "struct", Union: "union",
	FixedSizeBinary: "fixed_size_binary", FixedSizeList: "fixed_size_list", Map: "map", Duration: "duration",
	LargeBinary: "large_binary", LargeUtf8: "large_utf8", LargeList: "large_list",
}

var unitNames = []string{"s", "ms", "us", "ns"}

// String returns the type for people, much as Arrow's tools write it.
func (t Type) String() string {
	name := kindNames[t.Kind]
	switch t.Kind {
	case Int:
		name = fmt.Sprint("int", t.Bits)
		if !t.Signed {
			name = "u" + name
		}
	case Float:
		name = fmt.Sprint("float", t.Bits)
	case Decimal:
		name = fmt.Sprintf("decimal%d(%d, %d)", t.Bits, t.Precision, t.Scale)
	case Date:
		name = fmt.Sprint("date", 32<<t.Unit)
	case Time:
		name = fmt.Sprintf("time%d[%s]", t.Bits, unitNames[t.Unit])
	case Timestamp:
		name = "timestamp[" + unitNames[t.Unit]
		if t.Zone != "" {
			name += ", " + t.Zone
		}
		name += "]"
	case Duration:
		name = "duration[" + unitNames[t.Unit] + "]"
	case Interval:
		name = []string{"month_interval", "day_time_interval", "month_day_nano_interval"}[t.Unit]
	case FixedSizeBinary, FixedSizeList:
		name = fmt.Sprintf("%s[%d]", name, t.Size)
	case Union:
		name = []string{"sparse_union", "dense_union"}[t.Unit]
	}
	if len(t.Children) == 0 {
		return name
	}
	children := make([]string, len(t.Children))
	for i, c := range t.Children {
		children[i] = c.String()
	}
	return name + "<" + strings.Join(children, ", ") + ">"
}

// String returns the field's name, its type, and whether it is never null.
func (f Field) String() string {
	if f.Nullable {
		return f.Name + " " + f.Type.String()
	}
	return f.Name + " " + f.Type.String() + " not null"
}
