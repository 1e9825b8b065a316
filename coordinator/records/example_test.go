package records_test

import (
	"fmt"

	"github.com/tidemark-io/tidemark/coordinator"
	"github.com/tidemark-io/tidemark/coordinator/records"
)

// A committed offset becomes a key and a value, and an offset again.
func Example() {
	key, value, err := records.Encode(coordinator.OffsetRecord{
		Group: "billing", Topic: "orders", Partition: 3,
		Offset: &coordinator.Offset{Offset: 1207, LeaderEpoch: -1, CommitMs: 1700000000000, ExpireMs: -1},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := records.Decode(key, value)
	if err != nil {
		fmt.Println(err)
		return
	}
	if o, ok := r.(coordinator.OffsetRecord); ok {
		fmt.Println(o.Group, o.Topic, o.Partition, o.Offset.Offset)
	}
	// Output: billing orders 3 1207
}
