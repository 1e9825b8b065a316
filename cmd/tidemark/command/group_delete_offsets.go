package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// forgottenOffset is a row of `group delete-offsets`.
type forgottenOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"`
}

func newGroupDeleteOffsets(client *clientFlags) *cobra.Command {
	var words []string
	var execute bool
	c := &cobra.Command{
		Use:   "delete-offsets GROUP",
		Short: "Delete the committed offsets of a group in some topics",
		Long: `Delete the committed offsets of a group in some topics. There it has no lag any more, and reads as if it were new.
Without --execute nothing changes: the command shows what would be deleted. Deleting cannot be undone.

Topics that live members read are refused; other topics of the same group are not.`,
		Example: `  tidemark group delete-offsets billing --topic orders
  tidemark group delete-offsets billing --topic orders:0,3 --topic returns --execute`,
		Args:              exactly("GROUP"),
		ValidArgsFunction: onlyFirst(client.completeGroups),
	}
	addTopicsFlag(c, client, &words)
	c.Flags().BoolVar(&execute, "execute", false, executeHelp)
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		topics, err := parseTopics(c, words)
		if err != nil {
			return err
		}
		if len(topics) == 0 {
			return usagef(c, "%s needs --topic; 'tidemark group delete' deletes a whole group", c.CommandPath())
		}
		admin, err := client.admin(c.Context())
		if err != nil {
			return err
		}
		defer admin.Close()
		rows, err := deleteOffsets(c.Context(), admin, args[0], topics, execute)
		if err != nil {
			return err
		}
		if asJSON {
			return writeJSON(c.OutOrStdout(), rows)
		}
		t := newTable(c.OutOrStdout(), "TOPIC", "PARTITION", "COMMITTED")
		for _, r := range rows {
			t.row(r.Topic, r.Partition, r.Committed)
		}
		if err := t.flush(); err != nil {
			return err
		}
		return dryRunNote(c, execute, "deleted")
	}
	return c
}

// deleteOffsets finds the offsets of a group to delete and, with execute, deletes them.
func deleteOffsets(
	ctx context.Context, admin *kadm.Client, group string, topics map[string][]int32, execute bool,
) ([]forgottenOffset, error) {
	if _, err := describeGroups(ctx, admin, []string{group}); err != nil {
		return nil, err
	}
	committed, err := committedOffsets(ctx, admin, group)
	if err != nil {
		return nil, err
	}
	rows := []forgottenOffset{}
	asked := kadm.TopicsSet{}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		partitions := topics[topic]
		if partitions == nil {
			partitions = slices.Sorted(maps.Keys(committed[topic]))
		}
		for _, p := range partitions {
			if at, has := committed[topic][p]; has {
				rows = append(rows, forgottenOffset{Topic: topic, Partition: p, Committed: at})
				asked.Add(topic, p)
			}
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("group %q has committed nothing there; 'tidemark group lag %s' shows what it has", group, group)
	}
	if !execute {
		return rows, nil
	}
	answers, err := admin.DeleteOffsets(ctx, group, asked)
	if err != nil {
		return nil, explain("group", group, err)
	}
	return rows, refusedDeletions(group, answers)
}

// refusedDeletions reports which offsets were not deleted, and why.
func refusedDeletions(group string, answers kadm.DeleteOffsetsResponses) error {
	var failures []error
	for _, topic := range slices.Sorted(maps.Keys(answers)) {
		for _, p := range slices.Sorted(maps.Keys(answers[topic])) {
			switch err := answers[topic][p]; {
			case err == nil:
			case errors.Is(err, kerr.GroupSubscribedToTopic):
				failures = append(failures, fmt.Errorf("%s partition %d: live members of group %q read the topic; stop them first", topic, p, group))
			default:
				failures = append(failures, fmt.Errorf("%s partition %d: %w", topic, p, err))
			}
		}
	}
	return errors.Join(failures...)
}
