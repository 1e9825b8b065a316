package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/batch"
)

// flusherOptions are the flags of `bench flusher`.
type flusherOptions struct {
	servers string        // comma-separated variants
	counts  string        // comma-separated numbers of partitions that are dirty at once
	rounds  int           // measured rounds
	phase   time.Duration // of one number of partitions on one server in one round
	pause   time.Duration // between an answer and the next request
	warm    time.Duration // load on Kafka before the first round
	dir     string        // where servers put their data
	output  string        // the file whose table is replaced; empty prints it only
	command string        // how this run was started, for the table's caption
}

func flusherMain(ctx context.Context, args []string) error {
	var o flusherOptions
	flags := flag.NewFlagSet("bench flusher", flag.ExitOnError)
	flags.StringVar(&o.servers, "servers", "tidemark,tidemark-os,kafka,kafka-flush,null", "what to measure: "+strings.Join(variantNames(), ", "))
	flags.StringVar(&o.counts, "partitions", "1,12,100,1000", "numbers of partitions that each request writes to")
	flags.IntVar(&o.rounds, "rounds", 5, "measured rounds")
	flags.DurationVar(&o.phase, "phase", 2*time.Second, "how long one number of partitions is measured on one server in a round")
	flags.DurationVar(&o.pause, "pause", 10*time.Millisecond, "from an answer to the next request")
	flags.DurationVar(&o.warm, "warm", 30*time.Second, "load on each of Kafka's ways before the first round; the others get a tenth")
	flags.StringVar(&o.dir, "dir", os.TempDir(), "where the servers put their data")
	flags.StringVar(&o.output, "output", "", "Markdown file whose table between the bench:flusher markers is replaced")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("bench: flusher: unexpected argument %q", flags.Arg(0))
	}
	o.command = fmt.Sprintf("bench/flusher.sh -servers %s -partitions %s -rounds %d -phase %v -pause %v -warm %v",
		o.servers, o.counts, o.rounds, o.phase, o.pause, o.warm)
	table, err := measureFlusher(ctx, o)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s", table)
	if o.output == "" {
		return nil
	}
	return replaceSection(o.output, "flusher", table)
}

// measureFlusher starts the servers, sends them bursts in turn, and returns the table.
func measureFlusher(ctx context.Context, o flusherOptions) (string, error) {
	counts, err := parseCounts(o.counts)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(o.dir, "tidemark-bench-")
	if err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	defer os.RemoveAll(dir)
	variants, stop, err := startVariants(ctx, strings.Split(o.servers, ","), dir)
	defer stop()
	if err != nil {
		return "", err
	}
	var bursts []*burst
	defer func() {
		for _, b := range bursts {
			b.client.Close()
		}
	}()
	for _, v := range variants {
		for _, n := range counts {
			b, err := newBurst(ctx, v, n)
			if err != nil {
				return "", err
			}
			bursts = append(bursts, b)
			warm := v.warmth(o.warm) / time.Duration(len(counts))
			if _, err := b.send(ctx, warm, 0); err != nil {
				return "", err
			}
		}
	}
	for round := range o.rounds {
		order := slices.Clone(bursts)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, b := range order {
			took, err := b.send(ctx, o.phase, o.pause)
			if err != nil {
				return "", err
			}
			b.rounds = append(b.rounds, latenciesOf(took))
			fmt.Printf("round %d  %-12s %5d partitions  %s\n", round+1, b.variant.name, b.partitions, latenciesOf(took))
		}
	}
	return flusherTable(o, variants, counts, bursts), nil
}

func parseCounts(text string) ([]int, error) {
	var counts []int
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("bench: flusher: %q is not a number of partitions", word)
		}
		counts = append(counts, n)
	}
	return counts, nil
}

// burst is a request that makes a number of partitions of one server dirty at once: a record of 1 KiB to each.
type burst struct {
	variant    *variant
	partitions int
	client     *kgo.Client
	broker     *kgo.Broker
	request    *kmsg.ProduceRequest
	rounds     []latencies
}

