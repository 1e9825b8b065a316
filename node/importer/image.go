package importer

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tidemark-io/tidemark/logdir"
)

// The records of Kafka's metadata log that concern topics, by their api keys; all others are skipped. The layouts are
// those of Apache Kafka 3.3 to 4.4. Higher versions may add fields behind the known ones or change their meaning, so they
// are refused.
const (
	keyTopic           = 2  // version 0: name, topic id
	keyPartition       = 3  // 0-2: see applyPartition
	keyConfig          = 4  // 0: resource type int8, resource name, name, value or null
	keyPartitionChange = 5  // 0-2: partition int32, topic id; the rest is tagged
	keyRemoveTopic     = 9  // 0: topic id
	keyProducerIDs     = 15 // 0: broker int32, broker epoch int64, next producer id int64
	keyBeginTxn        = 23 // 0: the records up to the next EndTransaction count together or, up to an Abort, not at all
	keyEndTxn          = 24
	keyAbortTxn        = 25
	keyClearEligible   = 28 // 0: name of a topic, or empty for all: only in-sync replicas are eligible
)

// newestVersion is the highest supported version of each kind.
var newestVersion = map[uint32]uint32{
	keyTopic: 0, keyPartition: 2, keyConfig: 0, keyPartitionChange: 2, keyRemoveTopic: 0, keyProducerIDs: 0,
	keyBeginTxn: 0, keyEndTxn: 0, keyAbortTxn: 0, keyClearEligible: 0,
}

// Kinds of resources that a ConfigRecord applies to.
const (
	resourceTopic  = 2
	resourceBroker = 4
)

// Leaders in partition records that are not nodes.
const (
	noLeader   = -1
	sameLeader = -2 // in a PartitionChangeRecord
)

// Tags of the fields at the end of a PartitionRecord. Both are arrays of int32.
const (
	tagEligible  = 1
	tagLastKnown = 2
)

// Tags of the fields of a PartitionChangeRecord. The leader is an int32, all others are arrays of int32; what is not there
// has not changed.
const (
	tagNewIsr       = 0
	tagNewLeader    = 1
	tagNewReplicas  = 2
	tagNewEligible  = 6
	tagNewLastKnown = 7
)

// mostPartitions is more than any topic has: a higher number means a broken record.
const mostPartitions = 1 << 20

// kraftPartition is a partition as the metadata log has it.
type kraftPartition struct {
	replicas, isr []int32
	eligible      []int32 // replicas outside the ISR that have every committed record (KIP-966)
	lastKnown     []int32 // the last leader, when no replica is in sync or eligible
	leader        int32   // -1: none
	leaderEpoch   int32
}

// whole reports whether a node's replica has every committed record.
func (p *kraftPartition) whole(node int32) bool {
	if len(p.isr) == 0 && len(p.eligible) == 0 {
		return slices.Contains(p.lastKnown, node)
	}
	return slices.Contains(p.isr, node) || slices.Contains(p.eligible, node)
}

// kraftTopic is a topic as the metadata log has it.
type kraftTopic struct {
	name       string
	id         logdir.UUID
	partitions map[int32]kraftPartition
}

// resource is what a setting belongs to.
type resource struct {
	kind int8
	name string
}

// image is the state of topics in Kafka's metadata log at some offset.
type image struct {
	topics         map[logdir.UUID]*kraftTopic
	configs        map[resource]map[string]string
	nextProducerID int64

	held   [][]byte // records of a transaction that has not ended
	inside bool     // of a transaction
}

func newImage() *image {
	return &image{topics: map[logdir.UUID]*kraftTopic{}, configs: map[resource]map[string]string{}}
}

// apply applies the value of one record.
func (m *image) apply(value []byte) error {
	r := &wireReader{b: value}
	key, version := r.frame()
	if r.err != nil {
		return r.err
	}
	if newest, known := newestVersion[key]; known && version > newest {
		return fmt.Errorf("version %d of metadata record %d is not known here; this build reads up to %d", version, key, newest)
	}
	switch key {
	case keyBeginTxn:
		m.inside, m.held = true, nil
		return nil
	case keyAbortTxn:
		m.inside, m.held = false, nil
		return nil
	case keyEndTxn:
		held := m.held
		m.inside, m.held = false, nil
		for _, value := range held {
			if err := m.apply(value); err != nil {
				return err
			}
		}
		return nil
	}
	if m.inside {
		m.held = append(m.held, append([]byte(nil), value...))
		return nil
	}
	m.applyRecord(key, version, r)
	if r.err != nil {
		return fmt.Errorf("metadata record %d version %d: %w", key, version, r.err)
	}
	return nil
}

