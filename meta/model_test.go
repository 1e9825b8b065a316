package meta_test

import (
	"fmt"
	"maps"
	"strings"

	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/meta"
)

// model is the metadata as plain maps, to hold the state against.
type model struct {
	Topics map[string]modelTopic
	Keys   map[string]modelValue
	Nodes  map[int32]modelNode

	nextID  uint64
	version uint64
}

type modelTopic struct {
	ID      meta.TopicID
	Epochs  string // one number per partition
	Configs map[string]string
	Version uint64
}

type modelValue struct {
	Value   string
	Version uint64
}

type modelNode struct {
	Epoch       int64
	Incarnation byte
}

func newModel() *model {
	return &model{Topics: map[string]modelTopic{}, Keys: map[string]modelValue{}, Nodes: map[int32]modelNode{}, nextID: 1}
}

func (m *model) clone() *model {
	c := *m
	c.Topics, c.Keys, c.Nodes = maps.Clone(m.Topics), maps.Clone(m.Keys), maps.Clone(m.Nodes)
	return &c
}

// modelOf reads a state into a model. The counters are not visible in a state.
func modelOf(s *meta.State) *model {
	m := newModel()
	for t := range s.Topics() {
		epochs := make([]int32, t.Partitions())
		for p := range epochs {
			epochs[p] = t.LeaderEpoch(int32(p))
		}
		m.Topics[t.Name] = modelTopic{ID: t.ID, Epochs: fmt.Sprint(epochs), Configs: t.Configs(), Version: t.ConfigVersion}
	}
	for key, v := range s.List("") {
		m.Keys[key] = modelValue{string(v.Value), v.Version}
	}
	for n := range s.Nodes() {
		m.Nodes[n.ID] = modelNode{n.Epoch, n.Incarnation[0]}
	}
	return m
}

// visible is what modelOf can see.
func (m *model) visible() *model {
	c := m.clone()
	c.nextID, c.version = 1, 0
	return c
}

// outcome is the part of a result that a model can know without copying the words.
type outcome struct {
	Code    meta.Code
	ID      uint64
	Count   uint64
	Swapped bool
	Value   string
	Version uint64
}

func outcomeOf(r meta.Result) outcome {
	return outcome{r.Code, r.ID, r.Count, r.Swapped, string(r.Value), r.Version}
}

func (v modelValue) outcome() outcome { return outcome{Value: v.Value, Version: v.Version} }

// apply does one command. It is written from the rules and shares nothing with the code under test.
func (m *model) apply(c meta.Command) outcome {
	switch c := c.(type) {
	case meta.PutKv:
		return m.put(c.Key, c.Value).outcome()
	case meta.PutKvIfAbsent:
		if v, ok := m.Keys[c.Key]; ok {
			return v.outcome()
		}
		return m.put(c.Key, c.Value).outcome()
	case meta.DeleteKv:
		v := m.Keys[c.Key]
		delete(m.Keys, c.Key)
		return v.outcome()
	case meta.DeleteKvIfMatches:
		v, ok := m.Keys[c.Key]
		if ok && v.Value != string(c.Value) {
			return outcome{Code: meta.Redundant}
		}
		delete(m.Keys, c.Key)
		return v.outcome()
	case meta.CasKv:
		if v := m.Keys[c.Key]; v.Version != c.Expected {
			return v.outcome()
		}
		o := m.put(c.Key, c.Value).outcome()
		o.Swapped = true
		return o
	case meta.RegisterNode:
		return m.register(c)
	case meta.AllocateProducerIDs:
		if n, ok := m.Nodes[c.Node]; !ok || n.Epoch != c.NodeEpoch {
			return outcome{Code: meta.NodeEpochMismatch}
		}
		first := m.nextID
		m.nextID += uint64(c.Count)
		return outcome{ID: first, Count: uint64(c.Count)}
	}
	return m.applyTopic(c)
}

func (m *model) put(key string, value []byte) modelValue {
	m.version++
	m.Keys[key] = modelValue{string(value), m.version}
	return m.Keys[key]
}

func (m *model) register(c meta.RegisterNode) outcome {
	n, ok := m.Nodes[c.Node]
	if ok && n.Incarnation == c.Incarnation[0] {
		return outcome{ID: uint64(n.Epoch)}
	}
	if c.ExpectedEpoch >= 0 && c.ExpectedEpoch != n.Epoch || c.ExpectedEpoch == 0 {
		return outcome{Code: meta.NodeEpochMismatch}
	}
	m.Nodes[c.Node] = modelNode{n.Epoch + 1, c.Incarnation[0]}
	return outcome{ID: uint64(n.Epoch + 1)}
}

