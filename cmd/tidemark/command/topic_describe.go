package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// describedTopic is what `topic describe` prints of one topic.
type describedTopic struct {
	Name       string               `json:"name"`
	ID         string               `json:"id"`
	Partitions []describedPartition `json:"partitions"`
	Config     []topicSetting       `json:"config,omitempty"`
}

// describedPartition is one partition with its readable range; Records is End - Start, offsets that hold no record
// (control records, what compaction removed) included.
type describedPartition struct {
	Partition   int32 `json:"partition"`
	Leader      int32 `json:"leader"`
	LeaderEpoch int32 `json:"leader_epoch"`
	Start       int64 `json:"start_offset"`
	End         int64 `json:"end_offset"`
	Records     int64 `json:"records"`
}

func newTopicDescribe(client *clientFlags) *cobra.Command {
	var settings string
	c := &cobra.Command{
		Use:   "describe TOPIC...",
		Short: "Show the partitions of topics, the offsets that can be read, and settings",
		Example: `  tidemark topic describe orders
  tidemark topic describe orders --config        the settings that it sets itself
  tidemark topic describe orders --config=all    all settings, and where each comes from`,
		Args:              atLeastOne("TOPIC"),
		ValidArgsFunction: client.completeTopics,
	}
	c.Flags().StringVarP(&settings, "config", "c", "", "settings too: `own|all`")
	c.Flags().Lookup("config").NoOptDefVal = "own"
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, names []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		if settings != "" && settings != "own" && settings != "all" {
			return usagef(c, "--config is own or all, not %q", settings)
		}
		kc, err := client.connect(c.Context())
		if err != nil {
			return err
		}
		defer kc.Close()
		topics, err := describeTopics(c.Context(), kc, names)
		if err != nil {
			return err
		}
		if settings != "" {
			byTopic, err := topicSettings(c.Context(), kadm.NewClient(kc), names, settings == "all")
			if err != nil {
				return err
			}
			for i := range topics {
				topics[i].Config = byTopic[topics[i].Name]
			}
		}
		if asJSON {
			return writeJSON(c.OutOrStdout(), topics)
		}
		for i, t := range topics {
			if i > 0 {
				fmt.Fprintln(c.OutOrStdout())
			}
			if err := t.print(c, settings != ""); err != nil {
				return err
			}
		}
		return nil
	}
	return c
}

// describeTopics asks about topics, in the order in which they are named.
func describeTopics(ctx context.Context, kc *kgo.Client, names []string) ([]describedTopic, error) {
	var topics []describedTopic
	for _, name := range names {
		about, err := topicDetail(ctx, kadm.NewClient(kc), name)
		if err != nil {
			return nil, err
		}
		readable, err := extents(ctx, kc, name, sortedKeys(about.Partitions), false)
		if err != nil {
			return nil, err
		}
		t := describedTopic{Name: name, ID: topicID(about.ID), Partitions: []describedPartition{}}
		for _, p := range about.Partitions.Sorted() {
			e := readable[p.Partition]
			t.Partitions = append(t.Partitions, describedPartition{
				Partition: p.Partition, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch,
				Start: e.Start, End: e.End, Records: e.End - e.Start,
			})
		}
		topics = append(topics, t)
	}
	return topics, nil
}

func (d describedTopic) print(c *cobra.Command, settings bool) error {
	fmt.Fprintf(c.OutOrStdout(), "%s  (id %s)\n", d.Name, d.ID)
	t := newTable(c.OutOrStdout(), "PARTITION", "LEADER", "EPOCH", "START", "END", "RECORDS")
	for _, p := range d.Partitions {
		t.row(p.Partition, p.Leader, p.LeaderEpoch, p.Start, p.End, p.Records)
	}
	if err := t.flush(); err != nil || !settings {
		return err
	}
	return printSettings(c, d.Config)
}
