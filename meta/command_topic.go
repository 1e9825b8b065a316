package meta

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// Limits of topics. They are part of how commands apply, so they are the same on every node forever.
const (
	// MaxTopicNameBytes is the longest topic name.
	MaxTopicNameBytes = 249
	// MaxPartitions is the most partitions of one topic.
	MaxPartitions = 100_000
	// MaxConfigValueBytes is the longest text of one setting.
	MaxConfigValueBytes = 32767
	// MaxConfigs is the most settings that one topic may set.
	MaxConfigs = 256
)

// TopicID identifies a topic forever: deleting a topic and creating one of the same name gives a new id.
type TopicID [16]byte

// CreateTopic creates a topic with all its partitions at leader epoch 0. The proposer draws the id at random and has
// checked the settings; here they are text. Names follow Kafka's rules: 1 to 249 of [a-zA-Z0-9._-], not "." or "..", and
// no two names that differ only in . and _. Result: nothing; rejected as [TopicExists], [TopicNameCollides],
// [TopicIDInUse], [InvalidArgument], or [Redundant] if a topic with this id and name exists.
type CreateTopic struct {
	ID         TopicID
	Name       string
	Partitions int32 // 1 to MaxPartitions
	Configs    map[string]string
}

// DeleteTopic deletes the topic with this id, never a later one with the same name. Result: nothing; rejected as
// [TopicNotExist].
type DeleteTopic struct{ ID TopicID }

// CreatePartitions raises a topic's number of partitions to Total if it is Expected now; the new ones start at leader
// epoch 0. Result: nothing; rejected as [TopicNotExist], [PartitionCountConflict], or [InvalidArgument] when Total is
// not above Expected.
type CreatePartitions struct {
	ID       TopicID
	Expected int32
	Total    int32
}

// SetTopicConfigs replaces all settings of a topic, if they are at the expected version. A change of one setting is
// read, merge, validate, propose; on [ConfigConflict] start again. Result: the new version in ID; rejected as
// [TopicNotExist], [ConfigConflict] or [InvalidArgument].
type SetTopicConfigs struct {
	ID              TopicID
	ExpectedVersion uint64
	Configs         map[string]string
}

// RaiseLeaderEpochs raises the leader epoch of partitions by one, in one step. A node does this for what it leads after
// an unclean start, and only then. A topic or partition that does not exist is ignored. Result: how many were raised in
// Count; rejected as [NodeEpochMismatch], or as [InvalidArgument] when an epoch would pass 2^31-1.
type RaiseLeaderEpochs struct {
	Node      int32
	NodeEpoch int64
	Topics    []TopicPartitions
}

// TopicPartitions names partitions of one topic. No partitions means all of them.
type TopicPartitions struct {
	ID         TopicID
	Partitions []int32
}

// Type returns 50.
func (CreateTopic) Type() uint8 { return numCreateTopic }

// Type returns 51.
func (DeleteTopic) Type() uint8 { return numDeleteTopic }

// Type returns 52.
func (CreatePartitions) Type() uint8 { return numCreatePartitions }

// Type returns 60.
func (SetTopicConfigs) Type() uint8 { return numSetTopicConfigs }

// Type returns 70.
func (RaiseLeaderEpochs) Type() uint8 { return numRaiseLeaderEpochs }

func (c CreateTopic) encode(w *writer) {
	w.raw(c.ID[:])
	w.str(c.Name)
	w.i32(c.Partitions)
	encodeConfigs(w, sortedConfigs(c.Configs))
}

func decodeCreateTopic(r *reader) Command {
	return CreateTopic{ID: r.id(), Name: r.str(), Partitions: r.i32(), Configs: decodeConfigs(r)}
}

func (c DeleteTopic) encode(w *writer) { w.raw(c.ID[:]) }

func (c CreatePartitions) encode(w *writer) {
	w.raw(c.ID[:])
	w.i32(c.Expected)
	w.i32(c.Total)
}

func (c SetTopicConfigs) encode(w *writer) {
	w.raw(c.ID[:])
	w.u64(c.ExpectedVersion)
	encodeConfigs(w, sortedConfigs(c.Configs))
}

