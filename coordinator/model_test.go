package coordinator_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/coordinator"
)

// The model test plays clients of one group, static and dynamic ones, who do what they like in any order: join, sync, beat,
// leave, commit, vanish, come back; the coordinator stops and starts; its log refuses. After every step it holds what was
// answered against what may be said, by a reference that knows no states, timers or phases, only these rules:
//
//   - generations go up, and every member of a generation is told the same protocol and the same leader;
//   - exactly one member of a generation is told who its members are, the leader, and all of these know of the generation
//     or are static;
//   - a member that is told its assignment is told what the leader of that generation said, and nothing else;
//   - of a static instance, nobody but the last incarnation is heard;
//   - an offset is the one of the last commit that was answered without an error, also after a start;
//   - when all who are left only do what a client must, they come to a generation that is stable, and whoever is not there
//     is not in it: no assignment is left with the dead.

// modelClient is one client.
type modelClient struct {
	instance    string // empty: dynamic
	rebalanceMs int32
	id          string // as it was last told
	former      string // id of an earlier incarnation
	gen         int32
	leads       bool
	members     []string
	join        coordinator.Ticket // that it waits for
	sync        coordinator.Ticket
	syncOf      int32
	alive       bool
}

// modelGeneration is what was said of one generation, in one life of the coordinator.
type modelGeneration struct {
	leader   string
	members  []string          // as the leader was told
	assigned map[string]string // what the leader said, once it was taken
}

type model struct {
	*rig
	clients     []*modelClient
	generations map[int32]*modelGeneration
	highest     int32
	offsets     map[int32]int64 // by partition, of commits that were taken
	commits     int64
	stamp       int
}

const modelGroup = "g"

func TestModelOfTheGroupProtocol(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{generations: map[int32]*modelGeneration{}, offsets: map[int32]int64{}}
		m.rig = newRig(t, func(c *coordinator.Config) {
			c.InitialDelayMs = rapid.SampledFrom([]int32{0, 3000}).Draw(t, "delay")
			c.MaxSize = rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "limit")
		})
		for i := range 5 {
			c := &modelClient{rebalanceMs: rapid.SampledFrom([]int32{rebalance, session / 2}).Draw(t, "rebalance time-out")}
			if i >= 3 {
				c.instance = fmt.Sprintf("i%d", i)
			}
			m.clients = append(m.clients, c)
		}
		t.Repeat(map[string]func(*rapid.T){
			"join":    func(t *rapid.T) { m.doJoin(t, m.draw(t)) },
			"join 2":  func(t *rapid.T) { m.doJoin(t, m.draw(t)) },
			"sync":    func(t *rapid.T) { m.doSync(m.draw(t)) },
			"sync 2":  func(t *rapid.T) { m.doSync(m.draw(t)) },
			"beat":    func(t *rapid.T) { m.doBeat(m.draw(t)) },
			"leave":   func(t *rapid.T) { m.doLeave(m.draw(t)) },
			"commit":  func(t *rapid.T) { m.doCommit(t, m.draw(t)) },
			"vanish":  func(t *rapid.T) { m.vanish(m.draw(t)) },
			"time":    func(t *rapid.T) { m.pass(rapid.Int64Range(0, 12_000).Draw(t, "ms")) },
			"restart": func(*rapid.T) { m.doRestart() },
			"refuse": func(t *rapid.T) {
				m.refuse = rapid.SampledFrom([]error{nil, nil, errors.New("refused")}).Draw(t, "log")
			},
			"": func(t *rapid.T) { m.collect(); m.checkMembers(); m.checkOffsets(t); m.checkDescription(t) },
		})
		m.settleDown(t)
	})
}

func (m *model) draw(t *rapid.T) *modelClient {
	return m.clients[rapid.IntRange(0, len(m.clients)-1).Draw(t, "client")]
}

func (m *model) doJoin(t *rapid.T, c *modelClient) {
	protocols := rapid.SampledFrom([][]string{{"range"}, {"range", "sticky"}, {"sticky", "range"}}).Draw(t, "protocols")
	m.joinWith(c, protocols)
}

func (m *model) joinWith(c *modelClient, protocols []string) {
	j := joining(modelGroup, c.id, c.instance, protocols...)
	j.RebalanceMs = c.rebalanceMs
	c.alive, c.sync = true, 0
	c.join = m.send(j)
	m.collect()
}

// doSync syncs the generation that a client knows of; a leader assigns to each member a text that names all of it.
func (m *model) doSync(c *modelClient) {
	if c.gen == 0 || c.join != 0 {
		return
	}
	s := syncing(modelGroup, c.id, c.gen, nil)
	s.InstanceID = c.instance
	if c.leads {
		s.Assignments = map[string][]byte{}
		m.stamp++
		for _, id := range c.members {
			s.Assignments[id] = fmt.Appendf(nil, "%d/%s/%d", c.gen, id, m.stamp)
		}
	}
	before := len(m.log)
	c.sync, c.syncOf = m.send(s), c.gen
	if c.leads && len(m.log) > before { // it was taken
		g := m.generations[c.gen]
		require.Nil(m.t, g.assigned, "generation %d is assigned twice", c.gen)
		g.assigned = map[string]string{}
		for id, a := range s.Assignments {
			g.assigned[id] = string(a)
		}
	}
	m.collect()
}

