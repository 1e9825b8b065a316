package kafkalog_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

func Example() {
	// The zero EnvOptions use the real file system; this one forgets everything.
	env := kafkalog.NewEnv(kafkalog.EnvOptions{FS: memfs.New()})
	defer env.Close()

	l, err := kafkalog.Open(env, "data/orders-0", kafkalog.Options{})
	if err != nil {
		log.Fatal(err)
	}

	b := batch.NewBuilder(batch.BuilderOptions{Codec: batch.Zstd})
	b.Add(1700000000000, []byte("order-1"), []byte("two chairs"))
	b.Add(1700000000001, []byte("order-2"), []byte("one table"))
	records, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	appended, err := l.Append(records, kafkalog.AppendOptions{LeaderEpoch: 0})
	if err != nil {
		log.Fatal(err)
	}
	if err := l.Sync(); err != nil { // durable from here on
		log.Fatal(err)
	}
	fmt.Println("offsets", appended.BaseOffset, "to", appended.LastOffset)

	read, err := l.Read(0, 1<<20)
	if err != nil {
		log.Fatal(err)
	}
	for _, b := range read.Batches {
		records := b.Records(batch.Limits{})
		for records.Next() {
			r := records.Record()
			fmt.Printf("%d: %s = %s\n", r.Offset, r.Key, r.Value)
		}
		if err := records.Err(); err != nil {
			log.Fatal(err)
		}
		records.Close()
	}
	// Output:
	// offsets 0 to 1
	// 0: order-1 = two chairs
	// 1: order-2 = one table
}

// Records can go from the file to a connection without being copied: WriteTo uses sendfile where both can.
func ExampleLog_ReadRegions() {
	env := kafkalog.NewEnv(kafkalog.EnvOptions{FS: memfs.New()})
	defer env.Close()
	l, err := kafkalog.Open(env, "data/orders-0", kafkalog.Options{})
	if err != nil {
		log.Fatal(err)
	}
	b := batch.NewBuilder(batch.BuilderOptions{})
	b.Add(1700000000000, nil, []byte("hello"))
	records, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	if _, err := l.Append(records, kafkalog.AppendOptions{LeaderEpoch: 0}); err != nil {
		log.Fatal(err)
	}

	regions, err := l.ReadRegions(0, l.LogEnd(), 1<<20)
	if err != nil {
		log.Fatal(err)
	}
	defer regions.Release()
	var conn bytes.Buffer // a *net.TCPConn in a server
	n, err := regions.WriteTo(&conn)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n == regions.Len(), n == l.Size())
	// Output: true true
}

// A check reads everything again, so it finds what a disk has changed since.
func ExampleLog_CheckCounted() {
	fsys := memfs.New()
	env := kafkalog.NewEnv(kafkalog.EnvOptions{FS: fsys})
	defer env.Close()
	l, err := kafkalog.Open(env, "data/orders-0", kafkalog.Options{})
	if err != nil {
		log.Fatal(err)
	}
	b := batch.NewBuilder(batch.BuilderOptions{})
	b.Add(1700000000000, nil, []byte("hello"))
	records, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	if _, err := l.Append(records, kafkalog.AppendOptions{LeaderEpoch: 0}); err != nil {
		log.Fatal(err)
	}

	f, err := fsys.Open("data/orders-0/00000000000000000000.log", vfs.ReadWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("H"), 70); err != nil { // in the value
		log.Fatal(err)
	}
	findings, counts := l.CheckCounted()
	fmt.Println("read", counts.Batches, "batch of", counts.Records, "record")
	for _, finding := range findings {
		fmt.Println(finding.File, "at", finding.Position)
	}
	// Output:
	// read 1 batch of 1 record
	// data/orders-0/00000000000000000000.log at 0
}
