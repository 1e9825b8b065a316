package command

import (
	"errors"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func newTopicDelete(client *clientFlags) *cobra.Command {
	c := &cobra.Command{
		Use:     "delete TOPIC...",
		Short:   "Delete topics and all their records",
		Long:    "Delete topics and all their records, at once. Deleting cannot be undone.",
		Example: "  tidemark topic delete orders",
		Args:    atLeastOne("TOPIC"),

		ValidArgsFunction: client.completeTopics,
	}
	output := addOutputFlag(c)
	c.RunE = client.administers(output, func(c *cobra.Command, admin *kadm.Client, names []string, asJSON bool) error {
		deleted, err := admin.DeleteTopics(c.Context(), names...)
		if err != nil {
			return err
		}
		var failures []error
		var actions []action
		for _, name := range slices.Sorted(maps.Keys(deleted)) { // the library sorts by the id, which is random
			t := deleted[name]
			if t.Err != nil {
				failures = append(failures, explain("topic", t.Topic, t.Err))
				continue
			}
			actions = append(actions, deletion(t.Topic))
		}
		return errors.Join(append(failures, reportActions(c, actions, asJSON))...)
	})
	return c
}
