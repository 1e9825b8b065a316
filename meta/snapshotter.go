package meta

import (
	"context"
	"errors"
)

// A snapshot above largeSnapshot waits until the entries behind the last one come to a quarter of it, but not longer than
// for mostIntervals: to write it again for little would cost more than to read those entries at the next start.
const (
	largeSnapshot = 1 << 20
	mostIntervals = 64
)

// asideFrom is the size from which a snapshot is encoded and stored aside, while the log continues. To encode a smaller
// one takes less than the sync of an entry.
const asideFrom = 8 << 20

// aside is a snapshot that is being encoded and stored on a goroutine of its own. The state is immutable, so entries that are
// applied meanwhile do not touch it.
type aside struct {
	index    uint64
	logBytes int64               // of the entries between the last snapshot and this one
	done     chan storedSnapshot // receives once
}

// storedSnapshot is what came of a snapshot.
type storedSnapshot struct {
	bytes int
	err   error
}

// snapshotIfDue stores the state and truncates the log, if enough entries have gone by, we hold the lease, and nobody else is the
// coordinator. The snapshot is of the state at hand, so nothing that is truncated can be missing from it: a holder whose lease
// expired without its knowing would store the same bytes, or older ones, which the backend ignores.
func (p *proposer) snapshotIfDue(ctx context.Context) error {
	if err := p.finishAside(ctx); err != nil {
		return err
	}
	if err := p.mend(ctx); err != nil || p.mended != nil {
		return err
	}
	lease := p.log.lease
	if p.aside != nil || p.state.index < p.snapshotDue || p.isTooSoon() || !p.state.isLedBy(lease.node, lease.term.Load()) {
		return nil
	}
	p.snapshotDue = p.state.index + p.log.o.SnapshotEvery
	if err := lease.hold(ctx); err != nil {
		return p.postpone(err)
	}
	if p.snapshotBytes+p.logBytes < asideFrom {
		bytes, err := p.store(ctx, p.state)
		return p.stored(ctx, p.state.index, storedSnapshot{bytes, err})
	}
	a := &aside{index: p.state.index, logBytes: p.logBytes, done: make(chan storedSnapshot, 1)}
	p.aside, p.logBytes = a, 0
	go func(s *State) {
		bytes, err := p.store(ctx, s)
		a.done <- storedSnapshot{bytes, err}
	}(p.state)
	return nil
}

// mend stores the state of a damaged snapshot, which was made again, in its place: the next snapshot would put the damaged one in
// the place of the older, which is whole. It needs no lease: whoever stores that state stores the same bytes. While it cannot be
// done no other snapshot is taken.
func (p *proposer) mend(ctx context.Context) error {
	if p.mended == nil || p.state.index < p.mendDue {
		return nil
	}
	bytes, err := p.store(ctx, p.mended)
	if err != nil {
		p.mendDue = p.state.index + p.log.o.SnapshotEvery/8 + 1
		return p.postpone(err)
	}
	p.log.o.Events.Snapshotted(SnapshotEvent{Index: p.mended.index, Bytes: bytes})
	p.snapshotBytes, p.mended = int64(bytes), nil
	return nil
}

func (p *proposer) isTooSoon() bool {
	return p.snapshotsOwed == 0 && p.snapshotBytes > largeSnapshot && 4*p.logBytes < p.snapshotBytes &&
		p.state.index < p.snapshotDue+(mostIntervals-1)*p.log.o.SnapshotEvery
}

// store encodes a state and stores it. It touches nothing of the proposer's.
func (p *proposer) store(ctx context.Context, s *State) (bytes int, err error) {
	data := s.EncodeSnapshot()
	return len(data), p.log.backend.PutSnapshot(ctx, s.index, data)
}

// asideDone is the channel on which a snapshot that is stored aside reports, nil if there is none.
func (p *proposer) asideDone() <-chan storedSnapshot {
	if p.aside == nil {
		return nil
	}
	return p.aside.done
}

// finishAside does what is left of a snapshot that was stored aside, if it has been.
func (p *proposer) finishAside(ctx context.Context) error {
	select {
	case done := <-p.asideDone():
		return p.settleAside(ctx, done)
	default:
		return nil
	}
}

func (p *proposer) settleAside(ctx context.Context, done storedSnapshot) error {
	a := p.aside
	if p.aside = nil; done.err != nil {
		p.logBytes += a.logBytes
	}
	return p.stored(ctx, a.index, done)
}

// awaitAside returns once nothing is stored aside any more.
func (p *proposer) awaitAside() {
	if p.aside != nil {
		<-p.aside.done
		p.aside = nil
	}
}

// stored truncates the log after a snapshot was stored, and says so.
func (p *proposer) stored(ctx context.Context, index uint64, done storedSnapshot) error {
	if done.err != nil {
		return p.postpone(done.err)
	}
	if p.snapshotsOwed > 0 {
		if p.snapshotsOwed--; p.snapshotsOwed > 0 {
			p.snapshotDue = index + 1
		}
	}
	if p.snapshotBytes = int64(done.bytes); p.state.index == index {
		p.logBytes = 0
	}
	through, err := p.log.backend.Truncate(ctx)
	if err != nil {
		return p.postpone(err)
	}
	p.log.o.Events.Snapshotted(SnapshotEvent{Index: index, Bytes: done.bytes, Truncated: through})
	return nil
}

// postpone puts a snapshot off that could not be taken now. Any other error is returned.
func (p *proposer) postpone(err error) error {
	switch {
	case errors.Is(err, ErrClaimed):
		return nil
	case transient(err), errors.Is(err, ErrNoSpace):
		p.snapshotDue = p.state.index + p.log.o.SnapshotEvery/8 + 1
		return nil
	}
	return err
}
