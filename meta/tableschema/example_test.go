package tableschema_test

import (
	"bytes"
	"fmt"
	"log"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/tidemark-io/tidemark/meta/tableschema"
)

// Clients write a schema with an Arrow library. A column may become wider, but not narrower.
func ExampleSchema_Follows() {
	schema := func(id int, name string, kind arrow.DataType) tableschema.Schema {
		field := arrow.Field{
			Name: name, Type: kind,
			Metadata: arrow.NewMetadata([]string{tableschema.FieldIDKey}, []string{strconv.Itoa(id)}),
		}
		var b bytes.Buffer
		w := ipc.NewWriter(&b, ipc.WithSchema(arrow.NewSchema([]arrow.Field{field}, nil)))
		if err := w.Close(); err != nil {
			log.Fatal(err)
		}
		s, err := tableschema.Decode(b.Bytes()[:b.Len()-8]) // without the end of the stream
		if err != nil {
			log.Fatal(err)
		}
		return s
	}
	narrow := schema(1, "price", arrow.PrimitiveTypes.Int32)
	wide := schema(1, "price_cents", arrow.PrimitiveTypes.Int64)
	used := func(id int32) bool { return id == 1 } // by any earlier version

	fmt.Println(wide.Follows(narrow, used))
	fmt.Println(narrow.Follows(wide, used))
	// Output:
	// <nil>
	// column "price" changes its type to one that is not wider
}
