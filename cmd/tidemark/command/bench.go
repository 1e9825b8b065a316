package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func newBench() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure a server: rates, latencies, and what the server spends",
		Long: `Measure a server, Tidemark or any other that Kafka clients talk to: rates and latencies, and the CPU time and peak memory
of the server if its process can be seen, which takes the same machine or --metrics.

'bench null' runs a server that stores nothing, to find what the client alone can do: the ceiling of all figures.`,
		Example: `  tidemark bench produce --records 1000000 --size 1024
  tidemark bench produce --rate 5000 --output json
  tidemark bench consume --records 1000000
  tidemark bench e2e --rate 1000 --records 10000
  tidemark bench null --listen 127.0.0.1:9999`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newBenchProduce(), newBenchConsume(), newBenchE2E(), newBenchNull())
	return c
}

// benchFlags are the flags that all measurements share.
type benchFlags struct {
	client      *clientFlags
	output      *outputFlag
	topic       string
	partitions  int32
	keep        bool
	records     int64
	size        int
	payload     string
	rate        float64
	acks        string
	compression string
	clients     int
	metrics     string
}

// addBenchFlags adds the flags; records is the default number of records.
func addBenchFlags(c *cobra.Command, records int64, rate float64) *benchFlags {
	f := &benchFlags{client: addClientFlags(c), output: addOutputFlag(c)}
	flags := c.Flags()
	flags.StringVarP(&f.topic, "topic", "t", "", "use this `TOPIC` (default a new one, which is deleted afterwards)")
	flags.Int32Var(&f.partitions, "partitions", 6, "give a new topic `N` partitions")
	flags.BoolVar(&f.keep, "keep", false, "do not delete the new topic")
	flags.Int64VarP(&f.records, "records", "n", records, "how many records")
	nameValue(flags, "records", "N")
	flags.IntVar(&f.size, "size", 1024, "size of a value, at least 8")
	nameValue(flags, "size", "BYTES")
	addWordFlag(c, &f.payload, "payload", "", "what values hold; random bytes do not compress", "random", "text")
	flags.Float64Var(&f.rate, "rate", rate, "send `N` records a second, however long answers take; 0 is as fast as possible")
	addProducerFlags(c, &f.acks, &f.compression)
	flags.IntVar(&f.clients, "clients", 1, "run `N` clients, each with connections of its own")
	flags.StringVar(&f.metrics, "metrics", "", "`URL` of the server's metrics, for a server on another machine")
	_ = c.RegisterFlagCompletionFunc("topic", f.client.completeTopics) // it fails only for a flag that does not exist
	return f
}

func (f *benchFlags) check(c *cobra.Command) error {
	switch {
	case f.records < 1:
		return usagef(c, "--records is at least 1, not %d", f.records)
	case f.size < 8:
		return usagef(c, "--size is at least 8, not %d", f.size)
	case f.clients < 1:
		return usagef(c, "--clients is at least 1, not %d", f.clients)
	case f.partitions < 1:
		return usagef(c, "--partitions is at least 1, not %d", f.partitions)
	case f.rate < 0:
		return usagef(c, "--rate is 0 or more, not %g", f.rate)
	case f.payload != "random" && f.payload != "text":
		return usagef(c, "--payload is random or text, not %q", f.payload)
	}
	return nil
}

// producerOptions are those of `tidemark produce` for these flags.
func (f *benchFlags) producerOptions(c *cobra.Command) ([]kgo.Opt, error) {
	p := produceFlags{acks: f.acks, compression: f.compression, partition: -1, maxBytes: maxBatchBytes}
	opts, err := p.options(c, f.topic)
	return append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(10_000)), err
}

// withTopic runs a measurement on the requested topic, or on one that it creates and deletes again.
func (f *benchFlags) withTopic(ctx context.Context, run func() error) (err error) {
	admin, err := f.client.admin(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	made := false
	if f.topic == "" {
		f.topic = "tidemark-bench-" + rand.Text()[:8]
	}
	about, err := topicDetail(ctx, admin, f.topic)
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		if _, err := admin.CreateTopic(ctx, f.partitions, -1, nil, f.topic); err != nil {
			return explain("topic", f.topic, err)
		}
		made = true
	case err != nil:
		return err
	default:
		f.partitions = int32(len(about.Partitions))
	}
	defer func() {
		if made && !f.keep {
			cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
			defer cancel()
			_, failed := admin.DeleteTopic(cleanup, f.topic)
			if !errors.Is(failed, kerr.UnknownTopicOrPartition) {
				err = errors.Join(err, failed)
			}
		}
	}()
	return run()
}

