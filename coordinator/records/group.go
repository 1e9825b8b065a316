package records

import "github.com/tidemark-io/tidemark/coordinator"

// The value of a GroupMetadata record. A number in brackets gives the versions that have the field; in a version 4 value
// strings, bytes and the array are compact (an unsigned varint of the length plus one, 0 for null), and tagged fields
// follow the value and each member.
//
//	┌─────────┬──────────────┬────────────┬──────────┬──────────┬───────────────────────┬─────────────┐
//	│ version │ protocolType │ generation │ protocol │ leader   │ currentStateTimestamp │ members     │
//	│ int16   │ string       │ int32      │ string?  │ string?  │ int64, ms [2-4]       │ int32 count │
//	└─────────┴──────────────┴────────────┴──────────┴──────────┴───────────────────────┴─────────────┘
//	each member:
//	┌──────────┬─────────────────┬──────────┬────────────┬──────────────────┬────────────────┬──────────────┬────────────┐
//	│ memberId │ groupInstanceId │ clientId │ clientHost │ rebalanceTimeout │ sessionTimeout │ subscription │ assignment │
//	│ string   │ string? [3-4]   │ string   │ string     │ int32, ms [1-4]  │ int32, ms      │ bytes        │ bytes      │
//	└──────────┴─────────────────┴──────────┴────────────┴──────────────────┴────────────────┴──────────────┴────────────┘
//
// string? may be null (length -1). bytes have an int32 length.

func appendGroup(b []byte, g *coordinator.GroupMetadata) []byte {
	b = appendInt16(b, writtenGroup)
	b = appendString(b, g.ProtocolType)
	b = appendInt32(b, g.Generation)
	b = appendNullableString(b, g.Protocol)
	b = appendNullableString(b, g.Leader)
	b = appendInt64(b, g.SinceMs)
	b = appendInt32(b, int32(len(g.Members)))
	for i := range g.Members {
		b = appendMember(b, &g.Members[i])
	}
	return b
}

func appendMember(b []byte, m *coordinator.MemberMetadata) []byte {
	b = appendString(b, m.ID)
	if m.InstanceID == "" {
		b = appendNullableString(b, nil)
	} else {
		b = appendString(b, m.InstanceID)
	}
	b = appendString(b, m.ClientID)
	b = appendString(b, m.ClientHost)
	b = appendInt32(b, m.RebalanceMs)
	b = appendInt32(b, m.SessionMs)
	b = appendBytes(b, m.Subscription)
	return appendBytes(b, m.Assignment)
}

// leastMember is the smallest size of a member in bytes.
const leastMember = 10

func decodeGroup(value []byte) (*coordinator.GroupMetadata, error) {
	const what = "GroupMetadata"
	r := &reader{b: value}
	version := r.int16()
	if !r.failed && (version < 0 || version > newestGroupMetadata) {
		return nil, &VersionError{Record: what, Found: version, Newest: newestGroupMetadata}
	}
	r.flexible = version >= 4
	g := &coordinator.GroupMetadata{SinceMs: -1}
	g.ProtocolType = r.str()
	g.Generation = r.int32()
	g.Protocol = r.nullableStr()
	g.Leader = r.nullableStr()
	if version >= 2 {
		g.SinceMs = r.int64()
	}
	for range r.count(leastMember) {
		g.Members = append(g.Members, decodeMember(r, version))
	}
	r.ignoreTags()
	if err := r.end(what + " value"); err != nil {
		return nil, err
	}
	return g, nil
}

func decodeMember(r *reader, version int16) coordinator.MemberMetadata {
	m := coordinator.MemberMetadata{RebalanceMs: -1}
	m.ID = r.str()
	if version >= 3 {
		if instance := r.nullableStr(); instance != nil {
			m.InstanceID = *instance
		}
	}
	m.ClientID = r.str()
	m.ClientHost = r.str()
	if version >= 1 {
		m.RebalanceMs = r.int32()
	}
	m.SessionMs = r.int32()
	m.Subscription = r.bytes()
	m.Assignment = r.bytes()
	r.ignoreTags()
	return m
}
