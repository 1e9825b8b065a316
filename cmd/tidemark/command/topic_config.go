package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// addShowSettingsFlag adds the flag that shows settings: --config for those of the topic or node itself, --config=all for
// all of them. The caller checks the word with [checkShowSettings].
func addShowSettingsFlag(c *cobra.Command, settings *string) {
	c.Flags().StringVarP(settings, "config", "c", "", "show settings too")
	nameValue(c.Flags(), "config", "own|all")
	c.Flags().Lookup("config").NoOptDefVal = "own"
}

func checkShowSettings(c *cobra.Command, settings string) error {
	if settings != "" && settings != "own" && settings != "all" {
		return usagef(c, "--config is own or all, not %q", settings)
	}
	return nil
}

// topicSetting is one setting of a topic as the server reports it.
type topicSetting struct {
	Name   string  `json:"name"`
	Value  *string `json:"value"` // null when it is a secret
	Source string  `json:"source"`
}

// sourceNames are the sources of a setting's value.
var sourceNames = map[kmsg.ConfigSource]string{
	kmsg.ConfigSourceDynamicTopicConfig:         "topic",
	kmsg.ConfigSourceDynamicBrokerConfig:        "server",
	kmsg.ConfigSourceDynamicDefaultBrokerConfig: "server",
	kmsg.ConfigSourceStaticBrokerConfig:         "server",
	kmsg.ConfigSourceDefaultConfig:              "default",
}

// topicSettings asks for the settings of topics: their own, or all.
func topicSettings(ctx context.Context, admin *kadm.Client, names []string, all bool) (map[string][]topicSetting, error) {
	described, err := admin.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return nil, err
	}
	out := map[string][]topicSetting{}
	for _, d := range described {
		if d.Err != nil {
			if d.ErrMessage != "" {
				return nil, fmt.Errorf("settings of topic %q: %w: %s", d.Name, d.Err, d.ErrMessage)
			}
			return nil, explain("topic", d.Name, d.Err)
		}
		settings := []topicSetting{}
		for _, entry := range d.Configs {
			if !all && entry.Source != kmsg.ConfigSourceDynamicTopicConfig {
				continue
			}
			settings = append(settings, topicSetting{Name: entry.Key, Value: entry.Value, Source: sourceName(entry.Source)})
		}
		slices.SortFunc(settings, func(a, b topicSetting) int { return strings.Compare(a.Name, b.Name) })
		out[d.Name] = settings
	}
	return out, nil
}

func sourceName(s kmsg.ConfigSource) string {
	if name, ok := sourceNames[s]; ok {
		return name
	}
	return s.String()
}

// value formats the value of a setting.
func (s topicSetting) value() string {
	if s.Value == nil {
		return "hidden"
	}
	return *s.Value
}

func printSettings(c *cobra.Command, settings []topicSetting) error {
	if len(settings) == 0 {
		_, err := fmt.Fprintln(c.OutOrStdout(), "no settings of its own")
		return err
	}
	t := newTable(c.OutOrStdout(), "SETTING", "VALUE", "FROM")
	for _, s := range settings {
		t.row(s.Name, s.value(), s.Source)
	}
	return t.flush()
}
