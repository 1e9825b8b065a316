package topicconfig

// Brokers have settings of their own for what topics do not set themselves ([Synonym]). Of the several that may be
// sources of one topic setting, Kafka lets the strongest be changed while brokers run (DynamicLogConfig takes its names
// from ServerTopicConfigSynonyms): log.retention.ms, and not log.retention.hours, which is read at the start. It has the
// unit of the topic setting.

// OfBroker returns the topic setting whose default is changed by the broker setting of the given name while brokers run.
func OfBroker(name string) (Definition, bool) {
	for i := range table {
		if s := table[i].Synonyms; len(s) > 0 && s[0].Name == name {
			return table[i].definition(), true
		}
	}
	return Definition{}, false
}

// DefaultsOfBroker returns the topic settings whose defaults changed broker settings determine, with the same values.
// Settings that do not concern topics are left out. The caller owns the map.
func DefaultsOfBroker(settings map[string]string) map[string]string {
	defaults := map[string]string{}
	for name, value := range settings {
		if d, ok := OfBroker(name); ok {
			defaults[d.Name] = value
		}
	}
	return defaults
}
