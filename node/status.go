package node

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/tidemark-io/tidemark/admin"
)

// status is what the administrators' side is told, from before the data directory is read until after it is closed.
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
	opens  map[string]int  // partitions that are being opened, and when each began, counted
	begun  int
	warns  func() []string // nil before there can be any

	overview func() admin.Overview
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

// Overview says what the node is and holds.
func (s *status) Overview() admin.Overview { return s.overview() }

// namedOpening is how many of the partitions that are being opened are told of.
const namedOpening = 5

// longest returns the partitions that are being opened since longest, those that began first in front.
func (s *status) longest() []string {
	names := slices.Collect(maps.Keys(s.opens))
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(s.opens[a], s.opens[b]) })
	return names[:min(namedOpening, len(names))]
}

// opening tells that a partition is being opened, until the returned func is called.
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

// warn names who knows what clients are refused.
func (s *status) warn(warnings func() []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warns = warnings
}

// enter begins a phase of so many steps.
func (s *status) enter(phase string, total int) {
	s.mu.Lock()
	s.phase, s.done, s.total, s.ready = phase, 0, total, false
	s.mu.Unlock()
	s.progress(phase, 0, total)
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
	s.done++
	phase, done, total := s.phase, s.done, s.total
	s.mu.Unlock()
	s.progress(phase, done, total)
	return done
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
