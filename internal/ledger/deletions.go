package ledger

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Delete records that the records of a partition below an offset are about to be deleted, calls ask, which sends the
// request and returns the partition's new start, and records the answer. Until ask returns the outcome is unknown;
// afterwards, without an error, the records must be gone for good. It blocks during a [Ledger.Verify].
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

// forget drops the entries below an offset, and keeps the part of them that still binds: the last number of each writer.
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

// checkStart checks the start of the log against the requested and the acknowledged deletions.
func (c *check) checkStart(of promise) {
	switch {
	case c.start < of.deleted:
		c.violated(c.start, "the log starts here, and the deletion of what is below %d was acknowledged", of.deleted)
	case c.start > of.deleting:
		c.violated(of.deleting, "the log starts at %d, and nobody asked for the deletion of this", c.start)
	}
}

// send records that a record, which is resent until it is answered, is in flight.
func (l *Ledger) send(id ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.sending[id] = l.mu.ends
}

// sent records that it is no longer in flight.
func (l *Ledger) sent(id ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.mu.sending, id)
}

// settled returns how far a partition may be deleted without touching records in flight: a first copy of one, whose
// answer was lost, can only lie behind the log end at its sending. A log that loses records may lose what it knew of
// their producer with them, in Kafka too, and would accept the second copy as new.
func (l *Ledger) settled(partition int32) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	below := l.mu.ends[partition]
	for _, ends := range l.mu.sending {
		below = min(below, ends[partition])
	}
	return below
}

// trim repeatedly deletes all but the newest keep records of each partition, except what is not settled.
func (l *Load) trim(ctx context.Context, c *kgo.Client, keep int64) {
	admin := kadm.NewClient(c)
	for next := l.ledger.Acks() + keep; l.ledger.WaitAcks(ctx, next) == nil; next = l.ledger.Acks() + keep {
		ends, err := admin.ListEndOffsets(ctx, l.ledger.topic)
		if err != nil {
			continue // the server is down
		}
		ends.Each(func(end kadm.ListedOffset) {
			below := min(end.Offset-keep, l.ledger.settled(end.Partition))
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
