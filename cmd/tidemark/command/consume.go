package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// consumeFlags are the flags of `tidemark consume`.
type consumeFlags struct {
	from       string
	partitions []int32
	untilEnd   bool
	max        int64
	keys       bool
	headers    bool
	committed  bool
}

func newConsume() *cobra.Command {
	var f consumeFlags
	c := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Read records to standard output, one a line",
		Long: `Read records to standard output, one a line, from the start, and go on as new ones arrive.

--from says where to start: start, end, an offset (4711), that many records before the end (-10), a time
(2026-01-31T08:00:00Z) or an age (-1h).`,
		Example: `  tidemark consume orders --until-end
  tidemark consume orders --from -1h --output json
  tidemark consume orders --partition 3 --from 4711 --max 1 --keys`,
		Args: exactly("TOPIC"),
	}
	client := addClientFlags(c)
	c.Flags().StringVar(&f.from, "from", "start", "where to start, see above")
	c.Flags().Int32SliceVarP(&f.partitions, "partition", "p", nil, "partitions to read; all unless given")
	c.Flags().BoolVarP(&f.untilEnd, "until-end", "e", false, "stop at what was the end when the command began")
	c.Flags().Int64VarP(&f.max, "max", "n", 0, "stop after this many records; 0 has no limit")
	c.Flags().BoolVarP(&f.keys, "keys", "k", false, "print the key and a tab before each value")
	c.Flags().BoolVar(&f.headers, "headers", false, "print headers before each value")
	c.Flags().BoolVar(&f.committed, "read-committed", false, "only records of committed transactions")
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		start, err := parseStart(c, f.from)
		if err != nil {
			return err
		}
		return f.run(c, client, args[0], start, asJSON)
	}
	return c
}

// startPosition is where a consumer begins: resolve gives the offset in one partition.
type startPosition struct {
	offset kgo.Offset
	millis int64 // a time, when byTime
	byTime bool
}

// parseStart reads the --from flag.
func parseStart(c *cobra.Command, word string) (startPosition, error) {
	switch word {
	case "start", "earliest", "beginning":
		return startPosition{offset: kgo.NewOffset().AtStart()}, nil
	case "end", "latest":
		return startPosition{offset: kgo.NewOffset().AtEnd()}, nil
	}
	if n, err := strconv.ParseInt(word, 10, 64); err == nil {
		if n < 0 {
			return startPosition{offset: kgo.NewOffset().AtEnd().Relative(n)}, nil
		}
		return startPosition{offset: kgo.NewOffset().At(n)}, nil
	}
	if age, err := time.ParseDuration(word); err == nil && age <= 0 {
		return startPosition{byTime: true, millis: time.Now().Add(age).UnixMilli()}, nil
	}
	if t, err := time.Parse(time.RFC3339, word); err == nil {
		return startPosition{byTime: true, millis: t.UnixMilli()}, nil
	}
	return startPosition{}, usagef(c, "--from cannot be %q: it is start, end, an offset, -N, a time like %s or an age like -1h",
		word, "2026-01-31T08:00:00Z")
}

func (f *consumeFlags) run(c *cobra.Command, client *clientFlags, topic string, start startPosition, asJSON bool) error {
	ctx := c.Context()
	isolation := kgo.ReadUncommitted()
	if f.committed {
		isolation = kgo.ReadCommitted()
	}
	// Control records are asked for so that a partition that ends in one is seen to end; they are not printed.
	kc, err := client.connect(ctx,
		kgo.FetchIsolationLevel(isolation), kgo.FetchMaxWait(500*time.Millisecond), kgo.KeepControlRecords())
	if err != nil {
		return err
	}
	defer kc.Close()
	admin := kadm.NewClient(kc)
	offsets, err := f.startOffsets(ctx, admin, topic, start)
	if err != nil {
		return err
	}
	var ends map[int32]int64
	if f.untilEnd {
		if ends, err = endOffsets(ctx, admin, topic, offsets, f.committed); err != nil {
			return err
		}
	}
	kc.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets})
	out := bufio.NewWriterSize(c.OutOrStdout(), 64<<10)
	r := &recordReader{kc: kc, topic: topic, ends: ends, max: f.max, print: f.printer(out, asJSON)}
	err = r.run(ctx, out)
	if errors.Is(err, context.Canceled) {
		err = nil // the user ended it
	}
	return errors.Join(explain("topic", topic, err), out.Flush())
}

// startOffsets resolves where to begin in every partition that is asked for.
func (f *consumeFlags) startOffsets(
	ctx context.Context, admin *kadm.Client, topic string, start startPosition,
) (map[int32]kgo.Offset, error) {
	all, err := partitionsOf(ctx, admin, topic)
	if err != nil {
		return nil, err
	}
	wanted := f.partitions
	if len(wanted) == 0 {
		wanted = all
	}
	offsets := make(map[int32]kgo.Offset, len(wanted))
	for _, p := range wanted {
		if p < 0 || int(p) >= len(all) {
			return nil, fmt.Errorf("topic %q has partitions 0 to %d, not %d", topic, len(all)-1, p)
		}
		offsets[p] = start.offset
	}
	if !start.byTime {
		return offsets, nil
	}
	listed, err := admin.ListOffsetsAfterMilli(ctx, start.millis, topic)
	if err != nil {
		return nil, err
	}
	for p := range offsets {
		at, ok := listed.Lookup(topic, p)
		if !ok || at.Err != nil {
			return nil, fmt.Errorf("topic %q partition %d: looking up the time failed: %w", topic, p, at.Err)
		}
		offsets[p] = kgo.NewOffset().At(at.Offset)
	}
	return offsets, nil
}

