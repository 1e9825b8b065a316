package broker

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/tidemark-io/tidemark/topicconfig"
)

// Resources that have settings, with Kafka's numbers.
const (
	resourceTopic         int8 = 2
	resourceBroker        int8 = 4
	resourceBrokerLogger  int8 = 8
	resourceClientMetrics int8 = 16
	resourceGroup         int8 = 32
)

// allResources is every type of resource that Kafka has settings of.
var allResources = []int8{resourceTopic, resourceBroker, resourceBrokerLogger, resourceClientMetrics, resourceGroup}

// configEntry is a setting as DescribeConfigs returns it.
type configEntry struct {
	name     string
	value    *string // nil if there is none
	source   int8
	readOnly bool
	secret   bool
	kind     topicconfig.Type
	doc      string
	synonyms []configSynonym // strongest first; the first that has a value is the one in force
}

// configSynonym is a setting that is a source of another, and its value where it was set.
type configSynonym struct {
	name, value string
	source      int8
}

// topicSources are the sources of settings for topics of one name.
type topicSources struct {
	server topicconfig.Config // the settings of such a topic without settings of its own
	nodes  NodeConfigs
}

func (c *call) topicSources(name string) (topicSources, error) {
	server, err := c.server.backend.ResolveConfig(name, nil)
	return topicSources{server, c.server.backend.NodeConfigs()}, err
}

// synonyms lists the possible sources of a topic's setting, strongest first: the topic, the server's settings for topics
// of such names, settings made while nodes ran, those they were started with, and the default.
func (s topicSources) synonyms(topic topicconfig.Config, d topicconfig.Definition) []configSynonym {
	var synonyms []configSynonym
	if topic.Overridden(d.Name) {
		synonyms = append(synonyms, configSynonym{d.Name, topic.Value(d.Name), sourceTopic})
	}
	name := d.Name
	if len(d.Synonyms) > 0 {
		name = d.Synonyms[0].Name
	}
	if value := s.server.Value(d.Name); value != s.nodes.InForce.Value(d.Name) {
		synonyms = append(synonyms, configSynonym{name, value, sourceNodeAtStart})
	}
	return append(synonyms, s.nodes.defaultSynonyms(d)...)
}

// source returns the source of a topic's setting in force.
func (s topicSources) source(topic topicconfig.Config, d topicconfig.Definition) int8 {
	return strongest(s.synonyms(topic, d)).source
}

// strongest returns the synonym whose value is in force: the first, or an empty one.
func strongest(synonyms []configSynonym) configSynonym {
	if len(synonyms) == 0 {
		return configSynonym{source: sourceDefault}
	}
	return synonyms[0]
}

// topicEntries describes the settings of a topic, in the order of their names.
func (c *call) topicEntries(t *Topic) ([]configEntry, error) {
	sources, err := c.topicSources(t.Name)
	if err != nil {
		return nil, err
	}
	definitions := topicconfig.Definitions()
	entries := make([]configEntry, len(definitions))
	for i, d := range definitions {
		value := t.Config.Value(d.Name)
		synonyms := sources.synonyms(t.Config, d)
		entries[i] = configEntry{
			name: d.Name, value: &value, source: strongest(synonyms).source, kind: d.Type, doc: d.Doc, synonyms: synonyms,
		}
	}
	return entries, nil
}

// overridden lists the values of a setting made while nodes ran, strongest first.
func (n NodeConfigs) overridden(name string) []configSynonym {
	var synonyms []configSynonym
	if value, ok := n.This.Settings[name]; ok {
		synonyms = append(synonyms, configSynonym{name, value, sourceThisNode})
	}
	if value, ok := n.All.Settings[name]; ok {
		synonyms = append(synonyms, configSynonym{name, value, sourceAllNodes})
	}
	return synonyms
}

