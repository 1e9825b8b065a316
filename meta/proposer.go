package meta

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// readBatch is how many entries are read at once.
const readBatch = 64

// Waits between attempts at a backend that does not answer: doubled from the first to the last.
const (
	firstBackoff = 10 * time.Millisecond
	lastBackoff  = time.Second
)

// request is one call of Propose.
type request struct {
	commands [][]byte // encoded
	next     int      // the first command that is in no entry yet
	results  []Result
	err      error
	answered chan struct{} // closed when results and err are final
	state    atomic.Int32  // waiting, taken or withdrawn
	dropped  bool          // answered with an error; the commands that are left are not proposed
}

const (
	requestWaiting   = 0
	requestTaken     = 1
	requestWithdrawn = 2
)

// take claims the request for proposing. It fails if the caller has gone.
func (r *request) take() bool { return r.state.CompareAndSwap(requestWaiting, requestTaken) }

// withdraw takes back a request that nobody has taken.
func (r *request) withdraw() bool { return r.state.CompareAndSwap(requestWaiting, requestWithdrawn) }

func (r *request) answer(err error) {
	r.err = err
	close(r.answered)
}

// share is a run of a request's commands in one entry.
type share struct {
	r *request
	n int
}

// group is the entry that is being proposed.
type group struct {
	nonce    uint64
	epoch    int64
	commands [][]byte
	size     int
	shares   []share
	index    uint64 // where it was last proposed; 0 before the first attempt
	settled  bool   // applied here, or its outcome can no longer be learned
}

// proposer is the log's one goroutine: it applies what is in the log and appends what callers propose. Everything in it
// belongs to that goroutine.
type proposer struct {
	log   *Log
	state *State
	nonce uint64 // of the next entry
	epoch int64  // our node's epoch, once an entry of ours registered it

	queue    []*request // taken, with commands left, oldest first
	inflight *group

	snapshotDue   uint64 // the index at which the next snapshot is taken
	mended        *State // of the newest snapshot, which is damaged: it is stored in its place before another one is
	mendDue       uint64 // the index before which that is not tried again
	snapshotsOwed int    // how many are taken one after the other, whatever their size, until both that are kept can be read
	snapshotBytes int64  // of the last one
	logBytes      int64  // of the entries behind it
	aside         *aside // a large snapshot that is being stored, if any
}

// load brings the state to the head, for Open.
func (p *proposer) load(ctx context.Context) error {
	if err := p.retry(ctx, p.loadSnapshot); err != nil {
		return err
	}
	if err := p.catchUp(ctx); err != nil {
		return err
	}
	p.log.view.Store(p.state)
	return nil
}

// run serves until ctx ends or the log cannot continue.
func (p *proposer) run(ctx context.Context) {
	serving, end := context.WithCancel(ctx)
	err := p.serve(serving)
	if ctx.Err() != nil {
		err = ErrClosed
	}
	end()
	p.awaitAside()
	p.log.lease.release()
	p.log.err = err
	if !errors.Is(err, ErrClosed) {
		p.log.o.Events.Stopped(err)
	}
	p.abandon(err)
	close(p.log.done)
}

func (p *proposer) serve(ctx context.Context) error {
	if err := p.mend(ctx); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case r := <-p.log.requests:
			p.enqueue(r)
			if err := p.proposeAll(ctx); err != nil {
				return err
			}
		case <-p.log.backend.Notify():
			if err := p.catchUp(ctx); err != nil {
				return err
			}
		case done := <-p.asideDone():
			if err := p.settleAside(ctx, done); err != nil {
				return err
			}
		}
		if err := p.snapshotIfDue(ctx); err != nil {
			return err
		}
	}
}

// abandon answers everybody who still waits. What was proposed may be in.
func (p *proposer) abandon(err error) {
	if p.inflight != nil {
		for _, s := range p.inflight.shares {
			p.forget(s.r, fmt.Errorf("%w: %w", err, ErrOutcomeUnknown))
		}
	}
	for _, r := range p.queue {
		if r.next > 0 {
			p.forget(r, fmt.Errorf("%w: %w", err, ErrOutcomeUnknown))
		} else {
			p.forget(r, err)
		}
	}
}

// forget answers a request with an error, unless it has its answer.
func (p *proposer) forget(r *request, err error) {
	if r.dropped || len(r.results) == len(r.commands) {
		return
	}
	r.dropped = true
	r.results = nil
	r.answer(err)
}

func (p *proposer) enqueue(r *request) {
	if r.take() {
		p.queue = append(p.queue, r)
	}
}

// drain takes what other callers are waiting to hand over, until an entry could be full.
func (p *proposer) drain() {
	for waiting := 0; waiting < MaxCommands; {
		select {
		case r := <-p.log.requests:
			p.enqueue(r)
			waiting += len(r.commands)
		default:
			return
		}
	}
}

