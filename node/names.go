package node

import "sync"

// nameLocks serializes the changes to one topic name: two topics of the same name would have the same directories.
type nameLocks struct {
	mu   sync.Mutex
	held map[string]*nameLock
}

type nameLock struct {
	sync.Mutex
	users int // who holds it or waits for it
}

// lock waits for the name and returns a function that releases it.
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
