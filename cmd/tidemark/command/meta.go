package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/config"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/node"
)

func newMeta() *cobra.Command {
	c := &cobra.Command{
		Use:   "meta",
		Short: "Print and check a metadata log",
		Example: `  tidemark meta dump --data-dir /var/lib/tidemark
  tidemark meta check --meta-url etcd://10.0.0.1:2379,10.0.0.2:2379/prod`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newMetaDump(), newMetaCheck())
	return c
}

// addMetaFlags adds the flags of the server's configuration that locate the metadata log; all others come from the
// environment and the file, as for the server.
func addMetaFlags(c *cobra.Command) *serverFlags {
	return addSettingFlags(c, "data-dir", "meta-url", "meta-cacert", "meta-cert", "meta-key", "meta-user")
}

// metaSource returns the metadata log that the settings name.
func metaSource(c *cobra.Command, f *serverFlags) (node.MetaSource, config.Server, error) {
	loaded, err := f.load(c)
	if err != nil {
		return node.MetaSource{}, config.Server{}, err
	}
	return node.MetaSource{DataDir: loaded.Server.DataDir, MetaStore: metaStore(loaded.Server)}, loaded.Server, nil
}

// inspects returns the RunE of a command that reads a metadata log and reports on it.
func inspects(
	settings *serverFlags, output *outputFlag, do func(c *cobra.Command, found *meta.Inspection, args []string, asJSON bool) error,
) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		source, _, err := metaSource(c, settings)
		if err != nil {
			return err
		}
		found, err := inspectMeta(c, source)
		if err != nil {
			return err
		}
		return do(c, found, args, asJSON)
	}
}

// inspectMeta reads a metadata log, and explains what to do when a server is using it.
func inspectMeta(c *cobra.Command, source node.MetaSource) (*meta.Inspection, error) {
	found, err := node.InspectMeta(c.Context(), source)
	var locked *meta.LockedError
	if errors.As(err, &locked) {
		return nil, fmt.Errorf("%w: stop the server that uses it, or look at a copy of its disk", err)
	}
	var missing *meta.MissingError
	if errors.As(err, &missing) {
		return nil, fmt.Errorf("the metadata log %s is missing: name the data directory of a server with --data-dir, or the log in "+
			"etcd with --meta-url", source)
	}
	return found, err
}
