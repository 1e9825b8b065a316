package command

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// clusterSetting is one setting of a node, or of all nodes.
type clusterSetting struct {
	Node   string  `json:"node"` // its id, or allNodes
	Name   string  `json:"name"`
	Value  *string `json:"value"` // null if there is none or it is secret
	Source string  `json:"source"`
}

// allNodes stands for the settings for all nodes.
const allNodes = "all"

// nodeSourceNames are the sources of a node's settings.
var nodeSourceNames = map[kmsg.ConfigSource]string{
	kmsg.ConfigSourceDynamicBrokerConfig:        "node",
	kmsg.ConfigSourceDynamicDefaultBrokerConfig: "all nodes",
	kmsg.ConfigSourceStaticBrokerConfig:         "start",
	kmsg.ConfigSourceDefaultConfig:              "default",
}

// clusterSettings asks for the settings made while nodes ran, for all nodes and for each one; with every, for all
// settings of each node instead.
func clusterSettings(ctx context.Context, admin *kadm.Client, nodes []clusterNode, every bool) ([]clusterSetting, error) {
	var settings []clusterSetting
	if !every {
		ofAll, err := askNode(ctx, admin, allNodes)
		if err != nil {
			return nil, err
		}
		settings = ofAll
	}
	for _, n := range nodes {
		ofNode, err := askNode(ctx, admin, strconv.Itoa(int(n.ID)), n.ID)
		if err != nil {
			return nil, err
		}
		for _, s := range ofNode {
			if every || s.Source == nodeSourceNames[kmsg.ConfigSourceDynamicBrokerConfig] {
				settings = append(settings, s)
			}
		}
	}
	return settings, nil
}

// askNode asks for the settings of one node, or without an id for those of all nodes.
func askNode(ctx context.Context, admin *kadm.Client, name string, id ...int32) ([]clusterSetting, error) {
	told, err := admin.DescribeBrokerConfigs(ctx, id...)
	if err != nil {
		return nil, err
	}
	var settings []clusterSetting
	for _, d := range told {
		if d.Err != nil {
			return nil, explainWith("node", name, d.Err, d.ErrMessage)
		}
		for _, c := range d.Configs {
			settings = append(settings, clusterSetting{Node: name, Name: c.Key, Value: c.Value, Source: nodeSourceNames[c.Source]})
		}
	}
	slices.SortFunc(settings, func(a, b clusterSetting) int { return strings.Compare(a.Name, b.Name) })
	return settings, nil
}

func printClusterSettings(c *cobra.Command, settings []clusterSetting) error {
	out := c.OutOrStdout()
	fmt.Fprintln(out)
	if len(settings) == 0 {
		_, err := fmt.Fprintln(out, "no settings were changed while the nodes ran")
		return err
	}
	t := newTable(out, "NODE", "SETTING", "VALUE", "FROM")
	for _, s := range settings {
		value := "-"
		if s.Value != nil {
			value = *s.Value
		}
		t.row(s.Node, s.Name, value, s.Source)
	}
	return t.flush()
}

func newClusterAlter(client *clientFlags) *cobra.Command {
	var set, unset []string
	var node int32
	var dryRun bool
	c := &cobra.Command{
		Use:   "alter",
		Short: "Change settings of all nodes, or of one, while they run",
		Long: `Change settings of all nodes, or of one, while they run: topic defaults under the names that Kafka's brokers use for
them, connection limits, and how long producers are remembered. Open logs follow at once; what a topic sets itself still
wins. The settings are kept in the metadata log and override those that the server was started with; a setting of one node
overrides that of all nodes. docs/operations.md lists them.`,
		Example: `  tidemark cluster alter --config log.retention.ms=86400000
  tidemark cluster alter --config max.connections=2000 --node 1
  tidemark cluster alter --unset log.retention.ms --dry-run`,
		Args: noArguments,
	}
	addChangeFlags(c, &set, &unset)
	c.Flags().Int32Var(&node, "node", 0, "change only the node with this `ID` (default all nodes)")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "check everything, change nothing")
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		changes, err := settingChanges(c, set, unset)
		if err != nil {
			return err
		}
		if len(changes) == 0 {
			return usagef(c, "nothing to change: give --config or --unset")
		}
		admin, err := client.admin(c.Context())
		if err != nil {
			return err
		}
		defer admin.Close()
		name, nodes := "all nodes", []int32(nil)
		if c.Flags().Changed("node") {
			name, nodes = fmt.Sprintf("node %d", node), []int32{node}
		}
		a := alteration{admin: admin, dryRun: dryRun}
		if err := a.nodeSettings(c.Context(), changes, name, nodes); err != nil {
			return err
		}
		return reportActions(c, a.done, asJSON)
	}
	return c
}

// nodeSettings changes the settings of a node, or of all nodes.
func (a *alteration) nodeSettings(ctx context.Context, changes []kadm.AlterConfig, name string, nodes []int32) error {
	alter := a.admin.AlterBrokerConfigs
	if a.dryRun {
		alter = a.admin.ValidateAlterBrokerConfigs
	}
	answers, err := alter(ctx, changes, nodes...)
	if err != nil {
		return err
	}
	for _, r := range answers {
		if r.Err != nil {
			return explainWith("cluster", name, r.Err, r.ErrMessage)
		}
	}
	a.noteSettings(name, changes)
	return nil
}
