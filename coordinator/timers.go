package coordinator

import "container/heap"

// timer is one deadline of a shard. Setting it again moves it, so there are never more timers than members and groups.
type timer struct {
	at    int64 // ms since 1970
	order uint64
	index int // in the heap, from 1; 0 if it is not set
	fire  func(now int64)
}

// timers are the deadlines of a shard, the earliest first; equal ones in the order in which they were set.
type timers struct {
	heap  []*timer
	order uint64
}

// set makes t fire at the given time, replacing its previous time.
func (s *timers) set(t *timer, at int64) {
	s.order++
	t.at, t.order = at, s.order
	if t.index > 0 {
		heap.Fix(s, t.index-1)
		return
	}
	heap.Push(s, t)
}

// stop keeps t from firing. A timer that is not set is left alone.
func (s *timers) stop(t *timer) {
	if t.index > 0 {
		heap.Remove(s, t.index-1)
	}
}

// next returns when the next timer is due.
func (s *timers) next() (int64, bool) {
	if len(s.heap) == 0 {
		return 0, false
	}
	return s.heap[0].at, true
}

// take removes and returns the next timer if it is due, or returns nil.
func (s *timers) take(now int64) *timer {
	if at, ok := s.next(); !ok || at > now {
		return nil
	}
	return heap.Pop(s).(*timer)
}

// Len implements heap.Interface.
func (s *timers) Len() int { return len(s.heap) }

// Less implements heap.Interface.
func (s *timers) Less(i, j int) bool {
	a, b := s.heap[i], s.heap[j]
	return a.at < b.at || a.at == b.at && a.order < b.order
}

// Swap implements heap.Interface.
func (s *timers) Swap(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.heap[i].index, s.heap[j].index = i+1, j+1
}

// Push implements heap.Interface.
func (s *timers) Push(x any) {
	t := x.(*timer)
	s.heap = append(s.heap, t)
	t.index = len(s.heap)
}

// Pop implements heap.Interface.
func (s *timers) Pop() any {
	last := len(s.heap) - 1
	t := s.heap[last]
	s.heap[last] = nil
	s.heap = s.heap[:last]
	t.index = 0
	return t
}
