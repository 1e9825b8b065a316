package node

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/tidemark-io/tidemark/admin"
)

// status is what health checks and the status page show, from before the data directory is read until after it is closed.
type status struct {
	node     int32
	progress func(phase string, done, total int)

	mu     sync.Mutex
	phase  string
	done   int
	total  int
	ready  bool
	health error
	failed func() []string // partitions; nil before there are any
	opens  map[string]int  // when the opening of each partition began
	begun  int
	warns  func() []string // nil before there can be any

	overview func() admin.Overview
}

// Health returns the error that makes a restart necessary, or nil.
func (s *status) Health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health
}

// Readiness reports what the node is doing.
func (s *status) Readiness() admin.Readiness {
	s.mu.Lock()
	r := admin.Readiness{Ready: s.ready, Phase: s.phase, Done: s.done, Total: s.total, Node: s.node}
	failed, warns := s.failed, s.warns
	r.Opening = s.longest()
	s.mu.Unlock()
	if failed != nil {
		r.Failed = failed()
	}
	if warns != nil {
		r.Warnings = warns()
	}
	return r
}

// Overview describes the node and what it hosts.
func (s *status) Overview() admin.Overview { return s.overview() }

// namedOpening is how many of the partitions being opened are named.
const namedOpening = 5

// longest returns the partitions that have been opening the longest, the earliest first.
func (s *status) longest() []string {
	names := slices.Collect(maps.Keys(s.opens))
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(s.opens[a], s.opens[b]) })
	return names[:min(namedOpening, len(names))]
}

// opening records that a partition is being opened, until the returned func is called.
func (s *status) opening(name string) (opened func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun++
	if s.opens == nil {
		s.opens = map[string]int{}
	}
	s.opens[name] = s.begun
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.opens, name)
	}
}

// warn sets the source of warnings about what clients are refused.
func (s *status) warn(warnings func() []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warns = warnings
}

// enter begins a phase with a number of steps.
func (s *status) enter(phase string, total int) {
	s.mu.Lock()
	s.phase, s.done, s.total, s.ready = phase, 0, total, false
	s.mu.Unlock()
	s.progress(phase, 0, total)
}

// watch sets the source of failed partitions.
func (s *status) watch(failed func() []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = failed
}

// step counts one step of the phase, and returns how many are done.
func (s *status) step() int {
	s.mu.Lock()
	s.done++
	phase, done, total := s.phase, s.done, s.total
	s.mu.Unlock()
	s.progress(phase, done, total)
	return done
}

// serve records that clients are served.
func (s *status) serve() {
	s.enter("serving", 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = true
}

// fail records that the node cannot continue. The first reason stays.
func (s *status) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.health == nil {
		s.health = err
	}
}
