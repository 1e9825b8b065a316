package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Report is the outcome of one [Ledger.Verify].
type Report struct {
	Acked      int64 // acknowledgements recorded when the reading began
	Unknown    int64 // records whose fate the writer does not know
	Read       int64 // records that the log holds
	Violations []Violation
}

// Err returns nil when every promise was kept, and otherwise an error that lists the first broken ones.
func (r Report) Err() error {
	if len(r.Violations) == 0 {
		return nil
	}
	const shown = 20
	var b strings.Builder
	fmt.Fprintf(&b, "ledger: %d broken promises (acknowledged %d, read %d)", len(r.Violations), r.Acked, r.Read)
	for i, v := range r.Violations {
		if i == shown {
			fmt.Fprintf(&b, "\n  and %d more", len(r.Violations)-shown)
			break
		}
		fmt.Fprintf(&b, "\n  %s", v)
	}
	return fmt.Errorf("%s", b.String())
}

// Verify reads every partition of the topic from its start to its current end and checks it against the ledger. The load
// may continue meanwhile: acknowledgements after the call began are not checked. client holds the options of the clients
// that read. The error says that the server could not be read; broken promises are in the report, with those noticed
// earlier.
func (l *Ledger) Verify(ctx context.Context, client ...kgo.Opt) (Report, error) {
	l.reading.Lock()
	defer l.reading.Unlock()
	report := Report{Acked: l.Acks()}
	promised := l.promised() // before the ends are requested, so that everything promised must lie below them
	starts, ends, err := l.bounds(ctx, client)
	if err != nil {
		return Report{}, err
	}
	checks := map[int32]*check{}
	for p, end := range ends {
		checks[p] = newCheck(l, p, starts[p], end, promised[p])
		checks[p].checkStart(promised[p])
	}
	if err := l.readAll(ctx, client, checks); err != nil {
		return Report{}, err
	}
	for _, c := range checks {
		c.finish()
		report.Read += c.read
	}
	for p := range promised {
		if checks[p] == nil {
			l.Violated(Violation{Partition: p, Offset: -1, What: "the partition is gone"})
		}
	}
	if err := l.checkCommits(ctx, client); err != nil {
		return Report{}, err
	}
	report.Unknown, report.Violations = l.Unknowns(), l.Violations()
	return report, nil
}

// check compares the records of one partition with what was promised before the reading began.
type check struct {
	ledger    *Ledger
	partition int32
	start     int64
	end       int64
	promised  map[int64]entry // not read yet
	next      int64           // the next expected offset
	last      map[int]int64   // the last number of each writer that was read, or was deleted before the start
	read      int64
}

func newCheck(l *Ledger, p int32, start, end int64, of promise) *check {
	c := &check{ledger: l, partition: p, start: start, end: end, promised: of.entries, next: start, last: of.before}
	if c.last == nil {
		c.last = map[int]int64{} // a partition without promises
	}
	maps.DeleteFunc(c.promised, func(offset int64, _ entry) bool { return offset < start && offset < of.deleting })
	return c
}

// done reports whether everything below the end was read.
func (c *check) done() bool { return c.next >= c.end }

func (c *check) violated(offset int64, format string, args ...any) {
	c.ledger.Violated(Violation{Partition: c.partition, Offset: offset, What: fmt.Sprintf(format, args...)})
}

// record checks the next record of the partition. Those at or above the end are ignored.
func (c *check) record(r *kgo.Record) {
	if r.Offset >= c.end {
		return
	}
	if r.Offset != c.next {
		c.violated(c.next, "a hole: the next record is at %d", r.Offset)
	}
	c.next = r.Offset + 1
	c.read++
	c.ledger.Seen(r) // notices a wrong content and a second copy
	delete(c.promised, r.Offset)
	id, err := ParseID(r.Key)
	if err != nil {
		return
	}
	if before, any := c.last[id.Writer]; any && before >= id.Seq {
		c.violated(r.Offset, "%s follows %s", id, ID{Writer: id.Writer, Seq: before})
	}
	c.last[id.Writer] = id.Seq
}

// finish reports promised records that were not read.
func (c *check) finish() {
	for _, offset := range sortedOffsets(c.promised) {
		e := c.promised[offset]
		what := "shown to a reader"
		if e.acked {
			what = "acknowledged"
		}
		c.violated(offset, "%s was %s and is gone; the log is [%d, %d)", e.id, what, c.start, c.end)
	}
}

func sortedOffsets(m map[int64]entry) []int64 {
	return slices.Sorted(maps.Keys(m))
}

// bounds returns the first offset and the next offset of every partition.
func (l *Ledger) bounds(ctx context.Context, client []kgo.Opt) (starts, ends map[int32]int64, err error) {
	c, err := kgo.NewClient(crashOptions(client)...)
	if err != nil {
		return nil, nil, fmt.Errorf("ledger: %w", err)
	}
	defer c.Close()
	admin := kadm.NewClient(c)
	list := func(ask func(context.Context, ...string) (kadm.ListedOffsets, error)) (map[int32]int64, error) {
		listed, err := ask(ctx, l.topic)
		if err == nil {
			err = listed.Error()
		}
		if err != nil {
			return nil, fmt.Errorf("ledger: offsets of %s: %w", l.topic, err)
		}
		offsets := map[int32]int64{}
		listed.Each(func(o kadm.ListedOffset) { offsets[o.Partition] = o.Offset })
		return offsets, nil
	}
	if starts, err = list(admin.ListStartOffsets); err != nil {
		return nil, nil, err
	}
	if ends, err = list(admin.ListEndOffsets); err != nil {
		return nil, nil, err
	}
	return starts, ends, nil
}

// readAll feeds each partition's check from its start up to its end.
func (l *Ledger) readAll(ctx context.Context, client []kgo.Opt, checks map[int32]*check) error {
	open := 0
	from := map[int32]kgo.Offset{}
	for p, c := range checks {
		if !c.done() {
			from[p] = kgo.NewOffset().At(c.start)
			open++
		}
	}
	if open == 0 {
		return nil
	}
	c, err := kgo.NewClient(append(crashOptions(client),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.topic: from}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(100*time.Millisecond),
	)...)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	defer c.Close()
	for open > 0 {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("ledger: reading %s back, %s: %w", l.topic, progress(checks), err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			check := checks[r.Partition]
			if check == nil || check.done() {
				return
			}
			if check.record(r); check.done() {
				open--
			}
		})
	}
	return nil
}

// progress describes how far each partition was read.
func progress(checks map[int32]*check) string {
	var b strings.Builder
	for i, p := range slices.Sorted(maps.Keys(checks)) {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "partition %d at %d of %d", p, checks[p].next, checks[p].end)
	}
	return b.String()
}
