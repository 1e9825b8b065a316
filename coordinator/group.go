package coordinator

import (
	"bytes"
	"maps"
	"slices"
)

// State is where a group is in its life. The text is Kafka's.
type State string

// The states of a classic group.
const (
	Empty               State = "Empty"               // no members; perhaps offsets
	PreparingRebalance  State = "PreparingRebalance"  // waits for members to join
	CompletingRebalance State = "CompletingRebalance" // has a generation, waits for the leader's assignments
	Stable              State = "Stable"              // has assignments
	Dead                State = "Dead"                // there is no such group
)

// consumerProtocol is the protocol type of groups whose members are consumers. The metadata of their protocols is a
// subscription.
const consumerProtocol = "consumer"

// group is one group. What is recorded of it, and what a start of the coordinator therefore finds again, changes only in
// settle functions and where Kafka changes it first too: when the last member has gone, and when a static member is
// replaced.
type group struct {
	id    string
	shard *Shard

	state        State
	sinceMs      int64  // when it entered the state, or -1
	protocolType string // empty: it never had members
	protocol     string // selected; empty without members
	generation   int32
	rebalances   int64  // completed since the shard was loaded
	leader       string // member id; empty without members

	recorded *GroupMetadata // what the log has of it; nil: nothing. Never changed, only replaced

	members map[string]*member
	static  map[string]string // member ids by instance id
	pending map[string]*timer // ids that were handed out and did not join yet (KIP-394)

	phase timer // the end of the join phase, or of the wait for syncs

	// Of the first join phase after Empty: it ends by time alone.
	initial   bool
	newcomers bool  // somebody joined since the delay was last set
	leftMs    int32 // by how much the delay may still grow

	offsets map[string]map[int32]*stored // by topic and partition
}

// member is one member of a group.
type member struct {
	id, instance         string
	clientID, clientHost string
	sessionMs            int32
	rebalanceMs          int32
	protocols            []Protocol
	assignment           []byte
	order                uint64

	isNew    bool   // its first JoinGroup has not been answered yet
	joining  Ticket // its parked JoinGroup
	syncing  Ticket // its parked SyncGroup
	unsynced bool   // it knows of the generation and has not synced yet

	session timer
}

// stored is a committed offset and where in the log it is.
type stored struct {
	Offset
	at int64 // offset of the record in the partition; -1: appended since the start
}

func newGroup(s *Shard, id string) *group {
	return &group{
		id: id, shard: s, state: Empty, sinceMs: -1,
		members: map[string]*member{}, static: map[string]string{}, pending: map[string]*timer{},
		offsets: map[string]map[int32]*stored{},
	}
}

func (g *group) enter(s State) { g.state, g.sinceMs = s, g.shard.wall() }

// ordered is the members in the order in which they came.
func (g *group) ordered() []*member {
	return slices.SortedFunc(maps.Values(g.members), func(a, b *member) int {
		if a.order < b.order {
			return -1
		}
		return 1
	})
}

// isJoined says whether a member waits for the next generation.
func (m *member) isJoined() bool { return m.joining != 0 }

// allJoined says whether the join phase has nobody to wait for.
func (g *group) allJoined() bool {
	for _, m := range g.members {
		if !m.isJoined() {
			return false
		}
	}
	return len(g.pending) == 0
}

// rebalanceMs is how long the slowest member may take to join.
func (g *group) rebalanceMs() int32 {
	var longest int32
	for _, m := range g.members {
		longest = max(longest, m.rebalanceMs)
	}
	return longest
}

// supports says whether a member with these protocols can be in the group.
func (g *group) supports(protocolType string, protocols []Protocol) bool {
	if len(g.members) == 0 {
		return protocolType != "" && len(protocols) > 0
	}
	if g.protocolType != protocolType {
		return false
	}
	return slices.ContainsFunc(protocols, func(p Protocol) bool { return g.allKnow(p.Name) })
}

// allKnow says whether every member knows a protocol.
func (g *group) allKnow(name string) bool {
	for _, m := range g.members {
		if !m.knows(name) {
			return false
		}
	}
	return true
}

