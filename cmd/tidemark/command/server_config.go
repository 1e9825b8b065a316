package command

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-io/tidemark/config"
	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/topicconfig"
)

// serverFlags are the settings of a server as flags, one for each key of the configuration.
type serverFlags struct {
	text     map[string]*string
	lists    map[string]*[]string // of keys that may be given several times
	defaults []string
	insecure bool
	file     string
}

// insecureKey is the one key whose flag needs no value.
const insecureKey = "insecure-listen"

// addServerFlags gives a command a flag for each key. The keys under Kafka's names, of which there are many, work but are
// left out of the help; 'tidemark config' lists them.
func addServerFlags(c *cobra.Command) *serverFlags {
	f := &serverFlags{text: map[string]*string{}, lists: map[string]*[]string{}}
	flags := c.Flags()
	flags.StringVar(&f.file, config.FileKey, "", "YAML `FILE` with settings")
	flags.StringArrayVar(&f.defaults, config.TopicDefault, nil, "a setting of topics that do not set it, `NAME=VALUE`; may be repeated")
	for _, d := range config.Definitions() {
		if d.Key == insecureKey {
			flags.BoolVar(&f.insecure, d.Key, false, flagDoc(d))
			continue
		}
		if d.Kind == config.List {
			f.lists[d.Key] = addListFlag(flags, d)
			continue
		}
		value := new(string)
		f.text[d.Key] = value
		flags.StringVar(value, d.Key, d.Default, flagDoc(d))
		if len(d.Choices) > 0 {
			completeWords(c, d.Key, d.Choices...)
		}
		if strings.Contains(d.Key, ".") {
			_ = flags.MarkHidden(d.Key) // it fails only for a flag that does not exist
		}
	}
	return f
}