func (m *image) applyRecord(key, version uint32, r *wireReader) {
	switch key {
	case keyTopic:
		name, _ := r.text()
		id := r.uuid()
		if r.err == nil {
			m.topics[id] = &kraftTopic{name: name, id: id, partitions: map[int32]kraftPartition{}}
		}
	case keyPartition:
		m.applyPartition(r, version)
	case keyPartitionChange:
		m.applyChange(r)
	case keyConfig:
		m.applyConfig(r)
	case keyRemoveTopic:
		id := r.uuid()
		if t := m.topics[id]; t != nil && r.err == nil {
			delete(m.topics, id)
			delete(m.configs, resource{resourceTopic, t.name})
		}
	case keyProducerIDs:
		r.take(4 + 8)
		next := r.int64()
		m.nextProducerID = max(m.nextProducerID, next)
	case keyClearEligible:
		name, _ := r.text()
		if r.err == nil {
			m.clearEligible(name)
		}
	}
}

// clearEligible clears the eligible replicas of a topic's partitions, or of all if the name is empty.
func (m *image) clearEligible(name string) {
	for _, t := range m.topics {
		if name != "" && name != t.name {
			continue
		}
		for i, p := range t.partitions {
			p.eligible, p.lastKnown = nil, nil
			t.partitions[i] = p
		}
	}
}

// topic returns the topic of a record.
func (m *image) topic(r *wireReader, id logdir.UUID) *kraftTopic {
	t := m.topics[id]
	if t == nil && r.err == nil {
		r.err = fmt.Errorf("it is about topic id %s, which no record before it has", id)
	}
	return t
}

// applyPartition reads: partition int32, topic id, arrays of int32 replicas, isr, removing, adding; leader int32, leader
// epoch int32, partition epoch int32; from version 1 on an array of the ids of log directories.
func (m *image) applyPartition(r *wireReader, version uint32) {
	index, id := r.int32(), r.uuid()
	p := kraftPartition{replicas: r.int32s(), isr: r.int32s()}
	r.int32s()
	r.int32s()
	p.leader, p.leaderEpoch = r.int32(), r.int32()
	r.int32() // partition epoch
	if version >= 1 {
		directories, _ := r.length()
		r.take(directories * len(id))
	}
	r.tagged(func(tag uint32, field *wireReader) {
		switch tag {
		case tagEligible:
			p.eligible = field.int32s()
		case tagLastKnown:
			p.lastKnown = field.int32s()
		}
	})
	t := m.topic(r, id)
	switch {
	case r.err != nil:
	case index < 0 || index >= mostPartitions:
		r.err = fmt.Errorf("partition %d of topic %q", index, t.name)
	default:
		t.partitions[index] = p
	}
}

// applyChange reads the changes to a partition. A record that names a leader, even the same one, begins a new epoch.
func (m *image) applyChange(r *wireReader) {
	index, id := r.int32(), r.uuid()
	t := m.topic(r, id)
	if r.err != nil {
		return
	}
	p, known := t.partitions[index]
	if !known {
		r.err = fmt.Errorf("it is about partition %d of topic %q, which no record before it has", index, t.name)
		return
	}
	leader := int32(sameLeader)
	r.tagged(func(tag uint32, field *wireReader) {
		switch tag {
		case tagNewIsr:
			p.isr = field.int32s()
		case tagNewLeader:
			leader = field.int32()
		case tagNewReplicas:
			p.replicas = field.int32s()
		case tagNewEligible:
			p.eligible = field.int32s()
		case tagNewLastKnown:
			p.lastKnown = field.int32s()
		}
	})
	if leader != sameLeader {
		p.leader = leader
		p.leaderEpoch++
	}
	if r.err == nil {
		t.partitions[index] = p
	}
}

func (m *image) applyConfig(r *wireReader) {
	of := resource{kind: r.int8()}
	of.name, _ = r.text()
	name, _ := r.text()
	value, set := r.text()
	switch {
	case r.err != nil:
	case !set:
		delete(m.configs[of], name)
	default:
		if m.configs[of] == nil {
			m.configs[of] = map[string]string{}
		}
		m.configs[of][name] = value
	}
}

// brokerConfigs are the settings made while the cluster's brokers ran: the cluster-wide ones, overridden by the node's
// own.
func (m *image) brokerConfigs(node int32) map[string]string {
	all := maps.Clone(m.configs[resource{resourceBroker, ""}])
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, m.configs[resource{resourceBroker, fmt.Sprint(node)}])
	return all
}