func (c RaiseLeaderEpochs) encode(w *writer) {
	w.i32(c.Node)
	w.i64(c.NodeEpoch)
	w.count(len(c.Topics))
	for _, t := range c.Topics {
		w.raw(t.ID[:])
		w.count(len(t.Partitions))
		for _, p := range t.Partitions {
			w.i32(p)
		}
	}
}

func decodeRaiseLeaderEpochs(r *reader) Command {
	c := RaiseLeaderEpochs{Node: r.i32(), NodeEpoch: r.i64()}
	for range r.count(20) {
		t := TopicPartitions{ID: r.id()}
		for range r.count(4) {
			t.Partitions = append(t.Partitions, r.i32())
		}
		c.Topics = append(c.Topics, t)
	}
	return c
}

// setConfig is one setting that a topic sets itself.
type setConfig struct{ name, value string }

func sortedConfigs(m map[string]string) []setConfig {
	out := make([]setConfig, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, setConfig{name, m[name]})
	}
	return out
}

func encodeConfigs(w *writer, configs []setConfig) {
	w.count(len(configs))
	for _, c := range configs {
		w.str(c.name)
		w.str(c.value)
	}
}

// decodeConfigs reads settings, which are in the order of their names, each once.
func decodeConfigs(r *reader) map[string]string {
	n := r.count(8)
	m := make(map[string]string, n)
	last := ""
	for i := range n {
		name := r.str()
		if i > 0 && name <= last {
			r.fail("setting %q is out of order", name)
		}
		m[name], last = r.str(), name
	}
	return m
}

func (c CreateTopic) apply(t *transition) Result {
	if r := checkNewTopic(c); r.Code != OK {
		return r
	}
	if present, ok := t.next.topics.get(c.Name); ok {
		if present.ID == c.ID {
			return reject(Redundant, "topic %q with this id exists", c.Name)
		}
		return reject(TopicExists, "topic %q exists", c.Name)
	}
	if other, ok := t.next.topicNames.get(collisionKey(c.Name)); ok {
		return reject(TopicNameCollides, "topic %q collides with %q", c.Name, other)
	}
	if other, ok := t.next.topicIDs.get(string(c.ID[:])); ok {
		return reject(TopicIDInUse, "the id is that of topic %q", other.Name)
	}
	t.addTopic(&Topic{
		ID: c.ID, Name: c.Name, CreatedMs: t.next.clockMs, ConfigVersion: 1,
		configs: sortedConfigs(c.Configs), leaderEpochs: make([]int32, c.Partitions),
	})
	return Result{}
}

func (c DeleteTopic) apply(t *transition) Result {
	topic, r := t.topic(c.ID)
	if topic == nil {
		return r
	}
	t.next.topics = t.next.topics.remove(topic.Name)
	t.next.topicIDs = t.next.topicIDs.remove(string(topic.ID[:]))
	t.next.topicNames = t.next.topicNames.remove(collisionKey(topic.Name))
	t.next.partitions -= int64(topic.Partitions())
	return Result{}
}

func (c CreatePartitions) apply(t *transition) Result {
	topic, r := t.topic(c.ID)
	if topic == nil {
		return r
	}
	if topic.Partitions() != c.Expected {
		return reject(PartitionCountConflict, "topic %q has %d partitions, expected %d", topic.Name, topic.Partitions(),
			c.Expected)
	}
	if c.Total <= c.Expected || c.Total > MaxPartitions {
		return reject(InvalidArgument, "topic %q can go from %d partitions to at most %d, not to %d", topic.Name,
			c.Expected, MaxPartitions, c.Total)
	}
	grown := *topic
	grown.leaderEpochs = make([]int32, c.Total)
	copy(grown.leaderEpochs, topic.leaderEpochs)
	t.putTopic(&grown)
	t.next.partitions += int64(c.Total - c.Expected)
	return Result{}
}

func (c SetTopicConfigs) apply(t *transition) Result {
	if r := checkConfigs(c.Configs); r.Code != OK {
		return r
	}
	topic, r := t.topic(c.ID)
	if topic == nil {
		return r
	}
	if topic.ConfigVersion != c.ExpectedVersion {
		return reject(ConfigConflict, "the settings of topic %q are at version %d, expected %d", topic.Name,
			topic.ConfigVersion, c.ExpectedVersion)
	}
	changed := *topic
	changed.ConfigVersion++
	changed.configs = sortedConfigs(c.Configs)
	t.putTopic(&changed)
	return Result{ID: changed.ConfigVersion}
}

