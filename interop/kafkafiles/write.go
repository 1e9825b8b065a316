package kafkafiles

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/interop/corpus"
	"github.com/tidemark-io/tidemark/interop/server"
)

// Size says how much is written.
type Size struct {
	// Batches is how many times each kind of batch is written in each of the three lives of the broker.
	Batches int
	// Records is how many records go into a batch.
	Records int
	// ValueBytes cuts longer values, if it is not 0.
	ValueBytes int
}

// The topics, each with one partition.
const (
	mixed         = "mixed"         // every codec, idempotent and not
	stamped       = "stamped"       // timestamps set by the broker
	transactional = "transactional" // committed, aborted and open transactions
	trimmed       = "trimmed"       // its start was moved by DeleteRecords
)

var topics = []string{mixed, stamped, transactional, trimmed}

// configs makes files small: Kafka refuses small segments but rolls at a gap between timestamps.
var configs = map[string]string{
	"segment.ms":           "600000",
	"segment.index.bytes":  "1200",
	"index.interval.bytes": "512",
	"retention.ms":         "-1",
}

// ProducerExpiration is the broker's setting producer.id.expiration.ms.
const ProducerExpiration = (1<<31 - 1) * time.Millisecond

// gap is put between the timestamps of successive batches of one kind, longer than segment.ms.
const gap = time.Hour

// Write starts an Apache Kafka in dir, has it write in three lives (two that end with a stop, one that ends with kill -9)
// and returns a snapshot from the end of the second and of the third.
func Write(ctx context.Context, in server.Install, dir string, size Size) (stopped, killed *Snapshot, err error) {
	broker := filepath.Join(dir, "broker")
	if err := os.Mkdir(broker, 0o755); err != nil {
		return nil, nil, fmt.Errorf("kafkafiles: %w", err)
	}
	k, err := server.NewKafka(in, server.KafkaOptions{Dir: broker, Settings: map[string]string{
		"producer.id.expiration.ms": fmt.Sprint(ProducerExpiration.Milliseconds()),
	}})
	if err != nil {
		return nil, nil, err
	}
	defer k.Kill()

	w := newWriter(k.Addr(), size)
	if err := k.Start(ctx); err != nil {
		return nil, nil, err
	}
	if err := w.createTopics(ctx, topics); err != nil {
		return nil, nil, err
	}
	if err := w.life(ctx); err != nil {
		return nil, nil, err
	}
	if err := k.Stop(ctx); err != nil {
		return nil, nil, err
	}

	if err := k.Start(ctx); err != nil {
		return nil, nil, err
	}
	if err := w.life(ctx); err != nil {
		return nil, nil, err
	}
	if stopped, err = w.snapshot(ctx); err != nil {
		return nil, nil, err
	}
	if err := k.Stop(ctx); err != nil {
		return nil, nil, err
	}
	stopped.Clean = true
	if stopped.Dir, err = copyLogDir(k.DataDir(), filepath.Join(dir, "stopped")); err != nil {
		return nil, nil, err
	}

	if err := k.Start(ctx); err != nil {
		return nil, nil, err
	}
	if err := w.life(ctx); err != nil {
		return nil, nil, err
	}
	open, err := w.openTransaction(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer open.Close()
	if killed, err = w.snapshot(ctx); err != nil {
		return nil, nil, err
	}
	if err := k.Kill(); err != nil {
		return nil, nil, err
	}
	if killed.Dir, err = copyLogDir(k.DataDir(), filepath.Join(dir, "killed")); err != nil {
		return nil, nil, err
	}
	return stopped, killed, nil
}

// Fill creates topics on any Kafka-format server at addr and writes every kind of batch but transactions, in one life. It
// returns the topics, each with one partition.
func Fill(ctx context.Context, addr string, size Size) ([]string, error) {
	w := newWriter(addr, size)
	filled := []string{mixed, stamped}
	if err := w.createTopics(ctx, filled); err != nil {
		return nil, err
	}
	return filled, w.fill(ctx)
}

// Ask records what a server answers about partition 0 of a topic, as far as any Kafka-format server can be asked: bounds,
// batches and records.
func Ask(ctx context.Context, addr, topic string) (*Partition, error) {
	return ask(ctx, addr, topic, asker.bounds, asker.batches, asker.records)
}

// writer writes the records of one life after the other.
type writer struct {
	addr  string
	size  Size
	lives int
	seed  uint64
	shift time.Duration // of the next batch's timestamps
}

func newWriter(addr string, size Size) *writer {
	// Timestamps start two days ago: old enough for many hours' gaps between batches, too young to expire.
	start := time.Now().Truncate(time.Hour).Add(-48 * time.Hour)
	return &writer{addr: addr, size: size, shift: start.Sub(time.UnixMilli(corpus.BaseTimestamp))}
}

func (w *writer) createTopics(ctx context.Context, topics []string) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(w.addr))
	if err != nil {
		return err
	}
	defer c.Close()
	for _, topic := range topics {
		values := map[string]*string{}
		for name, value := range configs {
			values[name] = kadm.StringPtr(value)
		}
		if topic == stamped {
			values["message.timestamp.type"] = kadm.StringPtr("LogAppendTime")
		}
		created, err := kadm.NewClient(c).CreateTopics(ctx, 1, 1, values, topic)
		if err == nil {
			err = created.Error()
		}
		if err != nil {
			return fmt.Errorf("kafkafiles: create %s: %w", topic, err)
		}
	}
	return nil
}

