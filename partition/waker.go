package partition

import "sync"

// Waker waits for changes of any number of logs: a fetch that finds too little registers one Waker on all its logs and
// then waits on [Waker.C]. It needs no goroutine. A Waker may be reused after its logs have been unwatched.
type Waker struct {
	c chan struct{}
}

// NewWaker returns a waker that watches nothing yet.
func NewWaker() *Waker { return &Waker{c: make(chan struct{}, 1)} }

// C yields a value after a watched log has changed, one for any number of changes since the last receive. It is never
// closed.
func (w *Waker) C() <-chan struct{} { return w.c }

// wake never blocks: a value that is waiting already says everything.
func (w *Waker) wake() {
	select {
	case w.c <- struct{}{}:
	default:
	}
}

// watchers is the set of wakers of one log. The zero value is ready.
type watchers struct {
	mu  sync.Mutex
	set map[*Waker]struct{}
}

func (s *watchers) add(w *Waker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set == nil {
		s.set = make(map[*Waker]struct{})
	}
	s.set[w] = struct{}{}
}

func (s *watchers) remove(w *Waker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.set, w)
	if len(s.set) == 0 {
		s.set = nil
	}
}

func (s *watchers) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.set {
		w.wake()
	}
}

// Watch registers w for changes of this log: the high watermark, the last stable offset, the log start or the leader
// epoch moved, or the log was closed, fenced or deleted. Register first and then read once more, so that no change in
// between is missed. Registering twice has no further effect. On a closed log the waker fires immediately.
func (l *Log) Watch(w *Waker) {
	l.watchers.add(w)
	if l.ended() != nil {
		w.wake()
	}
}

// Unwatch undoes [Log.Watch]. A value may still be pending in [Waker.C].
func (l *Log) Unwatch(w *Waker) { l.watchers.remove(w) }