// proposeAll proposes entries until no caller waits.
func (p *proposer) proposeAll(ctx context.Context) error {
	for {
		p.drain()
		g := p.nextGroup()
		if len(g.commands) == 0 {
			return nil
		}
		p.nonce++
		p.inflight = g
		if err := p.settle(ctx, g); err != nil {
			return err
		}
		p.inflight = nil
		if err := p.snapshotIfDue(ctx); err != nil {
			return err
		}
	}
}

// nextGroup takes commands from the queue, in order, as many as fit in one entry.
func (p *proposer) nextGroup() *group {
	g := &group{nonce: p.nonce, epoch: p.epoch, size: entryHeaderSize + crcSize}
	for len(p.queue) > 0 {
		r, n := p.queue[0], 0
		if r.dropped {
			p.queue = p.queue[1:]
			continue
		}
		for r.next < len(r.commands) && len(g.commands) < MaxCommands {
			c := r.commands[r.next]
			if g.size+len(c) > p.log.o.MaxEntryBytes {
				break
			}
			g.commands = append(g.commands, c)
			g.size += len(c)
			r.next++
			n++
		}
		if n > 0 {
			g.shares = append(g.shares, share{r, n})
		}
		if r.next < len(r.commands) {
			break
		}
		p.queue = p.queue[1:]
	}
	return g
}

// settle appends a group and returns when it is applied here. A lost reply, a lost race and a backend that is away are
// all met in the same way: read what is in the log; if the group is not there, append it at the next free index. As
// long as that index stays free the bytes are the same each time, so no attempt that arrives late can put it in twice.
func (p *proposer) settle(ctx context.Context, g *group) error {
	var data []byte
	var entry Entry
	unsure := false // an attempt may still arrive
	return p.retry(ctx, func(ctx context.Context) (err error) {
		if g.settled {
			return nil
		}
		if next := p.state.index + 1; g.index != next {
			g.index = next
			if data, entry, err = p.frame(g); err != nil {
				return err
			}
		}
		appendErr := p.log.backend.Append(ctx, g.index, data)
		if appendErr == nil {
			p.apply(g.index, entry, len(data))
			return nil
		}
		if errors.Is(appendErr, ErrNoSpace) {
			if !unsure {
				p.refuse(g, appendErr)
				return nil
			}
			appendErr = fmt.Errorf("%w: %w", ErrUnavailable, appendErr)
		}
		if !transient(appendErr) {
			return appendErr
		}
		unsure = unsure || errors.Is(appendErr, ErrOutcomeUnknown)
		if err := p.advance(ctx); err != nil || g.settled {
			return err
		}
		if p.state.index >= g.index {
			return errAgain // the index went to somebody else
		}
		return appendErr
	})
}

// refuse answers the callers of a group that was not appended and never will be.
func (p *proposer) refuse(g *group, err error) {
	g.settled = true
	for _, s := range g.shares {
		if len(s.r.results) > 0 { // in an earlier entry
			p.forget(s.r, fmt.Errorf("%w: %w", err, ErrOutcomeUnknown))
		} else {
			p.forget(s.r, err)
		}
	}
}

// frame returns a group's entry as bytes and as decoded from them: what cannot be read back is never appended.
func (p *proposer) frame(g *group) ([]byte, Entry, error) {
	e := Entry{Node: p.log.o.Node, NodeEpoch: g.epoch, Nonce: g.nonce, NowMs: p.log.o.Now().UnixMilli()}
	data := e.frame(g.commands)
	e, err := DecodeEntry(data)
	if err != nil {
		return nil, Entry{}, fmt.Errorf("meta: an entry of our own does not decode: %w", err)
	}
	return data, e, nil
}

// errAgain asks retry for another attempt without a wait.
var errAgain = errors.New("meta: again")

// retry calls f until it succeeds or fails permanently, and waits between attempts. f must be safe to repeat.
func (p *proposer) retry(ctx context.Context, f func(context.Context) error) error {
	backoff := firstBackoff
	for attempt := 1; ; attempt++ {
		err := f(ctx)
		switch {
		case errors.Is(err, errAgain):
			continue
		case !transient(err):
			return err
		}
		p.log.o.Events.Retrying(RetryEvent{Err: err, Attempt: attempt, After: backoff})
		if err := wait(ctx, backoff); err != nil {
			return err
		}
		backoff = min(2*backoff, lastBackoff)
	}
}

// transient reports whether an error of the backend may be gone at the next attempt.
func transient(err error) bool {
	return errors.Is(err, ErrConflict) || errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrUnavailable)
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
