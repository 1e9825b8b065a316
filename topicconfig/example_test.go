package topicconfig_test

import (
	"errors"
	"fmt"

	"github.com/tidemark-io/tidemark/topicconfig"
)

func Example() {
	c, err := topicconfig.Parse(map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.CleanupPolicy.Compacts(), c.SegmentBytes, c.Value("min.cleanable.dirty.ratio"))

	_, err = topicconfig.Parse(map[string]string{"retention.msec": "1", "segment.bytes": "10"})
	fmt.Println(err)
	var unknown *topicconfig.UnknownNameError
	fmt.Println(errors.As(err, &unknown), unknown.Nearest)
	// Output:
	// true 1073741824 0.1
	// Unknown topic config name: retention.msec (did you mean retention.ms?); Invalid value 10 for configuration segment.bytes: value must be at least 1048576
	// true retention.ms
}
