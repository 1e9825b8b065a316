package stream_test

import (
	"bytes"
	"fmt"

	"github.com/tidemark-io/tidemark/stream"
)

func ExampleObjectWriter() {
	var object bytes.Buffer
	w := stream.NewObjectWriter(&object, 1<<20)
	for _, r := range []stream.Record{
		{Stream: 9, Epoch: 4, Base: 1000, Count: 3, Payload: []byte("tide")},
		{Stream: 9, Epoch: 4, Base: 1003, Count: 1, Payload: []byte("mark")},
	} {
		if err := w.Add(r); err != nil {
			fmt.Println(err)
		}
	}
	if err := w.Close(); err != nil {
		fmt.Println(err)
	}
	index, records, err := stream.DecodeObject(stream.DataKey(stream.DefaultNamespace, 77), object.Bytes())
	fmt.Println(index, len(records), err)
	// Output: [stream 9 from 1000 to 1004, 2 records in 84 bytes at 0] 2 <nil>
}
