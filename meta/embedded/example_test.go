package embedded_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/embedded"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "meta.db")

	for _, o := range []embedded.Options{{ClusterID: "my-cluster"}, {MustExist: true}} { // the first start, and every later one
		backend, err := embedded.Open(path, o)
		if err != nil {
			fmt.Println(err)
			return
		}
		log, err := meta.Open(context.Background(), backend, meta.Options{})
		if err != nil {
			fmt.Println(err)
			return
		}
		r, err := log.Do(context.Background(), meta.PutKv{Key: "started", Value: []byte("yes")})
		fmt.Println(log.ClusterID(), r.Version, err)
		_ = log.Close()
		_ = backend.Close()
	}
	// Output:
	// my-cluster 1 <nil>
	// my-cluster 2 <nil>
}
