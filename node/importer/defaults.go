package importer

import (
	"maps"
	"strconv"

	"github.com/tidemark-io/tidemark/topicconfig"
)

// missingDefaults returns the topic defaults that the brokers had and the target's server does not. Settings made while
// brokers ran override those of their files.
func (im *Import) missingDefaults(dynamic map[string]string) map[string]string {
	broker := maps.Clone(im.o.Properties)
	if broker == nil {
		broker = map[string]string{}
	}
	maps.Copy(broker, dynamic)
	server, err := topicconfig.Default().With(im.o.TopicDefaults)
	if err != nil {
		server = topicconfig.Default() // the server itself refuses such defaults
	}
	missing := map[string]string{}
	for name, value := range topicDefaults(broker) {
		config, err := server.With(map[string]string{name: value})
		if err == nil && config.Value(name) != server.Value(name) {
			missing[name] = value
		}
	}
	return missing
}

// topicDefaults returns the defaults of topics that broker settings imply.
func topicDefaults(broker map[string]string) map[string]string {
	defaults := map[string]string{}
	for _, d := range topicconfig.Definitions() {
		for _, s := range d.Synonyms {
			if value, set := broker[s.Name]; set && value != "" {
				defaults[d.Name] = scaled(value, s.Scale)
				break
			}
		}
	}
	return defaults
}

// scaled converts a broker's setting to the unit of the topic's. A negative one has no unit: it means forever.
func scaled(value string, scale int64) string {
	n, err := strconv.ParseInt(value, 10, 64)
	if scale == 1 || err != nil {
		return value
	}
	if n < 0 {
		return "-1"
	}
	return strconv.FormatInt(n*scale, 10)
}
