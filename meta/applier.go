package meta

import (
	"context"
	"errors"
)

// catchUp applies everything that is in the log, and waits for a backend that is away.
func (p *proposer) catchUp(ctx context.Context) error { return p.retry(ctx, p.advance) }

// advance applies the entries up to the head. When those are gone it continues from the newest snapshot.
func (p *proposer) advance(ctx context.Context) error {
	head, err := p.log.backend.Head(ctx)
	if err != nil {
		return err
	}
	if head < p.state.index {
		return &GapError{Where: p.log.backend.String(), Want: p.state.index, Head: head}
	}
	for p.state.index < head {
		entries, err := p.log.backend.Read(ctx, p.state.index+1, readBatch)
		switch {
		case errors.Is(err, ErrTruncated):
			err = p.jump(ctx, head)
		case err == nil && len(entries) == 0:
			err = &GapError{Where: p.log.backend.String(), Want: p.state.index + 1, Head: head}
		}
		if err != nil {
			return err
		}
		for _, data := range entries {
			if err := p.applyBytes(p.state.index+1, data); err != nil {
				return err
			}
		}
	}
	return nil
}

// jump replaces the state by the newest snapshot, since the entries after it are gone.
func (p *proposer) jump(ctx context.Context, head uint64) error {
	before := p.state.index
	if err := p.loadSnapshot(ctx); err != nil {
		return err
	}
	if p.state.index <= before {
		return &GapError{Where: p.log.backend.String(), Want: before + 1, Head: head}
	}
	if g := p.inflight; g != nil && g.index != 0 && g.index <= p.state.index {
		p.settleUnknown(g) // whether it was among the entries that are gone cannot be learned
	}
	p.log.publishView(p.state)
	return nil
}

// loadSnapshot takes over the newest snapshot if it is ahead of the state. One that is damaged is rebuilt from the
// older one, if all entries since are there (F41).
func (p *proposer) loadSnapshot(ctx context.Context) error {
	index, s, bytes, err := newestSnapshot(ctx, p.log.backend)
	if err != nil && index == 0 {
		return err
	}
	due := index + p.log.o.SnapshotEvery
	if index > p.state.index && isDamaged(err) {
		if s, err = p.fallBack(ctx, index, err); p.snapshotsOwed > 0 {
			due = index + 1
		}
	}
	p.snapshotDue = max(p.snapshotDue, due)
	if index <= p.state.index || err != nil {
		return err
	}
	p.state = s
	p.snapshotBytes, p.logBytes = int64(bytes), 0
	return nil
}

// applyBytes decodes the entry at index and applies it. An entry that cannot be read stops the log: to pass over it would
// fork this node from the others.
func (p *proposer) applyBytes(index uint64, data []byte) error {
	e, err := DecodeEntry(data)
	if err != nil {
		return &CorruptError{Where: p.log.backend.String(), Item: "log entry", Index: index, Err: err}
	}
	p.apply(index, e, len(data))
	return nil
}

// apply applies an entry, publishes the state, and answers the callers if the entry is the group in flight.
func (p *proposer) apply(index uint64, e Entry, bytes int) {
	next, results := p.state.Apply(index, e)
	p.state = next
	p.logBytes += int64(bytes)
	p.log.publishView(next)
	g := p.inflight
	own := g != nil && !g.settled && e.Node == p.log.o.Node && e.NodeEpoch == g.epoch && e.Nonce == g.nonce
	if own {
		p.noteEpoch(e, results)
		p.settleGroup(g, results)
	}
	p.log.o.Events.Applied(AppliedEvent{Index: index, Bytes: bytes, Commands: len(results), Rejected: rejected(results), Own: own})
}

// noteEpoch remembers the epoch that our own registration was given; later entries carry it.
func (p *proposer) noteEpoch(e Entry, results []Result) {
	for i, c := range e.Commands {
		if reg, ok := c.(RegisterNode); ok && reg.Node == p.log.o.Node && results[i].Code == OK {
			p.epoch = int64(results[i].ID)
		}
	}
}

// settleGroup hands the results to the callers and answers those that have all of theirs.
func (p *proposer) settleGroup(g *group, results []Result) {
	g.settled = true
	for _, s := range g.shares {
		s.r.results = append(s.r.results, results[:s.n]...)
		results = results[s.n:]
		if len(s.r.results) == len(s.r.commands) {
			s.r.answer(nil)
		}
	}
}

// settleUnknown reports to the callers that it is unknown whether their commands are in the log.
func (p *proposer) settleUnknown(g *group) {
	g.settled = true
	for _, s := range g.shares {
		p.forget(s.r, ErrOutcomeUnknown)
	}
}

func rejected(results []Result) int {
	n := 0
	for _, r := range results {
		if r.Code != OK {
			n++
		}
	}
	return n
}
