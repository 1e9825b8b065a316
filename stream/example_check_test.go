package stream_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/stream"
	"github.com/tidemark-io/tidemark/stream/catalog/catalogtest"
)

// A check tells of the object that somebody removed.
func ExampleCheck() {
	ctx := context.Background()
	store, metadata := mem.New(), catalogtest.NewMemory(time.Now)
	engine, err := stream.Open(ctx, stream.Options{
		Catalog: metadata, Node: 1, Cluster: "example", WAL: store, Data: store, Proof: time.Now,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	id, _ := engine.CreateStreams(ctx, 1)
	s, _ := engine.OpenStream(ctx, id, 0)
	_, _ = s.Append(ctx, 1, []byte("a row"))
	_ = engine.Close(ctx) // uploads

	_ = store.Delete(ctx, stream.DataKey(stream.DefaultNamespace, 0))

	options := stream.CheckOptions{Catalog: metadata, WAL: store, Data: store, Cluster: "example"}
	for finding, err := range stream.Check(ctx, options) {
		if err != nil {
			fmt.Println("not complete:", err)
			return
		}
		fmt.Printf("%s: %s, object %d of stream %d\n", finding.Severity, finding.Kind, finding.Object, finding.Stream)
	}
	// Output: damage: missing object, object 0 of stream 0
}
