package coordinator

import (
	"bytes"
	"maps"
	"slices"
)

// State is the state of a group. The text is Kafka's.
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

// group is one group. Its recorded state, which a restarted coordinator finds again, changes only in settle functions and
// where Kafka changes it first too: when the last member has gone, and when a static member is replaced.
type group struct {
	id    string
	shard *Shard

	state        State
	sinceMs      int64  // when it entered the state, or -1
	protocolType string // empty if it never had members
	protocol     string // selected; empty without members
	generation   int32
	rebalances   int64  // completed since the shard was loaded
	leader       string // member id; empty without members

	recorded *GroupMetadata // what the log has of it, or nil. Never changed, only replaced

	members map[string]*member
	static  map[string]string // member ids by instance id
	pending map[string]*timer // ids that were assigned and have not joined yet (KIP-394)

	phase timer // the end of the join phase, or of the wait for syncs

	// Only for the first join phase after Empty, which ends by time alone.
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
	unsynced bool   // it knows the generation and has not synced yet

	session timer
}

// stored is a committed offset and where in the log it is.
type stored struct {
	Offset
	at int64 // offset of its record in the partition; -1 if appended since the start
}

func newGroup(s *Shard, id string) *group {
	return &group{
		id: id, shard: s, state: Empty, sinceMs: -1,
		members: map[string]*member{}, static: map[string]string{}, pending: map[string]*timer{},
		offsets: map[string]map[int32]*stored{},
	}
}

func (g *group) enter(s State) { g.state, g.sinceMs = s, g.shard.wall() }

// ordered returns the members in the order in which they joined.
func (g *group) ordered() []*member {
	return slices.SortedFunc(maps.Values(g.members), func(a, b *member) int {
		if a.order < b.order {
			return -1
		}
		return 1
	})
}

// isJoined reports whether a member waits for the next generation.
func (m *member) isJoined() bool { return m.joining != 0 }

// allJoined reports whether the join phase need not wait for anybody.
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

// supports reports whether a member with these protocols can be in the group.
func (g *group) supports(protocolType string, protocols []Protocol) bool {
	if len(g.members) == 0 {
		return protocolType != "" && len(protocols) > 0
	}
	if g.protocolType != protocolType {
		return false
	}
	return slices.ContainsFunc(protocols, func(p Protocol) bool { return g.allKnow(p.Name) })
}

// allKnow reports whether every member supports a protocol.
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

// selectProtocol returns the protocol that most members prefer among those that all support. In a tie the preference of
// the oldest member decides.
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
	for _, p := range ordered[0].protocols { // a common protocol is among them
		if votes[p.Name] > votes[best] {
			best = p.Name
		}
	}
	return best
}

// metadata returns a member's metadata for a protocol.
func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

// matches reports whether the member has exactly these protocols.
func (m *member) matches(protocols []Protocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b Protocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

// check finds the member that a request identifies by id or instance.
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

// touch starts a new session for a member now.
func (g *group) touch(m *member) {
	g.shard.timers.set(&m.session, g.shard.now+int64(m.sessionMs))
}

// sessionEnded runs when a member has been silent for its session timeout. One that waits for a reply is alive, unless it
// is new: then its client may have gone long ago.
func (g *group) sessionEnded(m *member) {
	if !m.isNew && (m.joining != 0 || m.syncing != 0) {
		return
	}
	g.evict(m, ErrUnknownMember)
	g.memberGone()
}

// add adds a member, without starting a rebalance.
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

// evict removes a member, and answers its parked requests.
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

// dropParked answers a member's parked requests with an error.
func (s *Shard) dropParked(m *member, err error) {
	s.reply(m.joining, refuseJoin(m.id, err))
	s.reply(m.syncing, &SyncAnswer{Err: err})
	m.joining, m.syncing = 0, 0
}

// forgetPending forgets an assigned id. It reports whether there was one.
func (g *group) forgetPending(id string) bool {
	t, ok := g.pending[id]
	if ok {
		g.shard.timers.stop(t)
		delete(g.pending, id)
	}
	return ok
}

// record returns the group as the next start should find it, with the given assignments.
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
