package coordinator

// Record is what a shard wants to be in its partition: an [OffsetRecord] or a [GroupRecord]. Package coordinator/records
// has their bytes. A later record of the same key replaces an earlier one.
type Record interface{ isRecord() }

// OffsetRecord is the offset that a group has committed for a partition.
type OffsetRecord struct {
	Group     string
	Topic     string
	Partition int32
	Offset    *Offset // nil: there is none any more (a tombstone)
}

// Offset is a committed offset.
type Offset struct {
	Offset      int64 // as the client gave it; not checked against the log
	LeaderEpoch int32 // of the last record that was read, or -1
	Metadata    string
	CommitMs    int64 // when it was committed, ms since 1970

	// ExpireMs is when the offset expires, by the wish of an old client, in ms since 1970, or -1: the server's retention
	// decides.
	ExpireMs int64

	TopicID [16]byte // zero: not known
}

// GroupRecord is what of a group outlives its coordinator.
type GroupRecord struct {
	Group string
	State *GroupMetadata // nil: the group is gone (a tombstone)
}

// GroupMetadata is the state of a group when a generation became stable, or when it lost its last member.
type GroupMetadata struct {
	ProtocolType string
	Generation   int32
	Protocol     *string // nil when there are no members
	Leader       *string // nil when there are no members
	SinceMs      int64   // when the group entered its state, ms since 1970, or -1: not known
	Members      []MemberMetadata
}

// MemberMetadata is one member of a generation.
type MemberMetadata struct {
	ID           string
	InstanceID   string // empty: a dynamic member
	ClientID     string
	ClientHost   string
	RebalanceMs  int32 // -1: not known; the session timeout stands in for it
	SessionMs    int32
	Subscription []byte // metadata of the selected protocol
	Assignment   []byte
}

func (OffsetRecord) isRecord() {}

func (GroupRecord) isRecord() {}
