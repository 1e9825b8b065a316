package coordinator

import (
	"maps"
	"slices"
)

// Entry is a record of the partition as a starting shard reads it.
type Entry struct {
	At     int64 // offset of the record
	Record Record

	// ProducerID is that of the transaction that the record is part of, or -1.
	ProducerID int64
}

// transaction is the offsets that an open transaction has stored. They count when it commits.
type transaction map[groupPartition]offsetEntry

// offsetEntry is an offset and where in the log it is.
type offsetEntry struct {
	record OffsetRecord
	at     int64
}

type groupPartition struct {
	group, topic string
	partition    int32
}

// Replay applies a record of the partition. It is called before [Shard.Loaded], in the order of offsets.
func (s *Shard) Replay(e Entry) {
	switch r := e.Record.(type) {
	case OffsetRecord:
		if e.ProducerID < 0 || r.Offset == nil {
			s.store(r, e.At)
			return
		}
		open := s.pending[e.ProducerID]
		if open == nil {
			open = transaction{}
			s.pending[e.ProducerID] = open
		}
		open[groupPartition{r.Group, r.Topic, r.Partition}] = offsetEntry{r, e.At}
	case GroupRecord:
		s.restore(r)
	}
}

// ReplayMarker applies the end of a producer's transaction. Offsets of a transaction do not replace ones committed
// outside of it later.
func (s *Shard) ReplayMarker(producerID int64, committed bool) {
	open := s.pending[producerID]
	delete(s.pending, producerID)
	if !committed {
		return
	}
	for _, e := range open {
		var old *stored
		if g := s.groups[e.record.Group]; g != nil {
			old = g.offsets[e.record.Topic][e.record.Partition]
		}
		if old == nil || old.at < e.at {
			s.store(e.record, e.at)
		}
	}
}

// restore sets a group to the state in a record.
func (s *Shard) restore(r GroupRecord) {
	old := s.groups[r.Group]
	if r.State == nil {
		if old != nil {
			old.recorded = nil
			old.clearMembers()
			old.protocolType, old.generation, old.sinceMs = "", 0, -1
			s.forget(old)
		}
		return
	}
	g := s.group(r.Group)
	g.clearMembers()
	g.recorded = r.State
	g.protocolType, g.generation, g.sinceMs = r.State.ProtocolType, r.State.Generation, r.State.SinceMs
	if len(r.State.Members) == 0 {
		return
	}
	g.state = Stable
	if r.State.Protocol != nil {
		g.protocol = *r.State.Protocol
	}
	for _, m := range r.State.Members {
		g.restoreMember(m)
	}
	if r.State.Leader != nil {
		g.leader = *r.State.Leader
	}
}

func (g *group) restoreMember(m MemberMetadata) {
	rebalance := m.RebalanceMs
	if rebalance < 0 {
		rebalance = m.SessionMs
	}
	g.add(&member{
		id: m.ID, instance: m.InstanceID, clientID: m.ClientID, clientHost: m.ClientHost,
		sessionMs: m.SessionMs, rebalanceMs: rebalance, assignment: m.Assignment,
		protocols: []Protocol{{Name: g.protocol, Metadata: m.Subscription}},
	})
}

func (g *group) clearMembers() {
	clear(g.members)
	clear(g.static)
	g.state, g.protocol, g.leader = Empty, "", ""
}

// Loaded ends the replay: the shard accepts requests now. Every member's session starts anew, since members could not be
// heard while there was no coordinator.
func (s *Shard) Loaded(now int64) {
	s.begin(now)
	for _, g := range s.sortedGroups() {
		for _, m := range g.ordered() {
			g.touch(m)
		}
	}
	s.toSweep = nil
	if len(s.groups) > 0 {
		s.sweepLater()
	}
}

// unstable reports whether an open transaction has stored an offset for the partition.
func (s *Shard) unstable(group, topic string, partition int32) bool {
	for _, open := range s.pending {
		if _, ok := open[groupPartition{group, topic, partition}]; ok {
			return true
		}
	}
	return false
}

// hasUnstable reports whether an open transaction has stored any offset of the group.
func (s *Shard) hasUnstable(group string) bool {
	for _, open := range s.pending {
		for key := range open {
			if key.group == group {
				return true
			}
		}
	}
	return false
}

// Transactions returns the number of open transactions that stored offsets here.
func (s *Shard) Transactions() int { return len(s.pending) }

// Records returns all state of the shard, group by group: a start that reads only these records finds the same as one
// that reads the whole partition. Offsets of open transactions are not included.
func (s *Shard) Records() [][]Record {
	var all [][]Record
	for _, g := range s.sortedGroups() {
		var records []Record
		if g.recorded != nil {
			records = append(records, GroupRecord{Group: g.id, State: g.recorded})
		}
		for _, topic := range slices.Sorted(maps.Keys(g.offsets)) {
			for _, p := range slices.Sorted(maps.Keys(g.offsets[topic])) {
				o := g.offsets[topic][p].Offset
				records = append(records, OffsetRecord{Group: g.id, Topic: topic, Partition: p, Offset: &o})
			}
		}
		if len(records) > 0 {
			all = append(all, records)
		}
	}
	return all
}
