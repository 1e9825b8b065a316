package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
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
		Long: `Read records to standard output, one a line, from the start, and wait for new ones. With --until or --until-end it stops
once everything before that PLACE has been read. The end is where it was when the command began.

` + placeHelp + `

--format prints records as kcat's -f does:
` + formatHelp,
		Example: `  tidemark consume orders --until-end
  tidemark consume orders --from -1h --until now --output json
  tidemark consume orders --partition 3 --from 4711 --max 1 --keys
  tidemark consume orders -e -f '%p/%o at %T: %k=%s\n'`,
		Args: exactly("TOPIC"),
	}
	client := addClientFlags(c)
	c.ValidArgsFunction = onlyFirst(client.completeTopics)
	c.Flags().StringVar(&f.from, "from", "start", "where to start")
	nameValue(c.Flags(), "from", "PLACE")
	c.Flags().StringVar(&f.until, "until", "", "stop before this `PLACE` (default wait for new records)")
	c.Flags().BoolVarP(&f.untilEnd, "until-end", "e", false, "the same as --until end")
	c.Flags().Int32SliceVarP(&f.partitions, "partition", "p", nil, "partitions to read (default all)")
	nameValue(c.Flags(), "partition", "N,...")
	c.Flags().Int64VarP(&f.max, "max", "n", 0, "stop after `N` records; 0 is no limit")
	c.Flags().BoolVarP(&f.keys, "keys", "k", false, "print the key and a tab before each value")
	c.Flags().BoolVar(&f.headers, "headers", false, "print the headers and a tab before each value")
	c.Flags().StringVarP(&f.format, "format", "f", "", "how to print a record, see above")
	nameValue(c.Flags(), "format", "FORMAT")
	c.Flags().StringVarP(&f.null, "null", "Z", "", "print `TEXT` for null")
	c.Flags().BoolVar(&f.committed, "read-committed", false, "read only records of committed transactions")
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

// span is the requested range, before the partitions' offsets are known.
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

// recordFormat returns the format of text output: that of --format, or the one that the simpler flags make.
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
	// Control records are requested so that the end of a partition that ends in one is noticed; they are not printed.
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

// reader resolves the range in every requested partition.
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

// ends returns where reading stops in each partition. Partitions with nothing to read are left out.
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
