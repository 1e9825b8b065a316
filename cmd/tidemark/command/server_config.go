package command

import (
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/config"
	"github.com/tidemark-io/tidemark/node"
)

// serverFlags are the settings of a server as flags, one for each key of the configuration.
type serverFlags struct {
	text     map[string]*string
	defaults []string
	insecure bool
	file     string
}

// insecureKey is the one key whose flag needs no value.
const insecureKey = "insecure-listen"

// addServerFlags gives a command a flag for each key. The keys under Kafka's names, of which there are many, work but are
// left out of the help; 'tidemark config' lists them.
func addServerFlags(c *cobra.Command) *serverFlags {
	f := &serverFlags{text: map[string]*string{}}
	flags := c.Flags()
	flags.StringVar(&f.file, config.FileKey, "", "YAML `FILE` with settings")
	flags.StringArrayVar(&f.defaults, config.TopicDefault, nil, "a setting of topics that do not set it, `NAME=VALUE`; may be repeated")
	for _, d := range config.Definitions() {
		if d.Key == insecureKey {
			flags.BoolVar(&f.insecure, d.Key, false, flagDoc(d))
			continue
		}
		value := new(string)
		f.text[d.Key] = value
		flags.StringVar(value, d.Key, d.Default, flagDoc(d))
		if strings.Contains(d.Key, ".") {
			_ = flags.MarkHidden(d.Key) // it fails only for a flag that does not exist
		}
	}
	return f
}

// flagDoc is a key's description as a flag's help: the kind of its value, and a sentence without capital and full stop.
func flagDoc(d config.Definition) string {
	doc := strings.TrimSuffix(d.Doc, ".")
	doc = strings.ToLower(doc[:1]) + doc[1:]
	if d.Key == insecureKey {
		return doc
	}
	kind := strings.ToUpper(string(d.Kind))
	if d.Kind == config.Choice {
		kind = strings.Join(d.Choices, "|")
	}
	return doc + " (`" + kind + "`)"
}

// load reads the configuration from the flags that were given, the environment and the file.
func (f *serverFlags) load(c *cobra.Command) (config.Server, error) {
	loaded, err := f.loadAll(c)
	if err != nil {
		return config.Server{}, err
	}
	return loaded.Server, nil
}

func (f *serverFlags) loadAll(c *cobra.Command) (*config.Loaded, error) {
	given := map[string][]string{}
	for name, value := range f.text {
		if c.Flags().Changed(name) {
			given[name] = []string{*value}
		}
	}
	if c.Flags().Changed(insecureKey) {
		given[insecureKey] = []string{strconv.FormatBool(f.insecure)}
	}
	if c.Flags().Changed(config.FileKey) {
		given[config.FileKey] = []string{f.file}
	}
	if len(f.defaults) > 0 {
		given[config.TopicDefault] = f.defaults
	}
	loaded, err := config.Load(config.Sources{Flags: given, Environ: os.Environ()})
	if err != nil {
		return nil, usagef(c, "the configuration is wrong:\n  %s", strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	return loaded, nil
}

func isAddressInUse(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE)
}

func newConfig() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Print the configuration that a server would have, and where each value comes from",
		Long: `Print the configuration that 'tidemark serve' would have with the same flags, environment and file: every key, its
value, and its source. Secrets are hidden.`,
		Example: `  tidemark config
  TIDEMARK_NUM_PARTITIONS=6 tidemark config --config /etc/tidemark.yaml --output json`,
		Args: noArguments,
	}
	settings := addServerFlags(c)
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		loaded, err := settings.loadAll(c)
		if err != nil {
			return err
		}
		if asJSON {
			return loaded.Print(c.OutOrStdout(), config.JSONFormat)
		}
		return loaded.Print(c.OutOrStdout(), config.TextFormat)
	}
	return c
}

// unlimited turns a count that means no limit into node's way to say so.
func unlimited(n int32) int {
	if n == math.MaxInt32 {
		return 0
	}
	return int(n)
}

// nodeSettings are the keys that a node takes as they are.
func nodeSettings(s config.Server) node.Config {
	return node.Config{
		DataDir:                  s.DataDir,
		NodeID:                   s.NodeID,
		Kafka:                    node.Listener{Listen: s.KafkaListen, Advertise: s.KafkaAdvertise},
		HTTP:                     s.HTTPListen,
		InsecureListen:           s.InsecureListen,
		TopicDefaults:            s.TopicDefaults,
		NumPartitions:            s.NumPartitions,
		DefaultReplicationFactor: s.DefaultReplication,
		DisableAutoCreateTopics:  !s.AutoCreateTopics,
		DisableDeleteTopics:      !s.DeleteTopic,
		MaxConnections:           unlimited(s.MaxConnections),
		MaxConnectionsPerIP:      unlimited(s.MaxConnectionsPerIP),
		ConnectionsMaxIdle:       s.ConnectionsMaxIdle,
		SocketRequestMaxBytes:    int32(s.SocketRequestMaxBytes),
		FetchMaxBytes:            int32(s.FetchMaxBytes),
		FetchSessions:            int(s.MaxFetchSessions),
		RecoveryThreads:          int(s.NumRecoveryThreads),
		MaxOpenFiles:             int(s.MaxOpenFiles),
		RetentionCheck:           s.RetentionCheckInterval,
		ProducerExpiry:           s.ProducerIDExpiration,
		Version:                  version,
	}
}