// defaultSynonyms lists the possible sources of the default of a topic's setting. A value at the start that is Kafka's
// default counts as not set. Where several settings are sources, Kafka's default is that of the weakest, and Kafka lists
// it only below one that was set.
func (n NodeConfigs) defaultSynonyms(d topicconfig.Definition) []configSynonym {
	name, weakest := d.Name, topicconfig.Synonym{Name: d.Name, Scale: 1}
	if count := len(d.Synonyms); count > 0 {
		name, weakest = d.Synonyms[0].Name, d.Synonyms[count-1]
	}
	synonyms := n.overridden(name)
	if value := n.Static.Value(d.Name); value != d.Default {
		synonyms = append(synonyms, configSynonym{name, value, sourceNodeAtStart})
	}
	if len(d.Synonyms) == 0 || weakest.Name != name && len(synonyms) == 0 {
		return synonyms
	}
	return append(synonyms, configSynonym{weakest.Name, scaledDown(d.Default, weakest.Scale), sourceDefault})
}

// brokerEntries describes the settings of this node: those of the node itself, those of [Options], and the defaults of
// topics.
func (c *call) brokerEntries() []configEntry {
	nodes := c.server.backend.NodeConfigs()
	var entries []configEntry
	for _, d := range topicconfig.Definitions() {
		for _, s := range d.Synonyms {
			entries = append(entries, nodes.defaultEntry(d, s))
		}
	}
	for _, s := range append(c.server.backend.ServerConfigs(), c.server.options.configs()...) {
		entries = append(entries, nodes.serverEntry(s))
	}
	return entries
}

// serverEntry describes a setting that the node was started with.
func (n NodeConfigs) serverEntry(s ServerConfig) configEntry {
	synonyms := n.overridden(s.Name)
	if s.Value != s.Default {
		synonyms = append(synonyms, configSynonym{s.Name, s.Value, sourceNodeAtStart})
	}
	if s.Default != "" {
		synonyms = append(synonyms, configSynonym{s.Name, s.Default, sourceDefault})
	}
	return nodeEntry(s.Name, s.Type, s.Secret, s.Doc, synonyms)
}

// defaultEntry describes a broker setting that is a default of topics.
func (n NodeConfigs) defaultEntry(d topicconfig.Definition, s topicconfig.Synonym) configEntry {
	kind := d.Type
	if s.Scale != 1 {
		kind = topicconfig.Int
	}
	synonyms := n.defaultSynonyms(d)
	for len(synonyms) > 0 && synonyms[0].name != s.Name {
		synonyms = synonyms[1:] // skip those of stronger settings
	}
	if len(synonyms) == 0 && s == d.Synonyms[len(d.Synonyms)-1] {
		synonyms = []configSynonym{{s.Name, scaledDown(d.Default, s.Scale), sourceDefault}}
	}
	return nodeEntry(s.Name, kind, false, d.Doc, synonyms)
}

// overrideEntries describes the settings made for all nodes while they ran, in the order of names. Those that this server
// does not know may be secret.
func (n NodeConfigs) overrideEntries() []configEntry {
	var entries []configEntry
	for _, name := range slices.Sorted(maps.Keys(n.All.Settings)) {
		d, known := nodeConfigOf(name)
		entries = append(entries, nodeEntry(name, d.kind, !known, d.doc, []configSynonym{{name, n.All.Settings[name], sourceAllNodes}}))
	}
	return entries
}

// nodeEntry describes a setting of a node. Without synonyms it has no value.
func nodeEntry(name string, kind topicconfig.Type, secret bool, doc string, synonyms []configSynonym) configEntry {
	_, dynamic := nodeConfigOf(name)
	first := strongest(synonyms)
	e := configEntry{name: name, source: first.source, readOnly: !dynamic, secret: secret, kind: kind, doc: doc, synonyms: synonyms}
	if first.value != "" || dynamic && len(synonyms) > 0 {
		e.value = &first.value
	}
	return e
}

// scaledDown is a number in a unit that is scale times as large.
func scaledDown(value string, scale int64) string {
	if n, err := strconv.ParseInt(value, 10, 64); err == nil && scale > 1 {
		return strconv.FormatInt(n/scale, 10)
	}
	return value
}

// checkBrokerName returns an error unless a name is that of this node.
func (c *call) checkBrokerName(name string) error {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return &codedError{codeInvalidRequest, "Node id must be an integer, but it is: " + name}
	}
	if node := c.server.backend.NodeID(); int32(id) != node {
		return &codedError{codeInvalidRequest, fmt.Sprintf("Unexpected broker id, expected %d, but received %s", node, name)}
	}
	return nil
}
