package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/tidemark-io/tidemark/topicconfig"
)

// configChange is one resource of an AlterConfigs or IncrementalAlterConfigs request.
type configChange struct {
	resource int8
	name     string
	keys     []string // of the settings that are changed, in order

	// checked is the error of the request itself, whatever the settings are now.
	checked error

	// merge returns the overrides that result from the present ones, which it owns.
	merge func(overrides map[string]string, present presentList) (map[string]string, error)
}

// presentList returns the list that opAppend adds to and opSubtract takes from. The error is for a name that does not
// exist or is not a list.
type presentList func(name string, op int8) (string, error)

// maxConfigValue is the longest value of a setting in bytes, as in Kafka.
const maxConfigValue = 32767

// alterConfigs changes settings, each resource as a whole and independently of the others, and returns an error or nil
// for each.
func (c *call) alterConfigs(changes []configChange, validateOnly bool) []error {
	occurs := make(map[[2]string]int)
	for _, ch := range changes {
		occurs[ch.key()]++
	}
	ctx, cancel := context.WithTimeout(c.conn.ctx, alterTimeout)
	defer cancel()
	errs := make([]error, len(changes))
	for i, ch := range changes {
		if occurs[ch.key()] > 1 {
			errs[i] = &codedError{codeInvalidRequest, "Each resource must appear at most once."}
			continue
		}
		errs[i] = c.alterResource(ctx, &ch, validateOnly)
	}
	return errs
}

// alterTimeout bounds how long an alteration waits for the metadata; its requests carry no timeout.
const alterTimeout = 30 * time.Second

func (ch *configChange) key() [2]string { return [2]string{string(rune(ch.resource)), ch.name} }

func (c *call) alterResource(ctx context.Context, ch *configChange, validateOnly bool) error {
	if ch.checked != nil {
		return ch.checked
	}
	switch ch.resource {
	case resourceTopic:
		return c.alterTopic(ctx, ch, validateOnly)
	case resourceBroker:
		return c.alterNode(ctx, ch, validateOnly)
	case resourceBrokerLogger:
		return c.refuseLoggerChange(ch)
	case resourceClientMetrics, resourceGroup:
		if ch.name == "" {
			return &codedError{codeInvalidRequest, "The name must not be empty."}
		}
		return &codedError{codeInvalidConfig, "This server has no settings of groups and of client metrics."}
	}
	return &codedError{codeInvalidRequest, fmt.Sprintf("Unknown resource type %d", ch.resource)}
}

// alterTopic changes the settings of a topic. After a concurrent change this one is repeated on top of it.
func (c *call) alterTopic(ctx context.Context, ch *configChange, validateOnly bool) error {
	if ch.name == "" {
		return &codedError{codeInvalidRequest, "Default topic resources are not allowed."}
	}
	if err := checkTopicName(ch.name); err != nil {
		return err
	}
	for {
		err := c.tryAlterTopic(ctx, ch, validateOnly)
		if !errors.Is(err, ErrConfigChanged) || ctx.Err() != nil {
			return err
		}
	}
}

func (c *call) tryAlterTopic(ctx context.Context, ch *configChange, validateOnly bool) error {
	b := c.server.backend
	t, lookup := topicRef{name: ch.name}.find(b.Topics())
	var had map[string]string
	var err error
	config := topicconfig.Config{}
	if lookup == nil {
		config, had = t.Config, t.Config.Overrides()
	} else if config, err = b.ResolveConfig(ch.name, nil); err != nil {
		return err
	}
	// As in Kafka, faults of the settings are reported before a missing topic.
	overrides, err := ch.merge(maps.Clone(orEmpty(had)), topicLists(config))
	if err != nil {
		return err
	}
	if _, err := b.ResolveConfig(ch.name, overrides); err != nil {
		return err
	}
	if lookup != nil {
		return &codedError{codeUnknownTopicOrPartition, "The topic '" + ch.name + "' does not exist."}
	}
	if validateOnly || maps.Equal(had, overrides) {
		return nil
	}
	return b.SetTopicConfigs(ctx, []SetTopicConfigs{{Topic: t.ID, Version: t.ConfigVersion, Overrides: overrides}})[0]
}

// topicLists returns the lists among the settings of a topic.
func topicLists(config topicconfig.Config) presentList {
	return func(name string, op int8) (string, error) {
		d, known := topicconfig.Lookup(name)
		if !known {
			_, err := config.With(map[string]string{name: ""})
			return "", err
		}
		if d.Type != topicconfig.List {
			verb := map[int8]string{opAppend: "APPEND to", opSubtract: "SUBTRACT from"}[op]
			return "", &codedError{codeInvalidConfig, fmt.Sprintf("Can't %s key %s because its type is not LIST.", verb, name)}
		}
		return config.Value(name), nil
	}
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// refuseLoggerChange returns why the level of a logger cannot be changed.
func (c *call) refuseLoggerChange(ch *configChange) error {
	if err := c.checkBrokerName(ch.name); err != nil || len(ch.keys) == 0 {
		return err
	}
	return &codedError{codeInvalidConfig, "Logger " + ch.keys[0] + " does not exist!"}
}

// checkKeys refuses a repeated setting and a value that is too long.
func checkKeys(keys []string, values []*string) error {
	seen := make(map[string]bool, len(keys))
	for i, key := range keys {
		if seen[key] {
			return &codedError{codeInvalidRequest, "Error due to duplicate config keys"}
		}
		seen[key] = true
		if values[i] != nil && len(*values[i]) > maxConfigValue {
			return &codedError{codeInvalidConfig, fmt.Sprintf("The value of %s is longer than %d bytes.", key, maxConfigValue)}
		}
	}
	return nil
}

func nullValues(keys []string) error {
	return &codedError{codeInvalidRequest, "Null value not supported for : " + strings.Join(keys, ",")}
}
