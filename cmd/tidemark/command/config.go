package command

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/config"
)

func newConfig() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Print the configuration that a server would have, and where each value comes from",
		Long: `Print the configuration that 'tidemark serve' would have with the same flags, environment and file: every key, its
value and its source. Secrets are hidden. With --changed, only values that differ from the default are printed.`,
		Example: `  tidemark config
  tidemark config --changed
  TIDEMARK_NUM_PARTITIONS=6 tidemark config --config /etc/tidemark.yaml --output json`,
		Args: noArguments,
	}
	settings := addServerFlags(c)
	changed := c.Flags().Bool("changed", false, "print only what differs from the defaults")
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		loaded, err := settings.load(c)
		if err != nil {
			return err
		}
		if *changed {
			loaded.Values = changedValues(loaded.Values)
		}
		if asJSON {
			return loaded.Print(c.OutOrStdout(), config.JSONFormat)
		}
		return loaded.Print(c.OutOrStdout(), config.TextFormat)
	}
	return c
}

// changedValues leaves out values that equal their keys' defaults, wherever they come from.
func changedValues(values []config.Value) []config.Value {
	defaults := map[string]string{}
	for _, d := range config.Definitions() {
		defaults[d.Key] = d.Default
	}
	changed := []config.Value{}
	for _, v := range values {
		if byDefault, known := defaults[v.Key]; !known || v.Value != byDefault {
			changed = append(changed, v)
		}
	}
	return changed
}
