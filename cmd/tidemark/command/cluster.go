package command

import (
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// clusterInfo is what `cluster` prints.
type clusterInfo struct {
	ID         string        `json:"id"`
	Controller int32         `json:"controller"`
	Nodes      []clusterNode `json:"nodes"`
	Topics     int           `json:"topics"` // including internal ones, as for partitions
	Partitions int           `json:"partitions"`
	Leaderless int           `json:"leaderless_partitions"`

	Config []clusterSetting `json:"config,omitempty"`
}

type clusterNode struct {
	ID      int32  `json:"id"`
	Address string `json:"address"` // given to clients
	Rack    string `json:"rack"`
	Leads   int    `json:"leads"` // partitions
}

func newCluster() *cobra.Command {
	var settings string
	c := &cobra.Command{
		Use:   "cluster",
		Short: "Show the cluster, its nodes and their advertised addresses",
		Example: `  tidemark cluster
  tidemark cluster --server broker1:9092 --output json
  tidemark cluster --config        the settings that were changed while the nodes ran
  tidemark cluster --config=all    all settings of the nodes, and where each comes from
  tidemark cluster alter --config log.retention.ms=86400000`,
		Args: noArguments,
	}
	client := addClientFlags(c)
	c.AddCommand(newClusterAlter(client))
	addShowSettingsFlag(c, &settings)
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		if err := checkShowSettings(c, settings); err != nil {
			return err
		}
		admin, err := client.admin(c.Context())
		if err != nil {
			return err
		}
		defer admin.Close()
		m, err := admin.Metadata(c.Context())
		if err != nil {
			return fmt.Errorf("asking about the cluster: %w", err)
		}
		info := clusterOf(m)
		if settings != "" {
			if info.Config, err = clusterSettings(c.Context(), admin, info.Nodes, settings == "all"); err != nil {
				return err
			}
		}
		if asJSON {
			return writeJSON(c.OutOrStdout(), info)
		}
		if err := info.print(c); err != nil || settings == "" {
			return err
		}
		return printClusterSettings(c, info.Config)
	}
	return c
}

func clusterOf(m kadm.Metadata) clusterInfo {
	info := clusterInfo{ID: m.Cluster, Controller: m.Controller, Nodes: []clusterNode{}, Topics: len(m.Topics)}
	leads := map[int32]int{}
	for _, t := range m.Topics {
		for _, p := range t.Partitions {
			info.Partitions++
			if p.Leader < 0 {
				info.Leaderless++
			}
			leads[p.Leader]++
		}
	}
	for _, b := range m.Brokers {
		n := clusterNode{ID: b.NodeID, Address: net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), Leads: leads[b.NodeID]}
		if b.Rack != nil {
			n.Rack = *b.Rack
		}
		info.Nodes = append(info.Nodes, n)
	}
	return info
}

func (i clusterInfo) print(c *cobra.Command) error {
	out := c.OutOrStdout()
	fmt.Fprintf(out, "cluster %s  %s  %s\n", i.ID, plural(i.Topics, "topic"), plural(i.Partitions, "partition"))
	if i.Leaderless > 0 {
		fmt.Fprintf(out, "%s without a leader\n", plural(i.Leaderless, "partition"))
	}
	t := newTable(out, "NODE", "ADDRESS", "RACK", "LEADS", "")
	for _, n := range i.Nodes {
		role := ""
		if n.ID == i.Controller {
			role = "controller"
		}
		t.row(n.ID, n.Address, dash(n.Rack), n.Leads, role)
	}
	return t.flush()
}
