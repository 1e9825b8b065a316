package coordinator

// describe handles one group of a DescribeGroups.
func (s *Shard) describe(r *Describe) *Description {
	g := s.groups[r.Group]
	if g == nil {
		return &Description{Err: ErrGroupNotFound, State: Dead}
	}
	d := &Description{State: g.state, ProtocolType: g.protocolType, Rebalances: g.rebalances}
	if g.state == Stable {
		d.Protocol = g.protocol
	}
	for _, m := range g.ordered() {
		one := DescribedMember{
			ID: m.id, InstanceID: m.instance, ClientID: m.clientID, ClientHost: m.clientHost,
			SessionMs: m.sessionMs, RebalanceMs: m.rebalanceMs,
		}
		if g.state == Stable {
			one.Metadata, one.Assignment = m.metadata(g.protocol), m.assignment
		}
		d.Members = append(d.Members, one)
	}
	return d
}

// list handles a ListGroups.
func (s *Shard) list() *Listing {
	l := &Listing{}
	for _, g := range s.sortedGroups() {
		l.Groups = append(l.Groups, ListedGroup{Group: g.id, ProtocolType: g.protocolType, State: g.state})
	}
	return l
}

// Len is the number of groups.
func (s *Shard) Len() int { return len(s.groups) }