// endOffsets is where each partition ends now, without those that hold nothing to read.
func endOffsets(
	ctx context.Context, admin *kadm.Client, topic string, from map[int32]kgo.Offset, committed bool,
) (map[int32]int64, error) {
	list := admin.ListEndOffsets
	if committed {
		list = admin.ListCommittedOffsets
	}
	listed, err := list(ctx, topic)
	if err != nil {
		return nil, err
	}
	starts, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	ends := make(map[int32]int64, len(from))
	for p, offset := range from {
		end, ok := listed.Lookup(topic, p)
		start, okStart := starts.Lookup(topic, p)
		if !ok || !okStart || end.Err != nil || start.Err != nil {
			return nil, fmt.Errorf("topic %q partition %d: its end is unknown: %w", topic, p, errors.Join(end.Err, start.Err))
		}
		if firstRead(offset, start.Offset, end.Offset) < end.Offset {
			ends[p] = end.Offset
		}
	}
	return ends, nil
}

// firstRead is the offset at which a reader with the given start begins, in a partition that holds [start, end).
func firstRead(o kgo.Offset, start, end int64) int64 {
	epochOffset := o.EpochOffset()
	switch at := epochOffset.Offset; at {
	case -2:
		return start
	case -1:
		return end // relative starts look back from here; the caller reads at least to the end
	default:
		return max(at, start)
	}
}

// recordReader polls until it has read everything it was asked for.
type recordReader struct {
	kc    *kgo.Client
	topic string
	ends  map[int32]int64 // partitions still to reach their end; nil reads for ever
	max   int64
	seen  int64
	print func(*kgo.Record) error
}

// run reads, prints and returns when every end is reached, max records were printed, or ctx is done. What was printed
// is flushed before each wait, so that a follower sees records as they come.
func (r *recordReader) run(ctx context.Context, out *bufio.Writer) error {
	for r.ends == nil || len(r.ends) > 0 {
		fetches := r.kc.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := firstError(fetches); err != nil {
			return err
		}
		done, err := r.printAll(fetches)
		if err != nil || done {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func firstError(fetches kgo.Fetches) error {
	var first error
	fetches.EachError(func(topic string, partition int32, err error) {
		if first == nil {
			first = fmt.Errorf("partition %d: %w", partition, err)
		}
	})
	return first
}

// printAll prints what one poll brought, up to each partition's end, and reports whether max records were printed.
func (r *recordReader) printAll(fetches kgo.Fetches) (done bool, err error) {
	for iter := fetches.RecordIter(); !iter.Done(); {
		record := iter.Next()
		if !r.wants(record) || record.Attrs.IsControl() {
			continue
		}
		if err := r.print(record); err != nil {
			return false, err
		}
		if r.seen++; r.max > 0 && r.seen >= r.max {
			return true, nil
		}
	}
	return false, nil
}

// wants reports whether a record lies below its partition's end, and forgets the partition once its last one is seen.
func (r *recordReader) wants(record *kgo.Record) bool {
	if r.ends == nil {
		return true
	}
	end, open := r.ends[record.Partition]
	if record.Offset >= end-1 {
		delete(r.ends, record.Partition)
	}
	return open && record.Offset < end
}

// printer returns the function that writes one record.
func (f *consumeFlags) printer(w io.Writer, asJSON bool) func(*kgo.Record) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return func(r *kgo.Record) error { return enc.Encode(newJSONRecord(r)) }
	}
	return func(r *kgo.Record) error {
		var b strings.Builder
		if f.headers {
			for _, h := range r.Headers {
				fmt.Fprintf(&b, "%s=%s\t", h.Key, h.Value)
			}
		}
		if f.keys {
			b.Write(r.Key)
			b.WriteByte('\t')
		}
		b.Write(r.Value)
		b.WriteByte('\n')
		_, err := io.WriteString(w, b.String())
		return err
	}
}

// jsonRecord is one line of --output json. Key and value are null when null; bytes that are not UTF-8 are base64 in
// the field with that name.
type jsonRecord struct {
	Partition   int32        `json:"partition"`
	Offset      int64        `json:"offset"`
	Timestamp   int64        `json:"timestamp"`
	Key         *string      `json:"key"`
	KeyBase64   []byte       `json:"key_base64,omitempty"`
	Value       *string      `json:"value"`
	ValueBase64 []byte       `json:"value_base64,omitempty"`
	Headers     []jsonHeader `json:"headers,omitempty"`
}

type jsonHeader struct {
	Name  string  `json:"name"`
	Value *string `json:"value"`
	Bytes []byte  `json:"value_base64,omitempty"`
}

func newJSONRecord(r *kgo.Record) jsonRecord {
	j := jsonRecord{Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli()}
	j.Key, j.KeyBase64 = textOrBytes(r.Key)
	j.Value, j.ValueBase64 = textOrBytes(r.Value)
	for _, h := range r.Headers {
		header := jsonHeader{Name: h.Key}
		header.Value, header.Bytes = textOrBytes(h.Value)
		j.Headers = append(j.Headers, header)
	}
	return j
}

func textOrBytes(b []byte) (*string, []byte) {
	if b == nil {
		return nil, nil
	}
	if !utf8.Valid(b) {
		return nil, b
	}
	s := string(b)
	return &s, nil
}
