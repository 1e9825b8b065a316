package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// spreads are the numbers of partitions over which a workload is measured.
var spreads = []int{1, 12}

// workload is what records look like and how they are compressed.
type workload struct {
	name  string // for people
	slug  string // for topics
	codec kgo.CompressionCodec
	value func(*rand.Rand) []byte
}

var workloads = []workload{
	{name: "1 KiB, uncompressed", slug: "1k-none", codec: kgo.NoCompression(), value: func(rng *rand.Rand) []byte {
		value := make([]byte, 1024)
		for i := range value {
			value[i] = byte(rng.Uint32())
		}
		return value
	}},
	{name: "100 B, lz4", slug: "100b-lz4", codec: kgo.Lz4Compression(), value: func(rng *rand.Rand) []byte {
		value := fmt.Appendf(nil, `{"device":"sensor-%05d","temperature":%d.%02d,"humidity":%d,"state":"%s","sequence":%09d}`,
			rng.IntN(100_000), 15+rng.IntN(20), rng.IntN(100), rng.IntN(100), []string{"ok", "low", "off"}[rng.IntN(3)], rng.IntN(1e9))
		for len(value) < 100 {
			value = append(value, ' ')
		}
		return value[:100]
	}},
}

// values returns some records' values, to be sent again and again, so that making them costs nothing while measuring.
func (w workload) values() [][]byte {
	rng := rand.New(rand.NewPCG(1, 2))
	values := make([][]byte, 4096)
	for i := range values {
		values[i] = w.value(rng)
	}
	return values
}

// phase is one measurement.
type phase struct {
	records   int64
	elapsed   time.Duration
	serverCPU time.Duration
	clientCPU time.Duration
	peak      int64 // the most memory that the server had resident meanwhile, in bytes
}

func (p phase) perSecond() float64 { return float64(p.records) / p.elapsed.Seconds() }

// cpuPerRecord returns the server's processor time for one record in microseconds.
func (p phase) cpuPerRecord() float64 {
	return float64(p.serverCPU.Nanoseconds()) / 1000 / float64(p.records)
}

// clientCPUPerRecord returns the client's processor time for one record in microseconds.
func (p phase) clientCPUPerRecord() float64 {
	return float64(p.clientCPU.Nanoseconds()) / 1000 / float64(p.records)
}

// peakMiB returns the server's peak memory in MiB.
func (p phase) peakMiB() float64 { return float64(p.peak) / (1 << 20) }

func (p phase) String() string {
	if p.records == 0 {
		return "not measured"
	}
	return fmt.Sprintf("%8.0f/s %6.3f µs/record", p.perSecond(), p.cpuPerRecord())
}

// measure produces to a new topic for the given time, consumes all of it for at least half of that, and deletes it. With a
// page cache that is filled before it begins.
func measure(ctx context.Context, v *variant, cache *pageCache, w workload, partitions int, d time.Duration, topic string) (produced, consumed phase, err error) {
	if err := createTopic(ctx, v, topic, partitions); err != nil {
		return phase{}, phase{}, err
	}
	syscall.Sync()
	if cache != nil {
		if err := cache.fill(ctx); err != nil {
			return phase{}, phase{}, err
		}
	}
	produced, err = clocked(v, func() (int64, error) { return produce(ctx, v, w, topic, d) })
	if err != nil {
		return phase{}, phase{}, err
	}
	syscall.Sync()
	if !v.serves() {
		return produced, phase{}, deleteTopic(ctx, v, topic)
	}
	consumed, err = clocked(v, func() (int64, error) { return consumeAgain(ctx, v, topic, produced.records, d/2) })
	if err != nil {
		return phase{}, phase{}, err
	}
	return produced, consumed, deleteTopic(ctx, v, topic)
}

