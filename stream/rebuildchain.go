package stream

import (
	"maps"
	"slices"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// chain is a sequence of runs of one stream, each beginning where the one before it ends, from start to end.
type chain struct {
	runs       []*foundRun
	start, end int64
}

// banned are objects that must not be used.
type banned map[catalog.ObjectID]bool

// goesOn reports whether the stream's log has records of its newest epoch: an earlier epoch's are in objects.
func (s *foundStream) goesOn() bool { return s.log != nil && s.log.epoch >= s.epoch }

// accepts reports whether objects may hold the stream up to an offset: to the end of all, or to a record with which the
// log continues.
func (s *foundStream) accepts(end, last int64) bool {
	if !s.goesOn() || last > s.log.to {
		return end == last
	}
	return end >= s.log.from && !s.log.torn[end]
}

// chain finds the runs that reach down furthest from where the stream ends, or where its log continues. Every chain of
// runs that metadata had is among the candidates, so none of its records is lost. Of several the one with the most in
// objects is taken, and of runs with the same records those of the newest object. ok is false if there is none.
//
//	runs      |--- 3 ---|--- 4 ---|
//	               |- 9, without a dead head -|--- 7 ---|
//	log                                           |- record -|- record -|
func (s *foundStream) chain(without banned) (best chain, ok bool) {
	low, by, last := map[int64]int64{}, map[int64]*foundRun{}, int64(-1)
	for _, r := range s.runs { // those that end where one begins come before it
		last = max(last, r.end)
		if without[r.object.id] {
			continue
		}
		start := r.start
		if below, joins := low[r.start]; joins {
			start = below
		}
		before, there := low[r.end]
		if !there || start < before || start == before && r.object.id > by[r.end].object.id {
			low[r.end], by[r.end] = start, r
		}
	}
	best, ok = chain{start: -1, end: -1}, false
	if s.goesOn() && last <= s.log.to {
		best, ok = chain{start: s.log.from, end: s.log.from}, true
	}
	for _, end := range slices.Sorted(maps.Keys(low)) {
		if s.accepts(end, last) && (!ok || low[end] <= best.start) {
			best, ok = chain{start: low[end], end: end}, true
		}
	}
	for at := best.end; ok && at > best.start; at = best.runs[len(best.runs)-1].start {
		best.runs = append(best.runs, by[at])
	}
	slices.Reverse(best.runs)
	return best, ok
}

// choice records which runs are used of all streams.
type choice struct {
	streams []*foundStream
	chains  map[catalog.StreamID]chain
	without banned
	users   map[catalog.ObjectID]map[catalog.StreamID]bool // streams whose chain has a run of the object
}

// newChoice takes the best chain of each stream.
func newChoice(streams []*foundStream) *choice {
	c := &choice{streams: streams, chains: map[catalog.StreamID]chain{}, without: banned{}}
	c.users = map[catalog.ObjectID]map[catalog.StreamID]bool{}
	for _, s := range streams {
		if best, ok := s.chain(nil); ok {
			c.put(s, best)
		}
	}
	return c
}

// put replaces the chain of a stream.
func (c *choice) put(s *foundStream, next chain) {
	for _, r := range c.chains[s.id].runs {
		r.used = false
		delete(c.users[r.object.id], s.id)
	}
	for _, r := range next.runs {
		r.used = true
		if c.users[r.object.id] == nil {
			c.users[r.object.id] = map[catalog.StreamID]bool{}
		}
		c.users[r.object.id][s.id] = true
	}
	c.chains[s.id] = next
}

// isLive reports whether a run holds records above the start of its stream.
func (c *choice) isLive(r *foundRun) bool {
	chosen, ok := c.chains[r.stream]
	return ok && r.end > chosen.start
}

// split returns the live runs of an object that are used, and those that are not.
func (c *choice) split(o *foundObject) (used, unused []*foundRun) {
	for _, r := range o.runs {
		switch {
		case r.used:
			used = append(used, r)
		case c.isLive(r):
			unused = append(unused, r)
		}
	}
	return used, unused
}

// settle looks for objects of which only a part is used, and replaces them where every stream still reaches as far down
// as before: metadata cannot have a part of an object. Those that remain must be copied.
func (c *choice) settle(objects []*foundObject, find func(catalog.StreamID) *foundStream) {
	const rounds = 8
	for range rounds {
		changed := false
		for _, o := range objects {
			used, unused := c.split(o)
			if len(used) == 0 || len(unused) == 0 {
				continue
			}
			rivals := banned{}
			for _, r := range unused {
				for _, other := range c.chains[r.stream].runs {
					if other.start < r.end && other.end > r.start {
						rivals[other.object.id] = true
					}
				}
			}
			changed = c.avoid(banned{o.id: true}, find) || c.avoid(rivals, find) || changed
		}
		if !changed {
			return
		}
	}
}

// avoid stops using objects, if that costs no stream anything.
func (c *choice) avoid(objects banned, find func(catalog.StreamID) *foundStream) bool {
	without := maps.Clone(c.without)
	maps.Copy(without, objects)
	next := map[catalog.StreamID]chain{}
	for id := range objects {
		for stream := range c.users[id] {
			chosen, ok := find(stream).chain(without)
			before := c.chains[stream]
			if !ok || chosen.start > before.start {
				return false
			}
			next[stream] = chosen
		}
	}
	if len(next) == 0 {
		return false
	}
	c.without = without
	for stream, chosen := range next {
		c.put(find(stream), chosen)
	}
	return true
}
