package coordinator

import (
	"maps"
	"slices"
)

// commit handles an OffsetCommit.
func (s *Shard) commit(t Ticket, r *Commit) {
	g, m, err := s.checkCommit(r)
	if err != nil {
		s.reply(t, &CommitAnswer{Err: err})
		return
	}
	if m != nil {
		g.hear(m)
	}
	a := &CommitAnswer{Offsets: make([]error, len(r.Offsets))}
	var records []OffsetRecord
	for i, o := range r.Offsets {
		if len(o.Metadata) > s.config.MetadataMaxBytes {
			a.Offsets[i] = ErrMetadataTooLarge
			continue
		}
		records = append(records, OffsetRecord{
			Group: r.Group, Topic: o.Topic, Partition: o.Partition, Offset: s.offsetOf(r, o),
		})
	}
	if len(records) == 0 {
		s.reply(t, a)
		return
	}
	s.appendOffsets(records)
	s.replySettled(t, a, func(err error) Answer { return &CommitAnswer{Err: err} })
}

// offsetOf returns what is stored of a commit.
func (s *Shard) offsetOf(r *Commit, o CommittedOffset) *Offset {
	expire := int64(-1)
	if r.RetentionMs >= 0 {
		expire = s.wall() + r.RetentionMs
	}
	return &Offset{
		Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Metadata: o.Metadata, TopicID: o.TopicID,
		CommitMs: s.wall(), ExpireMs: expire,
	}
}

// checkCommit finds the committing member, or none for a group without members. The group is nil if it does not exist; it
// is created with its first offset.
func (s *Shard) checkCommit(r *Commit) (*group, *member, error) {
	g := s.groups[r.Group]
	switch {
	case r.Group == "":
		return nil, nil, ErrInvalidGroup
	case g == nil && r.Generation < 0:
		return nil, nil, nil
	case g == nil:
		return nil, nil, ErrGroupNotFound
	case r.Generation < 0 && g.state == Empty:
		return g, nil, nil
	case r.Generation < 0 || r.MemberID == "":
		return nil, nil, ErrUnknownMember
	}
	_, m, err := s.memberOf(r.Group, r.MemberID, r.InstanceID, r.Generation)
	if err != nil {
		return nil, nil, err
	}
	if g.state == CompletingRebalance {
		g.hear(m)
		return nil, nil, ErrRebalancing
	}
	return g, m, nil
}

// appendOffsets appends records of one group and applies them once they are in the log.
func (s *Shard) appendOffsets(records []OffsetRecord) {
	for _, r := range records {
		s.append(r)
	}
	s.settled(func(err error) {
		if err != nil {
			return
		}
		for _, r := range records {
			s.store(r, -1)
		}
	})
}

// store applies an offset record to memory.
func (s *Shard) store(r OffsetRecord, at int64) {
	if r.Offset != nil {
		s.group(r.Group).put(r, at)
		return
	}
	g := s.groups[r.Group]
	if g == nil {
		return
	}
	delete(g.offsets[r.Topic], r.Partition)
	if len(g.offsets[r.Topic]) == 0 {
		delete(g.offsets, r.Topic)
	}
	s.forget(g)
}

func (g *group) put(r OffsetRecord, at int64) {
	if g.offsets[r.Topic] == nil {
		g.offsets[r.Topic] = map[int32]*stored{}
	}
	g.offsets[r.Topic][r.Partition] = &stored{Offset: *r.Offset, at: at}
}

// fetch handles an OffsetFetch. A group that does not exist has no offsets, which is no error.
func (s *Shard) fetch(r *Fetch) *FetchAnswer {
	g := s.groups[r.Group]
	if g == nil {
		g = newGroup(s, r.Group)
	}
	if r.All {
		return s.fetchAll(g, r)
	}
	a := &FetchAnswer{Topics: make([]FetchedTopic, len(r.Topics))}
	for i, topic := range r.Topics {
		out := FetchedTopic{Topic: topic.Topic, TopicID: topic.TopicID}
		for _, p := range topic.Partitions {
			out.Partitions = append(out.Partitions, g.fetchOne(topic.Topic, topic.TopicID, p, r.RequireStable))
		}
		a.Topics[i] = out
	}
	return a
}

