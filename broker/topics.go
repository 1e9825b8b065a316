package broker

import (
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/tidemark-io/tidemark/partition"
)

// maxTopicName is the longest topic name in bytes, so that a directory name with a partition number fits.
const maxTopicName = 249

// validTopicName is Kafka's rule: 1 to 249 of [a-zA-Z0-9._-], and neither "." nor "..".
func validTopicName(name string) bool { return checkTopicName(name) == nil }

// checkTopicName says which rule a name breaks. The error is errInvalidTopic.
func checkTopicName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", errInvalidTopic)
	case name == "." || name == "..":
		return fmt.Errorf("%w: it must not be %q", errInvalidTopic, name)
	case len(name) > maxTopicName:
		return fmt.Errorf("%w: it has %d bytes, at most %d are allowed", errInvalidTopic, len(name), maxTopicName)
	}
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
		default:
			return fmt.Errorf("%w: it has %q, which is not one of a-z, A-Z, 0-9, '.', '_' and '-'", errInvalidTopic, r)
		}
	}
	return nil
}

// isInternalName reports whether the name is one that Kafka reserves for itself.
func isInternalName(name string) bool {
	switch name {
	case "__consumer_offsets", "__transaction_state", "__share_group_state":
		return true
	}
	return false
}

// collisionKey is equal for two names that collide.
func collisionKey(name string) string { return strings.ReplaceAll(name, ".", "_") }

// newTopicID returns a random UUID of version 4. It is never one of those that Kafka gives a meaning (zero and one), and
// its text form never starts with a dash, which tools would take for an option: the first six bits are not 62.
func newTopicID() TopicID {
	for {
		var id TopicID
		_, _ = rand.Read(id[:]) // never fails
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if id[0]>>2 != 62 {
			return id
		}
	}
}

// topicRef names a topic in a request: by id in newer versions, by name in older ones.
type topicRef struct {
	id   TopicID
	name string // aliases the request
	byID bool
}

// find looks a topic up. The error is ErrUnknownTopicID or ErrUnknownTopic.
func (r topicRef) find(topics Topics) (*Topic, error) {
	if r.byID {
		if t, ok := topics.ByID(r.id); ok && r.id != (TopicID{}) {
			return t, nil
		}
		return nil, ErrUnknownTopicID
	}
	if t, ok := topics.ByName(r.name); ok {
		return t, nil
	}
	return nil, ErrUnknownTopic
}

// lead returns the log of a partition that this node leads.
func (s *Server) lead(t *Topic, index int32) (*partition.Log, error) {
	if index < 0 || int(index) >= len(t.Partitions) {
		return nil, ErrUnknownPartition
	}
	if t.Partitions[index].Leader != s.backend.NodeID() {
		return nil, ErrNotLeader
	}
	return s.backend.Partition(t.ID, index)
}