// addListFlag gives a command the flag of a key that may be given several times.
func addListFlag(flags *pflag.FlagSet, d config.Definition) *[]string {
	var byDefault []string
	if d.Default != "" {
		byDefault = strings.Split(d.Default, ",")
	}
	values := new([]string)
	flags.StringArrayVar(values, d.Key, byDefault, flagDoc(d)+"; may be repeated")
	return values
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
func (f *serverFlags) load(c *cobra.Command) (*config.Loaded, error) {
	given := map[string][]string{}
	for name, value := range f.text {
		if c.Flags().Changed(name) {
			given[name] = []string{*value}
		}
	}
	for name, values := range f.lists {
		if c.Flags().Changed(name) {
			given[name] = *values
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
	if err == nil {
		err = checkTogether(loaded.Server)
	}
	if err != nil {
		return nil, usagef(c, "the configuration is wrong:\n  %s", strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	return loaded, nil
}

// checkTogether finds what is wrong only in keys taken together, and in the settings of topics.
func checkTogether(s config.Server) error {
	var wrong []error
	if s.QueuedMaxRequestBytes >= 0 && s.QueuedMaxRequestBytes < 2*s.SocketRequestMaxBytes {
		wrong = append(wrong, fmt.Errorf("queued.max.request.bytes is %d: expected at least twice socket.request.max.bytes, which is %d",
			s.QueuedMaxRequestBytes, s.SocketRequestMaxBytes))
	}
	if listens, told := len(s.KafkaListen), len(s.KafkaAdvertise); told > listens {
		wrong = append(wrong, fmt.Errorf("kafka-advertise has %d addresses and kafka-listen %d: expected one for each, in the same order",
			told, listens))
	}
	if _, err := topicconfig.Parse(s.TopicDefaults); err != nil {
		wrong = append(wrong, fmt.Errorf("%s: %w", config.TopicDefault, err))
	}
	for _, p := range s.TopicPatterns {
		_, err := path.Match(p.Pattern, "")
		if err == nil {
			_, err = topicconfig.Parse(p.Settings)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: pattern %q: %w", config.TopicPatterns, p.Pattern, err))
		}
	}
	return errors.Join(wrong...)
}

func newConfig() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Print the configuration that a server would have, and where each value comes from",
		Long: `Print the configuration that 'tidemark serve' would have with the same flags, environment and file: every key, its
value, and its source. Secrets are hidden. With --changed it is only what somebody gave and that differs from the default.`,
		Example: `  tidemark config
  tidemark config --changed
  TIDEMARK_NUM_PARTITIONS=6 tidemark config --config /etc/tidemark.yaml --output json`,
		Args: noArguments,
	}
	settings := addServerFlags(c)
	changed := c.Flags().Bool("changed", false, "only what differs from the defaults")
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

// changedValues leaves out the values that are their keys' defaults, wherever they come from.
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

// nodeSettings are the keys as a node takes them.
func nodeSettings(s config.Server, l limits) node.Config {
	return node.Config{
		DataDir:                  s.DataDir,
		NodeID:                   s.NodeID,
		Kafka:                    kafkaListeners(s),
		HTTP:                     s.HTTPListen,
		InsecureListen:           s.InsecureListen,
		MetaStore:                metaStore(s),
		Store:                    s.Store,
		MemoryLimit:              l.memory,
		TopicDefaults:            topicDefaults(s),
		TopicPatterns:            topicPatterns(s),
		NumPartitions:            s.NumPartitions,
		DefaultReplicationFactor: s.DefaultReplication,
		DisableAutoCreateTopics:  !s.AutoCreateTopics,
		DisableDeleteTopics:      !s.DeleteTopic,
		MaxPartitions:            noneForZero(int(s.MaxPartitions)),
		DiskReserve:              diskReserve(s.DiskReserve),
		MaxConnections:           l.connections,
		MaxConnectionsPerIP:      unlimited(s.MaxConnectionsPerIP),
		ConnectionsMaxIdle:       idleTime(s.ConnectionsMaxIdle),
		SocketRequestMaxBytes:    int32(s.SocketRequestMaxBytes),
		QueuedMaxRequestBytes:    l.requestBytes,
		FetchMaxBytes:            int32(s.FetchMaxBytes),
		FetchSessions:            noneForZero(int(s.MaxFetchSessions)),
		RecoveryThreads:          int(s.NumRecoveryThreads),
		MaxOpenFiles:             l.openFiles,
		InitialTaskDelay:         s.InitialTaskDelay,
		RetentionCheck:           s.RetentionCheckInterval,
		ProducerCheck:            s.ProducerIDExpirationCheck,
		ProducerExpiry:           s.ProducerIDExpiration,
		RecoveryPointCheckpoint:  s.RecoveryPointCheckpointInterval,
		LogStartCheckpoint:       s.LogStartCheckpointInterval,
		HighWatermarkCheckpoint:  s.HighWatermarkCheckpointInterval,
		Groups:                   groupSettings(s),
		GroupMetrics:             s.GroupMetrics,
		TraceEndpoint:            s.TraceEndpoint,
		TraceSampleRatio:         traceRatio(s.TraceRatio),
		Version:                  version,
	}
}

// metaStore are the keys about the metadata log as a node takes them.
func metaStore(s config.Server) node.MetaStore {
	return node.MetaStore{URL: s.MetaURL, CACert: s.MetaCACert, Cert: s.MetaCert, Key: s.MetaKey, User: s.MetaUser}
}

// kafkaListeners puts what is listened on and what clients are told together.
func kafkaListeners(s config.Server) []node.Listener {
	var all []node.Listener
	for i, listen := range s.KafkaListen {
		l := node.Listener{Listen: listen}
		if i < len(s.KafkaAdvertise) {
			l.Advertise = s.KafkaAdvertise[i]
		}
		all = append(all, l)
	}
	return all
}

// groupSettings are the keys about groups as a node takes them.
func groupSettings(s config.Server) node.GroupConfig {
	delay := s.GroupInitialDelay
	if delay == 0 {
		delay = -1 // node's way to say none
	}
	return node.GroupConfig{
		OffsetsPartitions:     s.OffsetsPartitions,
		InitialRebalanceDelay: delay,
		MinSessionTimeout:     s.GroupMinSession,
		MaxSessionTimeout:     s.GroupMaxSession,
		MaxSize:               unlimited(s.GroupMaxSize),
		OffsetsRetention:      time.Duration(s.OffsetsRetentionMinutes) * time.Minute,
		OffsetsRetentionCheck: s.OffsetsRetentionCheck,
		OffsetMetadataMax:     int(s.OffsetMetadataMax),
	}
}

// topicDefaults are the settings of all topics: those that are given by their own names win over the server's keys that
// stand for them.
func topicDefaults(s config.Server) map[string]string {
	defaults := map[string]string{"max.message.bytes": strconv.FormatInt(s.MessageMaxBytes, 10)}
	maps.Copy(defaults, s.TopicDefaults)
	return defaults
}

func topicPatterns(s config.Server) []node.TopicPattern {
	var patterns []node.TopicPattern
	for _, p := range s.TopicPatterns {
		patterns = append(patterns, node.TopicPattern{Pattern: p.Pattern, Settings: p.Settings})
	}
	return patterns
}

// unlimited turns a count that means no limit into node's way to say so.
func unlimited(n int32) int {
	if n == math.MaxInt32 {
		return 0
	}
	return int(n)
}

// longIdle is for ever, for a connection.
const longIdle = 100 * 365 * 24 * time.Hour

// idleTime turns a time that means for ever into one that a clock can be moved by.
func idleTime(d time.Duration) time.Duration {
	if d <= 0 || d > longIdle {
		return longIdle
	}
	return d
}

// noneForZero turns no limit or none at all into node's way to say so, where 0 is its default.
func noneForZero(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// traceRatio turns none into node's way to say so.
func traceRatio(ratio float64) float64 {
	if ratio == 0 {
		return -1
	}
	return ratio
}

// diskReserve turns the numbers for a part of the disk and for none into node's, where they are the other way round.
func diskReserve(bytes int64) int64 {
	switch bytes {
	case -1:
		return 0
	case 0:
		return -1
	}
	return bytes
}
