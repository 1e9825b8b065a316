package coordinator

// join handles a JoinGroup. The checks are Kafka's, in its order.
func (s *Shard) join(t Ticket, r *Join) {
	if err := s.checkJoin(r); err != nil {
		s.reply(t, refuseJoin(r.MemberID, err))
		return
	}
	g := s.group(r.Group)
	var err error
	if r.MemberID == "" {
		err = g.joinNew(t, r)
	} else {
		err = g.joinKnown(t, r)
	}
	if err != nil {
		s.reply(t, refuseJoin(r.MemberID, err))
		s.forget(g)
	}
}

func (s *Shard) checkJoin(r *Join) error {
	g := s.groups[r.Group]
	switch {
	case r.Group == "":
		return ErrInvalidGroup
	case r.SessionMs < s.config.MinSessionMs || r.SessionMs > s.config.MaxSessionMs:
		return ErrInvalidSession
	case g == nil && r.MemberID != "":
		return ErrUnknownMember
	case g != nil && !g.accepts(r.MemberID):
		if m := g.members[r.MemberID]; m != nil { // it was a member before the limit was lowered
			g.evict(m, ErrGroupFull)
			g.memberGone()
		}
		g.forgetPending(r.MemberID)
		return ErrGroupFull
	case g == nil && (r.ProtocolType == "" || len(r.Protocols) == 0):
		return ErrInconsistentProtocol
	case g != nil && !g.supports(r.ProtocolType, r.Protocols):
		return ErrInconsistentProtocol
	}
	return nil
}

// accepts reports whether there is room for a member. During a join phase only those who have joined count, so a lowered
// limit is enforced by leaving out the last ones. Assigned ids do not count.
func (g *group) accepts(id string) bool {
	limit := g.shard.config.MaxSize
	if limit <= 0 || g.state == Empty {
		return true
	}
	m := g.members[id]
	if g.state != PreparingRebalance {
		return m != nil || len(g.members) < limit
	}
	joined := 0
	for _, other := range g.members {
		if other.isJoined() {
			joined++
		}
	}
	return m != nil && m.isJoined() || joined < limit
}

// joinNew handles a member that has no id yet.
func (g *group) joinNew(t Ticket, r *Join) error {
	s := g.shard
	if r.InstanceID != "" {
		id := r.InstanceID + "-" + s.config.NewID()
		if old := g.members[g.static[r.InstanceID]]; old != nil {
			g.replaceStatic(t, r, old, id)
			return nil
		}
		g.admit(t, r, id)
		return nil
	}
	id := r.ClientID + "-" + s.config.NewID()
	if !r.RequireKnownID {
		g.admit(t, r, id)
		return nil
	}
	g.handOut(id, r.SessionMs)
	s.reply(t, refuseJoin(id, ErrMemberIDRequired))
	return nil
}

// handOut assigns an id and remembers it for one session.
func (g *group) handOut(id string, sessionMs int32) {
	t := &timer{}
	t.fire = func(int64) {
		delete(g.pending, id)
		if g.state == PreparingRebalance && g.allJoined() && (!g.initial || len(g.members) == 0) {
			g.completeJoin()
		}
		g.shard.forget(g)
	}
	g.pending[id] = t
	g.shard.timers.set(t, g.shard.now+int64(sessionMs))
}

// joinKnown handles a member that has an id.
func (g *group) joinKnown(t Ticket, r *Join) error {
	if _, handedOut := g.pending[r.MemberID]; handedOut {
		if r.InstanceID != "" {
			return ErrUnknownMember // ids are assigned to dynamic members only
		}
		g.forgetPending(r.MemberID)
		g.admit(t, r, r.MemberID)
		return nil
	}
	m, err := g.check(r.MemberID, r.InstanceID)
	switch {
	case err != nil:
		return err
	case m.instance != r.InstanceID:
		return ErrFencedInstance // a static member's id without its instance id
	}
	switch g.state {
	case CompletingRebalance:
		if m.matches(r.Protocols) { // the answer may have been lost: repeat it
			g.rejoin(t, r, m)
			return nil
		}
	case Stable:
		if m.id != g.leader && m.matches(r.Protocols) {
			g.rejoin(t, r, m)
			return nil
		}
	case Empty:
		return ErrUnknownMember
	}
	g.park(t, r, m)
	g.rebalance()
	return nil
}