// benchResult is the result of a measurement.
type benchResult struct {
	What             string            `json:"what"`
	Records          int64             `json:"records"`
	ValueBytes       int64             `json:"value_bytes"`
	Seconds          float64           `json:"seconds"`
	RecordsPerSecond float64           `json:"records_per_second"`
	BytesPerSecond   float64           `json:"bytes_per_second"`
	Latency          *latencySummary   `json:"latency,omitempty"`
	ClientCPU        float64           `json:"client_cpu_seconds"`
	Server           *serverUse        `json:"server,omitempty"`
	Settings         map[string]string `json:"settings"`
}

// latencySummary holds percentiles in microseconds.
type latencySummary struct {
	P50   int64 `json:"p50_us"`
	P90   int64 `json:"p90_us"`
	P99   int64 `json:"p99_us"`
	P999  int64 `json:"p99_9_us"`
	P9999 int64 `json:"p99_99_us"`
	Max   int64 `json:"max_us"`
}

func summarize(h *hdrhistogram.Histogram) *latencySummary {
	if h == nil || h.TotalCount() == 0 {
		return nil
	}
	return &latencySummary{
		P50: h.ValueAtQuantile(50), P90: h.ValueAtQuantile(90), P99: h.ValueAtQuantile(99), P999: h.ValueAtQuantile(99.9),
		P9999: h.ValueAtQuantile(99.99), Max: h.Max(),
	}
}

// measure runs a load and assembles the result. The load returns how many records it moved, and how long each took.
func (f *benchFlags) measure(
	ctx context.Context, what string, load func(ctx context.Context) (int64, *hdrhistogram.Histogram, error),
) (benchResult, error) {
	watch := watchServer(f.client.servers, f.metrics)
	client := ownCPU()
	began := time.Now()
	records, latency, err := load(ctx)
	took := time.Since(began)
	r := benchResult{
		What: what, Records: records, ValueBytes: records * int64(f.size), Seconds: took.Seconds(), Latency: summarize(latency),
		ClientCPU: ownCPU() - client, Server: watch.stop(),
		Settings: map[string]string{
			"topic": f.topic, "partitions": fmt.Sprint(f.partitions), "size": fmt.Sprint(f.size), "payload": f.payload,
			"rate": fmt.Sprint(f.rate), "acks": f.acks, "compression": f.compression, "clients": fmt.Sprint(f.clients),
		},
	}
	if r.Seconds > 0 {
		r.RecordsPerSecond, r.BytesPerSecond = float64(r.Records)/r.Seconds, float64(r.ValueBytes)/r.Seconds
	}
	if r.Server != nil && records > 0 {
		r.Server.CPUPerRecord = r.Server.CPU / float64(records) * 1e6
	}
	return r, err
}

func (r benchResult) print(c *cobra.Command) error {
	out := c.OutOrStdout()
	fmt.Fprintf(out, "%s  %s in %.2f s  %s/s  %s/s\n", r.What, plural(r.Records, "record"), r.Seconds,
		count(int64(r.RecordsPerSecond)), size(int64(r.BytesPerSecond)))
	if l := r.Latency; l != nil {
		t := newTable(out, "LATENCY", "P50", "P90", "P99", "P99.9", "P99.99", "MAX")
		t.row("", micros(l.P50), micros(l.P90), micros(l.P99), micros(l.P999), micros(l.P9999), micros(l.Max))
		if err := t.flush(); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "client   %.2f CPU s\n", r.ClientCPU)
	if r.Server == nil {
		_, err := fmt.Fprintln(out, "server   its process cannot be seen from here; --metrics URL may help")
		return err
	}
	_, err := fmt.Fprintf(out, "server   %.2f CPU s, %.2f µs a record, peak memory %s\n", r.Server.CPU, r.Server.CPUPerRecord,
		size(r.Server.PeakMemory))
	return err
}

// report prints a result in the requested format.
func (f *benchFlags) report(c *cobra.Command, r benchResult) error {
	asJSON, err := f.output.json(c)
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(c.OutOrStdout(), r)
	}
	return r.print(c)
}

// runBench runs a measurement as a command: check the flags, prepare a topic, measure, report.
func (f *benchFlags) runBench(c *cobra.Command, run func(ctx context.Context) (benchResult, error)) error {
	if _, err := f.output.json(c); err != nil {
		return err
	}
	if err := f.check(c); err != nil {
		return err
	}
	if _, err := f.producerOptions(c); err != nil {
		return err
	}
	return f.withTopic(c.Context(), func() error {
		r, err := run(c.Context())
		if err != nil {
			return explain("topic", f.topic, err)
		}
		return f.report(c, r)
	})
}
