package coordinator

// sync handles a SyncGroup.
func (s *Shard) sync(t Ticket, r *Sync) {
	g, m, err := s.memberOf(r.Group, r.MemberID, r.InstanceID, r.Generation)
	if err == nil && (differs(r.ProtocolType, g.protocolType) || differs(r.Protocol, g.protocol)) {
		err = ErrInconsistentProtocol
	}
	if err == nil {
		err = g.syncMember(t, r, m)
	}
	if err != nil {
		s.reply(t, &SyncAnswer{Err: err})
	}
}

func differs(said *string, is string) bool { return said != nil && *said != is }

// memberOf finds the member of a request, and checks its generation against the group's.
func (s *Shard) memberOf(group, id, instance string, generation int32) (*group, *member, error) {
	g := s.groups[group]
	if group == "" {
		return nil, nil, ErrInvalidGroup
	}
	if g == nil {
		return nil, nil, ErrUnknownMember
	}
	m, err := g.check(id, instance)
	if err != nil {
		return nil, nil, err
	}
	if generation != g.generation {
		return nil, nil, ErrIllegalGeneration
	}
	return g, m, nil
}

func (g *group) syncMember(t Ticket, r *Sync, m *member) error {
	s := g.shard
	switch g.state {
	case PreparingRebalance:
		return ErrRebalancing
	case Stable:
		m.unsynced = false
		g.touch(m)
		g.watchSyncs()
		s.reply(t, g.syncAnswer(m))
		return nil
	case CompletingRebalance:
	default:
		return ErrUnknownMember
	}
	s.reply(m.syncing, &SyncAnswer{Err: ErrRebalancing}) // its client has repeated it
	m.syncing, m.unsynced = t, false
	s.timers.stop(&m.session) // a waiting member is alive
	if m.id != g.leader {
		return nil
	}
	assigned := func(m *member) []byte { return r.Assignments[m.id] }
	since := g.sinceMs
	g.sinceMs = s.wall()
	record := g.record(assigned)
	g.sinceMs = since
	s.append(record)
	s.settled(func(err error) {
		if err != nil {
			g.refuseAssignments(err)
			return
		}
		g.recorded = record.State
		g.assign(assigned)
	})
	return nil
}

// assign makes the generation stable and answers all members that wait for it.
func (g *group) assign(assigned func(*member) []byte) {
	g.enter(Stable)
	for _, m := range g.ordered() {
		m.assignment = assigned(m)
		if m.syncing != 0 {
			g.shard.reply(m.syncing, g.syncAnswer(m))
			m.syncing = 0
			g.touch(m)
		}
	}
	g.watchSyncs()
}

// refuseAssignments handles a failure to record the leader's assignments.
func (g *group) refuseAssignments(err error) {
	for _, m := range g.ordered() {
		if m.syncing != 0 {
			g.shard.reply(m.syncing, &SyncAnswer{Err: err})
			m.syncing = 0
			g.touch(m)
		}
	}
	g.rebalance()
}

func (g *group) syncAnswer(m *member) *SyncAnswer {
	return &SyncAnswer{ProtocolType: g.protocolType, Protocol: g.protocol, Assignment: m.assignment}
}

// watchSyncs ends the wait for syncs when all members have the generation.
func (g *group) watchSyncs() {
	for _, m := range g.members {
		if m.unsynced {
			return
		}
	}
	g.shard.timers.stop(&g.phase)
}

// syncPhaseOver runs when members have had the rebalance timeout to sync. Those who have not are removed.
func (g *group) syncPhaseOver() {
	late := false
	for _, m := range g.ordered() {
		if m.unsynced {
			g.evict(m, ErrUnknownMember)
			late = true
		}
	}
	if late || g.state == CompletingRebalance { // or the leader never synced and is no longer a member
		g.memberGone()
	}
}

// heartbeat handles a Heartbeat.
func (s *Shard) heartbeat(r *Heartbeat) error {
	g, m, err := s.memberOf(r.Group, r.MemberID, r.InstanceID, r.Generation)
	if err != nil {
		return err
	}
	switch g.state {
	case Empty:
		return ErrUnknownMember
	case PreparingRebalance:
		g.hear(m)
		return ErrRebalancing
	}
	g.hear(m)
	return nil
}

// hear records that a member is alive.
func (g *group) hear(m *member) {
	if m.joining == 0 && m.syncing == 0 {
		g.touch(m)
	}
}

// leave handles a LeaveGroup.
func (s *Shard) leave(t Ticket, r *Leave) {
	if r.Group == "" {
		s.reply(t, &LeaveAnswer{Err: ErrInvalidGroup})
		return
	}
	a := &LeaveAnswer{Members: make([]error, len(r.Members))}
	g := s.groups[r.Group]
	left := false
	for i, m := range r.Members {
		if g == nil {
			a.Members[i] = ErrUnknownMember
			continue
		}
		a.Members[i] = g.takeOut(m)
		left = left || a.Members[i] == nil
	}
	if left {
		g.memberGone()
	}
	s.replySettled(t, a, func(err error) Answer { return &LeaveAnswer{Err: err} })
}

// takeOut removes one member, or an assigned id.
func (g *group) takeOut(leaving LeavingMember) error {
	id := leaving.ID
	if id == "" { // an administrator removes whoever has the instance id
		id = g.static[leaving.InstanceID]
	}
	if g.forgetPending(id) {
		return nil
	}
	m, err := g.check(id, leaving.InstanceID)
	if err != nil {
		return err
	}
	g.evict(m, ErrUnknownMember)
	return nil
}
