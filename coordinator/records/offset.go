package records

import "github.com/tidemark-io/tidemark/coordinator"

// The value of an OffsetCommit record. A number in brackets gives the versions that have the field; a version 4 value is
// flexible: the string has an unsigned varint of its length plus one instead of an int16, and tagged fields follow.
//
//	┌─────────┬────────┬─────────────┬──────────┬─────────────────┬─────────────────┬──────────────────┐
//	│ version │ offset │ leaderEpoch │ metadata │ commitTimestamp │ expireTimestamp │ tagged fields    │
//	│ int16   │ int64  │ int32 [3-4] │ string   │ int64, ms       │ int64, ms [1]   │ 0: topicId, uuid │
//	│         │        │             │          │                 │                 │ [4]              │
//	└─────────┴────────┴─────────────┴──────────┴─────────────────┴─────────────────┴──────────────────┘
//
// A missing leader epoch is -1, and so is a missing expireTimestamp.

// topicIDTag is the tagged field of a version 4 value; it is omitted when the id is not known.
const topicIDTag = 0

func appendOffset(b []byte, o *coordinator.Offset) []byte {
	if o.ExpireMs >= 0 {
		b = appendInt16(b, expiringOffset)
		b = appendInt64(b, o.Offset)
		b = appendString(b, o.Metadata)
		b = appendInt64(b, o.CommitMs)
		return appendInt64(b, o.ExpireMs)
	}
	b = appendInt16(b, newestOffsetCommit)
	b = appendInt64(b, o.Offset)
	b = appendInt32(b, o.LeaderEpoch)
	b = appendCompactString(b, o.Metadata)
	b = appendInt64(b, o.CommitMs)
	if o.TopicID == [16]byte{} {
		return append(b, 0)
	}
	b = append(b, 1, topicIDTag, byte(len(o.TopicID)))
	return append(b, o.TopicID[:]...)
}

func decodeOffset(value []byte) (*coordinator.Offset, error) {
	const what = "OffsetCommit"
	r := &reader{b: value}
	version := r.int16()
	if !r.failed && (version < 0 || version > newestOffsetCommit) {
		return nil, &VersionError{Record: what, Found: version, Newest: newestOffsetCommit}
	}
	o := &coordinator.Offset{LeaderEpoch: -1, ExpireMs: -1}
	o.Offset = r.int64()
	if version >= 3 {
		o.LeaderEpoch = r.int32()
	}
	if version >= 4 {
		o.Metadata = r.compactString()
	} else {
		o.Metadata = r.string()
	}
	o.CommitMs = r.int64()
	if version == 1 {
		o.ExpireMs = r.int64()
	}
	if version >= 4 {
		r.tags(func(tag uint64, field []byte) {
			if tag == topicIDTag && !r.expect(len(field) == len(o.TopicID)) {
				return
			}
			if tag == topicIDTag {
				copy(o.TopicID[:], field)
			}
		})
	}
	if err := r.end(what + " value"); err != nil {
		return nil, err
	}
	return o, nil
}
