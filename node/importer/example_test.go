package importer_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemark-io/tidemark/node/importer"
)

// A stopped Kafka's directory is looked at, and then taken.
func Example() {
	dir, err := os.MkdirTemp("", "importer-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	kafka := filepath.Join(dir, "kafka") // a real one is /var/lib/kafka or the like
	if err := os.CopyFS(kafka, os.DirFS("testdata/apache-kafka-4.4.0/kafka")); err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	im, err := importer.Open(ctx, importer.Options{
		Sources: []string{kafka}, Target: filepath.Join(dir, "tidemark-data"), NodeID: 1, Exclude: []string{"topic-0[1-9]", "__*"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer im.Close()
	for _, t := range im.Plan().Taken() {
		for _, p := range t.Partitions {
			fmt.Printf("%s-%d: offsets %d to %d\n", t.Name, p.Index, p.Start, p.End)
		}
	}
	if err := im.Execute(ctx); err != nil {
		fmt.Println(err)
		return
	}
	_, err = os.Stat(filepath.Join(dir, "tidemark-data", "topic-00-0", "00000000000000000000.log"))
	fmt.Println("there:", err == nil)
	// Output:
	// topic-00-0: offsets 0 to 40
	// there: true
}
