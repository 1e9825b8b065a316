package broker

import (
	"fmt"
	"strconv"

	"github.com/tidemark-io/tidemark/topicconfig"
)

// What has settings, with Kafka's numbers.
const (
	resourceTopic         int8 = 2
	resourceBroker        int8 = 4
	resourceBrokerLogger  int8 = 8
	resourceClientMetrics int8 = 16
	resourceGroup         int8 = 32
)

// allResources is every type of resource that Kafka has settings of.
var allResources = []int8{resourceTopic, resourceBroker, resourceBrokerLogger, resourceClientMetrics, resourceGroup}

// configEntry is a setting as DescribeConfigs tells it.
type configEntry struct {
	name     string
	value    *string // nil: there is none
	source   int8
	readOnly bool
	secret   bool
	kind     topicconfig.Type
	doc      string
	synonyms []configSynonym // strongest first; the first that has a value is the one in force
}

// configSynonym is a setting that stands behind another, and its value where it was set.
type configSynonym struct {
	name, value string
	source      int8
}

// topicEntries describes the settings of a topic, in the order of their names.
func (c *call) topicEntries(t *Topic) ([]configEntry, error) {
	server, err := c.server.backend.ResolveConfig(t.Name, nil)
	if err != nil {
		return nil, err
	}
	definitions := topicconfig.Definitions()
	entries := make([]configEntry, len(definitions))
	for i, d := range definitions {
		value := t.Config.Value(d.Name)
		entries[i] = configEntry{
			name: d.Name, value: &value, source: configSource(t.Config, d, value), kind: d.Type, doc: d.Doc,
			synonyms: topicSynonyms(t.Config, server, d),
		}
	}
	return entries, nil
}

// topicSynonyms lists where a topic's setting could get its value from: the topic, the server's settings, and the default.
// Of a default that several settings stand behind Kafka lists none of them.
func topicSynonyms(topic, server topicconfig.Config, d topicconfig.Definition) []configSynonym {
	var synonyms []configSynonym
	if topic.Overridden(d.Name) {
		synonyms = append(synonyms, configSynonym{d.Name, topic.Value(d.Name), sourceTopic})
	}
	name := d.Name
	if len(d.Synonyms) > 0 {
		name = d.Synonyms[0].Name
	}
	if value := server.Value(d.Name); value != d.Default {
		synonyms = append(synonyms, configSynonym{name, value, sourceStaticBroker})
	}
	if len(d.Synonyms) == 1 {
		synonyms = append(synonyms, configSynonym{name, d.Default, sourceDefault})
	}
	return synonyms
}

// brokerEntries describes the settings of this node: those of the node itself, those of [Options], and the defaults of
// topics. All can only be set before the node starts.
func (c *call) brokerEntries() ([]configEntry, error) {
	entries, err := c.topicDefaultEntries()
	if err != nil {
		return nil, err
	}
	for _, s := range append(c.server.backend.ServerConfigs(), c.server.options.configs()...) {
		entries = append(entries, serverEntry(s))
	}
	return entries, nil
}

func serverEntry(s ServerConfig) configEntry {
	e := configEntry{name: s.Name, value: &s.Value, source: sourceDefault, readOnly: true, secret: s.Secret, kind: s.Type, doc: s.Doc}
	if s.Value == "" {
		e.value = nil
	}
	if s.Value != s.Default {
		e.source = sourceStaticBroker
		e.synonyms = append(e.synonyms, configSynonym{s.Name, s.Value, sourceStaticBroker})
	}
	if s.Default != "" {
		e.synonyms = append(e.synonyms, configSynonym{s.Name, s.Default, sourceDefault})
	}
	return e
}

// topicDefaultEntries describes the settings that Kafka's brokers have for what topics do not set themselves.
func (c *call) topicDefaultEntries() ([]configEntry, error) {
	server, err := c.server.backend.ResolveConfig("", nil)
	if err != nil {
		return nil, err
	}
	var entries []configEntry
	for _, d := range topicconfig.Definitions() {
		value := server.Value(d.Name)
		for i, s := range d.Synonyms {
			kind := d.Type
			if s.Scale != 1 {
				kind = topicconfig.Int
			}
			e := serverEntry(ServerConfig{Name: s.Name, Type: kind, Doc: d.Doc})
			e.synonyms, e.value = nil, nil
			if i == 0 && value != d.Default {
				e.value, e.source = &value, sourceStaticBroker
				e.synonyms = append(e.synonyms, configSynonym{s.Name, value, sourceStaticBroker})
			}
			if i == len(d.Synonyms)-1 {
				byDefault := scaledDown(d.Default, s.Scale)
				if e.value == nil {
					e.value = &byDefault
				}
				e.synonyms = append(e.synonyms, configSynonym{s.Name, byDefault, sourceDefault})
			}
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// scaledDown is a number in a unit that is scale times as large.
func scaledDown(value string, scale int64) string {
	if n, err := strconv.ParseInt(value, 10, 64); err == nil && scale > 1 {
		return strconv.FormatInt(n/scale, 10)
	}
	return value
}

// checkBrokerName says whether a name is that of this node.
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
