package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-io/tidemark/coordinator"
)

// checkpoint is everything that a shard holds, on its way into the log once more.
type checkpoint struct {
	shard *shard
	end   int64           // of the log before it
	last  Pending         // of what was appended; nil if nothing was
	stay  map[string]bool // keys of the unknown records that the log does not take again: they are read where they are
	done  Checkpointed
}

// checkpointIfDue writes out the shard's whole state when a start would have to read much more than that. The error is
// that the log has ended.
func (s *shard) checkpointIfDue() error {
	if s.appended < max(s.runner.options.CheckpointBytes, 2*s.held) || s.groups.Transactions() > 0 {
		return nil // offsets of an open transaction are only in the log
	}
	c := &checkpoint{shard: s, end: s.log.End(), stay: map[string]bool{}}
	c.done = Checkpointed{Partition: s.partition, From: c.end}
	s.appended = 0
	if err := c.write(); err != nil {
		s.held, s.appended = max(s.held, s.appended), 0 // what was written in vain must not make the next one due
		c.done.Records, c.done.Err = 0, err
		s.runner.options.Events.Checkpointed(c.done)
		if errors.Is(err, ErrEnded) {
			return err
		}
		return nil
	}
	s.held, s.appended = s.appended, 0
	if c.last == nil { // there is no state left
		return nil
	}
	s.flying = append(s.flying, flight{pending: c.last, then: c.trim})
	return nil
}

// write appends everything.
func (c *checkpoint) write() error {
	s := c.shard
	if err := c.note(s.appendPairs(s.unknown.pairs(), c.carry)); err != nil {
		return err
	}
	if len(c.stay) > 0 && c.done.From <= s.start {
		return fmt.Errorf("the record at offset %d is of an unknown type and fits into no segment: a start reads from there on", c.done.From)
	}
	c.done.Records = len(s.unknown) - len(c.stay)
	for _, group := range s.groups.Records() {
		if err := c.note(s.appendPairs(encoded(group), c.carry)); err != nil {
			return err
		}
		c.done.Records += len(group)
	}
	return nil
}

// note remembers what was appended last.
func (c *checkpoint) note(p Pending, err error) error {
	if p != nil {
		c.last = p
	}
	return err
}

// carry appends a record that is larger than a batch may be by now. One of an unknown type that the log does not accept stays where it
// is, and so does the start.
func (c *checkpoint) carry(ctx context.Context, ms int64, record KeyValue) (Pending, error) {
	p, err := c.shard.log.Carry(ctx, ms, record)
	unknown, found := c.shard.unknown[string(record.Key)]
	if !found || !errors.Is(err, coordinator.ErrRecordTooLarge) {
		return p, err
	}
	c.stay[string(record.Key)] = true
	c.done.From = min(c.done.From, unknown.at)
	return nil, nil
}

// trim lets starts read from a durable checkpoint. Failing to do so only costs time at a start.
func (c *checkpoint) trim() {
	s := c.shard
	if c.done.Err = s.log.Trim(c.done.From); c.done.Err == nil {
		s.start = c.done.From
		s.unknown.movedTo(c.end, c.stay)
	}
	s.runner.options.Events.Checkpointed(c.done)
}
