package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// produceFlags are the flags of `tidemark produce`.
type produceFlags struct {
	key          string
	keyDelimiter string
	nullValue    string
	headers      []string
	partition    int32
	acks         string
	compression  string
	maxBytes     int32
}

func newProduce() *cobra.Command {
	var f produceFlags
	c := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Write records from standard input, one a line",
		Long: `Write records from standard input, one a line, and wait until the server has acknowledged them all.
With acks=all, the default, an acknowledged record is on disk.`,
		Example: `  echo hello | tidemark produce greetings
  printf 'k1:v1\nk2:v2\n' | tidemark produce pairs --key-delimiter :
  tidemark produce logs --compression zstd < app.log`,
		Args: exactly("TOPIC"),
	}
	client := addClientFlags(c)
	c.Flags().StringVarP(&f.key, "key", "k", "", "key of every record (none unless given)")
	c.Flags().StringVarP(&f.keyDelimiter, "key-delimiter", "K", "", "what separates key and value on a line")
	c.Flags().StringVar(&f.nullValue, "null", "", "a value that stands for null, a tombstone")
	c.Flags().StringArrayVarP(&f.headers, "header", "H", nil, "header of every record, `NAME=VALUE`; may be repeated")
	c.Flags().Int32VarP(&f.partition, "partition", "p", -1, "partition to write to; -1 lets the key decide")
	c.Flags().StringVar(&f.acks, "acks", "all", "all, 1 or 0")
	c.Flags().StringVarP(&f.compression, "compression", "z", "none", "none, gzip, snappy, lz4 or zstd")
	c.Flags().Int32Var(&f.maxBytes, "max-bytes", 1000012, "largest batch, in bytes; a larger record is refused")
	c.RunE = func(c *cobra.Command, args []string) error {
		opts, err := f.options(c, args[0])
		if err != nil {
			return err
		}
		headers, err := parseHeaders(c, f.headers)
		if err != nil {
			return err
		}
		kc, err := client.connect(c.Context(), opts...)
		if err != nil {
			return err
		}
		defer kc.Close()
		written, err := produceLines(c.Context(), kc, c.InOrStdin(), f.recordMaker(c, headers))
		if isTerminal(c.ErrOrStderr()) || err != nil {
			fmt.Fprintf(c.ErrOrStderr(), "%s record(s) acknowledged\n", count(written))
		}
		return explain("topic", args[0], err)
	}
	return c
}

// options turns the flags into what the client is made with.
func (f *produceFlags) options(c *cobra.Command, topic string) ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.DefaultProduceTopic(topic),
		kgo.AllowAutoTopicCreation(),
		kgo.ProducerBatchMaxBytes(f.maxBytes),
		kgo.UnknownTopicRetries(3),
	}
	codecs := map[string]kgo.CompressionCodec{
		"none":   kgo.NoCompression(),
		"gzip":   kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(),
		"lz4":    kgo.Lz4Compression(),
		"zstd":   kgo.ZstdCompression(),
	}
	codec, ok := codecs[f.compression]
	if !ok {
		return nil, usagef(c, "--compression is none, gzip, snappy, lz4 or zstd, not %q", f.compression)
	}
	opts = append(opts, kgo.ProducerBatchCompression(codec))
	switch f.acks {
	case "all", "-1":
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	default:
		return nil, usagef(c, "--acks is all, 1 or 0, not %q", f.acks)
	}
	if f.partition >= 0 {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	return opts, nil
}

func parseHeaders(c *cobra.Command, words []string) ([]kgo.RecordHeader, error) {
	var headers []kgo.RecordHeader
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			return nil, usagef(c, "--header wants NAME=VALUE, got %q", word)
		}
		headers = append(headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return headers, nil
}

// recordMaker returns the function that makes a record of a line.
func (f *produceFlags) recordMaker(c *cobra.Command, headers []kgo.RecordHeader) func(line string) (*kgo.Record, error) {
	keyGiven, nullGiven := c.Flags().Changed("key"), c.Flags().Changed("null")
	return func(line string) (*kgo.Record, error) {
		r := &kgo.Record{Headers: headers, Partition: f.partition}
		value := line
		if keyGiven {
			r.Key = []byte(f.key)
		}
		if f.keyDelimiter != "" {
			key, rest, ok := strings.Cut(line, f.keyDelimiter)
			if !ok {
				return nil, fmt.Errorf("no key delimiter %q in line %q", f.keyDelimiter, line)
			}
			r.Key, value = []byte(key), rest
		}
		if !nullGiven || value != f.nullValue {
			r.Value = []byte(value)
		}
		return r, nil
	}
}

// produceLines writes one record a line until the input ends and returns how many were acknowledged. After the first
// failure it reads no more and returns it.
func produceLines(
	ctx context.Context, kc *kgo.Client, in io.Reader, record func(string) (*kgo.Record, error),
) (int64, error) {
	var acknowledged atomic.Int64
	var once sync.Once
	var failure error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fail := func(err error) {
		once.Do(func() { failure = err; cancel() })
	}
	reader := bufio.NewReaderSize(in, 1<<20)
	for ctx.Err() == nil {
		line, err := reader.ReadString('\n')
		if line != "" {
			r, err := record(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"))
			if err != nil {
				fail(err)
				break
			}
			kc.Produce(ctx, r, func(_ *kgo.Record, err error) {
				if err != nil {
					fail(err)
					return
				}
				acknowledged.Add(1)
			})
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fail(fmt.Errorf("reading standard input: %w", err))
		}
	}
	if err := kc.Flush(ctx); err != nil {
		fail(err)
	}
	once.Do(func() {})
	return acknowledged.Load(), failure
}
