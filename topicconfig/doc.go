// Package topicconfig holds every setting of a topic: Kafka's own, under Kafka's names, and the few that are ours
// (tidemark.*).
//
// One table has each setting's name, type, default, range, meaning, whether a change requires the log to be reopened, and
// which broker settings Kafka shows as its synonyms. Everything else here reads that table: [Parse] turns text into a
// [Config] and reports all violations together, [Config.Value] renders a value the way Kafka renders it, [Definitions]
// and [Lookup] describe settings to protocols and tools.
//
// Names, types, defaults, ranges and synonyms are those of Apache Kafka 4.4.0, and a test compares the table with a
// listing taken from it.
package topicconfig