func (m *model) doBeat(c *modelClient) {
	if c.id == "" {
		return
	}
	b := beating(modelGroup, c.id, c.gen)
	b.InstanceID = c.instance
	err := do[*coordinator.Done](m.rig, b).Err
	if errors.Is(err, coordinator.ErrUnknownMember) || errors.Is(err, coordinator.ErrFencedInstance) {
		m.reset(c)
	}
	if c.former != "" && c.instance != "" {
		old := beating(modelGroup, c.former, c.gen)
		old.InstanceID = c.instance
		require.Error(m.t, do[*coordinator.Done](m.rig, old).Err, "an earlier incarnation is heard")
	}
}

func (m *model) doLeave(c *modelClient) {
	if c.id == "" {
		return
	}
	a := do[*coordinator.LeaveAnswer](m.rig, &coordinator.Leave{
		Group: modelGroup, Members: []coordinator.LeavingMember{{ID: c.id, InstanceID: c.instance}},
	})
	if a.Err == nil && a.Members[0] == nil {
		m.collect()
		m.reset(c)
		c.alive = false
	}
}

func (m *model) doCommit(t *rapid.T, c *modelClient) {
	partition := rapid.Int32Range(0, 2).Draw(t, "partition")
	commit := committing(modelGroup, c.id, c.gen, "t", partition, m.commits+1)
	commit.InstanceID = c.instance
	if c.id == "" || c.gen == 0 {
		commit.MemberID, commit.Generation, commit.InstanceID = "", -1, ""
	}
	m.commits++
	if m.commit(commit) == nil {
		require.NoError(t, m.refuse, "a commit that is not in the log was answered")
		m.offsets[partition] = m.commits
	}
}

// vanish ends a client's process. A static one comes back without its id.
func (m *model) vanish(c *modelClient) {
	m.reset(c)
	c.alive = false
}

func (m *model) reset(c *modelClient) {
	if c.id != "" {
		c.former = c.id
	}
	c.id, c.gen, c.leads, c.members, c.join, c.sync = "", 0, false, nil, 0, 0
}

// doRestart ends the coordinator and starts another one with what is in the log. Generations that were not recorded may
// come again, with other members.
func (m *model) doRestart() {
	m.restart()
	m.forgetGenerations()
	for _, c := range m.clients {
		c.join, c.sync = 0, 0
		// A client whose connection breaks joins again before it syncs.
		c.leads, c.members, c.gen = false, nil, 0
	}
}

// forgetGenerations lets generations begin anew.
func (m *model) forgetGenerations() {
	m.generations = map[int32]*modelGeneration{}
	m.answers = map[coordinator.Ticket]coordinator.Answer{}
	m.highest = 0
}

// collect takes in what has been answered, and checks it against the rules.
func (m *model) collect() {
	for _, c := range m.clients {
		if c.join != 0 && !m.parked(c.join) {
			a := answer[*coordinator.JoinAnswer](m.rig, c.join)
			c.join = 0
			m.joined(c, a)
		}
		if c.sync != 0 && !m.parked(c.sync) {
			a := answer[*coordinator.SyncAnswer](m.rig, c.sync)
			c.sync = 0
			m.synced(c, a)
		}
	}
}

// checkMembers holds that who is in a generation knows of it, but for static members, who may be away.
func (m *model) checkMembers() {
	told := map[int32]map[string]bool{}
	for _, a := range m.answers { // also to clients that have vanished since
		if a, ok := a.(*coordinator.JoinAnswer); ok && a.Err == nil {
			if told[a.Generation] == nil {
				told[a.Generation] = map[string]bool{}
			}
			told[a.Generation][a.MemberID] = true
		}
	}
	for generation, g := range m.generations {
		for _, id := range g.members {
			require.True(m.t, told[generation][id] || strings.HasPrefix(id, "i"), "generation %d, member %s", generation, id)
		}
	}
}

func (m *model) joined(c *modelClient, a *coordinator.JoinAnswer) {
	if a.Err != nil {
		require.Equal(m.t, int32(-1), a.Generation)
		switch {
		case errors.Is(a.Err, coordinator.ErrMemberIDRequired):
			require.Empty(m.t, c.instance, "static members need no second round")
			c.id = a.MemberID
		case errors.Is(a.Err, coordinator.ErrUnknownMember), errors.Is(a.Err, coordinator.ErrFencedInstance):
			m.reset(c)
		}
		return
	}
	if c.instance != "" && c.id != a.MemberID {
		require.True(m.t, strings.HasPrefix(a.MemberID, c.instance+"-"))
	}
	c.id, c.gen = a.MemberID, a.Generation
	c.leads, c.members = len(a.Members) > 0 && !a.SkipAssignment, nil
	g := m.generations[a.Generation]
	if g == nil {
		require.Greater(m.t, a.Generation, m.highest, "generations go up")
		m.highest = a.Generation
		g = &modelGeneration{leader: a.Leader}
		m.generations[a.Generation] = g
	}
	if len(a.Members) == 0 || a.SkipAssignment {
		return
	}
	require.Equal(m.t, a.MemberID, a.Leader, "only the leader is told of the members")
	for _, member := range a.Members {
		c.members = append(c.members, member.ID)
	}
	require.Contains(m.t, c.members, a.MemberID)
	require.Len(m.t, c.members, len(slices.Compact(slices.Sorted(slices.Values(c.members)))), "no member is twice")
	g.leader, g.members = a.Leader, c.members
}

