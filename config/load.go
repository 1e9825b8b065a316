package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"

	"github.com/tidemark-io/tidemark/internal/nearest"
)

// FileKey is the flag, and with TIDEMARK_CONFIG the variable, that names the file.
const FileKey = "config"

// Sources are where a configuration comes from.
type Sources struct {
	// Flags are the flags that were given, by key, with their values in the order given. Of several values the last one
	// counts, except that all count for [TopicDefault] and for a key of kind [List]. [FileKey] names the file.
	Flags map[string][]string
	// Environ is the environment as os.Environ returns it. Variables that are empty or do not begin with TIDEMARK_ are
	// ignored, except that OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and OTEL_EXPORTER_OTLP_ENDPOINT set trace-endpoint when
	// TIDEMARK_TRACE_ENDPOINT does not.
	Environ []string
}

// Source says where a value was given.
type Source string

// DefaultSource is the source of a value that was not set.
const DefaultSource Source = "default"

func fileSource(path string) Source { return Source("file " + path) }
func envSource(name string) Source  { return Source("environment " + name) }
func flagSource(name string) Source { return Source("flag --" + name) }

// Value is one key of a loaded configuration.
type Value struct {
	Key string `json:"key"`
	// Value is the value in force, with secrets hidden.
	Value  string `json:"value"`
	Source Source `json:"source"`
}

// Loaded is a configuration with the source of each value.
type Loaded struct {
	// Server holds the values in force.
	Server Server
	// Values holds every key in the order of [Definitions], then the topic defaults in the order of their names, then the
	// topic patterns in theirs.
	Values []Value
}

// given is a value in one source.
type given struct {
	text   string
	source Source
}

// layer is the content of one source: keys of the table, and topic-default.NAME.
type layer map[string]given

// Load reads all sources. The error joins an [*UnknownKeyError] or a [*ValueError] for every problem, in the order file,
// environment, flags, or says why the file cannot be read.
func Load(src Sources) (*Loaded, error) {
	var l loader
	flags, env := l.flags(src.Flags), l.environment(src.Environ)
	path := l.path(src)
	var inFile layer
	if path != "" {
		inFile = l.file(path)
	}
	loaded := l.merge(inFile, env, flags)
	loaded.Server.TopicPatterns = l.patterns
	for _, p := range l.patterns {
		loaded.Values = append(loaded.Values, p.values(fileSource(path))...)
	}
	if problems := slices.Concat(l.fileProblems, l.envProblems, l.flagProblems, l.valueProblems); len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return loaded, nil
}

// loader collects problems by source, and what only the file can set.
type loader struct {
	patterns []TopicPattern

	fileProblems, envProblems, flagProblems, valueProblems []error
}

// path finds the file to read: the flag before the environment.
func (l *loader) path(src Sources) string {
	if given := src.Flags[FileKey]; len(given) > 0 {
		return given[len(given)-1]
	}
	for _, kv := range src.Environ {
		if path, ok := strings.CutPrefix(kv, envName(FileKey)+"="); ok {
			return path
		}
	}
	return ""
}

func (l *loader) flags(flags map[string][]string) layer {
	out := layer{}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		source, values := flagSource(name), flags[name]
		switch {
		case name == FileKey || len(values) == 0:
		case name == TopicDefault:
			l.flagProblems = append(l.flagProblems, out.addPairs(values, source)...)
		case find(name) == nil:
			names := append(keyNames(), TopicDefault, FileKey)
			l.flagProblems = append(l.flagProblems, &UnknownKeyError{Key: name, Nearest: nearest.Name(name, names), Source: source})
		case find(name).Kind == List:
			out[name] = given{strings.Join(values, ","), source}
		default:
			out[name] = given{values[len(values)-1], source}
		}
	}
	return out
}

func (l *loader) environment(environ []string) layer {
	byEnv := map[string]string{envName(TopicDefault): TopicDefault, envName(FileKey): FileKey}
	for i := range table {
		byEnv[table[i].Env] = table[i].Key
	}
	out := openTelemetry(environ)
	for _, kv := range slices.Sorted(slices.Values(environ)) {
		env, text, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(env, envPrefix) || text == "" {
			continue
		}
		source := envSource(env)
		switch name, known := byEnv[env]; {
		case !known:
			near := nearest.Name(env, slices.Collect(maps.Keys(byEnv)))
			l.envProblems = append(l.envProblems, &UnknownKeyError{Key: env, Nearest: near, Source: "environment"})
		case name == FileKey:
		case name == TopicDefault:
			pairs := strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == '\n' })
			l.envProblems = append(l.envProblems, out.addPairs(pairs, source)...)
		default:
			out[name] = given{text, source}
		}
	}
	return out
}

// openTelemetry reads OpenTelemetry's standard variables. Our own overrides them, and the one for traces alone overrides the
// one for all signals.
func openTelemetry(environ []string) layer {
	out := layer{}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		for _, kv := range environ {
			if text, ok := strings.CutPrefix(kv, name+"="); ok && text != "" {
				if name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
					text = strings.TrimSuffix(text, "/") + "/v1/traces"
				}
				out["trace-endpoint"] = given{text, envSource(name)}
			}
		}
	}
	return out
}

