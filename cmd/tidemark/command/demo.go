package command

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The demo's topic and load.
const (
	demoTopic      = "demo"
	demoPartitions = 4
	demoRecords    = 100_000
	demoValueBytes = 256
)

func newDemo() *cobra.Command {
	var records int64
	c := &cobra.Command{
		Use:   "demo",
		Short: "Start a throw-away server, fill it, read everything back and verify it",
		Long: `Start a server in a temporary directory on a free port, write records to it with a real Kafka client that waits for
every acknowledgement, read them all back, verify every byte, and clean up.`,
		Example: `  tidemark demo
  tidemark demo --records 1000000`,
		Args: noArguments,
	}
	c.Flags().Int64VarP(&records, "records", "n", demoRecords, "how many records")
	nameValue(c.Flags(), "records", "N")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if records < 1 {
			return usagef(c, "--records is at least 1, not %d", records)
		}
		return runDemo(c.Context(), c.OutOrStdout(), records)
	}
	return c
}

// runDemo leaves nothing behind, whatever happens. An interruption is no failure: it stops, cleans up and says so.
func runDemo(ctx context.Context, out io.Writer, records int64) (err error) {
	dir, err := os.MkdirTemp("", "tidemark-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	err = demoIn(ctx, out, dir, records)
	if err != nil && ctx.Err() != nil {
		fmt.Fprintln(out, "\ninterrupted; the server was stopped and its data removed")
		return nil
	}
	return err
}

// demoIn runs the demo with the server's data in dir.
func demoIn(ctx context.Context, out io.Writer, dir string, records int64) (err error) {
	server, err := startDemoServer(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.close()) }()
	fmt.Fprintf(out, "server on %s, data in %s\n", server.address, dir)
	if err := createDemoTopic(ctx, server.address); err != nil {
		return err
	}
	fmt.Fprintf(out, "topic %s with %d partitions; every record is on disk before it is acknowledged\n", demoTopic,
		demoPartitions)
	if err := demoProduce(ctx, out, server.address, records); err != nil {
		return err
	}
	if err := demoConsume(ctx, out, server.address, records); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s came back exactly once, in order and unchanged\n", plural(records, "record"))
	return nil
}

func micros(us int64) string {
	return (time.Duration(us) * time.Microsecond).String()
}

func createDemoTopic(ctx context.Context, address string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = kadm.NewClient(client).CreateTopic(ctx, demoPartitions, 1, nil, demoTopic)
	return err
}

// demoValue is the record with the given number: the number, filler made from it, and a checksum of both.
func demoValue(number int64) []byte {
	value := make([]byte, demoValueBytes)
	binary.BigEndian.PutUint64(value, uint64(number))
	state := uint64(number)*0x9e3779b97f4a7c15 + 1
	for i := 8; i < demoValueBytes-4; i++ {
		state = state*6364136223846793005 + 1442695040888963407
		value[i] = 'a' + byte(state>>56)%26
	}
	binary.BigEndian.PutUint32(value[demoValueBytes-4:], crc32.ChecksumIEEE(value[:demoValueBytes-4]))
	return value
}

// demoNumber reads a value's number back and reports whether the value is whole.
func demoNumber(value []byte) (int64, bool) {
	if len(value) != demoValueBytes {
		return 0, false
	}
	sum := binary.BigEndian.Uint32(value[demoValueBytes-4:])
	return int64(binary.BigEndian.Uint64(value)), sum == crc32.ChecksumIEEE(value[:demoValueBytes-4])
}

// The first records are written one at a time, each after the one before it was acknowledged, which shows how long one
// record takes; the others at full speed, with so many in flight that queueing is most of their latency.
const (
	demoAlone    = 200
	demoUnderWay = 4096
)