func (m *model) synced(c *modelClient, a *coordinator.SyncAnswer) {
	if a.Err != nil {
		if errors.Is(a.Err, coordinator.ErrUnknownMember) || errors.Is(a.Err, coordinator.ErrFencedInstance) {
			m.reset(c)
		}
		return
	}
	g := m.generations[c.syncOf]
	require.NotNil(m.t, g)
	if g.assigned == nil {
		return // assigned in an earlier life of the coordinator
	}
	want, assigned := g.assigned[c.id]
	if !assigned && c.former != "" {
		want = g.assigned[m.predecessor(g, c)] // a static member that took the place of an earlier one
	}
	require.Equal(m.t, want, string(a.Assignment), "generation %d, member %s", c.syncOf, c.id)
}

// predecessor is the id of a static member's incarnation that was in a generation.
func (m *model) predecessor(g *modelGeneration, c *modelClient) string {
	for id := range g.assigned {
		if c.instance != "" && strings.HasPrefix(id, c.instance+"-") {
			return id
		}
	}
	return ""
}

func (m *model) checkOffsets(t *rapid.T) {
	for partition := range int32(3) {
		want, ok := m.offsets[partition]
		if !ok {
			want = -1
		}
		require.Equal(t, want, m.committed(modelGroup, "t", partition), "partition %d", partition)
	}
}

// checkDescription holds what administrators see against itself.
func (m *model) checkDescription(t *rapid.T) {
	d := m.describe(modelGroup)
	if d.State == coordinator.Dead { // a group that never got into the log is forgotten with its last member
		m.forgetGenerations()
	}
	if d.State == coordinator.Empty || d.State == coordinator.Dead {
		require.Empty(t, d.Members)
	} else if d.State != coordinator.PreparingRebalance { // only ids may be out that nobody has used yet
		require.NotEmpty(t, d.Members)
	}
	instances := map[string]bool{}
	for _, member := range d.Members {
		if member.InstanceID != "" {
			require.False(t, instances[member.InstanceID], "instance %s appears twice", member.InstanceID)
			instances[member.InstanceID] = true
		}
	}
	if m.config.MaxSize > 0 && d.State == coordinator.CompletingRebalance {
		require.LessOrEqual(t, len(d.Members), m.config.MaxSize+2, "static members that are away are kept")
	}
}

// settleDown has every client that lives behave, and the dead stay dead. It must end in a stable generation of the living.
func (m *model) settleDown(t *rapid.T) {
	m.refuse = nil
	living := 0
	for _, c := range m.clients {
		if c.alive && (m.config.MaxSize == 0 || living < m.config.MaxSize) {
			living++
		} else {
			m.vanish(c)
		}
	}
	if living == 0 {
		m.pass(2 * (session + rebalance + 3000))
		require.Empty(t, m.describe(modelGroup).Members)
		return
	}
	for range 400 {
		for _, c := range m.clients {
			if c.alive {
				m.behave(c)
			}
		}
		m.collect()
		m.pass(1000)
		m.collect()
	}
	m.checkMembers()
	d := m.describe(modelGroup)
	require.Equal(t, coordinator.Stable, d.State)
	want := map[string]bool{}
	for _, c := range m.clients {
		if c.alive {
			want[c.id] = true
		}
	}
	got := map[string]bool{}
	for _, member := range d.Members {
		got[member.ID] = true
		require.NotEmpty(t, member.Assignment, "member %s", member.ID)
	}
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)), "the dead are out and the living are in")
}

// behave is one turn of a client that keeps to the protocol.
func (m *model) behave(c *modelClient) {
	if c.join != 0 || c.sync != 0 {
		return
	}
	if c.id == "" || c.gen == 0 {
		m.joinWith(c, []string{"range"})
		return
	}
	b := beating(modelGroup, c.id, c.gen)
	b.InstanceID = c.instance
	err := do[*coordinator.Done](m.rig, b).Err
	switch {
	case errors.Is(err, coordinator.ErrUnknownMember), errors.Is(err, coordinator.ErrFencedInstance):
		m.reset(c)
	case err != nil:
		m.joinWith(c, []string{"range"})
	case m.describe(modelGroup).State == coordinator.CompletingRebalance:
		m.doSync(c)
	}
}
