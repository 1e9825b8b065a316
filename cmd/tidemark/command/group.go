package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func newGroup() *cobra.Command {
	c := &cobra.Command{
		Use:   "group",
		Short: "List, describe and delete consumer groups, and move their offsets",
		Example: `  tidemark group list
  tidemark group lag
  tidemark group describe billing
  tidemark group reset-offsets billing --to -1h              show what would change
  tidemark group reset-offsets billing --to -1h --execute
  tidemark group delete-offsets billing --topic orders
  tidemark group delete billing`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	client := addClientFlags(c)
	c.AddCommand(newGroupList(client), newGroupDescribe(client), newGroupLag(client), newGroupReset(client),
		newGroupDeleteOffsets(client), newGroupDelete(client))
	return c
}

// listedGroup is a row of `group list`.
type listedGroup struct {
	Name        string `json:"name"`
	State       string `json:"state"`
	Type        string `json:"type"`
	Protocol    string `json:"protocol"`
	Coordinator int32  `json:"coordinator"`
}

func newGroupList(client *clientFlags) *cobra.Command {
	var states []string
	c := &cobra.Command{
		Use:   "list",
		Short: "List groups",
		Example: `  tidemark group list
  tidemark group list --state Empty`,
		Args: noArguments,
	}
	c.Flags().StringSliceVar(&states, "state", nil, "only groups in `STATE`: Stable, Empty, PreparingRebalance, CompletingRebalance or Dead")
	output := addOutputFlag(c)
	c.RunE = client.administers(output, func(c *cobra.Command, admin *kadm.Client, _ []string, asJSON bool) error {
		groups, err := admin.ListGroups(c.Context(), states...)
		if err != nil {
			return fmt.Errorf("asking for groups: %w", err)
		}
		rows := []listedGroup{}
		for _, g := range groups.Sorted() {
			rows = append(rows, listedGroup{
				Name: g.Group, State: g.State, Type: g.GroupType, Protocol: g.ProtocolType, Coordinator: g.Coordinator,
			})
		}
		if asJSON {
			return writeJSON(c.OutOrStdout(), rows)
		}
		if len(rows) == 0 {
			_, err := fmt.Fprintln(c.ErrOrStderr(), "no groups")
			return err
		}
		t := newTable(c.OutOrStdout(), "GROUP", "STATE", "TYPE", "PROTOCOL", "COORDINATOR")
		for _, r := range rows {
			t.row(r.Name, r.State, r.Type, r.Protocol, r.Coordinator)
		}
		return t.flush()
	})
	return c
}

// describeGroups describes groups and fails on the first that does not exist. The server describes an unused name as a
// dead group without members or offsets; that counts as an existing group here.
func describeGroups(ctx context.Context, admin *kadm.Client, names []string) ([]kadm.DescribedGroup, error) {
	described, err := admin.DescribeGroups(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("asking about groups: %w", err)
	}
	var groups []kadm.DescribedGroup
	for _, name := range names {
		g, ok := described[name]
		if !ok {
			return nil, fmt.Errorf("group %q is missing from the server's answer", name)
		}
		if g.Err != nil {
			return nil, explainWith("group", name, g.Err, g.ErrMessage)
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// member is a live member of a group.
type member struct {
	ID         string             `json:"id"`
	Instance   *string            `json:"instance,omitempty"`
	Client     string             `json:"client"`
	Host       string             `json:"host"`
	Partitions map[string][]int32 `json:"partitions"`
}

func membersOf(g kadm.DescribedGroup) []member {
	members := []member{}
	for _, m := range g.Members {
		row := member{ID: m.MemberID, Instance: m.InstanceID, Client: m.ClientID, Host: m.ClientHost, Partitions: map[string][]int32{}}
		if assigned, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range assigned.Topics {
				row.Partitions[t.Topic] = t.Partitions
			}
		}
		members = append(members, row)
	}
	return members
}

// refuseLive returns an error that names the members of a group, if it has any.
func refuseLive(what string, g kadm.DescribedGroup) error {
	if len(g.Members) == 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "cannot %s while group %q has %s; stop:", what, g.Group, plural(len(g.Members), "live member"))
	for _, m := range membersOf(g) {
		fmt.Fprintf(&b, "\n  %s at %s (member %s)", m.Client, m.Host, m.ID)
	}
	return errors.New(b.String())
}

func newGroupDelete(client *clientFlags) *cobra.Command {
	c := &cobra.Command{
		Use:               "delete GROUP...",
		Short:             "Delete groups and their committed offsets",
		Long:              "Delete groups and their committed offsets. A group with live members is refused. Deleting cannot be undone.",
		Example:           "  tidemark group delete billing",
		Args:              atLeastOne("GROUP"),
		ValidArgsFunction: client.completeGroups,
	}
	output := addOutputFlag(c)
	c.RunE = client.administers(output, func(c *cobra.Command, admin *kadm.Client, names []string, asJSON bool) error {
		groups, err := describeGroups(c.Context(), admin, names)
		if err != nil {
			return err
		}
		var failures []error
		var actions []action
		for _, g := range groups {
			if err := deleteGroup(c.Context(), admin, g); err != nil {
				failures = append(failures, err)
				continue
			}
			actions = append(actions, deletion(g.Group))
		}
		return errors.Join(append(failures, reportActions(c, actions, asJSON))...)
	})
	return c
}

func deleteGroup(ctx context.Context, admin *kadm.Client, g kadm.DescribedGroup) error {
	if err := refuseLive("delete", g); err != nil {
		return err
	}
	answer, err := admin.DeleteGroup(ctx, g.Group)
	if answer.Err != nil {
		return explainWith("group", g.Group, answer.Err, answer.ErrMessage)
	}
	return err
}
