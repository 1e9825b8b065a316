package records

import (
	"errors"
	"fmt"
	"math"

	"github.com/tidemark-io/tidemark/coordinator"
)

// Key types. The key of a classic group's records is its type and the fields in the picture, none of them flexible.
// Integers are big-endian, a string is an int16 length and that many bytes.
//
//	OffsetCommit   │ 0 or 1 │ group string │ topic string │ partition int32 │
//	GroupMetadata  │ 2      │ group string │
//
// Kafka has more: 3 to 8 and 16 of the newer consumer groups, 10 to 15 of share groups, 17 and 19 to 23 of streams groups.
const (
	typeOffsetCommitV0 int16 = 0 // like 1; read, never written
	typeOffsetCommit   int16 = 1
	typeGroupMetadata  int16 = 2
)

// Versions of values. A null value is a tombstone: it deletes what the key names.
const (
	newestOffsetCommit  int16 = 4 // written, except for
	expiringOffset      int16 = 1 // an offset with an expiry time, which only this version can express
	newestGroupMetadata int16 = 4
	writtenGroup        int16 = 3 // the version that Kafka writes
)

// ErrUnknownType says that a record is of none of the types of this package.
var ErrUnknownType = errors.New("the record is of an unknown type")

// ErrMalformed says that a key or a value is shorter or longer than its contents.
var ErrMalformed = errors.New("the record is malformed")

// VersionError says that a value has an unknown version.
type VersionError struct {
	Record string // what it should have been
	Found  int16
	Newest int16 // the newest version that is known
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s value of version %d; the newest known is %d", e.Record, e.Found, e.Newest)
}

// ErrTooLong says that a text of a record is longer than the format allows, 32767 bytes.
var ErrTooLong = errors.New("a text is longer than the record's format can say")

// Encode returns the key and the value of a record; the value of a tombstone is nil. The caller owns them. The error
// matches [ErrTooLong].
func Encode(r coordinator.Record) (key, value []byte, err error) {
	if !fits(r) {
		return nil, nil, ErrTooLong
	}
	switch r := r.(type) {
	case coordinator.OffsetRecord:
		key = appendInt16(nil, typeOffsetCommit)
		key = appendString(key, r.Group)
		key = appendString(key, r.Topic)
		key = appendInt32(key, r.Partition)
		if r.Offset != nil {
			value = appendOffset(nil, r.Offset)
		}
	case coordinator.GroupRecord:
		key = appendInt16(nil, typeGroupMetadata)
		key = appendString(key, r.Group)
		if r.State != nil {
			value = appendGroup(nil, r.State)
		}
	}
	return key, value, nil
}

// fits reports whether every text of a record is short enough to be written.
func fits(r coordinator.Record) bool {
	switch r := r.(type) {
	case coordinator.OffsetRecord:
		return short(r.Group, r.Topic) && (r.Offset == nil || short(r.Offset.Metadata))
	case coordinator.GroupRecord:
		return short(r.Group) && (r.State == nil || groupFits(r.State))
	}
	return true
}

func groupFits(g *coordinator.GroupMetadata) bool {
	ok := short(g.ProtocolType) && (g.Protocol == nil || short(*g.Protocol)) && (g.Leader == nil || short(*g.Leader))
	for i := range g.Members {
		m := &g.Members[i]
		ok = ok && short(m.ID, m.InstanceID, m.ClientID, m.ClientHost)
	}
	return ok
}

func short(texts ...string) bool {
	for _, text := range texts {
		if len(text) > math.MaxInt16 {
			return false
		}
	}
	return true
}

// Decode decodes a record; a nil value is a tombstone. The record keeps no reference to the bytes. Errors match
// [ErrUnknownType], [ErrMalformed] or are a [*VersionError].
func Decode(key, value []byte) (coordinator.Record, error) {
	k := &reader{b: key}
	switch kind := k.int16(); {
	case k.failed:
		return nil, fmt.Errorf("%w: a key of %d bytes", ErrMalformed, len(key))
	case kind == typeOffsetCommitV0 || kind == typeOffsetCommit:
		r := coordinator.OffsetRecord{Group: k.string(), Topic: k.string(), Partition: k.int32()}
		if err := k.end("OffsetCommit key"); err != nil || value == nil {
			return r, err
		}
		offset, err := decodeOffset(value)
		r.Offset = offset
		return r, err
	case kind == typeGroupMetadata:
		r := coordinator.GroupRecord{Group: k.string()}
		if err := k.end("GroupMetadata key"); err != nil || value == nil {
			return r, err
		}
		state, err := decodeGroup(value)
		r.State = state
		return r, err
	default:
		return nil, fmt.Errorf("%w: %d", ErrUnknownType, kind)
	}
}
