package meta

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Options are what a log needs besides its backend. The zero Options are usable.
type Options struct {
	// Now is the clock that stamps entries. The default is time.Now.
	Now func() time.Time
	// Events receive notifications.
	Events Events
	// Node is the id under which entries are proposed.
	Node int32
	// FirstNonce is the first entry's nonce. The default, 0, draws one at random, so that a late entry of an earlier
	// process is never taken for our own.
	FirstNonce uint64
	// SnapshotEvery is the number of entries between two snapshots. The default is 1024.
	SnapshotEvery uint64
	// MaxEntryBytes is the largest entry that is proposed. The default is 1 MiB. Larger ones are still read.
	MaxEntryBytes int
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.FirstNonce == 0 {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		o.FirstNonce = binary.LittleEndian.Uint64(b[:])
	}
	if o.SnapshotEvery == 0 {
		o.SnapshotEvery = 1024
	}
	if o.MaxEntryBytes == 0 {
		o.MaxEntryBytes = 1 << 20
	}
	o.Events = o.Events.withDefaults()
	return o
}

// Log is the metadata log as one node sees it. All methods are safe for concurrent use.
type Log struct {
	backend  Backend
	o        Options
	requests chan *request
	lease    *lease

	view    atomic.Pointer[State]
	publish struct {
		sync.Mutex
		changed chan struct{} // closed and replaced when a view is published
	}

	ctx    context.Context // ends when Close is called
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended
	err    error         // why it ended; read after done
}

// Open reads the newest snapshot and every entry after it and returns the log at the head. It waits for the backend as
// long as ctx allows. A damaged snapshot is rebuilt from the older one, which is reported to [Events], if all entries
// since then exist; otherwise it is a [*CorruptError] with a [*FallbackError] in it. A damaged entry is a
// [*CorruptError], a missing one a [*GapError]; nothing is written then. The caller closes the log first and the
// backend after it.
func Open(ctx context.Context, backend Backend, o Options) (*Log, error) {
	o = o.withDefaults()
	l := &Log{backend: backend, o: o, requests: make(chan *request), done: make(chan struct{})}
	l.lease = &lease{backend: backend, node: o.Node}
	l.publish.changed = make(chan struct{})
	p := &proposer{log: l, state: Empty(), nonce: o.FirstNonce}
	if err := p.load(ctx); err != nil {
		return nil, err
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	go p.run(l.ctx)
	return l, nil
}

// View returns the newest state that was applied here. It does not wait.
func (l *Log) View() *State { return l.view.Load() }

// ClusterID is the identity of the cluster that the log belongs to.
func (l *Log) ClusterID() string { return l.backend.ClusterID() }

// Changes returns a channel that is closed when the next state is published. Take the channel first, then [Log.View],
// then wait on the channel: no change between the two is missed.
func (l *Log) Changes() <-chan struct{} {
	l.publish.Lock()
	defer l.publish.Unlock()
	return l.publish.changed
}

// WaitApplied waits until the entry at index is applied here and returns a state that has it. It fails with ctx, or with
// what stopped the log.
func (l *Log) WaitApplied(ctx context.Context, index uint64) (*State, error) {
	for {
		changed := l.Changes()
		if s := l.View(); s.index >= index {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-l.done:
			return nil, l.err
		}
	}
}

// Propose appends commands and returns one result for each, once they are durable and applied here: [Log.View] has them.
// A rejected command is a result, not an error. Commands of one call keep their order, and entries of other callers may
// come between them if they do not fit in one entry: a call is not a transaction.
//
// The error is [ErrTooLarge], a [*LevelError] or about a bad string when nothing was proposed, ctx's error when ctx ended before the
// commands were taken up, [ErrNoSpace] when there was no space for them and the log continues, and otherwise the reason
// why the log stopped. With [ErrNoSpace], commands of the call in an earlier entry may be in the log; the error then
// matches [ErrOutcomeUnknown] too. After ctx ended later, or after a stop, the error also matches [ErrOutcomeUnknown]:
// some or all of the commands may be in the log.
func (l *Log) Propose(ctx context.Context, commands ...Command) ([]Result, error) {
	if len(commands) == 0 || ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r, err := l.newRequest(commands)
	if err != nil {
		return nil, err
	}
	select {
	case l.requests <- r:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.done:
		return nil, l.err
	}
	select {
	case <-r.answered:
	case <-ctx.Done():
		if r.withdraw() {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w: %w", ctx.Err(), ErrOutcomeUnknown)
	}
	return r.results, r.err
}

// Do proposes one command. The error is that of [Log.Propose], or a [*Rejection] when the command was rejected.
func (l *Log) Do(ctx context.Context, command Command) (Result, error) {
	results, err := l.Propose(ctx, command)
	if err != nil {
		return Result{}, err
	}
	return results[0], results[0].Err()
}

// Done returns a channel that is closed when the log has stopped, by Close or because of an error.
func (l *Log) Done() <-chan struct{} { return l.done }

// Err returns nil while the log runs, [ErrClosed] after Close, and what stopped it otherwise.
func (l *Log) Err() error {
	select {
	case <-l.done:
		return l.err
	default:
		return nil
	}
}

// Close stops the log and waits for its goroutine. Waiting callers get [ErrClosed]. It returns what had stopped the
// log before, if anything did. The backend stays open.
func (l *Log) Close() error {
	l.cancel()
	<-l.done
	if errors.Is(l.err, ErrClosed) {
		return nil
	}
	return l.err
}

func (l *Log) publishView(s *State) {
	l.publish.Lock()
	defer l.publish.Unlock()
	l.view.Store(s)
	close(l.publish.changed)
	l.publish.changed = make(chan struct{})
}

// newRequest encodes the commands, so that what cannot be encoded or does not fit is refused before it is proposed.
func (l *Log) newRequest(commands []Command) (*request, error) {
	r := &request{
		commands: make([][]byte, len(commands)),
		results:  make([]Result, 0, len(commands)),
		answered: make(chan struct{}),
	}
	room := l.o.MaxEntryBytes - entryHeaderSize - crcSize
	for i, c := range commands {
		if err := l.View().checkLevel(c); err != nil {
			return nil, err
		}
		b, err := encodeCommand(c)
		if err != nil {
			return nil, err
		}
		if len(b) > room {
			return nil, fmt.Errorf("%w: %T has %d bytes of at most %d", ErrTooLarge, c, len(b), room)
		}
		r.commands[i] = b
	}
	return r, nil
}
