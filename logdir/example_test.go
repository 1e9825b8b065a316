package logdir_test

import (
	"fmt"
	"log"

	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// The life of a data directory in one process.
func Example() {
	disk := memfs.New() // vfs.OS() for a real one
	dir, err := logdir.Open(disk, "/var/lib/tidemark")
	if err != nil {
		log.Fatal(err)
	}
	defer dir.Close()

	// Before any log is loaded: did the last owner end well?
	end, err := dir.TakeCleanShutdown()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("clean:", end.Clean)

	orders := logdir.Partition{Topic: "orders", Index: 3}
	path, err := dir.CreatePartition(orders, logdir.UUID{15: 42})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("log in", path)

	entries, err := dir.Scan()
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range entries {
		if e.Kind == logdir.PartitionEntry {
			fmt.Println("load", e.Dir.Partition, e.Dir.Role)
		}
	}
	dir.MarkLoaded()

	// At the end, when all logs are synced and closed.
	if err := dir.RecoveryPoints().Update(map[logdir.Partition]int64{orders: 4711}); err != nil {
		log.Fatal(err)
	}
	if err := dir.WriteCleanShutdown(17); err != nil {
		log.Fatal(err)
	}
	// Output:
	// clean: false
	// log in /var/lib/tidemark/orders-3
	// load orders-3 current
}
