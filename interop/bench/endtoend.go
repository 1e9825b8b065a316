package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/vfs"
)

// pace is a steady load whose records are timed from sending to receipt.
type pace struct {
	rate       int // records each second
	partitions int
}

var paces = []pace{{rate: 20_000, partitions: 12}, {rate: 1_000, partitions: 1}}

func (p pace) String() string {
	return fmt.Sprintf("%s/s, %d partitions", thousands(float64(p.rate)), p.partitions)
}

// fits reports whether a server can keep up with the pace at all: with a sync for each batch of each partition Kafka
// cannot keep up with the first.
func (p pace) fits(v *variant) bool {
	return v.stores() && (v.name != "kafka-flush" || p.rate <= 1_000)
}

// timed is one server under one pace, over all rounds.
type timed struct {
	variant *variant
	pace    pace
	rounds  []latencies
}

// endToEnd measures each pace on each server that can keep up with it, and what a sync takes on the disk under dir, round after
// round, and returns the table.
func endToEnd(ctx context.Context, variants []*variant, rounds int, d time.Duration, dir string) (string, error) {
	var all []*timed
	for _, p := range paces {
		for _, v := range variants {
			if p.fits(v) {
				all = append(all, &timed{variant: v, pace: p})
			}
		}
	}
	var bare []latencies
	for round := range rounds {
		l, err := bareSyncs(ctx, filepath.Join(dir, fmt.Sprintf("bare-%d", round)), d/4)
		if err != nil {
			return "", err
		}
		bare = append(bare, l)
		for i := range all {
			one := all[i]
			if round%2 == 1 {
				one = all[len(all)-1-i]
			}
			topic := fmt.Sprintf("bench-e2e-%s-%d-%d", one.variant.name, one.pace.rate, round)
			l, err := one.measure(ctx, topic, d)
			if err != nil {
				return "", fmt.Errorf("bench: %s: %s: %w", one.variant.name, one.pace, err)
			}
			fmt.Printf("round %d  %-12s %-28s %s\n", round+1, one.variant.name, one.pace, l)
			one.rounds = append(one.rounds, l)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "End to end: records of 1 KiB sent at a steady pace for %v, each timed from its sending to its receipt by a consumer; "+
		"acks=all, no linger.\n\n| pace | server | p50, ms | p99, ms |\n|---|---|---:|---:|\n", d)
	row := func(pace, title string, rounds []latencies) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", pace, title,
			spreadOf(rounds, func(l latencies) float64 { return milliseconds(l.p50) }).format("%.2f"),
			spreadOf(rounds, func(l latencies) float64 { return milliseconds(l.p99) }).format("%.2f"))
	}
	for _, one := range all {
		row(one.pace.String(), one.variant.title, one.rounds)
	}
	row("about 1,000/s", "no server: 1 KiB added to a file and `fdatasync`", bare)
	return b.String(), nil
}

// bareSyncs repeatedly appends 1 KiB to a new file and syncs it, for d with a millisecond in between, and returns the
// latencies: what any server that syncs before it answers must add to its own time.
func bareSyncs(ctx context.Context, name string, d time.Duration) (latencies, error) {
	file, err := vfs.OS().Open(name, vfs.CreateNew)
	if err != nil {
		return latencies{}, fmt.Errorf("bench: %w", err)
	}
	defer os.Remove(name)
	defer file.Close()
	var took []time.Duration
	record := make([]byte, 1024)
	for end, at := time.Now().Add(d), int64(0); time.Now().Before(end); at += int64(len(record)) {
		if err := pause(ctx, time.Millisecond); err != nil {
			return latencies{}, err
		}
		began := time.Now()
		if _, err := file.WriteAt(record, at); err != nil {
			return latencies{}, fmt.Errorf("bench: %w", err)
		}
		if err := file.Sync(); err != nil {
			return latencies{}, fmt.Errorf("bench: %w", err)
		}
		took = append(took, time.Since(began))
	}
	return latenciesOf(took), nil
}

// measure runs a producer and a consumer for d, of which the first tenth does not count.
func (t *timed) measure(ctx context.Context, topic string, d time.Duration) (latencies, error) {
	if err := createTopic(ctx, t.variant, topic, t.pace.partitions); err != nil {
		return latencies{}, err
	}
	producer, err := kgo.NewClient(kgo.SeedBrokers(t.variant.addr), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(1_000_000))
	if err != nil {
		return latencies{}, err
	}
	defer producer.Close()
	consumer, err := kgo.NewClient(kgo.SeedBrokers(t.variant.addr), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return latencies{}, err
	}
	defer consumer.Close()
	if err := t.meet(ctx, producer, consumer); err != nil {
		return latencies{}, err
	}

	count := int(float64(t.pace.rate) * d.Seconds())
	began := time.Now()
	received := make(chan result, 1)
	go func() {
		took, err := receive(ctx, consumer, count, began)
		received <- result{took, err}
	}()
	if err := t.send(ctx, producer, count, began); err != nil {
		return latencies{}, err
	}
	r := <-received
	if r.err != nil {
		return latencies{}, r.err
	}
	return latenciesOf(r.took[count/10:]), deleteTopic(ctx, t.variant, topic)
}

type result struct {
	took []time.Duration
	err  error
}

// meet waits until the consumer has seen a record of every partition, so that connections and leaders are established.
func (t *timed) meet(ctx context.Context, producer, consumer *kgo.Client) error {
	for range t.pace.partitions {
		if err := producer.ProduceSync(ctx, &kgo.Record{Value: make([]byte, 1024)}).FirstErr(); err != nil {
			return err
		}
	}
	_, err := receive(ctx, consumer, t.pace.partitions, time.Now())
	return err
}

// send sends count records, each when its time has come.
func (t *timed) send(ctx context.Context, producer *kgo.Client, count int, began time.Time) error {
	var failed atomic.Pointer[error]
	answered := func(_ *kgo.Record, err error) {
		if err != nil {
			failed.CompareAndSwap(nil, &err)
		}
	}
	value := workloads[0].values()[0]
	for sent := 0; sent < count; {
		due := min(int(time.Since(began).Seconds()*float64(t.pace.rate)), count)
		for ; sent < due; sent++ {
			stamped := append([]byte(nil), value...)
			binary.BigEndian.PutUint64(stamped, uint64(time.Since(began)))
			producer.Produce(ctx, &kgo.Record{Value: stamped}, answered)
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	if err := producer.Flush(ctx); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// receive polls until it has seen count records and returns each one's latency, by the time in its first bytes, which
// counts from began.
func receive(ctx context.Context, consumer *kgo.Client, count int, began time.Time) ([]time.Duration, error) {
	took := make([]time.Duration, 0, count)
	for len(took) < count {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		now := time.Since(began)
		fetches.EachRecord(func(r *kgo.Record) {
			took = append(took, now-time.Duration(binary.BigEndian.Uint64(r.Value)))
		})
	}
	return took, nil
}
