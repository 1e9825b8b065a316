package meta

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrNotLeading says that this process does not hold the metadata lease, or that another one has registered as the
// coordinator since it got it.
var ErrNotLeading = errors.New("meta: the metadata lease is held by another process or by none")

// lease is this process's hold on [LeaseKey]. Who holds it takes snapshots and truncates (this package does), removes destroyed
// objects of all nodes, compacts those of nodes that have died, and takes over their logs (the node does, if it has streams).
//
// From [LevelTables] on the key alone does not make a holder: it also has to be the coordinator, the last one that registered
// itself in the log (MP-9). A process that was paused, and believes that it still has the key, reads there that another one has
// registered, and stops. Nothing breaks when two believe that they hold it for a while: what they do is guarded where it is done.
type lease struct {
	backend Backend
	node    int32

	asking sync.Mutex  // held while the backend is asked
	left   *time.Timer // until it fires the key is left to others; nil if it is not
	claim  atomic.Pointer[heldClaim]
	term   atomic.Int64 // the coordinator's epoch that this process registered last, or is registering; 0 if none
}

type heldClaim struct{ Claim }

// hold makes sure that the key is held. [ErrClaimed]: another node has it, or it is left to others.
func (l *lease) hold(ctx context.Context) error {
	l.asking.Lock()
	defer l.asking.Unlock()
	if l.held() {
		return nil
	}
	if l.isLeft() {
		return fmt.Errorf("%w: it is left to others for a while", ErrClaimed)
	}
	claim, err := l.backend.Claim(ctx, LeaseKey, l.value())
	if err != nil {
		return err
	}
	l.claim.Store(&heldClaim{claim})
	return nil
}

// value is what the key says of its holder.
func (l *lease) value() []byte { return fmt.Append(nil, l.node) }

// held reports whether the key is held, as far as this process can tell without asking anybody.
func (l *lease) held() bool {
	claim := l.claim.Load()
	if claim == nil {
		return false
	}
	select {
	case <-claim.Lost():
		return false
	default:
		return true
	}
}

// isOurs asks the backend whether the key says that this node has it.
func (l *lease) isOurs(ctx context.Context) (bool, error) {
	claims, err := l.backend.Claims(ctx, LeaseKey)
	return string(claims[LeaseKey]) == string(l.value()), err
}

// lost is closed when the claim that is held now is lost.
func (l *lease) lost() <-chan struct{} {
	if claim := l.claim.Load(); claim != nil {
		return claim.Lost()
	}
	none := make(chan struct{})
	close(none)
	return none
}

// isLeft reports whether the key is left to others. The caller holds asking.
func (l *lease) isLeft() bool {
	if l.left == nil {
		return false
	}
	select {
	case <-l.left.C:
		l.left = nil
		return false
	default:
		return true
	}
}

// release releases the key.
func (l *lease) release() {
	l.asking.Lock()
	defer l.asking.Unlock()
	l.releaseLocked()
}

// leave releases the key, and leaves it to others for a while.
func (l *lease) leave(pause time.Duration) {
	l.asking.Lock()
	defer l.asking.Unlock()
	l.left = time.NewTimer(pause)
	l.releaseLocked()
}

func (l *lease) releaseLocked() {
	if claim := l.claim.Swap(nil); claim != nil {
		claim.Release()
	}
}

// stand lets the key be requested again.
func (l *lease) stand() {
	l.asking.Lock()
	defer l.asking.Unlock()
	l.left = nil
}

// isLedBy reports whether a process of a node, which registered under a term, may do the duties of the lease's holder as far as
// the log says: from [LevelTables] on the coordinator may, and anybody until there is one.
func (s *State) isLedBy(node int32, term int64) bool {
	return s.level < LevelTables || s.coordinator == Coordinator{} || s.coordinator == Coordinator{Epoch: term, Node: node}
}

// Leads reports whether this process holds the lease, as far as it knows, and no other one is the coordinator: it may do the
// duties of the holder. It does not wait.
func (l *Log) Leads() bool { return l.lease.held() && l.View().isLedBy(l.o.Node, l.lease.term.Load()) }

// CoordinatorEpoch returns the epoch that commands of the coordinator carry, such as [LeadBucket]: 0 if none was registered
// yet. leads is false if this process is not the one that leads.
func (l *Log) CoordinatorEpoch() (epoch int64, leads bool) {
	view := l.View()
	if !l.lease.held() || !view.isLedBy(l.o.Node, l.lease.term.Load()) {
		return 0, false
	}
	return view.coordinator.Epoch, true
}

// ConfirmLead reads the log to its head, and returns nil if this process still leads by what is in it then. Before [LevelTables]
// that says no more than [Log.Leads]. The error is [ErrNotLeading], or why the log could not be read. It is for what a process
// that was paused should not begin.
func (l *Log) ConfirmLead(ctx context.Context) error {
	if !l.Leads() {
		return ErrNotLeading
	}
	head, err := l.backend.Head(ctx)
	if err == nil {
		_, err = l.WaitApplied(ctx, head)
	}
	if err == nil && !l.Leads() {
		err = ErrNotLeading
	}
	return err
}

// WhileLeading returns a context that ends with the parent, or with the cause [ErrNotLeading] when this process no longer leads:
// the lease is lost, or another process has registered as the coordinator. The caller calls end.
func (l *Log) WhileLeading(parent context.Context) (ctx context.Context, end context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	lost, ended := l.lease.lost(), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			changed := l.Changes()
			if !l.Leads() {
				cancel(ErrNotLeading)
				return
			}
			select {
			case <-changed:
			case <-lost: // the key may be held again by now; what began under the earlier hold ends with it
				cancel(ErrNotLeading)
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() {
		cancel(context.Canceled)
		<-ended
	}
}

// Lead requests the key of the lease and holds it until it is lost, resigned or the log is closed. [ErrClaimed]: another node
// has it, or it was resigned. From [LevelTables] on a [Member] does the rest: it registers the process as the coordinator.
func (l *Log) Lead(ctx context.Context) error {
	if err := l.Err(); err != nil {
		return err
	}
	return l.lease.hold(ctx)
}

// Resign releases the lease, if this process holds it, and leaves it to others for a while: for a holder that cannot do its
// duties where others may. While the backend is unreachable it waits no longer than a request takes.
func (l *Log) Resign(pause time.Duration) { l.lease.leave(pause) }

// Candidate ends what is left of a pause after [Log.Resign]: the lease may be requested again.
func (l *Log) Candidate() { l.lease.stand() }
