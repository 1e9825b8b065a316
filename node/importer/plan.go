package importer

import (
	"fmt"
	"path"

	"github.com/tidemark-io/tidemark/logdir"
)

// How says what happens to Kafka's files.
type How string

// The ways to take files.
const (
	Copy How = "copy" // the source is unchanged, and Kafka can continue with it
	Link How = "link" // like Copy, but sealed segments get a second name instead; one file system only
	Move How = "move" // the directories are renamed and Kafka no longer has them; one file system only
)

// ParseHow parses one of the three words.
func ParseHow(word string) (How, error) {
	switch h := How(word); h {
	case Copy, Link, Move:
		return h, nil
	}
	return "", fmt.Errorf("%q is not a way to take files: use copy, link or move", word)
}

// Plan is what an import takes, and what it cannot take.
type Plan struct {
	Sources   []string `json:"sources"`
	Target    string   `json:"target"`
	How       How      `json:"how"`
	ClusterID string   `json:"cluster_id"`
	NodeID    int32    `json:"node_id"` // of the Kafka node
	Clean     bool     `json:"clean"`   // Kafka was stopped cleanly; otherwise logs are recovered

	Topics []Topic `json:"topics"` // in the order of their names
	Left   []Left  `json:"left"`   // directories that are not taken

	// BrokerConfigs are settings made while the cluster's brokers ran. They are not imported: Tidemark's servers have
	// their own.
	BrokerConfigs map[string]string `json:"broker_configs"`

	// TopicDefaults are defaults that Kafka's topics had from its brokers' settings and would not get from the target's
	// server. They are not imported; configure the server with them.
	TopicDefaults map[string]string `json:"topic_defaults"`

	// NextProducerID is above every id that Kafka has assigned.
	NextProducerID int64 `json:"next_producer_id"`
}

// Topic is one topic of the source.
type Topic struct {
	Name       string            `json:"name"`
	ID         logdir.UUID       `json:"id"`
	Partitions []Partition       `json:"partitions"`
	Configs    map[string]string `json:"configs"` // settings that are imported
	Dropped    []Setting         `json:"dropped"` // settings that cannot be
	Refused    string            `json:"refused"` // why the topic is not taken; empty if it is
	There      bool              `json:"there"`   // it is in the target already
	Notes      []string          `json:"notes"`   // what a person should know
}

// Setting is a topic setting that this version does not support, or not with that value.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Reason string `json:"reason"`
}

// Partition is one partition of a topic.
type Partition struct {
	Index         int32    `json:"partition"`
	Dir           string   `json:"dir"` // in the source
	Bytes         int64    `json:"bytes"`
	Start         int64    `json:"start_offset"`
	End           int64    `json:"end_offset"`
	HighWatermark int64    `json:"high_watermark"` // by Kafka's checkpoint, -1 if it has none
	RecoveryPoint int64    `json:"recovery_point"` // the same, 0 if it has none
	CheckedStart  int64    `json:"checkpointed_start"`
	LeaderEpoch   int32    `json:"leader_epoch"` // with which the server will begin
	Clean         bool     `json:"clean"`
	Modified      int64    `json:"modified"` // when the newest of the files was changed, in ns since 1970
	Repairs       []string `json:"repairs"`  // what recovery removes
}

// Left is a directory of the source that is not taken.
type Left struct {
	Dir    string `json:"dir"`
	Reason string `json:"reason"`
}

// Taken yields the topics that the import takes.
func (p *Plan) Taken() []*Topic {
	var taken []*Topic
	for i := range p.Topics {
		if t := &p.Topics[i]; t.Refused == "" && !t.There {
			taken = append(taken, t)
		}
	}
	return taken
}

// Bytes is the size of what is taken, in bytes.
func (p *Plan) Bytes() int64 {
	var total int64
	for _, t := range p.Taken() {
		total += t.Bytes()
	}
	return total
}

// Bytes is the size of the topic's files.
func (t *Topic) Bytes() int64 {
	var total int64
	for _, p := range t.Partitions {
		total += p.Bytes
	}
	return total
}

// dirName is the name of a partition's directory.
func (t *Topic) dirName(p *Partition) string {
	return logdir.Partition{Topic: t.Name, Index: p.Index}.String()
}

// note adds a message for the operator.
func (t *Topic) note(format string, args ...any) {
	t.Notes = append(t.Notes, fmt.Sprintf(format, args...))
}

// same reports whether a partition that was brought over still matches the source.
func (p *Partition) same(other *Partition) bool {
	return p.Bytes == other.Bytes && p.Start == other.Start && p.End == other.End && p.Modified == other.Modified &&
		path.Clean(p.Dir) == path.Clean(other.Dir)
}
