package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func newTopicDelete(client *clientFlags) *cobra.Command {
	c := &cobra.Command{
		Use:     "delete TOPIC...",
		Short:   "Delete topics and all their records",
		Long:    "Delete topics and all their records. It takes effect at once and cannot be undone.",
		Example: "  tidemark topic delete orders",
		Args:    atLeastOne("TOPIC"),

		ValidArgsFunction: client.completeTopics,
	}
	c.RunE = func(c *cobra.Command, names []string) error {
		admin, err := client.admin(c.Context())
		if err != nil {
			return err
		}
		defer admin.Close()
		deleted, err := admin.DeleteTopics(c.Context(), names...)
		if err != nil {
			return err
		}
		var failures []error
		for _, t := range deleted.Sorted() {
			if t.Err != nil {
				failures = append(failures, explain("topic", t.Topic, t.Err))
				continue
			}
			fmt.Fprintf(c.OutOrStdout(), "deleted %s\n", t.Topic)
		}
		return errors.Join(failures...)
	}
	return c
}
