package command

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func newTopic() *cobra.Command {
	c := &cobra.Command{
		Use:   "topic",
		Short: "Create, list, describe and delete topics",
		Example: `  tidemark topic create orders --partitions 12 --config retention.ms=86400000
  tidemark topic list
  tidemark topic describe orders
  tidemark topic delete orders`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	client := addClientFlags(c)
	c.AddCommand(newTopicCreate(client), newTopicList(client), newTopicDescribe(client), newTopicDelete(client))
	return c
}

func newTopicCreate(client *clientFlags) *cobra.Command {
	var partitions int32
	var configs []string
	var dryRun bool
	c := &cobra.Command{
		Use:   "create TOPIC...",
		Short: "Create topics",
		Example: `  tidemark topic create orders --partitions 12
  tidemark topic create audit --config retention.ms=-1 --config tidemark.flush=every`,
		Args: atLeastOne("TOPIC"),
	}
	c.Flags().Int32VarP(&partitions, "partitions", "p", -1, "partitions of each topic; -1 is the server's default")
	c.Flags().StringArrayVarP(&configs, "config", "c", nil, "a topic setting, `NAME=VALUE`; may be repeated")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "check everything, create nothing")
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, names []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		settings, err := parseSettings(c, configs)
		if err != nil {
			return err
		}
		admin, err := client.admin(c.Context())
		if err != nil {
			return err
		}
		defer admin.Close()
		create := admin.CreateTopics
		if dryRun {
			create = admin.ValidateCreateTopics
		}
		created, err := create(c.Context(), partitions, -1, settings, names...)
		if err != nil {
			return err
		}
		return reportCreated(c, created, asJSON, dryRun)
	}
	return c
}

// parseSettings reads NAME=VALUE words.
func parseSettings(c *cobra.Command, words []string) (map[string]*string, error) {
	settings := make(map[string]*string, len(words))
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			return nil, usagef(c, "--config wants NAME=VALUE, got %q", word)
		}
		settings[name] = &value
	}
	return settings, nil
}

// createdTopic is a row of `topic create`.
type createdTopic struct {
	Name       string `json:"name"`
	ID         string `json:"id"`
	Partitions int32  `json:"partitions"`
}

func reportCreated(c *cobra.Command, created kadm.CreateTopicResponses, asJSON, dryRun bool) error {
	var rows []createdTopic
	var failures []error
	for _, t := range created.Sorted() {
		if t.Err != nil {
			failures = append(failures, explainCreate(t))
			continue
		}
		rows = append(rows, createdTopic{Name: t.Topic, ID: t.ID.String(), Partitions: t.NumPartitions})
	}
	if asJSON {
		if err := writeJSON(c.OutOrStdout(), rows); err != nil {
			return err
		}
		return errors.Join(failures...)
	}
	verb := "created"
	if dryRun {
		verb = "would create"
	}
	for _, r := range rows {
		fmt.Fprintf(c.OutOrStdout(), "%s %s with %s partition(s), id %s\n", verb, r.Name, count(r.Partitions), r.ID)
	}
	return errors.Join(failures...)
}

// explainCreate prefers the server's own words, which name the setting that is wrong.
func explainCreate(t kadm.CreateTopicResponse) error {
	if t.ErrMessage != "" && !errors.Is(t.Err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("topic %q: %s", t.Topic, t.ErrMessage)
	}
	return explain("topic", t.Topic, t.Err)
}

func newTopicList(client *clientFlags) *cobra.Command {
	var internal bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List topics",
		Args:  noArguments,
	}
	c.Flags().BoolVar(&internal, "internal", false, "internal topics too")
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		admin, err := client.admin(c.Context())
		if err != nil {
			return err
		}
		defer admin.Close()
		list := admin.ListTopics
		if internal {
			list = admin.ListTopicsWithInternal
		}
		topics, err := list(c.Context())
		if err != nil {
			return err
		}
		return reportList(c, topics, asJSON)
	}
	return c
}