// life writes to every topic.
func (w *writer) life(ctx context.Context) error {
	w.lives++
	if err := w.fill(ctx); err != nil {
		return err
	}
	for range w.size.Batches {
		if err := w.produce(ctx, trimmed); err != nil {
			return err
		}
	}
	if err := w.transactions(ctx); err != nil {
		return err
	}
	return w.trim(ctx)
}

// fill writes batches of every codec, idempotent and not.
func (w *writer) fill(ctx context.Context) error {
	for range w.size.Batches {
		for _, codec := range []kgo.CompressionCodec{
			kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
		} {
			for _, opts := range [][]kgo.Opt{
				{kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1)},
				{},
			} {
				opts = append(opts, kgo.ProducerBatchCompression(codec))
				if err := w.produce(ctx, mixed, opts...); err != nil {
					return err
				}
			}
		}
		w.shift += gap
		if err := w.produce(ctx, stamped, kgo.ProducerBatchCompression(kgo.Lz4Compression())); err != nil {
			return err
		}
	}
	return nil
}

// produce writes one batch of mixed records and waits for its acknowledgement.
func (w *writer) produce(ctx context.Context, topic string, opts ...kgo.Opt) error {
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(w.addr)}, opts...)...)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.ProduceSync(ctx, w.batch(topic)...).FirstErr(); err != nil {
		return fmt.Errorf("kafkafiles: write to %s: %w", topic, err)
	}
	return nil
}

func (w *writer) batch(topic string) []*kgo.Record {
	w.seed++
	var records []*kgo.Record
	for _, r := range corpus.Mixed(w.seed, w.size.Records, corpus.Abilities{}) {
		if w.size.ValueBytes > 0 && len(r.Value) > w.size.ValueBytes {
			r.Value = r.Value[:w.size.ValueBytes]
		}
		record := &kgo.Record{Topic: topic, Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp).Add(w.shift)}
		for _, h := range r.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		records = append(records, record)
	}
	return records
}

// transactions writes one that is committed and one that is aborted, of two producers that overlap.
func (w *writer) transactions(ctx context.Context) error {
	commits, err := w.begin(ctx, "commits")
	if err != nil {
		return err
	}
	defer commits.Close()
	aborts, err := w.begin(ctx, "aborts")
	if err != nil {
		return err
	}
	defer aborts.Close()
	if err := commits.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return fmt.Errorf("kafkafiles: commit: %w", err)
	}
	if err := aborts.EndTransaction(ctx, kgo.TryAbort); err != nil {
		return fmt.Errorf("kafkafiles: abort: %w", err)
	}
	return nil
}

// begin starts a transaction and writes a batch in it. The caller ends it and closes the client.
func (w *writer) begin(ctx context.Context, id string) (*kgo.Client, error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(w.addr), kgo.TransactionalID(id))
	if err != nil {
		return nil, err
	}
	err = c.BeginTransaction()
	if err == nil {
		err = c.ProduceSync(ctx, w.batch(transactional)...).FirstErr()
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("kafkafiles: transaction: %w", err)
	}
	return c, nil
}

func (w *writer) openTransaction(ctx context.Context) (*kgo.Client, error) {
	return w.begin(ctx, "stays-open")
}

// trim moves the start of one log into the middle of a batch.
func (w *writer) trim(ctx context.Context) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(w.addr))
	if err != nil {
		return err
	}
	defer c.Close()
	var to kadm.Offsets
	to.Add(kadm.Offset{Topic: trimmed, Partition: 0, At: int64(w.lives*w.size.Batches*w.size.Records - w.size.Records/2)})
	deleted, err := kadm.NewClient(c).DeleteRecords(ctx, to)
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		return fmt.Errorf("kafkafiles: delete records: %w", err)
	}
	return nil
}

func (w *writer) snapshot(ctx context.Context) (*Snapshot, error) {
	s := &Snapshot{Partitions: map[string]*Partition{}, TakenAt: time.Now().UnixMilli()}
	for _, topic := range topics {
		p, err := ask(ctx, w.addr, topic, everything...)
		if err != nil {
			return nil, err
		}
		s.Partitions[topic+"-0"] = p
	}
	return s, nil
}

// copyLogDir copies the partitions that were written to and the files that describe the whole log directory. It keeps
// the lengths of files, and the holes of those that Kafka reserved.
func copyLogDir(from, to string) (string, error) {
	fail := func(err error) (string, error) { return "", fmt.Errorf("kafkafiles: copy %s: %w", from, err) }
	if err := os.Mkdir(to, 0o755); err != nil {
		return fail(err)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return fail(err)
	}
	for _, e := range entries {
		ours := !e.IsDir() && e.Name() != ".lock" && !strings.HasPrefix(e.Name(), "bootstrap")
		for _, topic := range topics {
			ours = ours || e.Name() == topic+"-0"
		}
		if !ours {
			continue
		}
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		if e.IsDir() {
			err = os.CopyFS(target, os.DirFS(source))
		} else {
			err = copyFile(source, target)
		}
		if err != nil {
			return fail(err)
		}
	}
	return to, nil
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}
