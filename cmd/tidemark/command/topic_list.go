package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// listedTopic is a row of `topic list`.
type listedTopic struct {
	Name       string            `json:"name"`
	ID         string            `json:"id"`
	Partitions int32             `json:"partitions"`
	Config     map[string]string `json:"config,omitempty"` // the requested settings
}

func newTopicList(client *clientFlags) *cobra.Command {
	var internal bool
	var settings []string
	c := &cobra.Command{
		Use:   "list",
		Short: "List topics",
		Example: `  tidemark topic list
  tidemark topic list --config retention.ms --config tidemark.flush`,
		Args: noArguments,
	}
	c.Flags().BoolVar(&internal, "internal", false, "list internal topics too")
	c.Flags().StringArrayVarP(&settings, "config", "c", nil, "show the value of the setting `NAME`; may be repeated")
	output := addOutputFlag(c)
	c.RunE = client.administers(output, func(c *cobra.Command, admin *kadm.Client, _ []string, asJSON bool) error {
		list := admin.ListTopics
		if internal {
			list = admin.ListTopicsWithInternal
		}
		topics, err := list(c.Context())
		if err != nil {
			return err
		}
		rows, err := listRows(topics)
		if err != nil {
			return err
		}
		if err := addSettings(c, admin, rows, settings); err != nil {
			return err
		}
		if asJSON {
			return writeJSON(c.OutOrStdout(), rows)
		}
		return printTopics(c, rows, settings)
	})
	return c
}

func listRows(topics kadm.TopicDetails) ([]listedTopic, error) {
	rows := []listedTopic{}
	for _, t := range topics.Sorted() {
		if t.Err != nil {
			return nil, explain("topic", t.Topic, t.Err)
		}
		rows = append(rows, listedTopic{Name: t.Topic, ID: topicID(t.ID), Partitions: int32(len(t.Partitions))})
	}
	return rows, nil
}

// addSettings fills in the requested settings.
func addSettings(c *cobra.Command, admin *kadm.Client, rows []listedTopic, wanted []string) error {
	if len(wanted) == 0 || len(rows) == 0 {
		return nil
	}
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.Name
	}
	all, err := topicSettings(c.Context(), admin, names, true)
	if err != nil {
		return err
	}
	for i := range rows {
		values := map[string]string{}
		for _, s := range all[rows[i].Name] {
			values[s.Name] = s.value()
		}
		rows[i].Config = map[string]string{}
		for _, name := range wanted {
			value, ok := values[name]
			if !ok {
				return usagef(c, "the server knows no topic setting %q", name)
			}
			rows[i].Config[name] = value
		}
	}
	return nil
}

func printTopics(c *cobra.Command, rows []listedTopic, settings []string) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(c.ErrOrStderr(), "no topics; 'tidemark topic create NAME' makes one")
		return err
	}
	header := []string{"TOPIC", "PARTITIONS", "ID"}
	for _, name := range settings {
		header = append(header, strings.ToUpper(name))
	}
	t := newTable(c.OutOrStdout(), header...)
	for _, r := range rows {
		cells := []any{r.Name, r.Partitions, r.ID}
		for _, name := range settings {
			cells = append(cells, r.Config[name])
		}
		t.row(cells...)
	}
	return t.flush()
}
