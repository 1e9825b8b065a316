package command

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// produceFlags are the flags of `tidemark produce`.
type produceFlags struct {
	input          string
	delimiter      string
	key            string
	keyDelimiter   string
	nullValue      string
	tombstone      bool
	headers        []string
	partition      int32
	keepPartitions bool
	acks           string
	compression    string
	maxBytes       int32
}

func newProduce() *cobra.Command {
	var f produceFlags
	c := &cobra.Command{
		Use:   "produce TOPIC [FILE...]",
		Short: "Write records from standard input, one a line, or one from each file",
		Long: `Write records from standard input, one a line, and wait until the server has acknowledged them all. If files are named,
each becomes one record. With --acks all, the default, an acknowledged record is on disk.

--input json takes one JSON object a line with the fields that 'tidemark consume --output json' writes: key, value
(null, text, or JSON taken as it is), key_base64, value_base64, headers, timestamp, partition.`,
		Example: `  echo hello | tidemark produce greetings
  printf 'k1:v1\nk2:v2\n' | tidemark produce pairs --key-delimiter :
  tidemark produce logs --compression zstd < app.log
  tidemark produce users --key alice --tombstone
  tidemark consume orders -e -o json | tidemark produce copy --input json`,
		Args: atLeastOne("TOPIC"),
	}
	client := addClientFlags(c)
	c.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault // files
		}
		return client.completeTopics(c, args, typed)
	}
	addWordFlag(c, &f.input, "input", "i", "what is read from standard input", "lines", "json")
	c.Flags().StringVarP(&f.delimiter, "delimiter", "D", `\n`, "what ends a record, with escapes such as \\0")
	nameValue(c.Flags(), "delimiter", "TEXT")
	c.Flags().StringVarP(&f.key, "key", "k", "", "give every record this `KEY` (default none)")
	c.Flags().StringVarP(&f.keyDelimiter, "key-delimiter", "K", "", "each line is a key, this `TEXT` and a value (default only a value)")
	c.Flags().StringVarP(&f.nullValue, "null", "Z", "", "take a value of this `TEXT` for null, a tombstone")
	c.Flags().BoolVar(&f.tombstone, "tombstone", false, "write one record with the --key and a null value, and read nothing")
	c.Flags().StringArrayVarP(&f.headers, "header", "H", nil, "give every record this header; may be repeated")
	nameValue(c.Flags(), "header", "NAME=VALUE")
	c.Flags().Int32VarP(&f.partition, "partition", "p", -1, "write to partition `N`; -1 lets the key decide")
	c.Flags().BoolVar(&f.keepPartitions, "keep-partitions", false, "write to the partitions that JSON records name")
	addProducerFlags(c, &f.acks, &f.compression)
	c.Flags().Int32Var(&f.maxBytes, "max-bytes", maxBatchBytes, "the largest batch; a larger record is refused")
	nameValue(c.Flags(), "max-bytes", "BYTES")
	c.RunE = func(c *cobra.Command, args []string) error {
		opts, err := f.options(c, args[0])
		if err != nil {
			return err
		}
		records, err := f.records(c, args[1:])
		if err != nil {
			return err
		}
		kc, err := client.connect(c.Context(), opts...)
		if err != nil {
			return err
		}
		defer kc.Close()
		written, err := produceAll(c.Context(), kc, records)
		if isTerminal(c.ErrOrStderr()) || err != nil {
			fmt.Fprintf(c.ErrOrStderr(), "%s acknowledged\n", plural(written, "record"))
		}
		return explain("topic", args[0], err)
	}
	return c
}

// maxBatchBytes is the default size limit of a producer's batches: kgo's default, which fits into the default of
// max.message.bytes.
const maxBatchBytes = 1_000_012

// addProducerFlags adds the flags that all producers have.
func addProducerFlags(c *cobra.Command, acks, compression *string) {
	addWordFlag(c, acks, "acks", "", "who acknowledges a record: all replicas, the leader, or nobody", "all", "1", "0")
	addWordFlag(c, compression, "compression", "z", "the codec of batches", "none", "gzip", "snappy", "lz4", "zstd")
}

// options converts the flags to client options.
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
	if f.partition >= 0 || f.keepPartitions {
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

// produceAll writes records until there are no more and returns how many were acknowledged. It stops at the first failure
// and returns it.
func produceAll(ctx context.Context, kc *kgo.Client, records iter.Seq2[*kgo.Record, error]) (int64, error) {
	var acknowledged atomic.Int64
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for r, err := range records {
		if err != nil {
			cancel(err)
		}
		if ctx.Err() != nil {
			break
		}
		kc.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				cancel(err)
				return
			}
			acknowledged.Add(1)
		})
	}
	if err := kc.Flush(ctx); err != nil {
		cancel(err)
	}
	return acknowledged.Load(), context.Cause(ctx)
}
