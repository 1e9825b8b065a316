package stream_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/stream"
	"github.com/tidemark-io/tidemark/stream/catalog/catalogtest"
)

// An engine over one bucket, for the log and for data. A server passes its metadata log as the catalog.
func Example() {
	ctx, bucket := context.Background(), mem.New()
	engine, err := stream.Open(ctx, stream.Options{
		Catalog: catalogtest.NewMemory(time.Now), Node: 1, Cluster: "tm-1", WAL: bucket, Data: bucket, Proof: time.Now,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() {
		if err := engine.Close(ctx); err != nil {
			fmt.Println(err)
		}
	}()

	id, err := engine.CreateStreams(ctx, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := engine.OpenStream(ctx, id, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, rows := range []string{"ebb,flow", "slack"} {
		base, err := s.Append(ctx, int32(len(rows)/4), []byte(rows)) // durable when it returns
		fmt.Println(base, err)
	}
	got, err := s.Fetch(ctx, stream.FetchRequest{Start: 1, End: s.Confirm(), MaxBytes: 1 << 20})
	for _, r := range got.Records {
		fmt.Printf("%d to %d: %s\n", r.Base, r.End(), r.Payload)
	}
	fmt.Println(got.Confirm, err)
	// Output:
	// 0 <nil>
	// 2 <nil>
	// 0 to 2: ebb,flow
	// 2 to 3: slack
	// 3 <nil>
}

// A caller that must know a record's offset before it is placed takes room first, and then submits under its own lock.
func ExampleEngine_Admit() {
	ctx := context.Background()
	engine, err := stream.Open(ctx, stream.Options{
		Catalog: catalogtest.NewMemory(time.Now), Node: 1, Cluster: "tm-1", WAL: mem.New(), Data: mem.New(), Proof: time.Now,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	id, _ := engine.CreateStreams(ctx, 1)
	s, err := engine.OpenStream(ctx, id, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	room, err := engine.Admit(ctx, 2, 100) // two records of 100 bytes together; may wait
	if err != nil {
		fmt.Println(err)
		return
	}
	var acks []*stream.Ack
	for range 2 {
		ack, err := s.Submit(room, 10, fmt.Appendf(nil, "rows from %d", s.Next())) // does not wait
		if err != nil {
			fmt.Println(err)
			break
		}
		acks = append(acks, ack)
	}
	room.Release()
	for _, ack := range acks {
		fmt.Println(ack.Base(), ack.Wait(ctx))
	}
	fmt.Println(engine.Close(ctx))
	// Output:
	// 0 <nil>
	// 10 <nil>
	// <nil>
}
