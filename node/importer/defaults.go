package importer

import (
	"maps"
	"strconv"

	"github.com/tidemark-io/tidemark/topicconfig"
)

// missingDefaults are the defaults of topics that the brokers had and the target's server has not. Settings that brokers
// were given while they ran are above those of their files.
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

// topicDefaults are the topic settings that broker settings give defaults to.
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

// scaled is a broker's setting in the unit of the topic's. A negative one has no unit: it means forever.
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