func (c RaiseLeaderEpochs) apply(t *transition) Result {
	if r := t.checkNode(c.Node, c.NodeEpoch); r.Code != OK {
		return r
	}
	before, raised := t.next, uint64(0)
	for _, tp := range c.Topics {
		topic, ok := t.next.topicIDs.get(string(tp.ID[:]))
		if !ok {
			continue
		}
		after, n, ok := topic.raised(tp.Partitions)
		if !ok {
			t.next = before
			return reject(InvalidArgument, "a leader epoch of topic %q would pass %d", topic.Name, math.MaxInt32)
		}
		t.putTopic(after)
		raised += n
	}
	return Result{Count: raised}
}

// raised returns the topic with the leader epochs of the partitions raised, of all if there are none given.
func (t *Topic) raised(partitions []int32) (after *Topic, n uint64, ok bool) {
	c := *t
	c.leaderEpochs = slices.Clone(t.leaderEpochs)
	if len(partitions) == 0 {
		for p := range c.leaderEpochs {
			partitions = append(partitions, int32(p))
		}
	}
	for _, p := range partitions {
		if p < 0 || int(p) >= len(c.leaderEpochs) {
			continue
		}
		if c.leaderEpochs[p] == math.MaxInt32 {
			return nil, 0, false
		}
		c.leaderEpochs[p]++
		n++
	}
	return &c, n, true
}

// topic returns the topic with the id, or nil and the rejection.
func (t *transition) topic(id TopicID) (*Topic, Result) {
	topic, ok := t.next.topicIDs.get(string(id[:]))
	if !ok {
		return nil, reject(TopicNotExist, "no topic has the id %s", id)
	}
	return topic, Result{}
}

// addTopic puts a topic that was not there in every index.
func (t *transition) addTopic(topic *Topic) {
	t.putTopic(topic)
	t.next.topicNames = t.next.topicNames.set(collisionKey(topic.Name), topic.Name)
	t.next.partitions += int64(topic.Partitions())
}

// putTopic puts a new version of a topic in both trees.
func (t *transition) putTopic(topic *Topic) {
	t.next.topics = t.next.topics.set(topic.Name, topic)
	t.next.topicIDs = t.next.topicIDs.set(string(topic.ID[:]), topic)
}

func checkNewTopic(c CreateTopic) Result {
	if !legalTopicName(c.Name) {
		return reject(InvalidArgument, "%q is not a legal topic name", c.Name)
	}
	if c.ID == (TopicID{}) || c.ID == (TopicID{15: 1}) {
		return reject(InvalidArgument, "topic id %s is reserved", c.ID)
	}
	if c.Partitions < 1 || c.Partitions > MaxPartitions {
		return reject(InvalidArgument, "a topic has 1 to %d partitions, not %d", MaxPartitions, c.Partitions)
	}
	return checkConfigs(c.Configs)
}

func checkConfigs(configs map[string]string) Result {
	if len(configs) > MaxConfigs {
		return reject(InvalidArgument, "a topic sets at most %d names, not %d", MaxConfigs, len(configs))
	}
	for _, c := range sortedConfigs(configs) {
		if c.name == "" || len(c.name) > MaxTopicNameBytes || len(c.value) > MaxConfigValueBytes {
			return reject(InvalidArgument, "setting %.64q has an empty or too long name or value", c.name)
		}
	}
	return Result{}
}

func legalTopicName(name string) bool {
	if name == "" || len(name) > MaxTopicNameBytes || name == "." || name == ".." {
		return false
	}
	for i := range len(name) {
		switch b := name[i]; {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == '.', b == '_', b == '-':
		default:
			return false
		}
	}
	return true
}

// collisionKey is the same for names that differ only in . and _, which Kafka's metrics cannot distinguish.
func collisionKey(name string) string { return strings.ReplaceAll(name, ".", "_") }
