package node

import (
	"context"
	"sync"
)

// loops are goroutines that nobody waits for, and that end together. The zero value has none.
type loops struct {
	mu     sync.Mutex
	life   context.Context
	cancel context.CancelFunc
	begun  map[string]bool // by name; nil: none has begun
	all    sync.WaitGroup
	closed bool
}

// begin starts a loop, unless one of its name has begun, or the end has come. It runs until its context ends.
func (l *loops) begin(name string, run func(life context.Context)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.begun[name] {
		return
	}
	if l.begun == nil {
		l.life, l.cancel = context.WithCancel(context.Background())
		l.begun = map[string]bool{}
	}
	l.begun[name] = true
	life := l.life
	l.all.Go(func() { run(life) })
}

// end ends all loops, for good, and waits for them.
func (l *loops) end() {
	l.mu.Lock()
	l.closed = true
	cancel := l.cancel
	l.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	l.all.Wait()
}
