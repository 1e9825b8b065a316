package partition_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/topicconfig"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// An append is answered, and its records are visible, when the sync that covers it has returned.
func Example() {
	ctx := context.Background()
	env := kafkalog.NewEnv(kafkalog.EnvOptions{FS: memfs.New()})
	flusher := partition.NewFlusher(partition.FlusherOptions{})
	maintainer := partition.NewMaintainer(partition.MaintainerOptions{})
	log, err := partition.Open(partition.Options{
		Env: env, Flusher: flusher, Maintainer: maintainer,
		Dir: "orders-0", Topic: "orders", Config: topicconfig.Default(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	b := batch.NewBuilder(batch.BuilderOptions{})
	b.Add(time.Now().UnixMilli(), []byte("order-1"), []byte("three apples"))
	records, _ := b.Build()
	appended, err := log.Append(ctx, records, partition.AppendOptions{Acks: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("offset", appended.BaseOffset, "durable", appended.Wait(ctx) == nil)
	fmt.Println("high watermark", log.Offsets().HighWatermark)

	read, err := log.Read(0, partition.ReadUncommitted, 1<<20, true)
	if err != nil {
		fmt.Println(err)
		return
	}
	raw, _ := read.Records.AppendTo(nil)
	read.Records.Release()
	fmt.Println("read back", len(raw) == len(records))

	fmt.Println(log.Close())
	maintainer.Close()
	flusher.Close()
	fmt.Println(env.Close())
	// Output:
	// offset 0 durable true
	// high watermark 1
	// read back true
	// <nil>
	// <nil>
}