func (m *model) byID(id meta.TopicID) (string, bool) {
	for name, t := range m.Topics {
		if t.ID == id {
			return name, true
		}
	}
	return "", false
}

func (m *model) applyTopic(c meta.Command) outcome {
	switch c := c.(type) {
	case meta.CreateTopic:
		return m.createTopic(c)
	case meta.DeleteTopic:
		name, ok := m.byID(c.ID)
		if !ok {
			return outcome{Code: meta.TopicNotExist}
		}
		delete(m.Topics, name)
	case meta.CreatePartitions:
		name, ok := m.byID(c.ID)
		if !ok {
			return outcome{Code: meta.TopicNotExist}
		}
		t := m.Topics[name]
		epochs := t.epochs()
		if int32(len(epochs)) != c.Expected {
			return outcome{Code: meta.PartitionCountConflict}
		}
		if c.Total <= c.Expected {
			return outcome{Code: meta.InvalidArgument}
		}
		for int32(len(epochs)) < c.Total {
			epochs = append(epochs, "0")
		}
		t.Epochs = "[" + strings.Join(epochs, " ") + "]"
		m.Topics[name] = t
	case meta.SetTopicConfigs:
		name, ok := m.byID(c.ID)
		if !ok {
			return outcome{Code: meta.TopicNotExist}
		}
		t := m.Topics[name]
		if t.Version != c.ExpectedVersion {
			return outcome{Code: meta.ConfigConflict}
		}
		t.Version, t.Configs = t.Version+1, c.Configs
		m.Topics[name] = t
		return outcome{ID: t.Version}
	}
	return outcome{}
}

func (t modelTopic) epochs() []string { return strings.Fields(strings.Trim(t.Epochs, "[]")) }

func (m *model) createTopic(c meta.CreateTopic) outcome {
	if t, ok := m.Topics[c.Name]; ok {
		if t.ID == c.ID {
			return outcome{Code: meta.Redundant}
		}
		return outcome{Code: meta.TopicExists}
	}
	for name := range m.Topics {
		if strings.ReplaceAll(name, ".", "_") == strings.ReplaceAll(c.Name, ".", "_") {
			return outcome{Code: meta.TopicNameCollides}
		}
	}
	if _, ok := m.byID(c.ID); ok {
		return outcome{Code: meta.TopicIDInUse}
	}
	m.Topics[c.Name] = modelTopic{ID: c.ID, Epochs: fmt.Sprint(make([]int32, c.Partitions)), Configs: c.Configs, Version: 1}
	return outcome{}
}

// drawCommand draws from a small world, so that commands meet each other.
func drawCommand(t *rapid.T) meta.Command {
	key := rapid.SampledFrom([]string{"a", "a/b", "a/c", "b", "z"}).Draw(t, "key")
	value := []byte(rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "value"))
	version := rapid.Uint64Range(0, 6).Draw(t, "version")
	id := meta.TopicID{rapid.ByteRange(1, 5).Draw(t, "id")}
	name := rapid.SampledFrom([]string{"a.b", "a_b", "c", "d"}).Draw(t, "name")
	count := rapid.Int32Range(1, 6).Draw(t, "count")
	epoch := rapid.Int64Range(-1, 3).Draw(t, "epoch")
	configs := map[string]string{}
	if count > 2 {
		configs["retention.ms"] = fmt.Sprint(count)
	}
	switch rapid.IntRange(0, 10).Draw(t, "command") {
	case 0:
		return meta.PutKv{Key: key, Value: value}
	case 1:
		return meta.PutKvIfAbsent{Key: key, Value: value}
	case 2:
		return meta.DeleteKv{Key: key}
	case 3:
		return meta.DeleteKvIfMatches{Key: key, Value: value}
	case 4:
		return meta.CasKv{Key: key, Expected: version, Value: value}
	case 5:
		return meta.CreateTopic{ID: id, Name: name, Partitions: count, Configs: configs}
	case 6:
		return meta.DeleteTopic{ID: id}
	case 7:
		return meta.CreatePartitions{ID: id, Expected: count, Total: count + int32(epoch)}
	case 8:
		return meta.SetTopicConfigs{ID: id, ExpectedVersion: version, Configs: configs}
	case 9:
		return meta.RegisterNode{Node: count, ExpectedEpoch: epoch, Incarnation: [16]byte{byte(version)}}
	default:
		return meta.AllocateProducerIDs{Node: count, NodeEpoch: epoch, Count: uint32(count)}
	}
}