// rejoin answers a member with the generation that it is in.
func (g *group) rejoin(t Ticket, r *Join, m *member) {
	m.sessionMs, m.rebalanceMs = r.SessionMs, r.RebalanceMs
	g.touch(m)
	g.shard.reply(t, g.joinAnswer(m, g.state == CompletingRebalance && m.id == g.leader))
}

// park makes a member wait for the next generation with its new protocols and timeouts. An earlier JoinGroup of it that
// is still waiting is answered: its client has repeated it.
func (g *group) park(t Ticket, r *Join, m *member) {
	g.shard.dropParked(m, ErrRebalancing)
	m.clientID, m.clientHost = r.ClientID, r.ClientHost
	m.sessionMs, m.rebalanceMs, m.protocols = r.SessionMs, r.RebalanceMs, r.Protocols
	m.joining = t
	if !m.isNew {
		g.touch(m)
	}
}

// admit makes a client a new member.
func (g *group) admit(t Ticket, r *Join, id string) {
	s := g.shard
	if len(g.members) == 0 {
		g.protocolType = r.ProtocolType
	}
	m := &member{
		id: id, instance: r.InstanceID, clientID: r.ClientID, clientHost: r.ClientHost,
		sessionMs: r.SessionMs, rebalanceMs: r.RebalanceMs, protocols: r.Protocols, isNew: true, joining: t,
	}
	g.newcomers = true
	g.add(m)
	s.timers.set(&m.session, s.now+int64(s.config.NewMemberJoinMs))
	g.rebalance()
}

// replaceStatic lets the next incarnation of a static member take its place.
func (g *group) replaceStatic(t Ticket, r *Join, old *member, id string) {
	s := g.shard
	m := &member{
		id: id, instance: old.instance, clientID: r.ClientID, clientHost: r.ClientHost,
		sessionMs: r.SessionMs, rebalanceMs: r.RebalanceMs, protocols: r.Protocols,
		assignment: old.assignment, order: old.order,
	}
	m.session.fire = func(int64) { g.sessionEnded(m) }
	s.dropParked(old, ErrFencedInstance)
	oldLeader := g.leader
	g.swap(old, m)
	if g.state != Stable || g.selectProtocol() != g.protocol {
		m.joining = t
		g.rebalance()
		return
	}
	record := g.record(currentAssignment)
	s.append(record)
	s.settled(func(err error) {
		if err != nil {
			g.swap(m, old)
			s.reply(t, refuseJoin("", err))
			return
		}
		g.recorded = record.State
		s.reply(t, g.replacedAnswer(m, r, oldLeader))
	})
}

// swap replaces one member with another.
func (g *group) swap(from, to *member) {
	g.shard.timers.stop(&from.session)
	delete(g.members, from.id)
	g.members[to.id] = to
	g.static[to.instance] = to.id
	if g.leader == from.id {
		g.leader = to.id
	}
	g.touch(to)
}

// replacedAnswer lets a static member into its predecessor's generation. As a leader it has nothing to assign; a client
// that does not know that rule is given another leader.
func (g *group) replacedAnswer(m *member, r *Join, oldLeader string) *JoinAnswer {
	leads := m.id == g.leader
	a := g.joinAnswer(m, leads && r.CanSkipAssignment)
	a.SkipAssignment = leads && r.CanSkipAssignment
	if !r.CanSkipAssignment {
		a.Leader = oldLeader
	}
	return a
}

// joinAnswer describes the generation to a member.
func (g *group) joinAnswer(m *member, leads bool) *JoinAnswer {
	a := &JoinAnswer{
		MemberID: m.id, Generation: g.generation, ProtocolType: g.protocolType, Protocol: g.protocol, Leader: g.leader,
	}
	if leads {
		for _, each := range g.ordered() {
			a.Members = append(a.Members, JoinedMember{
				ID: each.id, InstanceID: each.instance, Metadata: each.metadata(g.protocol),
			})
		}
	}
	return a
}

