package coordinator

import (
	"maps"
	"slices"
)

// The sweep removes expired offsets, offsets of deleted topics, and groups with nothing left. It takes one step a group,
// so that it delays no request for long.

// sweepAtOnce is how many offsets one step removes at most.
const sweepAtOnce = 1000

func (s *Shard) sweeping() bool { return s.sweep.index > 0 || len(s.toSweep) > 0 }

// sweepLater sets the time of the next sweep. A shard without groups needs none.
func (s *Shard) sweepLater() { s.timers.set(&s.sweep, s.now+s.config.SweepMs) }

// sweepSoon begins a sweep, or restarts the current one.
func (s *Shard) sweepSoon() {
	s.toSweep = nil
	s.timers.set(&s.sweep, s.now)
}

// sweepNext sweeps one group.
func (s *Shard) sweepNext() {
	if len(s.toSweep) == 0 {
		for _, g := range s.sortedGroups() {
			s.toSweep = append(s.toSweep, g.id)
		}
	}
	if len(s.toSweep) == 0 {
		return
	}
	id := s.toSweep[0]
	more := false
	if g := s.groups[id]; g != nil {
		more = s.sweepGroup(g)
	}
	if !more {
		s.toSweep = s.toSweep[1:]
	}
	if len(s.toSweep) > 0 {
		s.timers.set(&s.sweep, s.now)
		return
	}
	s.toSweep = nil
	if len(s.groups) > 0 {
		s.sweepLater()
	}
}

// sweepGroup removes what has expired of a group. It reports whether there may be more.
func (s *Shard) sweepGroup(g *group) (more bool) {
	expired := g.expired()
	var records []OffsetRecord
	left := 0
	for _, topic := range slices.Sorted(maps.Keys(g.offsets)) {
		for _, p := range slices.Sorted(maps.Keys(g.offsets[topic])) {
			o := g.offsets[topic][p]
			gone := !s.config.TopicExists(topic, o.TopicID) || expired(topic, o)
			switch {
			case !gone || s.unstable(g.id, topic, p):
				left++
			case len(records) == sweepAtOnce:
				left, more = left+1, true
			default:
				records = append(records, OffsetRecord{Group: g.id, Topic: topic, Partition: p})
			}
		}
	}
	if left == 0 && g.state == Empty && len(g.pending) == 0 && !s.hasUnstable(g.id) {
		s.append(g.tombstones()...)
		s.settled(func(err error) {
			if err == nil {
				s.drop(g)
			}
		})
		return false
	}
	if len(records) == 0 {
		return false
	}
	s.appendOffsets(records)
	s.settled(func(err error) {
		if err != nil { // do not retry at once: the log accepts nothing
			s.toSweep = nil
			s.sweepLater()
		}
	})
	return more
}

// expired returns the rule by which offsets of a group expire now (KIP-211). In a group without members they expire from
// the time that it lost the last one or the offset was committed; in a group of consumers, if nobody reads the topic; in
// other groups with members, never. An offset with an expiry time set by its client expires then, where it could expire
// at all.
func (g *group) expired() func(topic string, o *stored) bool {
	now, retention := g.shard.wall(), g.shard.config.RetentionMs
	over := func(o *stored, since int64) bool {
		if o.ExpireMs >= 0 {
			return now >= o.ExpireMs
		}
		return now-since >= retention
	}
	switch {
	case g.state == Empty:
		return func(_ string, o *stored) bool { return over(o, max(o.CommitMs, g.emptySince())) }
	case g.state == Stable && g.protocolType == consumerProtocol:
		subscribed := g.subscribed()
		return func(topic string, o *stored) bool { return !subscribed(topic) && over(o, o.CommitMs) }
	}
	return func(string, *stored) bool { return false }
}

// emptySince returns when a group lost its last member, or -1 for one that never had any.
func (g *group) emptySince() int64 {
	if g.protocolType == "" {
		return -1
	}
	return g.sinceMs
}
