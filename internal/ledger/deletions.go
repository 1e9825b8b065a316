package ledger

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Delete writes down that the records of a partition below an offset are to be deleted, calls ask, which asks the server
// for it and returns the partition's new start, and writes down what it was told. Until ask has returned nobody knows;
// from then on, if there was no error, the records must be gone for good. It blocks while a [Ledger.Verify] goes on.
func (l *Ledger) Delete(partition int32, below int64, ask func() (start int64, err error)) {
	l.reading.Lock()
	defer l.reading.Unlock()
	l.mu.Lock()
	b := l.bookLocked(partition)
	b.deleting = max(b.deleting, below)
	l.mu.Unlock()
	start, err := ask()
	if err != nil {
		return // it may have happened or not
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if start < below {
		l.mu.violations = append(l.mu.violations, Violation{Partition: partition, Offset: start,
			What: fmt.Sprintf("the deletion of what is below %d was acknowledged with a start below that", below)})
	}
	b.deleted = max(b.deleted, below)
	b.forget(b.deleted)
}

// forget drops the entries below an offset, and keeps of them what still binds: the last number of each writer.
func (b *book) forget(below int64) {
	for offset, e := range b.at {
		if offset >= below {
			continue
		}
		if last, any := b.before[e.id.Writer]; !any || last < e.id.Seq {
			b.before[e.id.Writer] = e.id.Seq
		}
		delete(b.at, offset)
		delete(b.where, e.id)
	}
}

// start holds where the log starts against what was asked for and what was acknowledged.
func (c *check) checkStart(of promise) {
	switch {
	case c.start < of.deleted:
		c.violated(c.start, "the log starts here, and the deletion of what is below %d was acknowledged", of.deleted)
	case c.start > of.deleting:
		c.violated(of.deleting, "the log starts at %d, and nobody asked for the deletion of this", c.start)
	}
}

// trim deletes, again and again, all but the newest keep records of each partition.
func (l *Load) trim(ctx context.Context, c *kgo.Client, keep int64) {
	admin := kadm.NewClient(c)
	for next := l.ledger.Acks() + keep; l.ledger.WaitAcks(ctx, next) == nil; next = l.ledger.Acks() + keep {
		ends, err := admin.ListEndOffsets(ctx, l.ledger.topic)
		if err != nil {
			continue // the server is away
		}
		ends.Each(func(end kadm.ListedOffset) {
			below := end.Offset - keep
			if end.Err != nil || below <= 0 {
				return
			}
			l.ledger.Delete(end.Partition, below, func() (int64, error) {
				offsets := kadm.Offsets{}
				offsets.AddOffset(l.ledger.topic, end.Partition, below, -1)
				answers, err := admin.DeleteRecords(ctx, offsets)
				if err != nil {
					return 0, err
				}
				answer, _ := answers.Lookup(l.ledger.topic, end.Partition)
				return answer.LowWatermark, answer.Err
			})
		})
	}
}
