package command

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

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

		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.Flags().Int32VarP(&partitions, "partitions", "p", -1, "how many partitions each topic gets; -1 is the server's default")
	nameValue(c.Flags(), "partitions", "N")
	c.Flags().StringArrayVarP(&configs, "config", "c", nil, "a setting of the topics; may be repeated")
	nameValue(c.Flags(), "config", "NAME=VALUE")
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

// parseSettings parses NAME=VALUE words.
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

	size sizeBound
}

// sizeBound is the effect of a topic's size settings. A partition holds retention.bytes and, at times, a segment more:
// only whole segments are deleted, and none whose loss would leave less than that.
type sizeBound struct{ retention, segment int64 } // bytes; zero if there is none

// sizeBoundOf derives the bound from the settings of a topic as the server reports them.
func sizeBoundOf(settings map[string]kadm.Config) sizeBound {
	number := func(name string) int64 {
		s := settings[name]
		n, err := strconv.ParseInt(s.MaybeValue(), 10, 64)
		if err != nil {
			return 0 // the server does not say
		}
		return n
	}
	policy := settings["cleanup.policy"]
	b := sizeBound{number("retention.bytes"), number("segment.bytes")}
	if b.retention <= 0 || b.segment <= 0 || !strings.Contains(policy.MaybeValue(), "delete") {
		return sizeBound{}
	}
	return b
}

// text formats the bound for a number of partitions, or returns nothing.
func (b sizeBound) text(partitions int32) string {
	if b == (sizeBound{}) {
		return ""
	}
	all := float64(partitions) * (float64(b.retention) + float64(b.segment))
	return fmt.Sprintf("  at most about %s: %s x (retention.bytes %s + segment.bytes %s)\n", size(int64(min(all, math.MaxInt64/2))),
		plural(partitions, "partition"), size(b.retention), size(b.segment))
}

func reportCreated(c *cobra.Command, created kadm.CreateTopicResponses, asJSON, dryRun bool) error {
	rows := []createdTopic{}
	var failures []error
	for _, name := range slices.Sorted(maps.Keys(created)) { // the library sorts by the id, which is random
		t := created[name]
		if t.Err != nil {
			failures = append(failures, explainWith("topic", t.Topic, t.Err, t.ErrMessage))
			continue
		}
		rows = append(rows, createdTopic{Name: t.Topic, ID: topicID(t.ID), Partitions: t.NumPartitions, size: sizeBoundOf(t.Configs)})
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
		fmt.Fprintf(c.OutOrStdout(), "%s %s with %s, id %s\n%s", verb, r.Name, plural(r.Partitions, "partition"), r.ID, r.size.text(r.Partitions))
	}
	return errors.Join(failures...)
}