func reportList(c *cobra.Command, topics kadm.TopicDetails, asJSON bool) error {
	rows := []createdTopic{}
	for _, t := range topics.Sorted() {
		if t.Err != nil {
			return explain("topic", t.Topic, t.Err)
		}
		rows = append(rows, createdTopic{Name: t.Topic, ID: t.ID.String(), Partitions: int32(len(t.Partitions))})
	}
	if asJSON {
		return writeJSON(c.OutOrStdout(), rows)
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(c.ErrOrStderr(), "no topics; 'tidemark topic create NAME' makes one")
		return err
	}
	t := newTable(c.OutOrStdout(), "TOPIC", "PARTITIONS", "ID")
	for _, r := range rows {
		t.row(r.Name, r.Partitions, r.ID)
	}
	return t.flush()
}

// describedTopic is what `topic describe` prints of one topic.
type describedTopic struct {
	Name       string               `json:"name"`
	ID         string               `json:"id"`
	Partitions []describedPartition `json:"partitions"`
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
	c := &cobra.Command{
		Use:   "describe TOPIC...",
		Short: "Show the partitions of topics and the offsets that can be read",
		Args:  atLeastOne("TOPIC"),
	}
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, names []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		admin, err := client.admin(c.Context())
		if err != nil {
			return err
		}
		defer admin.Close()
		topics, err := describeTopics(c.Context(), admin, names)
		if err != nil {
			return err
		}
		if asJSON {
			return writeJSON(c.OutOrStdout(), topics)
		}
		for i, t := range topics {
			if i > 0 {
				fmt.Fprintln(c.OutOrStdout())
			}
			if err := t.print(c); err != nil {
				return err
			}
		}
		return nil
	}
	return c
}

func describeTopics(ctx context.Context, admin *kadm.Client, names []string) ([]describedTopic, error) {
	details, err := admin.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if t, ok := details[name]; !ok || t.Err != nil {
			if !ok {
				return nil, explain("topic", name, kerr.UnknownTopicOrPartition)
			}
			return nil, explain("topic", name, t.Err)
		}
	}
	starts, err := admin.ListStartOffsets(ctx, names...)
	if err != nil {
		return nil, err
	}
	ends, err := admin.ListEndOffsets(ctx, names...)
	if err != nil {
		return nil, err
	}
	var topics []describedTopic
	for _, t := range details.Sorted() {
		topics = append(topics, describedTopic{
			Name:       t.Topic,
			ID:         t.ID.String(),
			Partitions: describePartitions(t, starts, ends),
		})
	}
	return topics, nil
}

func describePartitions(t kadm.TopicDetail, starts, ends kadm.ListedOffsets) []describedPartition {
	var rows []describedPartition
	for _, p := range t.Partitions.Sorted() {
		row := describedPartition{Partition: p.Partition, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Start: -1, End: -1}
		start, haveStart := starts.Lookup(t.Topic, p.Partition)
		end, haveEnd := ends.Lookup(t.Topic, p.Partition)
		if haveStart && haveEnd && start.Err == nil && end.Err == nil {
			row.Start, row.End, row.Records = start.Offset, end.Offset, end.Offset-start.Offset
		}
		rows = append(rows, row)
	}
	return rows
}

func (d describedTopic) print(c *cobra.Command) error {
	fmt.Fprintf(c.OutOrStdout(), "%s  (id %s)\n", d.Name, d.ID)
	t := newTable(c.OutOrStdout(), "PARTITION", "LEADER", "EPOCH", "START", "END", "RECORDS")
	for _, p := range d.Partitions {
		t.row(p.Partition, p.Leader, p.LeaderEpoch, p.Start, p.End, p.Records)
	}
	return t.flush()
}

func newTopicDelete(client *clientFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "delete TOPIC...",
		Short: "Delete topics and all their records",
		Long:  "Delete topics and all their records. It takes effect at once and cannot be undone.",
		Args:  atLeastOne("TOPIC"),
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

// partitionsOf asks the server for a topic's partitions, in order.
func partitionsOf(ctx context.Context, admin *kadm.Client, topic string) ([]int32, error) {
	details, err := admin.ListTopicsWithInternal(ctx, topic)
	if err != nil {
		return nil, err
	}
	t, ok := details[topic]
	if !ok {
		return nil, explain("topic", topic, kerr.UnknownTopicOrPartition)
	}
	if t.Err != nil {
		return nil, explain("topic", topic, t.Err)
	}
	numbers := t.Partitions.Numbers()
	sort.Slice(numbers, func(i, j int) bool { return numbers[i] < numbers[j] })
	return numbers, nil
}
