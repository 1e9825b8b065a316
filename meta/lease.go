package meta

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// lease is this process's hold on [LeaseKey]. Who holds it takes snapshots and truncates, cleans up after all nodes, and
// looks after those that have died. Nothing breaks when two nodes believe that they hold it: what they do is guarded where it
// is done.
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

func (l *lease) release() {
	l.asking.Lock()
	defer l.asking.Unlock()
	if claim := l.claim.Swap(nil); claim != nil {
		claim.Release()
	}
}

// Leads reports whether this process holds the lease, by what it knows now. It does not wait.
func (l *Log) Leads() bool { return l.lease.held() }

// Lead asks for the lease and holds it until it is lost or the log is closed. [ErrClaimed]: another node has it.
func (l *Log) Lead(ctx context.Context) error {
	if err := l.Err(); err != nil {
		return err
	}
	return l.lease.hold(ctx)
}
