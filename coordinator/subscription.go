package coordinator

import "encoding/binary"

// A subscription is the metadata of a member whose protocol type is "consumer". All integers are big-endian.
//
//	┌─────────┬───────────────────────────────┬──────────────┬──────────────────────────────────────────┐
//	│ version │ topics                        │ user data    │ owned partitions (1+), generation (2+),  │
//	│ int16   │ int32 count, then each:       │ int32 length │ rack (3+): not read here                 │
//	│         │ int16 length, bytes           │ -1: null     │                                          │
//	└─────────┴───────────────────────────────┴──────────────┴──────────────────────────────────────────┘
//
// An unknown version has at least the fields of the known ones.

// subscribedTopics reads the topics of a subscription. It reports false when the bytes are not one.
func subscribedTopics(b []byte) ([]string, bool) {
	if len(b) < 2+4 {
		return nil, false
	}
	n := int(int32(binary.BigEndian.Uint32(b[2:])))
	b = b[2+4:]
	if n < 0 || n > len(b)/2 {
		return nil, false
	}
	topics := make([]string, 0, n)
	for range n {
		if len(b) < 2 {
			return nil, false
		}
		size := int(int16(binary.BigEndian.Uint16(b)))
		b = b[2:]
		if size < 0 || size > len(b) {
			return nil, false
		}
		topics = append(topics, string(b[:size]))
		b = b[size:]
	}
	return topics, true
}

// subscribed returns a function that reports whether a member of the group reads a topic. A member whose subscription
// cannot be read counts as reading everything.
func (g *group) subscribed() func(topic string) bool {
	topics := map[string]bool{}
	for _, m := range g.members {
		metadata := m.metadata(g.protocol)
		if metadata == nil && len(m.protocols) > 0 {
			metadata = m.protocols[0].Metadata // no protocol is selected yet
		}
		list, ok := subscribedTopics(metadata)
		if !ok {
			return func(string) bool { return true }
		}
		for _, topic := range list {
			topics[topic] = true
		}
	}
	return func(topic string) bool { return topics[topic] }
}
