package command

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// trimmedPartition is a row of `topic delete-records`.
type trimmedPartition struct {
	Partition int32 `json:"partition"`
	Start     int64 `json:"start_offset"`     // before
	Before    int64 `json:"new_start_offset"` // first offset that is kept
	Records   int64 `json:"records"`          // offsets that are deleted
}

func newTopicDeleteRecords(client *clientFlags) *cobra.Command {
	var before string
	var partitions []int32
	var execute bool
	c := &cobra.Command{
		Use:   "delete-records TOPIC",
		Short: "Delete the records of a topic before an offset or a time",
		Long: `Delete the records of a topic before a PLACE. Without --execute nothing changes: the command shows what would be deleted.
Deleting cannot be undone.

` + placeHelp,
		Example: `  tidemark topic delete-records orders --before -7d
  tidemark topic delete-records orders --before 4711 --partition 3 --execute
  tidemark topic delete-records orders --before end --execute`,
		Args:              exactly("TOPIC"),
		ValidArgsFunction: onlyFirst(client.completeTopics),
	}
	c.Flags().StringVar(&before, "before", "", "`PLACE` of the first record to keep")
	c.Flags().Int32SliceVarP(&partitions, "partition", "p", nil, "partitions to delete from (default all)")
	nameValue(c.Flags(), "partition", "N,...")
	c.Flags().BoolVar(&execute, "execute", false, executeHelp)
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		if before == "" {
			return usagef(c, "%s needs --before", c.CommandPath())
		}
		to, err := parsePlace(c, "before", before, time.Now())
		if err != nil {
			return err
		}
		rows, err := deleteRecords(c, client, args[0], partitions, to, execute)
		if err != nil {
			return err
		}
		if asJSON {
			return writeJSON(c.OutOrStdout(), rows)
		}
		t := newTable(c.OutOrStdout(), "PARTITION", "START", "NEW START", "RECORDS")
		for _, r := range rows {
			t.row(r.Partition, r.Start, r.Before, r.Records)
		}
		if err := t.flush(); err != nil {
			return err
		}
		return dryRunNote(c, execute, "deleted")
	}
	return c
}

func deleteRecords(
	c *cobra.Command, client *clientFlags, topic string, partitions []int32, to place, execute bool,
) ([]trimmedPartition, error) {
	ctx := c.Context()
	kc, err := client.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer kc.Close()
	admin := kadm.NewClient(kc)
	about, err := topicDetail(ctx, admin, topic)
	if err != nil {
		return nil, err
	}
	partitions, err = chosen(about, partitions)
	if err != nil {
		return nil, err
	}
	readable, err := extents(ctx, kc, topic, partitions, false)
	if err != nil {
		return nil, err
	}
	offsets, err := to.resolve(ctx, kc, topic, readable)
	if err != nil {
		return nil, err
	}
	if err := checkOffset(topic, to, readable); err != nil {
		return nil, err
	}
	rows := []trimmedPartition{}
	remove := kadm.Offsets{}
	for _, p := range slices.Sorted(maps.Keys(readable)) {
		e := readable[p]
		first := min(max(offsets[p], e.Start), e.End)
		rows = append(rows, trimmedPartition{Partition: p, Start: e.Start, Before: first, Records: first - e.Start})
		remove.AddOffset(topic, p, first, -1)
	}
	if !execute {
		return rows, nil
	}
	answers, err := admin.DeleteRecords(ctx, remove)
	if err != nil {
		return nil, err
	}
	var failures []error
	answers.Each(func(r kadm.DeleteRecordsResponse) {
		if r.Err != nil {
			failures = append(failures, explain("topic", topic, fmt.Errorf("partition %d: %w", r.Partition, r.Err)))
		}
	})
	return rows, errors.Join(failures...)
}