// rebalance begins the join phase, or ends it when everybody has joined.
func (g *group) rebalance() {
	s := g.shard
	switch g.state {
	case PreparingRebalance:
		if !g.initial && g.allJoined() {
			g.completeJoin()
		}
		return
	case CompletingRebalance:
		for _, m := range g.members {
			s.reply(m.syncing, &SyncAnswer{Err: ErrRebalancing})
			if m.syncing != 0 {
				g.touch(m)
			}
			m.syncing, m.assignment = 0, nil
		}
	}
	for _, m := range g.members {
		m.unsynced = false
	}
	g.initial = g.state == Empty
	g.enter(PreparingRebalance)
	g.phase.fire = func(int64) { g.joinPhaseOver() }
	if g.initial {
		delay := s.config.InitialDelayMs
		g.newcomers, g.leftMs = false, max(g.rebalanceMs()-delay, 0)
		s.timers.set(&g.phase, s.now+int64(delay))
		return
	}
	if g.allJoined() {
		g.completeJoin()
		return
	}
	s.timers.set(&g.phase, s.now+int64(g.rebalanceMs()))
}

// joinPhaseOver runs when the join phase has reached its time limit. The first one after Empty is extended with each
// newcomer.
func (g *group) joinPhaseOver() {
	s := g.shard
	if g.initial && g.newcomers && g.leftMs > 0 && s.config.InitialDelayMs > 0 {
		more := min(s.config.InitialDelayMs, g.leftMs)
		g.newcomers, g.leftMs = false, g.leftMs-more
		s.timers.set(&g.phase, s.now+int64(more))
		return
	}
	g.completeJoin()
}

// completeJoin ends the join phase: members that did not join are removed, and the others get their generation.
func (g *group) completeJoin() {
	s := g.shard
	s.timers.stop(&g.phase)
	for _, m := range g.ordered() {
		if !m.isJoined() && m.instance == "" {
			g.evict(m, ErrUnknownMember)
		}
	}
	if len(g.members) > 0 && !g.electLeader() {
		// Only static members, none of whom has joined: their sessions end, or their next incarnations join.
		g.initial = false
		s.timers.set(&g.phase, s.now+int64(g.rebalanceMs()))
		return
	}
	g.initial = false
	g.generation++
	g.rebalances++
	if len(g.members) == 0 {
		g.becomeEmpty()
		return
	}
	g.protocol = g.selectProtocol()
	g.enter(CompletingRebalance)
	for _, m := range g.ordered() {
		s.reply(m.joining, g.joinAnswer(m, m.id == g.leader))
		m.joining, m.isNew, m.unsynced, m.assignment = 0, false, true, nil
		g.touch(m)
	}
	g.phase.fire = func(int64) { g.syncPhaseOver() }
	s.timers.set(&g.phase, s.now+int64(g.rebalanceMs()))
}

// electLeader makes sure that the leader is among those who have joined. It reports whether there is one.
func (g *group) electLeader() bool {
	if m := g.members[g.leader]; m != nil && m.isJoined() {
		return true
	}
	for _, m := range g.ordered() {
		if m.isJoined() {
			g.leader = m.id
			return true
		}
	}
	return false
}

// becomeEmpty follows the loss of a group's last member. It is recorded so that the retention of offsets starts here; a
// failure to record it is harmless: the next start finds the members and expires them.
func (g *group) becomeEmpty() {
	g.protocol, g.leader = "", ""
	g.enter(Empty)
	record := g.record(currentAssignment)
	g.shard.append(record)
	g.shard.settled(func(err error) {
		if err == nil {
			g.recorded = record.State
		}
		g.shard.forget(g)
	})
}

// memberGone continues after members have left.
func (g *group) memberGone() {
	switch g.state {
	case Stable, CompletingRebalance:
		g.rebalance()
	case PreparingRebalance:
		if g.allJoined() && (!g.initial || len(g.members) == 0) {
			g.completeJoin()
		}
	}
	g.shard.forget(g)
}