// fetchAll finds every offset whose topic exists.
func (s *Shard) fetchAll(g *group, r *Fetch) *FetchAnswer {
	a := &FetchAnswer{}
	for _, topic := range slices.Sorted(maps.Keys(g.offsets)) {
		byID := map[[16]byte]int{} // indexes in the answer: a topic may have been recreated
		for _, p := range slices.Sorted(maps.Keys(g.offsets[topic])) {
			id := g.offsets[topic][p].TopicID
			if !s.config.TopicExists(topic, id) {
				continue
			}
			i, ok := byID[id]
			if !ok {
				i = len(a.Topics)
				byID[id] = i
				a.Topics = append(a.Topics, FetchedTopic{Topic: topic, TopicID: id})
			}
			a.Topics[i].Partitions = append(a.Topics[i].Partitions, g.fetchOne(topic, id, p, r.RequireStable))
		}
	}
	return a
}

func (g *group) fetchOne(topic string, id [16]byte, partition int32, requireStable bool) FetchedOffset {
	out := FetchedOffset{Partition: partition, Offset: -1, LeaderEpoch: -1}
	if requireStable && g.shard.unstable(g.id, topic, partition) {
		out.Err = ErrUnstableOffset
		return out
	}
	o := g.offsets[topic][partition]
	if o == nil || !sameTopic(o.TopicID, id) {
		return out
	}
	out.Offset, out.LeaderEpoch, out.Metadata = o.Offset.Offset, o.LeaderEpoch, o.Metadata
	return out
}

// sameTopic reports whether two ids may be of one topic; zero means unknown.
func sameTopic(a, b [16]byte) bool {
	return a == b || a == [16]byte{} || b == [16]byte{}
}

// deleteOffsets handles an OffsetDelete.
func (s *Shard) deleteOffsets(t Ticket, r *DeleteOffsets) {
	g := s.groups[r.Group]
	switch {
	case r.Group == "":
		s.reply(t, &DeleteAnswer{Err: ErrInvalidGroup})
		return
	case g == nil:
		s.reply(t, &DeleteAnswer{Err: ErrGroupNotFound})
		return
	case g.state != Empty && g.protocolType != consumerProtocol:
		s.reply(t, &DeleteAnswer{Err: ErrNonEmptyGroup})
		return
	}
	subscribed := g.subscribed()
	a := &DeleteAnswer{Offsets: make([]error, len(r.Offsets))}
	var records []OffsetRecord
	for i, o := range r.Offsets {
		switch {
		case subscribed(o.Topic):
			a.Offsets[i] = ErrSubscribed
		case g.offsets[o.Topic][o.Partition] != nil:
			records = append(records, OffsetRecord{Group: r.Group, Topic: o.Topic, Partition: o.Partition})
		}
	}
	if len(records) > 0 {
		s.appendOffsets(records)
	}
	s.replySettled(t, a, func(err error) Answer { return &DeleteAnswer{Err: err} })
}

// deleteGroup handles one group of a DeleteGroups.
func (s *Shard) deleteGroup(t Ticket, r *DeleteGroup) {
	g := s.groups[r.Group]
	switch {
	case g == nil: // or the group without a name
		s.reply(t, &Done{Err: ErrGroupNotFound})
		return
	case g.state != Empty:
		s.reply(t, &Done{Err: ErrNonEmptyGroup})
		return
	}
	s.append(g.tombstones()...)
	s.settled(func(err error) {
		if err == nil {
			s.drop(g)
		}
	})
	s.replySettled(t, &Done{}, func(err error) Answer { return &Done{Err: err} })
}

// tombstones delete every record of a group.
func (g *group) tombstones() []Record {
	var records []Record
	for _, topic := range slices.Sorted(maps.Keys(g.offsets)) {
		for _, p := range slices.Sorted(maps.Keys(g.offsets[topic])) {
			records = append(records, OffsetRecord{Group: g.id, Topic: topic, Partition: p})
		}
	}
	return append(records, GroupRecord{Group: g.id})
}

// drop removes a group from memory, with the ids assigned for it.
func (s *Shard) drop(g *group) {
	for id := range g.pending {
		g.forgetPending(id)
	}
	for _, m := range g.members {
		s.timers.stop(&m.session)
	}
	s.timers.stop(&g.phase)
	delete(s.groups, g.id)
}
