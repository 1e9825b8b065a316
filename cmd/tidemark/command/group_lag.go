package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// groupLag is how far a group is behind.
type groupLag struct {
	Group      string         `json:"group"`
	State      string         `json:"state"`
	Members    int            `json:"members"`
	Total      int64          `json:"lag"`
	Largest    int64          `json:"largest_lag"` // of one partition
	Partitions []partitionLag `json:"partitions"`
}

// partitionLag is how far a group is behind in one partition: the offsets from its commit to the end, and 0 if no record
// is among them. Without a commit, Committed is -1 and Lag is the whole readable range.
type partitionLag struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"`
	Start     int64  `json:"start_offset"`
	End       int64  `json:"end_offset"`
	Lag       int64  `json:"lag"`
	Member    string `json:"member"` // reading it, or ""
	Host      string `json:"host"`
}

// lagOf measures how far a group is behind in everything that it has committed or is assigned.
func lagOf(ctx context.Context, kc *kgo.Client, g kadm.DescribedGroup) (groupLag, error) {
	admin := kadm.NewClient(kc)
	out := groupLag{Group: g.Group, State: g.State, Members: len(g.Members), Partitions: []partitionLag{}}
	committed, err := committedOffsets(ctx, admin, g.Group)
	if err != nil {
		return out, err
	}
	readers := map[string]map[int32]kadm.DescribedGroupMember{}
	topics := map[string]map[int32]bool{}
	add := func(topic string, partition int32) {
		if topics[topic] == nil {
			topics[topic], readers[topic] = map[int32]bool{}, map[int32]kadm.DescribedGroupMember{}
		}
		topics[topic][partition] = true
	}
	for topic, offsets := range committed {
		for partition := range offsets {
			add(topic, partition)
		}
	}
	for _, m := range g.Members {
		assigned, _ := m.Assigned.AsConsumer()
		if assigned == nil {
			continue
		}
		for _, t := range assigned.Topics {
			for _, partition := range t.Partitions {
				add(t.Topic, partition)
				readers[t.Topic][partition] = m
			}
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		rows, err := topicLag(ctx, kc, topic, slices.Sorted(maps.Keys(topics[topic])), committed[topic])
		if err != nil {
			return out, err
		}
		for _, row := range rows {
			if m, ok := readers[topic][row.Partition]; ok {
				row.Member, row.Host = m.ClientID, m.ClientHost
			}
			out.Total += row.Lag
			out.Largest = max(out.Largest, row.Lag)
			out.Partitions = append(out.Partitions, row)
		}
	}
	return out, nil
}

// topicLag measures a group's lag in partitions of one topic. Deleted topics and partitions are left out.
func topicLag(
	ctx context.Context, kc *kgo.Client, topic string, partitions []int32, committed map[int32]int64,
) ([]partitionLag, error) {
	about, err := topicDetail(ctx, kadm.NewClient(kc), topic)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	partitions = slices.DeleteFunc(partitions, func(p int32) bool { _, there := about.Partitions[p]; return !there })
	readable, err := extents(ctx, kc, topic, partitions, false)
	if err != nil {
		return nil, err
	}
	probe := newProber(kc, about, false)
	var rows []partitionLag
	for _, p := range partitions {
		e := readable[p]
		row := partitionLag{Topic: topic, Partition: p, Committed: -1, Start: e.Start, End: e.End}
		from := e.Start
		if at, ok := committed[p]; ok {
			row.Committed, from = at, max(at, e.Start)
		}
		row.Lag = max(e.End-from, 0)
		if row.Lag > 0 {
			empty, err := probe.empty(ctx, p, from, e.End)
			if err != nil {
				return nil, fmt.Errorf("topic %q partition %d: %w", topic, p, err)
			}
			if empty {
				row.Lag = 0 // only markers, or gaps of compaction
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// committedOffsets returns the offsets that a group has committed, by topic and partition: none for a group that does not
// exist.
func committedOffsets(ctx context.Context, admin *kadm.Client, group string) (map[string]map[int32]int64, error) {
	answers, err := admin.FetchOffsets(ctx, group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, explain("group", group, err)
	}
	out := map[string]map[int32]int64{}
	for topic, partitions := range answers {
		for p, r := range partitions {
			if r.Err != nil {
				return nil, fmt.Errorf("group %q: offset of %s partition %d: %w", group, topic, p, r.Err)
			}
			if r.At < 0 {
				continue
			}
			if out[topic] == nil {
				out[topic] = map[int32]int64{}
			}
			out[topic][p] = r.At
		}
	}
	return out, nil
}

func newGroupLag(client *clientFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "lag [GROUP...]",
		Short: "Show how far groups are behind",
		Long: `Show how far groups are behind: one line for each group, or one line for each partition of the groups that are named.
Lag is the number of offsets from the committed one to the end, and 0 if no record is among them.`,
		Example: `  tidemark group lag
  tidemark group lag billing --output json`,
		ValidArgsFunction: client.completeGroups,
	}
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, names []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		summary := len(names) == 0
		kc, err := client.connect(c.Context())
		if err != nil {
			return err
		}
		defer kc.Close()
		admin := kadm.NewClient(kc)
		if summary {
			listed, err := admin.ListGroups(c.Context())
			if err != nil {
				return fmt.Errorf("asking for groups: %w", err)
			}
			names = listed.Groups()
		}
		lags, err := lagsOf(c.Context(), kc, names)
		if err != nil {
			return err
		}
		if asJSON {
			return writeJSON(c.OutOrStdout(), lags)
		}
		if summary {
			return printLagSummary(c, lags)
		}
		for i, g := range lags {
			if i > 0 {
				fmt.Fprintln(c.OutOrStdout())
			}
			if err := g.print(c); err != nil {
				return err
			}
		}
		return nil
	}
	return c
}

func lagsOf(ctx context.Context, kc *kgo.Client, names []string) ([]groupLag, error) {
	lags := []groupLag{}
	if len(names) == 0 {
		return lags, nil
	}
	groups, err := describeGroups(ctx, kadm.NewClient(kc), names)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		lag, err := lagOf(ctx, kc, g)
		if err != nil {
			return nil, err
		}
		if isNoGroup(g, lag) {
			return nil, explain("group", g.Group, kerr.GroupIDNotFound)
		}
		lags = append(lags, lag)
	}
	return lags, nil
}

// isNoGroup reports whether a description is that of a name without a group.
func isNoGroup(g kadm.DescribedGroup, lag groupLag) bool {
	return g.State == "Dead" && len(g.Members) == 0 && len(lag.Partitions) == 0
}

func printLagSummary(c *cobra.Command, lags []groupLag) error {
	if len(lags) == 0 {
		_, err := fmt.Fprintln(c.ErrOrStderr(), "no groups")
		return err
	}
	slices.SortFunc(lags, func(a, b groupLag) int {
		return cmp.Or(-cmp.Compare(a.Total, b.Total), strings.Compare(a.Group, b.Group))
	})
	t := newTable(c.OutOrStdout(), "GROUP", "STATE", "MEMBERS", "LAG", "LARGEST")
	for _, g := range lags {
		t.row(g.Group, g.State, g.Members, g.Total, g.Largest)
	}
	return t.flush()
}

func (g groupLag) print(c *cobra.Command) error {
	fmt.Fprintf(c.OutOrStdout(), "%s  %s  %s  lag %s\n", g.Group, g.State, plural(g.Members, "member"), count(g.Total))
	if len(g.Partitions) == 0 {
		return nil
	}
	t := newTable(c.OutOrStdout(), "TOPIC", "PARTITION", "COMMITTED", "START", "END", "LAG", "MEMBER", "HOST")
	for _, p := range g.Partitions {
		t.row(p.Topic, p.Partition, offsetText(p.Committed), p.Start, p.End, p.Lag, dash(p.Member), dash(p.Host))
	}
	return t.flush()
}