// newBurst makes the topic. The caller closes the client.
func newBurst(ctx context.Context, v *variant, partitions int) (*burst, error) {
	topic := fmt.Sprintf("bench-flusher-%s-%d", v.name, partitions)
	if err := createTopic(ctx, v, topic, partitions); err != nil {
		return nil, err
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(v.addr), kgo.RequestRetries(0))
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*burst, error) {
		c.Close()
		return nil, fmt.Errorf("bench: %s: %w", v.name, err)
	}
	described, err := kadm.NewClient(c).Metadata(ctx, topic)
	if err != nil {
		return fail(err)
	}
	builder := batch.NewBuilder(batch.BuilderOptions{})
	rng := rand.New(rand.NewPCG(1, 2))
	builder.Add(time.Now().UnixMilli(), nil, workloads[0].value(rng))
	records, err := builder.Build()
	if err != nil {
		return fail(err)
	}
	to := kmsg.NewProduceRequestTopic()
	to.Topic, to.TopicID = topic, described.Topics[topic].ID
	for i := range partitions {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), records
		to.Partitions = append(to.Partitions, p)
	}
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis, request.Topics = -1, 60_000, []kmsg.ProduceRequestTopic{to}
	b := &burst{
		variant: v, partitions: partitions, client: c, request: request,
		broker: c.Broker(int(described.Brokers[0].NodeID)),
	}
	if err := b.accepted(ctx); err != nil {
		return fail(err)
	}
	return b, nil
}

// accepted sends the request until the server accepts it: Kafka answers the creation of a topic before it leads the
// partitions.
func (b *burst) accepted(ctx context.Context) error {
	for {
		response, err := b.broker.Request(ctx, b.request)
		if err != nil {
			return err
		}
		err = refusal(response.(*kmsg.ProduceResponse), b.partitions)
		if err == nil || !kerr.IsRetriable(err) {
			return err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// fewest is how many requests make a measurement, unless they take very long.
const fewest = 20

// send repeats the request for about d, each a pause after the previous answer, and returns the latencies.
func (b *burst) send(ctx context.Context, d, gap time.Duration) ([]time.Duration, error) {
	var took []time.Duration
	end := time.Now().Add(d)
	for late := end.Add(4 * d); time.Now().Before(end) || len(took) < fewest && time.Now().Before(late); {
		if err := pause(ctx, gap); err != nil {
			return nil, err
		}
		began := time.Now()
		response, err := b.broker.Request(ctx, b.request)
		if err != nil {
			return nil, fmt.Errorf("bench: %s: %w", b.variant.name, err)
		}
		took = append(took, time.Since(began))
		if err := refusal(response.(*kmsg.ProduceResponse), b.partitions); err != nil {
			return nil, fmt.Errorf("bench: %s: %w", b.variant.name, err)
		}
	}
	return took, nil
}

// refusal returns why part of a request was refused, or nil.
func refusal(r *kmsg.ProduceResponse, partitions int) error {
	answered := 0
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return err
			}
			answered++
		}
	}
	if answered != partitions {
		return errors.New("not every partition was answered")
	}
	return nil
}

// latencies are the percentiles of one measurement.
type latencies struct{ p50, p99 time.Duration }

func latenciesOf(took []time.Duration) latencies {
	sorted := slices.Sorted(slices.Values(took))
	at := func(percent int) time.Duration { return sorted[min(len(sorted)*percent/100, len(sorted)-1)] }
	return latencies{p50: at(50), p99: at(99)}
}

func (l latencies) String() string {
	return fmt.Sprintf("p50 %8.3f ms  p99 %8.3f ms", milliseconds(l.p50), milliseconds(l.p99))
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func flusherTable(o flusherOptions, variants []*variant, counts []int, bursts []*burst) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", machine())
	fmt.Fprintf(&b, "`%s`: %d rounds; in each, one request after another for %v, each with a record of 1 KiB for every partition, "+
		"%v between an answer and the next request. Milliseconds from the request to its answer: the median of the rounds' p50 and "+
		"p99 (least – most).\n\n", o.command, o.rounds, o.phase, o.pause)
	b.WriteString("| dirty partitions | server | p50, ms | p99, ms |\n|---:|---|---:|---:|\n")
	for _, n := range counts {
		for _, v := range variants {
			for _, one := range bursts {
				if one.partitions != n || one.variant != v {
					continue
				}
				fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", thousands(float64(n)), v.title,
					spreadOf(one.rounds, func(l latencies) float64 { return milliseconds(l.p50) }).format("%.2f"),
					spreadOf(one.rounds, func(l latencies) float64 { return milliseconds(l.p99) }).format("%.2f"))
			}
		}
	}
	return b.String()
}
