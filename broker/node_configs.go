package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-io/tidemark/topicconfig"
)

// # Settings of nodes that can be changed while they run
//
// They are those of Kafka's dynamic settings (DynamicBrokerConfig.AllDynamicConfigs) that have a meaning here, under
// Kafka's names:
//
//	the defaults of topics     the strongest of those behind each topic setting, such as log.retention.ms and
//	                           message.max.bytes, and tidemark.flush; in force in every open log at once
//	max.connections            for new connections; open ones stay
//	max.connections.per.ip     the same
//	producer.id.expiration.ms  when each log is next checked
//
// Each can be set for one node and for all; the setting of one wins. All others are read at the start, and changes to
// them are refused. Kafka accepts settings of unknown names for its plug-ins; here there are none, and an unknown name is
// refused like a setting that cannot be changed.

// nodeConfig is a setting of nodes that can be changed while they run.
type nodeConfig struct {
	kind  topicconfig.Type
	doc   string
	check func(value string) error // what is wrong with a value
}

// Settings that are not defaults of topics, by Kafka's names.
const (
	maxConnections      = "max.connections"
	maxConnectionsPerIP = "max.connections.per.ip"

	// ProducerIDExpiration is how long, in milliseconds and at least 1, an idle producer is remembered.
	ProducerIDExpiration = "producer.id.expiration.ms"
)

func nodeConfigOf(name string) (nodeConfig, bool) {
	switch name {
	case maxConnections:
		return nodeConfig{topicconfig.Int, "How many connections may be open at a time.", checkNumber(name)}, true
	case maxConnectionsPerIP:
		return nodeConfig{topicconfig.Int, "How many connections of one address may be open at a time.", checkNumber(name)}, true
	case ProducerIDExpiration:
		return nodeConfig{topicconfig.Int, "How long a partition remembers a producer that writes nothing.", checkNumber(name)}, true
	}
	d, ok := topicconfig.OfBroker(name)
	return nodeConfig{d.Type, d.Doc, checkDefault(name, d.Name)}, ok
}

// checkNumber checks a whole number of at least 1. Kafka allows 0 connections too, which would lock out whoever set it.
func checkNumber(name string) func(string) error {
	return func(value string) error {
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 32)
		switch {
		case err != nil:
			return &topicconfig.ValueError{Name: name, Value: value, Reason: "not a number of type INT"}
		case n < 1:
			return &topicconfig.ValueError{Name: name, Value: value, Reason: "value must be at least 1"}
		}
		return nil
	}
}

// checkDefault checks a default of topics by itself.
func checkDefault(name, topicName string) func(string) error {
	return func(value string) error {
		_, err := topicconfig.Parse(map[string]string{topicName: value})
		var wrong *topicconfig.ValueError
		if errors.As(err, &wrong) {
			return &topicconfig.ValueError{Name: name, Value: value, Reason: wrong.Reason}
		}
		return nil // conflicts between settings are found with the rest
	}
}

// alterNode changes the settings of this node, or of all. Concurrent changes by others are kept.
func (c *call) alterNode(ctx context.Context, ch *configChange, validateOnly bool) error {
	if ch.name != "" {
		if err := c.checkBrokerName(ch.name); err != nil {
			return err
		}
	}
	for {
		err := c.tryAlterNode(ctx, ch, validateOnly)
		if !errors.Is(err, ErrConfigChanged) || ctx.Err() != nil {
			return err
		}
	}
}

func (c *call) tryAlterNode(ctx context.Context, ch *configChange, validateOnly bool) error {
	all := ch.name == ""
	nodes := c.server.backend.NodeConfigs()
	had := nodes.This
	if all {
		had = nodes.All
	}
	settings, err := ch.merge(maps.Clone(orEmpty(had.Settings)), nodeLists(had.Settings))
	if err != nil {
		return err
	}
	if err := checkNodeConfigs(had.Settings, settings); err != nil {
		return err
	}
	if maps.Equal(had.Settings, settings) {
		return nil
	}
	err = c.server.backend.SetNodeConfigs(ctx, SetNodeConfigs{
		All: all, Version: had.Version, Settings: settings, ValidateOnly: validateOnly,
	})
	var invalid *topicconfig.InvalidError
	if errors.As(err, &invalid) {
		return &codedError{codeInvalidRequest, err.Error()}
	}
	return err
}

// nodeLists returns the lists among settings of nodes: as in Kafka the value that is set, or Kafka's default, whatever is
// in force.
func nodeLists(settings map[string]string) presentList {
	return func(name string, op int8) (string, error) {
		d, known := nodeConfigOf(name)
		if !known {
			return "", &codedError{codeInvalidConfig, "Unknown config name: " + name}
		}
		if d.kind != topicconfig.List {
			verb := map[int8]string{opAppend: "append", opSubtract: "subtract"}[op]
			return "", &codedError{codeInvalidConfig, fmt.Sprintf("Config value %s is not allowed for config key: %s", verb, name)}
		}
		if value, set := settings[name]; set {
			return value, nil
		}
		topic, _ := topicconfig.OfBroker(name)
		return topic.Default, nil
	}
}

// checkNodeConfigs checks settings one by one. Unchanged ones are not checked: another version of the server may have set
// them.
func checkNodeConfigs(had, settings map[string]string) error {
	var fixed []string
	var wrong error
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value := settings[name]
		if before, ok := had[name]; ok && before == value {
			continue
		}
		d, dynamic := nodeConfigOf(name)
		if !dynamic {
			fixed = append(fixed, name)
			continue
		}
		if err := d.check(value); err != nil && wrong == nil {
			wrong = &codedError{codeInvalidRequest, err.Error()}
		}
	}
	if fixed != nil {
		return &codedError{codeInvalidRequest, fmt.Sprintf("Cannot update these configs dynamically: [%s]", strings.Join(fixed, ", "))}
	}
	return wrong
}

// limit returns the current limit of a number of connections; 0 is no limit, as is the largest number.
func (n NodeConfigs) limit(name string, atStart int) int {
	value, _ := n.Value(name)
	limit, err := strconv.ParseInt(strings.TrimSpace(value), 10, 32)
	switch {
	case err != nil:
		return atStart // not set, or set by another version of the server
	case limit == math.MaxInt32:
		return 0
	}
	return int(limit)
}
