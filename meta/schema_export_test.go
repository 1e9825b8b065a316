package meta

import (
	"bytes"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/tidemark-io/tidemark/meta/tableschema"
)

// SchemaColumn is a nullable column of a test's schema.
type SchemaColumn struct {
	ID   int
	Name string
	Type arrow.DataType // nil: text
}

// EncodeTestSchema returns the Arrow message of a schema, for the tests of this package and of meta_test.
func EncodeTestSchema(columns ...SchemaColumn) []byte {
	var fields []arrow.Field
	for _, c := range columns {
		kind := c.Type
		if kind == nil {
			kind = arrow.BinaryTypes.String
		}
		id := arrow.NewMetadata([]string{tableschema.FieldIDKey}, []string{strconv.Itoa(c.ID)})
		fields = append(fields, arrow.Field{Name: c.Name, Type: kind, Nullable: true, Metadata: id})
	}
	var b bytes.Buffer
	if err := ipc.NewWriter(&b, ipc.WithSchema(arrow.NewSchema(fields, nil))).Close(); err != nil {
		panic(err)
	}
	return b.Bytes()[:b.Len()-8] // without the end of the stream
}
