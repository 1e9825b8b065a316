package meta

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// lease is this process's hold on [LeaseKey]. The holder takes snapshots and truncates (this package does), removes
// destroyed objects of all nodes, compacts those of dead nodes, and takes over their logs (the node does, if it has
// streams). Nothing breaks if two nodes believe that they hold it: each of these actions is guarded where it is done.
type lease struct {
	backend Backend
	node    int32

	asking sync.Mutex // held while the backend is asked
	claim  atomic.Pointer[heldClaim]
}

type heldClaim struct{ Claim }

// hold makes sure that the lease is held. [ErrClaimed]: another node has it.
func (l *lease) hold(ctx context.Context) error {
	l.asking.Lock()
	defer l.asking.Unlock()
	if l.held() {
		return nil
	}
	claim, err := l.backend.Claim(ctx, LeaseKey, fmt.Append(nil, l.node))
	if err != nil {
		return err
	}
	l.claim.Store(&heldClaim{claim})
	return nil
}

// held reports whether the lease is held, as far as this process can tell without asking anybody.
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

// lost is closed when the claim that is held now is lost.
func (l *lease) lost() <-chan struct{} {
	if claim := l.claim.Load(); claim != nil {
		return claim.Lost()
	}
	none := make(chan struct{})
	close(none)
	return none
}

func (l *lease) release() {
	l.asking.Lock()
	defer l.asking.Unlock()
	if claim := l.claim.Swap(nil); claim != nil {
		claim.Release()
	}
}

// Leads reports whether this process holds the lease, as far as it knows. It does not wait.
func (l *Log) Leads() bool { return l.lease.held() }

// Lead requests the lease and holds it until it is lost or the log is closed. [ErrClaimed]: another node has it.
func (l *Log) Lead(ctx context.Context) error {
	if err := l.Err(); err != nil {
		return err
	}
	return l.lease.hold(ctx)
}

// LeadLost returns a channel that is closed when the lease that this process holds now is lost. It is closed already when the
// process holds none.
func (l *Log) LeadLost() <-chan struct{} { return l.lease.lost() }
