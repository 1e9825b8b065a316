package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

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

// describedPartition is one partition with its readable range; Records is End - Start, including offsets that hold no
// record (control records, gaps of compaction).
type describedPartition struct {
	Partition   int32 `json:"partition"`
	Leader      int32 `json:"leader"`
	LeaderEpoch int32 `json:"leader_epoch"`
	Start       int64 `json:"start_offset"`
	End         int64 `json:"end_offset"`
	Records     int64 `json:"records"`

	Error string `json:"error,omitempty"` // why its offsets are unknown, which are then -1
}

func newTopicDescribe(client *clientFlags) *cobra.Command {
	var settings string
	c := &cobra.Command{
		Use:   "describe TOPIC...",
		Short: "Show the partitions of topics, the offsets that can be read, and settings",
		Example: `  tidemark topic describe orders
  tidemark topic describe orders --config        the settings that the topic sets itself
  tidemark topic describe orders --config=all    all settings, and where each comes from`,
		Args:              atLeastOne("TOPIC"),
		ValidArgsFunction: client.completeTopics,
	}
	addShowSettingsFlag(c, &settings)
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, names []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		if err := checkShowSettings(c, settings); err != nil {
			return err
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

// describeTopics describes topics, in the order in which they are named.
func describeTopics(ctx context.Context, kc *kgo.Client, names []string) ([]describedTopic, error) {
	var topics []describedTopic
	for _, name := range names {
		about, err := topicDetail(ctx, kadm.NewClient(kc), name)
		if err != nil {
			return nil, err
		}
		starts, err := askOffsets(ctx, kc, name, slices.Sorted(maps.Keys(about.Partitions)), earliestTime, false)
		if err != nil {
			return nil, err
		}
		ends, err := askOffsets(ctx, kc, name, slices.Sorted(maps.Keys(about.Partitions)), latestTime, false)
		if err != nil {
			return nil, err
		}
		t := describedTopic{Name: name, ID: topicID(about.ID), Partitions: []describedPartition{}}
		for _, p := range about.Partitions.Sorted() {
			t.Partitions = append(t.Partitions, describePartition(p, starts[p.Partition], ends[p.Partition]))
		}
		topics = append(topics, t)
	}
	return topics, nil
}

// describePartition combines what is known. A partition that is not served is a row like the others.
func describePartition(p kadm.PartitionDetail, start, end listed) describedPartition {
	row := describedPartition{Partition: p.Partition, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Start: -1, End: -1}
	if err := errors.Join(start.err, end.err); err != nil {
		row.Error = cmp.Or(start.err, end.err).Error()
		return row
	}
	row.Start, row.End, row.Records = start.offset, end.offset, end.offset-start.offset
	return row
}

func (d describedTopic) print(c *cobra.Command, settings bool) error {
	fmt.Fprintf(c.OutOrStdout(), "%s  (id %s)\n", d.Name, d.ID)
	t := newTable(c.OutOrStdout(), "PARTITION", "LEADER", "EPOCH", "START", "END", "RECORDS")
	for _, p := range d.Partitions {
		cells := []any{p.Partition, p.Leader, p.LeaderEpoch, offsetText(p.Start), offsetText(p.End), p.Records}
		if p.Error != "" {
			cells = append(cells, p.Error)
		}
		t.row(cells...)
	}
	if err := t.flush(); err != nil || !settings {
		return err
	}
	return printSettings(c, d.Config)
}