// clocked runs f, which returns how many records it moved, and measures what that cost.
func clocked(v *variant, f func() (int64, error)) (phase, error) {
	server, err := processTime(v.pid)
	if err != nil {
		return phase{}, err
	}
	client, err := ownTime()
	if err != nil {
		return phase{}, err
	}
	if err := forgetPeak(v.pid); err != nil {
		return phase{}, err
	}
	start := time.Now()
	records, err := f()
	if err != nil {
		return phase{}, fmt.Errorf("bench: %s: %w", v.name, err)
	}
	p := phase{records: records, elapsed: time.Since(start)}
	serverEnd, err := processTime(v.pid)
	if err != nil {
		return phase{}, err
	}
	clientEnd, err := ownTime()
	if err != nil {
		return phase{}, err
	}
	p.serverCPU, p.clientCPU = serverEnd-server, clientEnd-client
	if p.peak, err = peakMemory(v.pid); err != nil {
		return phase{}, err
	}
	if records == 0 {
		return phase{}, fmt.Errorf("bench: %s: not one record in %v", v.name, p.elapsed)
	}
	return p, nil
}

// produce sends records for d, waits for the last acknowledgement and returns how many there were.
func produce(ctx context.Context, v *variant, w workload, topic string, d time.Duration) (int64, error) {
	c, err := kgo.NewClient(
		kgo.SeedBrokers(v.addr),
		kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchCompression(w.codec),
		kgo.ProducerLinger(5*time.Millisecond),
		kgo.MaxBufferedRecords(50_000),
	)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	var acked atomic.Int64
	var failed atomic.Pointer[error]
	answered := func(_ *kgo.Record, err error) {
		if err != nil {
			failed.CompareAndSwap(nil, &err)
			return
		}
		acked.Add(1)
	}
	values := w.values()
	for i, end := 0, time.Now().Add(d); time.Now().Before(end) && failed.Load() == nil; {
		for range 64 { // look at the clock now and then only
			c.Produce(ctx, &kgo.Record{Value: values[i%len(values)]}, answered)
			i++
		}
	}
	if err := c.Flush(ctx); err != nil {
		return 0, err
	}
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return acked.Load(), nil
}

// consumeAgain reads the whole topic again and again until d has passed, so that the time is long enough to be measured.
func consumeAgain(ctx context.Context, v *variant, topic string, records int64, d time.Duration) (int64, error) {
	seen := int64(0)
	for end := time.Now().Add(d); ; {
		n, err := consume(ctx, v, topic, records)
		if err != nil {
			return 0, err
		}
		if seen += n; !time.Now().Before(end) {
			return seen, nil
		}
	}
}

// consume reads the topic from its start until it has seen that many records.
func consume(ctx context.Context, v *variant, topic string, records int64) (int64, error) {
	c, err := kgo.NewClient(
		kgo.SeedBrokers(v.addr),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	seen := int64(0)
	for seen < records {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return 0, err
		}
		seen += int64(fetches.NumRecords())
	}
	return seen, nil
}

// warm puts all workloads on the server for about d.
func warm(ctx context.Context, v *variant, d time.Duration) error {
	fmt.Printf("warming %s for %v\n", v.name, d)
	for n, end := 0, time.Now().Add(d); time.Now().Before(end); n++ {
		w := workloads[n%len(workloads)]
		if _, _, err := measure(ctx, v, nil, w, spreads[len(spreads)-1], min(d, 5*time.Second), fmt.Sprintf("warm-%s-%d", v.name, n)); err != nil {
			return err
		}
	}
	return nil
}

func createTopic(ctx context.Context, v *variant, topic string, partitions int) error {
	return administer(v, func(admin *kadm.Client) error {
		configs := map[string]*string{}
		for name, value := range v.topicConfigs {
			configs[name] = kadm.StringPtr(value)
		}
		created, err := admin.CreateTopics(ctx, int32(partitions), 1, configs, topic)
		if err == nil {
			err = created.Error()
		}
		return err
	})
}

func deleteTopic(ctx context.Context, v *variant, topic string) error {
	return administer(v, func(admin *kadm.Client) error {
		deleted, err := admin.DeleteTopics(ctx, topic)
		if err == nil {
			err = deleted.Error()
		}
		return err
	})
}

func administer(v *variant, f func(*kadm.Client) error) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(v.addr))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := f(kadm.NewClient(c)); err != nil {
		return fmt.Errorf("bench: %s: %w", v.name, err)
	}
	return nil
}
