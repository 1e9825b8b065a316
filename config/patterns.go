package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// TopicPatterns is the key of the settings of topics whose names match a pattern: a list of maps, each with a pattern and any
// number of settings. Only the file can have it.
const TopicPatterns = "topic-patterns"

// patternKey names the pattern in an item of the list.
const patternKey = "pattern"

// patternsFrom reads the list.
func patternsFrom(v any, source Source) (patterns []TopicPattern, problems []error) {
	items, ok := v.([]any)
	if !ok {
		return nil, []error{&ValueError{Key: TopicPatterns, Value: fmt.Sprint(v), Source: source,
			Reason: "expected a list of maps with pattern and settings"}}
	}
	for i, item := range items {
		p, err := patternFrom(item)
		if err != nil {
			problems = append(problems, &ValueError{Key: fmt.Sprintf("%s[%d]", TopicPatterns, i), Value: fmt.Sprint(item),
				Source: source, Reason: err.Error()})
			continue
		}
		patterns = append(patterns, p)
	}
	return patterns, problems
}

// patternFrom reads one item of the list.
func patternFrom(item any) (TopicPattern, error) {
	fields, ok := item.(map[string]any)
	if !ok {
		return TopicPattern{}, errors.New("expected a map with pattern and settings")
	}
	settings := map[string]string{}
	if err := flatten(settings, "", fields); err != nil {
		return TopicPattern{}, err
	}
	pattern := settings[patternKey]
	delete(settings, patternKey)
	if pattern == "" {
		return TopicPattern{}, errors.New("expected a pattern, such as audit-*")
	}
	if len(settings) == 0 {
		return TopicPattern{}, errors.New("expected at least one setting beside the pattern")
	}
	return TopicPattern{Pattern: pattern, Settings: settings}, nil
}

// flatten writes nested maps with dotted names.
func flatten(out map[string]string, prefix string, fields map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if nested, ok := fields[name].(map[string]any); ok {
			if err := flatten(out, prefix+name+".", nested); err != nil {
				return err
			}
			continue
		}
		text, err := scalar(fields[name])
		if err != nil {
			return fmt.Errorf("%s%s: %w", prefix, name, err)
		}
		out[prefix+name] = text
	}
	return nil
}

// values are the lines that [Loaded.Print] shows of a pattern.
func (p TopicPattern) values(source Source) []Value {
	var out []Value
	for _, name := range slices.Sorted(maps.Keys(p.Settings)) {
		key := strings.Join([]string{TopicPatterns, p.Pattern, name}, ".")
		out = append(out, Value{Key: key, Value: p.Settings[name], Source: source})
	}
	return out
}
