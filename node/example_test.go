package node_test

import (
	"context"
	"fmt"

	"github.com/tidemark-io/tidemark/meta/metatest"
	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// A server needs no more than a data directory. This one has it in memory.
func Example() {
	ctx := context.Background()
	metadata, err := metatest.NewMemory("example").Open()
	if err != nil {
		fmt.Println(err)
		return
	}
	n, err := node.Open(ctx, node.Config{
		DataDir: "data", FS: memfs.New(), Meta: metadata,
		Kafka: []node.Listener{{Listen: "127.0.0.1:0", Advertise: "kafka.example:9092"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ready:", n.Ready(), "advertised:", n.Addrs().KafkaAdvertised)
	fmt.Println("close:", n.Close(ctx), metadata.Close())
	// Output:
	// ready: true advertised: kafka.example:9092
	// close: <nil> <nil>
}
