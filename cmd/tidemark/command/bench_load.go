package command

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// payloads makes values of one size cheaply: they are windows of one buffer.
type payloads struct {
	pool []byte
	size int
}

// poolBytes is how many bytes of values differ before they repeat.
const poolBytes = 1 << 20

// benchWords are the words of text values.
const benchWords = "order customer shipped warehouse pending eur invoice 2026 created status item quantity 1 2 3 4 {\":,} "

func newPayloads(kind string, size int) *payloads {
	p := &payloads{pool: make([]byte, poolBytes+size), size: size}
	random := rand.New(rand.NewPCG(1, uint64(size)))
	for i := range p.pool {
		p.pool[i] = byte(random.Uint32())
	}
	if kind == "text" {
		for i := 0; i < len(p.pool); {
			from := random.IntN(len(benchWords) - 8)
			i += copy(p.pool[i:], benchWords[from:from+8])
		}
	}
	return p
}

// value returns a value that holds a number in its first eight bytes. The caller owns it.
func (p *payloads) value(number int64) []byte {
	from := int(uint64(number) * 0x9e3779b97f4a7c15 % poolBytes)
	value := append(make([]byte, 0, p.size), p.pool[from:from+p.size]...)
	binary.BigEndian.PutUint64(value, uint64(number))
	return value
}

// pace waits for the moment at which a record is due and returns that moment, so that a producer that falls behind is
// charged for the delay. Without a rate every moment is now.
type pace struct {
	began time.Time
	every time.Duration
}

func newPace(rate float64) pace {
	p := pace{began: time.Now()}
	if rate > 0 {
		p.every = time.Duration(float64(time.Second) / rate)
	}
	return p
}

func (p pace) wait(ctx context.Context, number int64) time.Time {
	if p.every == 0 {
		return time.Now()
	}
	due := p.began.Add(time.Duration(number) * p.every)
	if ahead := time.Until(due); ahead > 0 {
		timer := time.NewTimer(ahead)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return due
}

// producerLoad writes records with several clients and returns how many were acknowledged, and how long after its due
// time each was. value returns the value of a record, given its number and due time.
func (f *benchFlags) producerLoad(
	ctx context.Context, clients []*kgo.Client, value func(number int64, due time.Time) []byte,
) (int64, *hdrhistogram.Histogram, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var done sync.WaitGroup
	latencies := make([]*hdrhistogram.Histogram, len(clients))
	for i, kc := range clients {
		latencies[i] = newLatencies()
		share := f.records / int64(len(clients))
		if int64(i) < f.records%int64(len(clients)) {
			share++
		}
		done.Go(func() {
			p := newPace(f.rate / float64(len(clients)))
			var mu sync.Mutex
			for n := int64(0); n < share && ctx.Err() == nil; n++ {
				due := p.wait(ctx, n)
				number := n*int64(len(clients)) + int64(i)
				r := &kgo.Record{Topic: f.topic, Partition: int32(number % int64(f.partitions)), Value: value(number, due)}
				kc.Produce(ctx, r, func(_ *kgo.Record, err error) {
					if err != nil {
						cancel(err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					_ = latencies[i].RecordValue(latencyOf(due)) // in range by latencyOf
				})
			}
			if err := kc.Flush(ctx); err != nil {
				cancel(err)
			}
		})
	}
	done.Wait()
	if err := context.Cause(ctx); err != nil {
		return 0, nil, err
	}
	all := newLatencies()
	for _, h := range latencies {
		all.Merge(h)
	}
	return all.TotalCount(), all, nil
}

// producers connects clients and writes one record to each partition with each, so that connection setup is not measured.
func (f *benchFlags) producers(c *cobra.Command, warm bool) ([]*kgo.Client, func(), error) {
	opts, err := f.producerOptions(c)
	if err != nil {
		return nil, nil, err
	}
	var clients []*kgo.Client
	closeAll := func() {
		for _, kc := range clients {
			kc.Close()
		}
	}
	for range f.clients {
		kc, err := f.client.connect(c.Context(), opts...)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		clients = append(clients, kc)
		for p := int32(0); p < f.partitions && warm; p++ {
			first := &kgo.Record{Topic: f.topic, Partition: p, Value: make([]byte, f.size)}
			if err := kc.ProduceSync(c.Context(), first).FirstErr(); err != nil {
				closeAll()
				return nil, nil, err
			}
		}
	}
	return clients, closeAll, nil
}

func newBenchProduce() *cobra.Command {
	c := &cobra.Command{
		Use:   "produce",
		Short: "Measure how fast records are written and acknowledged",
		Long: `Measure how fast records are written and acknowledged. Latency runs from the moment a record was due to its
acknowledgement. With --rate it is what a steady load waits for; without, it is mostly time in the client's own queue.`,
		Example: `  tidemark bench produce --records 1000000 --size 1024
  tidemark bench produce --size 100 --compression lz4 --payload text
  tidemark bench produce --rate 5000 --records 50000`,
		Args: noArguments,
	}
	f := addBenchFlags(c, 1_000_000, 0)
	c.RunE = func(c *cobra.Command, _ []string) error {
		return f.runBench(c, func(ctx context.Context) (benchResult, error) {
			clients, closeAll, err := f.producers(c, true)
			if err != nil {
				return benchResult{}, err
			}
			defer closeAll()
			values := newPayloads(f.payload, f.size)
			return f.measure(ctx, "produce", func(ctx context.Context) (int64, *hdrhistogram.Histogram, error) {
				return f.producerLoad(ctx, clients, func(number int64, _ time.Time) []byte { return values.value(number) })
			})
		})
	}
	return c
}