func (m *member) knows(name string) bool {
	return slices.ContainsFunc(m.protocols, func(p Protocol) bool { return p.Name == name })
}

// selectProtocol is the protocol that most members prefer among those that all know. Of equals the one that the member who
// has been there longest prefers.
func (g *group) selectProtocol() string {
	votes := map[string]int{}
	ordered := g.ordered()
	for _, m := range ordered {
		for _, p := range m.protocols {
			if g.allKnow(p.Name) {
				votes[p.Name]++
				break
			}
		}
	}
	best := ""
	for _, p := range ordered[0].protocols { // what all know is among them
		if votes[p.Name] > votes[best] {
			best = p.Name
		}
	}
	return best
}

// metadata is what a member has to say for a protocol.
func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

// matches says whether the member has exactly these protocols.
func (m *member) matches(protocols []Protocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b Protocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

// check finds a member by what a request says of it.
func (g *group) check(id, instance string) (*member, error) {
	if instance != "" {
		switch owner, ok := g.static[instance]; {
		case !ok:
			return nil, ErrUnknownMember
		case owner != id:
			return nil, ErrFencedInstance
		}
	}
	m := g.members[id]
	if m == nil {
		return nil, ErrUnknownMember
	}
	return m, nil
}

// touch gives a member a whole session from now.
func (g *group) touch(m *member) {
	g.shard.timers.set(&m.session, g.shard.now+int64(m.sessionMs))
}

// sessionEnded runs when a member has not been heard of for its session timeout. One that waits for us is alive, unless it
// is new: then its client may have gone long ago.
func (g *group) sessionEnded(m *member) {
	if !m.isNew && (m.joining != 0 || m.syncing != 0) {
		return
	}
	g.evict(m, ErrUnknownMember)
	g.memberGone()
}

// add makes a member of a client, and starts no rebalance.
func (g *group) add(m *member) {
	s := g.shard
	s.members++
	m.order = s.members
	m.session.fire = func(int64) { g.sessionEnded(m) }
	g.members[m.id] = m
	if m.instance != "" {
		g.static[m.instance] = m.id
	}
	if g.leader == "" {
		g.leader = m.id
	}
}

// evict takes a member out, and answers what it has parked.
func (g *group) evict(m *member, err error) {
	g.shard.dropParked(m, err)
	g.shard.timers.stop(&m.session)
	delete(g.members, m.id)
	if g.static[m.instance] == m.id {
		delete(g.static, m.instance)
	}
	if g.leader == m.id {
		g.leader = ""
		for _, other := range g.ordered() {
			g.leader = other.id
			break
		}
	}
}

// dropParked answers what a member has parked with an error.
func (s *Shard) dropParked(m *member, err error) {
	s.reply(m.joining, refuseJoin(m.id, err))
	s.reply(m.syncing, &SyncAnswer{Err: err})
	m.joining, m.syncing = 0, 0
}

// forgetPending forgets an id that was handed out. It reports whether there was one.
func (g *group) forgetPending(id string) bool {
	t, ok := g.pending[id]
	if ok {
		g.shard.timers.stop(t)
		delete(g.pending, id)
	}
	return ok
}

// record is the group as it is to be found by the next start, with the given assignments.
func (g *group) record(assignments func(*member) []byte) GroupRecord {
	state := &GroupMetadata{ProtocolType: g.protocolType, Generation: g.generation, SinceMs: g.sinceMs}
	if len(g.members) > 0 {
		protocol, leader := g.protocol, g.leader
		state.Protocol, state.Leader = &protocol, &leader
	}
	for _, m := range g.ordered() {
		state.Members = append(state.Members, MemberMetadata{
			ID: m.id, InstanceID: m.instance, ClientID: m.clientID, ClientHost: m.clientHost,
			RebalanceMs: m.rebalanceMs, SessionMs: m.sessionMs,
			Subscription: m.metadata(g.protocol), Assignment: assignments(m),
		})
	}
	return GroupRecord{Group: g.id, State: state}
}

func currentAssignment(m *member) []byte { return m.assignment }