// demoProduce writes the records, spread over the partitions, and prints rate and latencies.
func demoProduce(ctx context.Context, out io.Writer, address string, records int64) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(address),
		kgo.DefaultProduceTopic(demoTopic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(demoUnderWay),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	warm := min(records, demoPartitions) // the first record of each partition pays for connections and new files
	alone := min(records, demoPartitions+demoAlone)
	if _, err := demoProduceAlone(ctx, client, 0, warm); err != nil {
		return err
	}
	single, err := demoProduceAlone(ctx, client, warm, alone)
	if err != nil {
		return err
	}
	if single.TotalCount() > 0 {
		fmt.Fprintf(out, "one record at a time: acknowledged in %s\n", percentiles(single))
	}
	if alone == records {
		return nil
	}
	full, err := demoProduceAtOnce(ctx, client, alone, records, newProgress(out, "produced", records-alone))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "at full speed, up to %s in flight: acknowledged in %s\n", count(demoUnderWay), percentiles(full))
	return nil
}

// percentiles writes a histogram of microseconds.
func percentiles(h *hdrhistogram.Histogram) string {
	return fmt.Sprintf("p50 %s, p99 %s, max %s", micros(h.ValueAtQuantile(50)), micros(h.ValueAtQuantile(99)), micros(h.Max()))
}

// newLatencies returns a histogram of microseconds up to a minute.
func newLatencies() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(time.Minute/time.Microsecond), 3)
}

// latencyOf returns the time since began in the unit and range of newLatencies.
func latencyOf(began time.Time) int64 {
	return max(min(time.Since(began), time.Minute).Microseconds(), 1)
}

func demoRecord(number int64) *kgo.Record {
	return &kgo.Record{Partition: int32(number % demoPartitions), Value: demoValue(number)}
}

// demoProduceAlone writes the records from one number up to another, each after the one before it.
func demoProduceAlone(ctx context.Context, client *kgo.Client, from, to int64) (*hdrhistogram.Histogram, error) {
	latency := newLatencies()
	for number := from; number < to; number++ {
		record := demoRecord(number)
		began := time.Now()
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return nil, err
		}
		_ = latency.RecordValue(latencyOf(began)) // in range by latencyOf
	}
	return latency, nil
}

// demoProduceAtOnce writes the records from one number up to another as fast as the server accepts them.
func demoProduceAtOnce(
	ctx context.Context, client *kgo.Client, from, to int64, bar *progress,
) (*hdrhistogram.Histogram, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	latency := newLatencies()
	var mu sync.Mutex
	var done int64
	for number := from; number < to && ctx.Err() == nil; number++ {
		began := time.Now()
		client.Produce(ctx, demoRecord(number), func(_ *kgo.Record, err error) {
			if err != nil {
				cancel(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			_ = latency.RecordValue(latencyOf(began)) // in range by latencyOf
			done++
			bar.set(done)
		})
	}
	if err := client.Flush(ctx); err != nil {
		return nil, context.Cause(ctx)
	}
	bar.finish(done)
	return latency, context.Cause(ctx)
}

// demoConsume reads all records back and fails on the first that is missing, duplicated, out of order or changed.
func demoConsume(ctx context.Context, out io.Writer, address string, records int64) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(address),
		kgo.ConsumeTopics(demoTopic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return err
	}
	defer client.Close()

	bar := newProgress(out, "verified", records)
	var next [demoPartitions]int64
	for p := range next {
		next[p] = int64(p)
	}
	for done := int64(0); done < records; {
		fetches := client.PollFetches(ctx)
		if err := errors.Join(ctx.Err(), fetches.Err()); err != nil {
			return err
		}
		for iter := fetches.RecordIter(); !iter.Done(); done++ {
			if err := verifyDemoRecord(iter.Next(), &next); err != nil {
				return err
			}
		}
		bar.set(done)
	}
	bar.finish(records)
	return nil
}

func verifyDemoRecord(r *kgo.Record, next *[demoPartitions]int64) error {
	number, whole := demoNumber(r.Value)
	want := next[r.Partition]
	if !whole || number != want {
		return fmt.Errorf("partition %d offset %d: got record %d (intact: %v), want %d", r.Partition, r.Offset, number, whole,
			want)
	}
	next[r.Partition] += demoPartitions
	return nil
}
