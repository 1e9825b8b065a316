package broker

import (
	"context"
	"errors"

	"github.com/tidemark-io/tidemark/topicconfig"
)

// Administration is the part of a [Backend] that administrators use.
type Administration interface {
	// CreatePartitions adds partitions to topics, each independently of the others, and returns one error (or nil) for each, in
	// order. When it returns, new partitions are durable, are in Topics, and can be written to. Errors match
	// [ErrUnknownTopicID], [ErrPartitionsChanged], [ErrTooManyPartitions], partition.ErrStorage or the context's error.
	CreatePartitions(ctx context.Context, topics []CreatePartitions) []error

	// SetTopicConfigs replaces the overrides of topics, each independently of the others, and returns one error (or nil) for each,
	// in order. When it returns, the new settings are durable and in force, in Topics and in every open log. Errors match
	// [ErrUnknownTopicID], [ErrConfigChanged] or the context's error, or are a *topicconfig.InvalidError.
	SetTopicConfigs(ctx context.Context, topics []SetTopicConfigs) []error

	// LogDirs returns the directories that hold this node's partitions. It may block on the disk for a moment.
	LogDirs() []LogDir

	// ServerConfigs returns the settings of the node, by Kafka's names where Kafka has them, in any order. They exclude
	// [Options] and the defaults of topics. The slice is read-only for the caller, who may keep it.
	ServerConfigs() []ServerConfig

	// NodeConfigs returns the settings of nodes that were made while they ran. It costs nothing. The caller must not
	// change the maps.
	NodeConfigs() NodeConfigs

	// SetNodeConfigs replaces the settings that were made while nodes ran, of this node or of all. When it returns, the
	// settings are durable, and those of the node and the defaults of topics are in force, in every open log. Errors
	// match [ErrConfigChanged] or the context's error, or are a *topicconfig.InvalidError when the defaults conflict with
	// each other or with a topic's own settings.
	SetNodeConfigs(ctx context.Context, c SetNodeConfigs) error
}

// NodeConfigs are the settings that were made while nodes ran, at one moment. Those of one node override those of all
// nodes, and both override what the node was started with.
type NodeConfigs struct {
	All  NodeOverrides // for all nodes: Kafka's resource without a name
	This NodeOverrides // for this node

	// Static are the defaults of topics that the node was started with, and InForce the same with All and This on top.
	// Neither includes defaults for topics by name pattern.
	Static, InForce topicconfig.Config
}

// Value returns the value of a setting by its name: this node's, or else that for all nodes.
func (n NodeConfigs) Value(name string) (value string, set bool) {
	if value, set = n.This.Settings[name]; set {
		return value, true
	}
	value, set = n.All.Settings[name]
	return value, set
}

// NodeOverrides are settings by the names that Kafka's brokers have for them.
type NodeOverrides struct {
	Version  uint64 // changes with each change; 0 if nothing was ever set
	Settings map[string]string
}

// SetNodeConfigs requests a change to the settings of nodes.
type SetNodeConfigs struct {
	All          bool              // for all nodes instead of this one
	Version      uint64            // NodeOverrides.Version on which Settings are based; otherwise ErrConfigChanged
	Settings     map[string]string // the complete new settings; each is valid by itself
	ValidateOnly bool              // check only, change nothing
}

// CreatePartitions requests more partitions for a topic.
type CreatePartitions struct {
	Topic    TopicID
	Expected int32 // current number; otherwise ErrPartitionsChanged
	Total    int32 // new number, more than Expected
}

// SetTopicConfigs requests a change to the settings of a topic.
type SetTopicConfigs struct {
	Topic     TopicID
	Version   uint64            // Topic.ConfigVersion on which Overrides are based; otherwise ErrConfigChanged
	Overrides map[string]string // the complete new settings of the topic itself; valid
}

// LogDir is a directory with partitions.
type LogDir struct {
	Path   string // absolute, as clients see it
	Holds  string // as in partition.Log.Dir: the parent of the directories of its partitions
	Total  int64  // bytes of the file system; -1 if unknown
	Usable int64  // free bytes of it; -1 if unknown
}

// ServerConfig is a setting that the node was started with.
type ServerConfig struct {
	Name    string
	Value   string // empty if it has none
	Default string // value when it is not set; empty if it has none
	Type    topicconfig.Type
	Secret  bool // clients see that there is a value, not which
	Doc     string
}

// Errors that an [Administration] returns, possibly wrapped; match them with errors.Is.
var (
	ErrPartitionsChanged = errors.New("the topic's number of partitions has changed in the meantime")
	ErrConfigChanged     = errors.New("the settings have changed in the meantime")
)