// file reads the YAML file. A dotted key is the same key whether it is written flat or nested.
func (l *loader) file(path string) layer {
	k := koanf.New(".")
	if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
		l.fileProblems = append(l.fileProblems, fmt.Errorf("%s: %w", fileSource(path), err))
		return nil
	}
	source, out := fileSource(path), layer{}
	flat := k.All()
	for _, name := range slices.Sorted(maps.Keys(flat)) {
		_, isDefault := strings.CutPrefix(name, TopicDefault+".")
		switch {
		case name == TopicDefault:
			l.fileProblems = append(l.fileProblems, out.addList(flat[name], source)...)
		case name == TopicPatterns:
			patterns, problems := patternsFrom(flat[name], source)
			l.patterns, l.fileProblems = patterns, append(l.fileProblems, problems...)
		case isDefault || find(name) != nil:
			text, err := textOf(name, flat[name])
			if err != nil {
				l.fileProblems = append(l.fileProblems, &ValueError{Key: name, Value: fmt.Sprint(flat[name]), Source: source,
					Reason: err.Error()})
				continue
			}
			out[name] = given{text, source}
		default:
			near := nearest.Name(name, append(keyNames(), TopicDefault, TopicPatterns))
			l.fileProblems = append(l.fileProblems, &UnknownKeyError{Key: name, Nearest: near, Source: source})
		}
	}
	return out
}

// addPairs adds topic defaults written as NAME=VALUE.
func (l layer) addPairs(pairs []string, source Source) (problems []error) {
	for _, pair := range pairs {
		name, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok || name == "" {
			problems = append(problems, &ValueError{Key: TopicDefault, Value: pair, Source: source, Reason: "expected NAME=VALUE"})
			continue
		}
		l[TopicDefault+"."+name] = given{value, source}
	}
	return problems
}

// addList adds topic defaults that the file gives as a list.
func (l layer) addList(v any, source Source) (problems []error) {
	items, ok := v.([]any)
	if !ok {
		return []error{&ValueError{Key: TopicDefault, Value: fmt.Sprint(v), Source: source,
			Reason: "expected a map, or a list of NAME=VALUE"}}
	}
	pairs := make([]string, len(items))
	for i, item := range items {
		pairs[i] = fmt.Sprint(item)
	}
	return l.addPairs(pairs, source)
}

// textOf converts a value of the file to the text of a flag.
func textOf(name string, v any) (string, error) {
	items, isList := v.([]any)
	if row := find(name); row == nil || row.Kind != List || !isList {
		return scalar(v)
	}
	texts := make([]string, len(items))
	for i, item := range items {
		text, err := scalar(item)
		if err != nil && item != nil { // an empty item keeps its position
			return "", err
		}
		texts[i] = text
	}
	return strings.Join(texts, ","), nil
}

// scalar converts a YAML value to text that means the same.
func scalar(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool, int, int64, uint64, float64:
		return fmt.Sprint(v), nil
	case nil:
		return "", errors.New("expected a value")
	}
	return "", errors.New("expected one value, not a list or a map")
}

// merge lays stronger sources over weaker ones and parses the values in force.
func (l *loader) merge(layers ...layer) *Loaded {
	k, sources := koanf.New("\x00"), map[string]Source{} // a delimiter that no key has: keys stay flat
	for _, from := range layers {
		texts := map[string]any{}
		for name, g := range from {
			texts[name], sources[name] = g.text, g.source
		}
		_ = k.Load(confmap.Provider(texts, ""), nil) // a map in memory does not fail
	}
	out := &Loaded{Server: Server{TopicDefaults: map[string]string{}}}
	for i := range table {
		out.Values = append(out.Values, l.read(&table[i], &out.Server, k, sources))
	}
	for _, name := range slices.Sorted(maps.Keys(k.All())) {
		if setting, ok := strings.CutPrefix(name, TopicDefault+"."); ok {
			out.Server.TopicDefaults[setting] = k.String(name)
			out.Values = append(out.Values, Value{Key: name, Value: k.String(name), Source: sources[name]})
		}
	}
	return out
}

// read sets one key of the table.
func (l *loader) read(row *key, s *Server, k *koanf.Koanf, sources map[string]Source) Value {
	source, has := sources[row.Key]
	if !has {
		_ = row.set(s, row.defaultText) // as above the table: a default parses
		return Value{Key: row.Key, Value: row.show(s), Source: DefaultSource}
	}
	err := row.set(s, strings.TrimSpace(k.String(row.Key)))
	if err != nil {
		shown := k.String(row.Key)
		if row.secret {
			shown = hideInURL(shown)
		}
		l.valueProblems = append(l.valueProblems, &ValueError{Key: row.Key, Value: shown, Source: source, Reason: err.Error()})
	}
	return Value{Key: row.Key, Value: row.show(s), Source: source}
}

func find(name string) *key {
	for i := range table {
		if table[i].Key == name {
			return &table[i]
		}
	}
	return nil
}

func keyNames() []string {
	names := make([]string, len(table))
	for i := range table {
		names[i] = table[i].Key
	}
	return names
}
