package command

import (
	"bufio"
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// recordReader polls until it has read the requested range.
type recordReader struct {
	kc    *kgo.Client
	topic string
	next  map[int32]int64 // next offset of each partition; nothing before it is printed
	ends  map[int32]int64 // partitions still to reach their end; nil reads forever
	max   int64
	seen  int64
	probe *prober
	print func(*kgo.Record) error
}

// quietTime is how long a poll may bring nothing before the reader checks whether anything is left.
const quietTime = 200 * time.Millisecond

// begin starts fetching every requested partition. Fetching starts within the readable range, even if an offset outside
// was requested.
func (r *recordReader) begin(readable map[int32]extent) {
	offsets := map[int32]kgo.Offset{}
	for p, from := range r.next {
		if _, open := r.ends[p]; open || r.ends == nil {
			offsets[p] = kgo.NewOffset().At(min(max(from, readable[p].Start), readable[p].End))
		}
	}
	r.kc.AddConsumePartitions(map[string]map[int32]kgo.Offset{r.topic: offsets})
}

// run reads, prints and returns when every end is reached, max records were printed, or ctx is done. Output is flushed
// before each wait, so that a follower sees records as they come.
func (r *recordReader) run(ctx context.Context, out *bufio.Writer) error {
	for r.ends == nil || len(r.ends) > 0 {
		fetches, err := r.poll(ctx)
		if err != nil {
			return err
		}
		done, err := r.printAll(fetches)
		if err != nil || done {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		if r.ends != nil && fetches.Empty() {
			if err := r.dropEmpty(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// poll waits for records: until some come, or for quietTime when there is an end to reach.
func (r *recordReader) poll(ctx context.Context) (kgo.Fetches, error) {
	wait, cancel := ctx, context.CancelFunc(func() {})
	if r.ends != nil {
		wait, cancel = context.WithTimeout(ctx, quietTime)
	}
	defer cancel()
	fetches := r.kc.PollFetches(wait)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if wait.Err() != nil && fetches.NumRecords() == 0 {
		return nil, nil
	}
	return fetches, firstError(fetches)
}

// dropEmpty drops the partitions that have nothing more before their end.
func (r *recordReader) dropEmpty(ctx context.Context) error {
	for p, end := range r.ends {
		empty, err := r.probe.empty(ctx, p, r.next[p], end)
		if err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
		if empty {
			delete(r.ends, p)
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

// printAll prints the records of one poll, up to each partition's end, and reports whether max records were printed.
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

// wants reports whether a record is in its partition's range, and drops the partition after its last one.
func (r *recordReader) wants(record *kgo.Record) bool {
	if record.Offset < r.next[record.Partition] {
		return false
	}
	r.next[record.Partition] = record.Offset + 1
	if r.ends == nil {
		return true
	}
	end, open := r.ends[record.Partition]
	if record.Offset >= end-1 {
		delete(r.ends, record.Partition)
	}
	return open && record.Offset < end
}
