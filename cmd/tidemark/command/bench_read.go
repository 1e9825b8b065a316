package command

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func newBenchConsume() *cobra.Command {
	c := &cobra.Command{
		Use:   "consume",
		Short: "Measure how fast records are read",
		Long: `Measure how fast records are read. A new topic is filled first, which is not measured. A topic named with --topic is read
from its start to where its end was when the command began.`,
		Example: `  tidemark bench consume --records 1000000
  tidemark bench consume --topic orders --clients 3`,
		Args: noArguments,
	}
	f := addBenchFlags(c, 1_000_000, 0)
	c.RunE = func(c *cobra.Command, _ []string) error {
		given := f.topic != ""
		return f.runBench(c, func(ctx context.Context) (benchResult, error) {
			if !given {
				if err := f.fill(c); err != nil {
					return benchResult{}, err
				}
			}
			return f.measure(ctx, "consume", func(ctx context.Context) (int64, *hdrhistogram.Histogram, error) {
				n, err := f.readAll(ctx)
				return n, nil, err
			})
		})
	}
	return c
}

// fill writes the records that will be read.
func (f *benchFlags) fill(c *cobra.Command) error {
	clients, closeAll, err := f.producers(c, false)
	if err != nil {
		return err
	}
	defer closeAll()
	values := newPayloads(f.payload, f.size)
	_, _, err = f.producerLoad(c.Context(), clients, func(number int64, _ time.Time) []byte { return values.value(number) })
	return err
}

// readAll reads the topic from start to end with several clients, each with its share of the partitions, and returns the
// number of records.
func (f *benchFlags) readAll(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var seen atomic.Int64
	var done sync.WaitGroup
	for i := range min(f.clients, int(f.partitions)) {
		var share []int32
		for p := int32(i); p < f.partitions; p += int32(f.clients) {
			share = append(share, p)
		}
		done.Go(func() {
			if err := f.readShare(ctx, share, &seen); err != nil {
				cancel(err)
			}
		})
	}
	done.Wait()
	return seen.Load(), context.Cause(ctx)
}

func (f *benchFlags) readShare(ctx context.Context, partitions []int32, seen *atomic.Int64) error {
	kc, err := f.client.connect(ctx, kgo.KeepControlRecords(), kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		return err
	}
	defer kc.Close()
	reading := consumeFlags{partitions: partitions}
	r, err := reading.reader(ctx, kc, f.topic, span{from: place{kind: atStart}, until: place{kind: atEnd}, bounded: true})
	if err != nil {
		return err
	}
	r.print = func(*kgo.Record) error { seen.Add(1); return nil }
	return r.run(ctx, bufio.NewWriter(io.Discard))
}

func newBenchE2E() *cobra.Command {
	c := &cobra.Command{
		Use:   "e2e",
		Short: "Measure how long a record takes from a producer to a consumer",
		Long: `Measure, at a steady rate, how long a record takes from the moment it was due to be sent until a consumer has it.
Producer and consumer share one process, and so one clock.`,
		Example: `  tidemark bench e2e --rate 1000 --records 10000
  tidemark bench e2e --rate 20000 --records 200000 --size 100 --output json`,
		Args: noArguments,
	}
	f := addBenchFlags(c, 10_000, 1000)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if f.rate == 0 {
			return usagef(c, "--rate must be more than 0: at full speed a latency is that of a queue")
		}
		if f.acks == "0" {
			return usagef(c, "--acks is all or 1: what is not acknowledged may never arrive")
		}
		return f.runBench(c, func(ctx context.Context) (benchResult, error) {
			clients, closeAll, err := f.producers(c, true)
			if err != nil {
				return benchResult{}, err
			}
			defer closeAll()
			arrivals, err := f.newArrivals(ctx)
			if err != nil {
				return benchResult{}, err
			}
			defer arrivals.kc.Close()
			return f.measure(ctx, "e2e", func(ctx context.Context) (int64, *hdrhistogram.Histogram, error) {
				return f.endToEnd(ctx, clients, arrivals)
			})
		})
	}
	return c
}

// arrivals is the consumer's side of the measurement: records due after began hold their due time, in nanoseconds after
// it.
type arrivals struct {
	kc      *kgo.Client
	began   time.Time
	latency *hdrhistogram.Histogram
}

// newArrivals starts reading at the end of every partition. It misses nothing that is written after it returns.
func (f *benchFlags) newArrivals(ctx context.Context) (*arrivals, error) {
	kc, err := f.client.connect(ctx, kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		return nil, err
	}
	about, err := topicDetail(ctx, kadm.NewClient(kc), f.topic)
	if err != nil {
		kc.Close()
		return nil, err
	}
	readable, err := extents(ctx, kc, f.topic, slices.Sorted(maps.Keys(about.Partitions)), false)
	if err != nil {
		kc.Close()
		return nil, err
	}
	offsets := map[int32]kgo.Offset{}
	for p, e := range readable {
		offsets[p] = kgo.NewOffset().At(e.End)
	}
	kc.AddConsumePartitions(map[string]map[int32]kgo.Offset{f.topic: offsets})
	return &arrivals{kc: kc, began: time.Now(), latency: newLatencies()}, nil
}

func (f *benchFlags) endToEnd(ctx context.Context, clients []*kgo.Client, a *arrivals) (int64, *hdrhistogram.Histogram, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	values := newPayloads(f.payload, f.size)
	var sending sync.WaitGroup
	sending.Go(func() {
		_, _, err := f.producerLoad(ctx, clients, func(number int64, due time.Time) []byte {
			value := values.value(number)
			binary.BigEndian.PutUint64(value, uint64(due.Sub(a.began)))
			return value
		})
		if err != nil {
			cancel(err)
		}
	})
	err := a.read(ctx, f.records)
	if err != nil {
		cancel(err)
	}
	sending.Wait()
	return a.latency.TotalCount(), a.latency, context.Cause(ctx)
}

// read reads until that many records have arrived.
func (a *arrivals) read(ctx context.Context, records int64) error {
	for a.latency.TotalCount() < records {
		fetches := a.kc.PollFetches(ctx)
		if err := errors.Join(ctx.Err(), firstError(fetches)); err != nil {
			return err
		}
		for iter := fetches.RecordIter(); !iter.Done(); {
			if value := iter.Next().Value; len(value) >= 8 {
				due := a.began.Add(time.Duration(binary.BigEndian.Uint64(value)))
				_ = a.latency.RecordValue(latencyOf(due)) // in range by latencyOf
			}
		}
	}
	return nil
}
