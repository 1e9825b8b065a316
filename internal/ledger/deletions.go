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

// send writes down that a record that is sent again until it is answered is under way.
func (l *Ledger) send(id ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.sending[id] = l.mu.ends
}

// sent writes down that it is not under way any more.
func (l *Ledger) sent(id ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.mu.sending, id)
}

// settled returns how far a partition may be deleted without touching what is under way: a first copy of it, of which the
// answer was lost, can only stand behind what was there when it was sent. A log that loses records may lose with them what
// it knew of their producer, in Kafka too, and would take the second copy for a first.
func (l *Ledger) settled(partition int32) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	below := l.mu.ends[partition]
	for _, ends := range l.mu.sending {
		below = min(below, ends[partition])
	}
	return below
}

// trim deletes, again and again, all but the newest keep records of each partition, and what is not settled.
func (l *Load) trim(ctx context.Context, c *kgo.Client, keep int64) {
	admin := kadm.NewClient(c)
	for next := l.ledger.Acks() + keep; l.ledger.WaitAcks(ctx, next) == nil; next = l.ledger.Acks() + keep {
		ends, err := admin.ListEndOffsets(ctx, l.ledger.topic)
		if err != nil {
			continue // the server is away
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
