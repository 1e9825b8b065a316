package faultstore

import (
	"context"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tidemark-io/tidemark/objstore"
)

// Fault says what happens to one call. The zero value lets it pass.
type Fault struct {
	// Hook runs before the call, in its goroutine. It may block, which delays the call; it should return when the call's
	// context ends. It may use the store.
	Hook func(ctx context.Context)
	// Err makes the call fail. An error that is or wraps one of the classes of package objstore has that class.
	Err error
	// After lets the whole call happen before Hook and Err: the reply is late, or lost.
	After bool
	// Keys makes single keys of a delete fail; the others are deleted.
	Keys map[string]error
}

func (f Fault) isZero() bool { return f.Hook == nil && f.Err == nil && f.Keys == nil }

// Injector decides about each call before it happens. It must be safe for concurrent use.
type Injector func(Op) Fault

// FailNth fails the n-th call that it sees, counted from 0, once.
func FailNth(n int, err error) Injector { return nth(n, Fault{Err: err}) }

// LoseReply lets the n-th call that it sees happen, counted from 0, and fails it with err.
func LoseReply(n int, err error) Injector { return nth(n, Fault{Err: err, After: true}) }

func nth(n int, fault Fault) Injector {
	var seen atomic.Int64
	return func(Op) Fault {
		if seen.Add(1)-1 == int64(n) {
			return fault
		}
		return Fault{}
	}
}

// FailFrom fails the n-th call that it sees, counted from 0, and every later one: the store is gone.
func FailFrom(n int, err error) Injector {
	var seen atomic.Int64
	return func(Op) Fault {
		if seen.Add(1)-1 >= int64(n) {
			return Fault{Err: err}
		}
		return Fault{}
	}
}

// Always answers every call with the same fault.
func Always(fault Fault) Injector { return func(Op) Fault { return fault } }

// When shows an injector only the calls that match, so that When(Writes, FailNth(n, err)) fails the n-th write.
func When(match func(Op) bool, inject Injector) Injector {
	return func(op Op) Fault {
		if match(op) {
			return inject(op)
		}
		return Fault{}
	}
}

// First shows every injector each call and answers with the first fault that is not zero.
func First(injectors ...Injector) Injector {
	return func(op Op) Fault {
		var first Fault
		for _, inject := range injectors {
			if f := inject(op); first.isZero() {
				first = f
			}
		}
		return first
	}
}

// Writes matches the calls that change the contents of the store.
func Writes(op Op) bool { return op.IsWrite() }

// Matching matches calls of one kind on keys that match the glob, whose language is that of [path.Match]; of a delete
// one key is enough. It panics on a malformed glob.
func Matching(kind objstore.Op, glob string) func(Op) bool {
	matches := func(key string) bool {
		ok, err := path.Match(glob, key)
		if err != nil {
			panic("faultstore: glob " + glob + ": " + err.Error())
		}
		return ok
	}
	matches("")
	return func(op Op) bool {
		return op.Kind == kind && (matches(op.Key) || slices.ContainsFunc(op.Keys, matches))
	}
}

// Allowance is a store that answers a number of calls and throttles those that follow. It is safe for concurrent use.
type Allowance struct{ left atomic.Int64 }

// NewAllowance returns an allowance of n calls.
func NewAllowance(n int) *Allowance {
	a := &Allowance{}
	a.Grant(n)
	return a
}

// Grant allows n calls more.
func (a *Allowance) Grant(n int) { a.left.Add(int64(n)) }

// Inject is an [Injector].
func (a *Allowance) Inject(Op) Fault {
	for {
		left := a.left.Load()
		if left <= 0 {
			return Fault{Err: objstore.ErrThrottled}
		}
		if a.left.CompareAndSwap(left, left-1) {
			return Fault{}
		}
	}
}

// Gate holds calls until the test lets them go, in whatever order it likes. A call whose context ends goes too, and finds
// that out by itself. It is safe for concurrent use.
type Gate struct {
	match   func(Op) bool
	replies bool

	mu struct {
		sync.Mutex
		open    bool
		held    []heldCall
		changed chan struct{} // closed and replaced when a call is added
	}
}

type heldCall struct {
	op      Op
	release chan struct{}
}

// NewGate holds the calls that match before they happen.
func NewGate(match func(Op) bool) *Gate {
	g := &Gate{match: match}
	g.mu.changed = make(chan struct{})
	return g
}

// NewReplyGate lets the calls that match happen and holds their replies.
func NewReplyGate(match func(Op) bool) *Gate {
	g := NewGate(match)
	g.replies = true
	return g
}

// Inject is an [Injector].
func (g *Gate) Inject(op Op) Fault {
	if !g.match(op) {
		return Fault{}
	}
	return Fault{After: g.replies, Hook: func(ctx context.Context) { g.hold(ctx, op) }}
}

func (g *Gate) hold(ctx context.Context, op Op) {
	h := heldCall{op, make(chan struct{})}
	g.mu.Lock()
	if g.mu.open {
		g.mu.Unlock()
		return
	}
	g.mu.held = append(g.mu.held, h)
	close(g.mu.changed)
	g.mu.changed = make(chan struct{})
	g.mu.Unlock()
	select {
	case <-h.release:
	case <-ctx.Done():
		g.Release(op)
	}
}

// Held waits until at least n calls are held, and returns all that are, in the order in which they came.
func (g *Gate) Held(ctx context.Context, n int) ([]Op, error) {
	for {
		g.mu.Lock()
		changed := g.mu.changed
		var ops []Op
		for _, h := range g.mu.held {
			ops = append(ops, h.op)
		}
		g.mu.Unlock()
		if len(ops) >= n {
			return ops, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ops, ctx.Err()
		}
	}
}

// Release lets calls go. Those that are not held are passed over.
func (g *Gate) Release(ops ...Op) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.held = slices.DeleteFunc(g.mu.held, func(h heldCall) bool {
		wanted := slices.ContainsFunc(ops, func(op Op) bool { return op.Index == h.op.Index })
		if wanted {
			close(h.release)
		}
		return wanted
	})
}

// Open lets all calls go, and holds none from now on.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.open = true
	for _, h := range g.mu.held {
		close(h.release)
	}
	g.mu.held = nil
}
