package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// consumeFlags are the flags of `tidemark consume`.
type consumeFlags struct {
	from       string
	until      string
	untilEnd   bool
	partitions []int32
	max        int64
	keys       bool
	headers    bool
	format     string
	null       string
	committed  bool
}

func newConsume() *cobra.Command {
	var f consumeFlags
	c := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Read records to standard output, one a line",
		Long: `Read records to standard output, one a line, from the start, and go on as new ones arrive. With --until or --until-end
it stops when everything before that place was read, also where nothing but markers of transactions or what compaction left
is at the end; what was the end when the command began is the end.

--from and --until are each one of: ` + placeHelp + `

--format writes records as kcat's -f does:
` + formatHelp,
		Example: `  tidemark consume orders --until-end
  tidemark consume orders --from -1h --until now --output json
  tidemark consume orders --partition 3 --from 4711 --max 1 --keys
  tidemark consume orders -e -f '%p/%o at %T: %k=%s\n'`,
		Args: exactly("TOPIC"),
	}
	client := addClientFlags(c)
	c.ValidArgsFunction = onlyFirst(client.completeTopics)
	c.Flags().StringVar(&f.from, "from", "start", "`PLACE` to start at, see above")
	c.Flags().StringVar(&f.until, "until", "", "`PLACE` to stop before; without it new records are waited for")
	c.Flags().BoolVarP(&f.untilEnd, "until-end", "e", false, "the same as --until end")
	c.Flags().Int32SliceVarP(&f.partitions, "partition", "p", nil, "partitions to read, `N,...`; all unless given")
	c.Flags().Int64VarP(&f.max, "max", "n", 0, "stop after this many records; 0 has no limit")
	c.Flags().BoolVarP(&f.keys, "keys", "k", false, "print the key and a tab before each value")
	c.Flags().BoolVar(&f.headers, "headers", false, "print headers and a tab before each value")
	c.Flags().StringVarP(&f.format, "format", "f", "", "`FORMAT`: how to write a record, see above")
	c.Flags().StringVarP(&f.null, "null", "Z", "", "`TEXT` to print for null")
	c.Flags().BoolVar(&f.committed, "read-committed", false, "only records of committed transactions")
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		span, err := f.span(c, time.Now())
		if err != nil {
			return err
		}
		format, err := f.recordFormat(c)
		if err != nil {
			return err
		}
		return f.run(c, client, args[0], span, format, asJSON)
	}
	return c
}

// span is where to read, before it is known what there is.
type span struct {
	from, until place
	bounded     bool
}

func (f *consumeFlags) span(c *cobra.Command, now time.Time) (span, error) {
	var s span
	var err error
	if s.from, err = parsePlace(c, "from", f.from, now); err != nil {
		return s, err
	}
	until := f.until
	if f.untilEnd {
		if until != "" {
			return s, usagef(c, "--until and --until-end exclude each other")
		}
		until = "end"
	}
	if until == "" {
		return s, nil
	}
	s.bounded = true
	s.until, err = parsePlace(c, "until", until, now)
	return s, err
}

// recordFormat is how text is written: as --format says, or as the simpler flags do.
func (f *consumeFlags) recordFormat(c *cobra.Command) (recordFormat, error) {
	text := f.format
	if text == "" {
		if f.headers {
			text += `%h\t`
		}
		if f.keys {
			text += `%k\t`
		}
		text += `%s\n`
	} else if f.keys || f.headers {
		return nil, usagef(c, "--format says everything: leave out --keys and --headers")
	}
	format, err := parseFormat(text, f.null)
	if err != nil {
		return nil, usagef(c, "--format cannot be %q: %v\n%s", f.format, err, formatHelp)
	}
	return format, nil
}

func (f *consumeFlags) run(c *cobra.Command, client *clientFlags, topic string, s span, format recordFormat, asJSON bool) error {
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
	r, err := f.reader(ctx, kc, topic, s)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(c.OutOrStdout(), 64<<10)
	r.print = printer(out, format, asJSON)
	err = r.run(ctx, out)
	if errors.Is(err, context.Canceled) {
		err = nil // the user ended it
	}
	return errors.Join(explain("topic", topic, err), out.Flush())
}

// reader resolves where to read in every partition that is asked for.
func (f *consumeFlags) reader(ctx context.Context, kc *kgo.Client, topic string, s span) (*recordReader, error) {
	about, err := topicDetail(ctx, kadm.NewClient(kc), topic)
	if err != nil {
		return nil, err
	}
	partitions, err := chosen(about, f.partitions)
	if err != nil {
		return nil, err
	}
	readable, err := extents(ctx, kc, topic, partitions, f.committed)
	if err != nil {
		return nil, err
	}
	from, err := s.from.resolve(ctx, kc, topic, readable)
	if err != nil {
		return nil, err
	}
	if err := checkOffset(topic, s.from, readable); err != nil {
		return nil, err
	}
	r := &recordReader{kc: kc, topic: topic, next: from, max: f.max, probe: newProber(kc, about, f.committed)}
	if s.bounded {
		until, err := s.until.resolve(ctx, kc, topic, readable)
		if err != nil {
			return nil, err
		}
		r.ends = ends(from, until, readable)
	}
	r.begin(readable)
	return r, nil
}

// chosen are the partitions to read: those that are asked for, which must exist, or all.
func chosen(about kadm.TopicDetail, asked []int32) ([]int32, error) {
	all := sortedKeys(about.Partitions)
	if len(asked) == 0 {
		return all, nil
	}
	for _, p := range asked {
		if _, ok := about.Partitions[p]; !ok {
			return nil, fmt.Errorf("topic %q has partitions 0 to %d, not %d", about.Topic, len(all)-1, p)
		}
	}
	return asked, nil
}

// checkOffset refuses an offset that no partition has reached: waiting for it in silence helps nobody.
func checkOffset(topic string, from place, readable map[int32]extent) error {
	if from.kind != atOffset {
		return nil
	}
	var furthest int64
	for _, e := range readable {
		furthest = max(furthest, e.End)
	}
	if from.n > furthest {
		return fmt.Errorf("topic %q: offset %d is beyond the end, which is %d", topic, from.n, furthest)
	}
	return nil
}

// ends is up to where each partition is read, without those in which nothing is to be read.
func ends(from, until map[int32]int64, readable map[int32]extent) map[int32]int64 {
	out := make(map[int32]int64, len(from))
	for p, e := range readable {
		if end := min(until[p], e.End); max(from[p], e.Start) < end {
			out[p] = end
		}
	}
	return out
}

// printer returns the function that writes one record.
func printer(w io.Writer, format recordFormat, asJSON bool) func(*kgo.Record) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return func(r *kgo.Record) error { return enc.Encode(newJSONRecord(r)) }
	}
	var line []byte
	return func(r *kgo.Record) error {
		line = format.append(line[:0], r)
		_, err := w.Write(line)
		return err
	}
}
