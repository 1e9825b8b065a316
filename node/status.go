package node

import (
	"sync"

	"github.com/tidemark-io/tidemark/admin"
)

// status is what the administrators' side is told, from before the data directory is read until after it is closed.
type status struct {
	node int32

	mu     sync.Mutex
	phase  string
	done   int
	total  int
	ready  bool
	health error
	failed func() []string // partitions; nil before there are any
}

// Health returns what makes a restart necessary.
func (s *status) Health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health
}

// Readiness says what the node is doing.
func (s *status) Readiness() admin.Readiness {
	s.mu.Lock()
	r := admin.Readiness{Ready: s.ready, Phase: s.phase, Done: s.done, Total: s.total, Node: s.node}
	failed := s.failed
	s.mu.Unlock()
	if failed != nil {
		r.Failed = failed()
	}
	return r
}

// enter begins a phase of so many steps.
func (s *status) enter(phase string, total int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase, s.done, s.total, s.ready = phase, 0, total, false
}

// watch names who knows the partitions that failed.
func (s *status) watch(failed func() []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = failed
}

// step tells that one step of the phase is done, and returns how many are.
func (s *status) step() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done++
	return s.done
}

// serve says that clients are served.
func (s *status) serve() {
	s.enter("serving", 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = true
}

// fail says that the node cannot go on. The first reason stays.
func (s *status) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.health == nil {
		s.health = err
	}
}
