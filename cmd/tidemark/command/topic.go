package command

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tidemark-io/tidemark/logdir"
)

func newTopic() *cobra.Command {
	c := &cobra.Command{
		Use:   "topic",
		Short: "Create, list, describe, alter and delete topics",
		Example: `  tidemark topic create orders --partitions 12 --config retention.ms=86400000
  tidemark topic list
  tidemark topic describe orders --config
  tidemark topic alter orders --config retention.ms=3600000
  tidemark topic delete-records orders --before -7d
  tidemark topic delete orders`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	client := addClientFlags(c)
	c.AddCommand(newTopicCreate(client), newTopicList(client), newTopicDescribe(client), newTopicAlter(client),
		newTopicDelete(client), newTopicDeleteRecords(client))
	return c
}

// topicDetail asks the server about one topic.
func topicDetail(ctx context.Context, admin *kadm.Client, topic string) (kadm.TopicDetail, error) {
	details, err := admin.ListTopicsWithInternal(ctx, topic)
	if err != nil {
		return kadm.TopicDetail{}, err
	}
	t, ok := details[topic]
	if !ok {
		return t, explain("topic", topic, kerr.UnknownTopicOrPartition)
	}
	return t, explain("topic", topic, t.Err)
}

// topicID writes a topic's id as Kafka does: base64 for URLs, without padding.
func topicID(id kadm.TopicID) string { return logdir.UUID(id).String() }
