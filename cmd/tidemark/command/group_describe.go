package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// describedGroup is what `group describe` prints of one group.
type describedGroup struct {
	Name        string   `json:"name"`
	State       string   `json:"state"`
	Protocol    string   `json:"protocol"`
	Assignor    string   `json:"assignor"`
	Coordinator int32    `json:"coordinator"`
	Members     []member `json:"members"`
	Lag         groupLag `json:"lag"`
}

func newGroupDescribe(client *clientFlags) *cobra.Command {
	c := &cobra.Command{
		Use:               "describe GROUP...",
		Short:             "Show the state, members, offsets and lag of groups",
		Example:           "  tidemark group describe billing",
		Args:              atLeastOne("GROUP"),
		ValidArgsFunction: client.completeGroups,
	}
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, names []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		kc, err := client.connect(c.Context())
		if err != nil {
			return err
		}
		defer kc.Close()
		groups, err := describeGroups(c.Context(), kadm.NewClient(kc), names)
		if err != nil {
			return err
		}
		rows := []describedGroup{}
		for _, g := range groups {
			lag, err := lagOf(c.Context(), kc, g)
			if err != nil {
				return err
			}
			if isNoGroup(g, lag) {
				return explain("group", g.Group, kerr.GroupIDNotFound)
			}
			rows = append(rows, describedGroup{
				Name: g.Group, State: g.State, Protocol: g.ProtocolType, Assignor: g.Protocol,
				Coordinator: g.Coordinator.NodeID, Members: membersOf(g), Lag: lag,
			})
		}
		if asJSON {
			return writeJSON(c.OutOrStdout(), rows)
		}
		for i, g := range rows {
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

func (g describedGroup) print(c *cobra.Command) error {
	out := c.OutOrStdout()
	fmt.Fprintf(out, "coordinator %d  protocol %s  assignor %s\n", g.Coordinator, dash(g.Protocol), dash(g.Assignor))
	if err := g.Lag.print(c); err != nil || len(g.Members) == 0 {
		return err
	}
	t := newTable(out, "MEMBER", "CLIENT", "HOST", "PARTITIONS")
	for _, m := range g.Members {
		name := m.ID
		if m.Instance != nil {
			name = *m.Instance + " (" + m.ID + ")"
		}
		t.row(name, m.Client, m.Host, m.partitions())
	}
	return t.flush()
}

// partitions formats what a member reads: orders 0,1,2  audit 0.
func (m member) partitions() string {
	var words []string
	for _, topic := range slices.Sorted(maps.Keys(m.Partitions)) {
		numbers := strings.ReplaceAll(strings.Trim(fmt.Sprint(m.Partitions[topic]), "[]"), " ", ",")
		words = append(words, topic+" "+numbers)
	}
	return dash(strings.Join(words, "  "))
}
