package node

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tidemark-io/tidemark/admin"
	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/coordinator"
	"github.com/tidemark-io/tidemark/coordinator/runner"
	"github.com/tidemark-io/tidemark/observe"
	"github.com/tidemark-io/tidemark/partition"
)

// groupsTime bounds how long the metrics and the status page wait for the coordinator. It answers only when its state is
// durable, and a failing disk must not hide itself from operators.
const groupsTime = 2 * time.Second

// groupStates returns the groups that the metrics and the status page show: those of shards that are loaded.
func (n *Node) groupStates(groups *runner.Runner) []observe.GroupState {
	ctx, cancel := context.WithTimeout(n.life, groupsTime)
	defer cancel()
	listing := groups.List(ctx)
	asked := make([]askedGroup, 0, len(listing.Groups))
	for _, g := range listing.Groups {
		asked = append(asked, askedGroup{
			name: g.Group, state: string(g.State),
			members: groups.Submit(&coordinator.Describe{Group: g.Group}),
			offsets: groups.Submit(&coordinator.Fetch{Group: g.Group, All: true}),
		})
	}
	states := make([]observe.GroupState, 0, len(asked))
	for _, a := range asked {
		described, _ := answerOf(ctx, a.members).(*coordinator.Description)
		fetched, _ := answerOf(ctx, a.offsets).(*coordinator.FetchAnswer)
		if described == nil || described.Err != nil || fetched == nil || fetched.Err != nil {
			continue // it has just gone, or time ran out
		}
		states = append(states, observe.GroupState{
			Name: a.name, State: a.state, Members: len(described.Members), Rebalances: described.Rebalances,
			Lags: n.lags(fetched.Topics),
		})
	}
	return states
}

// askedGroup is a group and the questions asked about it.
type askedGroup struct {
	name, state      string
	members, offsets *runner.Call
}

// answerOf waits for an answer, and returns nil if ctx ends first.
func answerOf(ctx context.Context, c *runner.Call) coordinator.Answer {
	select {
	case <-c.Done():
		return c.Answer()
	case <-ctx.Done():
		return nil
	}
}

// lags compares committed offsets with the logs on this node.
func (n *Node) lags(topics []coordinator.FetchedTopic) []observe.PartitionLag {
	var lags []observe.PartitionLag
	view := n.meta.View()
	for _, t := range topics {
		known, ok := view.Topic(t.Topic)
		if !ok {
			continue
		}
		for _, p := range t.Partitions {
			l, err := n.partitions.find(known.ID, p.Partition)
			if err != nil || p.Err != nil || p.Offset < 0 {
				continue
			}
			lags = append(lags, observe.PartitionLag{Topic: t.Topic, Partition: p.Partition, Records: behind(l, p.Offset)})
		}
	}
	return lags
}

// A consumer that has read everything may have committed an offset just before the markers that end transactions, and
// stay there forever. So where only a few offsets follow, the records there are read.
const (
	fewOffsets = 16
	fewBytes   = fewOffsets * 128 // of markers, which take 78 each
)

// behind returns how many offsets a group is behind its commit, or 0 when only markers follow.
func behind(l *partition.Log, committed int64) int64 {
	end := l.Offsets().HighWatermark
	n := max(end-committed, 0)
	if n > 0 && n <= fewOffsets && onlyMarkers(l, committed, end) {
		return 0
	}
	return n
}

// onlyMarkers reports whether there are only transaction markers in an offset range.
func onlyMarkers(l *partition.Log, from, to int64) bool {
	read, err := l.Read(from, partition.ReadUncommitted, fewBytes, false)
	if err != nil {
		return false
	}
	defer read.Records.Release()
	rest, err := read.Records.AppendTo(nil)
	for err == nil && len(rest) > 0 {
		var b batch.Batch
		if b, rest, err = batch.Next(rest); err != nil || !b.Attributes().Control() {
			return false
		}
		from = b.NextOffset()
	}
	return err == nil && from >= to
}

// observeGroups registers the metrics of groups, and shows them on the status page.
func (n *Node) observeGroups() {
	states := func() []observe.GroupState { return n.groupStates(n.groups) }
	observe.Groups(n.reg, &n.groupDetail, states)
	n.show(func(s *shown) { s.groups = states })
}

// shownGroups lists the groups for the status page, by name.
func shownGroups(states []observe.GroupState) []admin.Group {
	groups := make([]admin.Group, 0, len(states))
	for _, s := range states {
		sum, most := s.Lag()
		groups = append(groups, admin.Group{Name: s.Name, State: s.State, Members: s.Members, Lag: sum, MaxLag: most})
	}
	slices.SortFunc(groups, func(a, b admin.Group) int { return cmp.Compare(a.Name, b.Name) })
	return groups
}

// groupMetricsSwitch lets administrators change how detailed the metrics of groups are.
func (n *Node) groupMetricsSwitch() *admin.Switch {
	s := &admin.Switch{
		Get: func() string { return string(n.groupDetail.Get()) },
		Set: func(word string) { n.groupDetail.Set(observe.GroupDetail(word)) },
	}
	for _, d := range observe.GroupDetails() {
		s.Words = append(s.Words, string(d))
	}
	return s
}
