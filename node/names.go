package node

import "sync"

// nameLocks lets one topic name change at a time: the directories of two topics of one name are the same.
type nameLocks struct {
	mu   sync.Mutex
	held map[string]*nameLock
}

type nameLock struct {
	sync.Mutex
	users int // who holds it or waits for it
}

// lock waits for the name and returns what gives it back.
func (n *nameLocks) lock(name string) (unlock func()) {
	n.mu.Lock()
	if n.held == nil {
		n.held = map[string]*nameLock{}
	}
	l := n.held[name]
	if l == nil {
		l = &nameLock{}
		n.held[name] = l
	}
	l.users++
	n.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		n.mu.Lock()
		defer n.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(n.held, name)
		}
	}
}
