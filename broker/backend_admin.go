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

	// ServerConfigs returns the settings of the node, by Kafka's names where Kafka has them, in any order. Those of
	// [Options] and the defaults of topics are not among them. The caller keeps the slice and does not change it.
	ServerConfigs() []ServerConfig

	// NodeConfigs returns what was set of nodes while they ran. It costs nothing. The caller does not change the maps.
	NodeConfigs() NodeConfigs

	// SetNodeConfigs replaces what was set of this node, or of all, while they run. When it returns, the settings are
	// durable, and those of the node and the defaults of topics are in force, in every open log. Errors match [ErrConfigChanged] or the
	// context's error, or are a *topicconfig.InvalidError when the defaults do not go together, or not with what a topic
	// sets itself.
	SetNodeConfigs(ctx context.Context, c SetNodeConfigs) error
}

// NodeConfigs is what was set of nodes while they ran, at one moment. What is set of one node wins over what is set of all,
// and both win over what the node was started with.
type NodeConfigs struct {
	All  NodeOverrides // of all nodes: Kafka's resource without a name
	This NodeOverrides // of this node

	// Static is the defaults of topics that the node was started with, and InForce with All and This on top. Neither has the
	// defaults for topics of certain names.
	Static, InForce topicconfig.Config
}

// Value is what is set of a setting, by its name: of this node, or else of all.
func (n NodeConfigs) Value(name string) (value string, set bool) {
	if value, set = n.This.Settings[name]; set {
		return value, true
	}
	value, set = n.All.Settings[name]
	return value, set
}

// NodeOverrides are settings by the names that Kafka's brokers have for them.
type NodeOverrides struct {
	Version  uint64 // changes with each change; 0: nothing was ever set
	Settings map[string]string
}

// SetNodeConfigs asks for other settings of nodes.
type SetNodeConfigs struct {
	All          bool              // of all nodes, not of this one
	Version      uint64            // NodeOverrides.Version that Settings follow from; otherwise ErrConfigChanged
	Settings     map[string]string // all that is set; valid one by one
	ValidateOnly bool              // say what is wrong, change nothing
}

// CreatePartitions asks for a topic to grow.
type CreatePartitions struct {
	Topic    TopicID
	Expected int32 // how many there are now; otherwise ErrPartitionsChanged
	Total    int32 // how many there shall be, more than Expected
}

// SetTopicConfigs asks for other settings of a topic.
type SetTopicConfigs struct {
	Topic     TopicID
	Version   uint64            // Topic.ConfigVersion that Overrides follow from; otherwise ErrConfigChanged
	Overrides map[string]string // all that the topic sets itself; valid
}

// LogDir is a directory with partitions.
type LogDir struct {
	Path   string // absolute, as clients are told
	Holds  string // the same as partition.Log.Dir has it: the parent of the directories of its partitions
	Total  int64  // bytes of the file system; -1: unknown
	Usable int64  // bytes of it that are free; -1: unknown
}

// ServerConfig is a setting that the node was started with.
type ServerConfig struct {
	Name    string
	Value   string // empty: none
	Default string // what it is when nobody sets it; empty: nothing
	Type    topicconfig.Type
	Secret  bool // clients are told that there is a value, not which
	Doc     string
}

// Errors that an [Administration] returns, possibly wrapped; match them with errors.Is.
var (
	ErrPartitionsChanged = errors.New("the topic's number of partitions has changed in the meantime")
	ErrConfigChanged     = errors.New("the settings have changed in the meantime")
)
