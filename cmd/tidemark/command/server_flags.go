package command

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-io/tidemark/config"
	"github.com/tidemark-io/tidemark/topicconfig"
)

// serverFlags are the keys of the server's configuration as flags of a command.
type serverFlags struct {
	text     map[string]*string
	lists    map[string]*[]string // of keys that may be given several times
	defaults []string
	insecure bool
	file     string
}

// insecureKey is the only key whose flag needs no value.
const insecureKey = "insecure-listen"

// addServerFlags adds a flag for every key to a command. The many keys under Kafka's names work but are hidden from the
// help; 'tidemark config' lists them.
func addServerFlags(c *cobra.Command) *serverFlags {
	f := &serverFlags{text: map[string]*string{}, lists: map[string]*[]string{}}
	flags := c.Flags()
	flags.StringVar(&f.file, config.FileKey, "", "read settings from this YAML file")
	nameValue(flags, config.FileKey, "FILE")
	flags.StringArrayVar(&f.defaults, config.TopicDefault, nil, "a setting for topics that do not set it themselves; may be repeated")
	nameValue(flags, config.TopicDefault, "NAME=VALUE")
	for _, d := range config.Definitions() {
		switch {
		case d.Key == insecureKey:
			flags.BoolVar(&f.insecure, d.Key, false, flagDoc(d.Doc))
		case d.Kind == config.List:
			f.lists[d.Key] = addListFlag(flags, d)
		default:
			f.text[d.Key] = addTextFlag(c, d)
		}
		if strings.Contains(d.Key, ".") {
			_ = flags.MarkHidden(d.Key) // it fails only for a flag that does not exist
		}
	}
	return f
}

// addSettingFlags adds the flags of some keys to a command; all others come from the environment and the file, as for the
// server. It panics if there is no such key, which every run of the program would reveal.
func addSettingFlags(c *cobra.Command, keys ...string) *serverFlags {
	f := &serverFlags{text: map[string]*string{}}
	c.Flags().StringVar(&f.file, config.FileKey, "", "read the server's settings from this YAML file")
	nameValue(c.Flags(), config.FileKey, "FILE")
	definitions := config.Definitions()
	for _, key := range keys {
		i := slices.IndexFunc(definitions, func(d config.Definition) bool { return d.Key == key })
		if i < 0 {
			panic("no setting is called " + key)
		}
		f.text[key] = addTextFlag(c, definitions[i])
	}
	return f
}

// addTextFlag adds the flag of a key with a single value.
func addTextFlag(c *cobra.Command, d config.Definition) *string {
	value := new(string)
	c.Flags().StringVar(value, d.Key, d.Default, flagDoc(d.Doc))
	nameValue(c.Flags(), d.Key, valueName(d))
	if len(d.Choices) > 0 {
		completeWords(c, d.Key, d.Choices...)
	}
	return value
}

// addListFlag adds the flag of a key that may be given several times.
func addListFlag(flags *pflag.FlagSet, d config.Definition) *[]string {
	var byDefault []string
	if d.Default != "" {
		byDefault = strings.Split(d.Default, ",")
	}
	values := new([]string)
	flags.StringArrayVar(values, d.Key, byDefault, flagDoc(d.Doc)+"; may be repeated")
	nameValue(flags, d.Key, valueName(d))
	return values
}

// valueName is the name of a key's value in the help.
func valueName(d config.Definition) string {
	if d.Kind == config.Choice {
		return strings.Join(d.Choices, "|")
	}
	return strings.ToUpper(string(d.Kind))
}

// flagDoc turns a key's doc sentence into a flag's help: without its capital and its full stop.
func flagDoc(sentence string) string {
	return strings.ToLower(sentence[:1]) + strings.TrimSuffix(sentence[1:], ".")
}

// say replaces the help of a key's flag where the server's text does not fit the command.
func (f *serverFlags) say(c *cobra.Command, key, doc string) { c.Flags().Lookup(key).Usage = doc }

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

// checkTogether checks keys that depend on each other, and the settings of topics.
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
	if err := nodeSettings(s, machineLimits(s)).CheckStreams(); err != nil {
		wrong = append(wrong, err)
	}
	return errors.Join(wrong...)
}
