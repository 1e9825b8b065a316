package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func newTopicAlter(client *clientFlags) *cobra.Command {
	var set, unset []string
	var partitions int
	var dryRun bool
	c := &cobra.Command{
		Use:   "alter TOPIC...",
		Short: "Change the settings of topics, or give them more partitions",
		Long: `Change the settings of topics, or give them more partitions. Other settings stay as they are, and changes take effect
without a restart. A topic cannot lose partitions, and after it gains some, keys map to other partitions than before.`,
		Example: `  tidemark topic alter orders --config retention.ms=3600000
  tidemark topic alter orders --unset retention.ms
  tidemark topic alter orders --partitions 24 --dry-run`,
		Args:              atLeastOne("TOPIC"),
		ValidArgsFunction: client.completeTopics,
	}
	addChangeFlags(c, &set, &unset)
	c.Flags().IntVarP(&partitions, "partitions", "p", 0, "how many partitions the topic is to have")
	nameValue(c.Flags(), "partitions", "N")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "check everything, change nothing")
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, names []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		changes, err := settingChanges(c, set, unset)
		if err != nil {
			return err
		}
		if len(changes) == 0 && partitions == 0 {
			return usagef(c, "nothing to change: give --config, --unset or --partitions")
		}
		admin, err := client.admin(c.Context())
		if err != nil {
			return err
		}
		defer admin.Close()
		a := alteration{admin: admin, dryRun: dryRun}
		failures := a.settings(c.Context(), changes, names)
		if partitions > 0 {
			failures = append(failures, a.partitions(c.Context(), partitions, names)...)
		}
		return errors.Join(append(failures, reportActions(c, a.done, asJSON))...)
	}
	return c
}

// addChangeFlags adds the flags that set and unset settings, for [settingChanges] to read.
func addChangeFlags(c *cobra.Command, set, unset *[]string) {
	c.Flags().StringArrayVarP(set, "config", "c", nil, "change a setting; may be repeated")
	nameValue(c.Flags(), "config", "NAME=VALUE")
	c.Flags().StringArrayVar(unset, "unset", nil, "remove the setting `NAME`, so that its default applies; may be repeated")
}

// settingChanges parses the flags that set and unset settings.
func settingChanges(c *cobra.Command, set, unset []string) ([]kadm.AlterConfig, error) {
	settings, err := parseSettings(c, set)
	if err != nil {
		return nil, err
	}
	var changes []kadm.AlterConfig
	for name, value := range settings {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: value})
	}
	for _, name := range unset {
		if strings.Contains(name, "=") {
			return nil, usagef(c, "--unset wants only a name, got %q", name)
		}
		if _, both := settings[name]; both {
			return nil, usagef(c, "%s is both in --config and in --unset", name)
		}
		changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name})
	}
	slices.SortFunc(changes, func(a, b kadm.AlterConfig) int { return strings.Compare(a.Name, b.Name) })
	return changes, nil
}

// alteration collects what was changed.
type alteration struct {
	admin  *kadm.Client
	dryRun bool
	done   []action
}

// note records what was done to a topic or a node: what, and how its name is joined to it in a sentence.
func (a *alteration) note(name, what, sentence string) {
	if a.dryRun {
		what, sentence = "would have "+what, "would have "+sentence
	}
	a.done = append(a.done, action{Name: name, Done: what, text: sentence})
}

func (a *alteration) settings(ctx context.Context, changes []kadm.AlterConfig, names []string) []error {
	if len(changes) == 0 {
		return nil
	}
	alter := a.admin.AlterTopicConfigs
	if a.dryRun {
		alter = a.admin.ValidateAlterTopicConfigs
	}
	answers, err := alter(ctx, changes, names...)
	if err != nil {
		return []error{err}
	}
	var failures []error
	slices.SortFunc(answers, func(x, y kadm.AlterConfigsResponse) int { return strings.Compare(x.Name, y.Name) })
	for _, r := range answers {
		if r.Err != nil {
			failures = append(failures, explainWith("topic", r.Name, r.Err, r.ErrMessage))
			continue
		}
		a.noteSettings(r.Name, changes)
	}
	return failures
}

// noteSettings records which settings of a thing were changed.
func (a *alteration) noteSettings(name string, changes []kadm.AlterConfig) {
	for _, change := range changes {
		if change.Op == kadm.DeleteConfig {
			a.note(name, "taken away "+change.Name, fmt.Sprintf("unset %s on %s", change.Name, name))
			continue
		}
		set := fmt.Sprintf("set %s=%s", change.Name, *change.Value)
		a.note(name, set, set+" on "+name)
	}
}

func (a *alteration) partitions(ctx context.Context, partitions int, names []string) []error {
	update := a.admin.UpdatePartitions
	if a.dryRun {
		update = a.admin.ValidateUpdatePartitions
	}
	answers, err := update(ctx, partitions, names...)
	if err != nil {
		return []error{err}
	}
	var failures []error
	for _, r := range answers.Sorted() {
		if r.Err != nil {
			failures = append(failures, explainWith("topic", r.Topic, r.Err, r.ErrMessage))
			continue
		}
		given := plural(partitions, "partition")
		a.note(r.Topic, "given "+given, "raised "+r.Topic+" to "+given)
	}
	return failures
}
