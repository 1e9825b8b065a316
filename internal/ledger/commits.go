package ledger

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// commit is what a group's members know of its offset in one partition.
type commit struct {
	tried int64 // the furthest that was sent
	acked int64 // the furthest that was acknowledged
}

// Commit records that a group's offsets are about to be stored, calls ask, which sends the request, and records whether
// it was acknowledged. The offsets of a partition must not decrease from one call to the next.
func (l *Ledger) Commit(group string, offsets map[int32]int64, ask func() error) {
	each := func(note func(c *commit, offset int64)) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.mu.commits[group] == nil {
			l.mu.commits[group] = map[int32]*commit{}
		}
		for p, offset := range offsets {
			if l.mu.commits[group][p] == nil {
				l.mu.commits[group][p] = &commit{}
			}
			note(l.mu.commits[group][p], offset)
		}
	}
	each(func(c *commit, offset int64) { c.tried = max(c.tried, offset) })
	if ask() == nil {
		each(func(c *commit, offset int64) { c.acked = max(c.acked, offset) })
		l.tell()
	}
}

// WaitCommit blocks until an offset of a group was acknowledged or ctx ends, whose error it returns.
func (l *Ledger) WaitCommit(ctx context.Context, group string) error {
	return l.wait(ctx, func() error {
		for _, c := range l.mu.commits[group] {
			if c.acked > 0 {
				return nil
			}
		}
		return fmt.Errorf("no offset of group %s", group)
	})
}

// commits returns a copy of every group's commits so far.
func (l *Ledger) commits() map[string]map[int32]commit {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]map[int32]commit{}
	for group, offsets := range l.mu.commits {
		all[group] = map[int32]commit{}
		for p, c := range offsets {
			all[group][p] = *c
		}
	}
	return all
}

// checkCommits checks the stored offsets of every group against the ledger.
func (l *Ledger) checkCommits(ctx context.Context, client []kgo.Opt) error {
	before := l.commits()
	if len(before) == 0 {
		return nil
	}
	c, err := kgo.NewClient(crashOptions(client)...)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	defer c.Close()
	for group := range before {
		stored, err := kadm.NewClient(c).FetchOffsets(ctx, group)
		if err == nil {
			err = stored.Error()
		}
		if err != nil {
			return fmt.Errorf("ledger: the offsets of group %s: %w", group, err)
		}
		found := map[int32]int64{}
		stored.Each(func(o kadm.OffsetResponse) {
			if o.Topic == l.topic {
				found[o.Partition] = o.At
			}
		})
		l.checkGroup(group, before[group], found, l.commits()[group])
	}
	return nil
}

// checkGroup checks that stored offsets lie between those acknowledged before the query and those sent until after it.
func (l *Ledger) checkGroup(group string, before map[int32]commit, stored map[int32]int64, after map[int32]commit) {
	for p, c := range after {
		offset := max(stored[p], 0) // -1 is none
		switch {
		case offset < before[p].acked:
			l.Violated(Violation{Partition: p, Offset: offset, What: fmt.Sprintf(
				"the stored offset of group %s; one of %d was acknowledged", group, before[p].acked)})
		case offset > c.tried:
			l.Violated(Violation{Partition: p, Offset: offset, What: fmt.Sprintf(
				"the stored offset of group %s; none above %d was sent", group, c.tried)})
		}
	}
}

// shown returns, for each partition, the offset after the last record that a reader was shown.
func (l *Ledger) shown() map[int32]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	offsets := map[int32]int64{}
	for p, b := range l.mu.books {
		if b.shown > 0 {
			offsets[p] = b.shown
		}
	}
	return offsets
}

// commitsBetween is the minimum number of acknowledgements between two commits of a load.
const commitsBetween = 20

// commit repeatedly commits the positions of the readers.
func (l *Load) commit(ctx context.Context, c *kgo.Client, group string) {
	admin := kadm.NewClient(c)
	for l.ledger.WaitAcks(ctx, l.ledger.Acks()+commitsBetween) == nil {
		shown := l.ledger.shown()
		offsets := kadm.Offsets{}
		for p, offset := range shown {
			offsets.AddOffset(l.ledger.topic, p, offset, -1)
		}
		l.ledger.Commit(group, shown, func() error { return admin.CommitAllOffsets(ctx, group, offsets) })
	}
}
