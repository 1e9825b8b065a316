package coordinator

// Record is a record that a shard appends to its partition: an [OffsetRecord] or a [GroupRecord]. Package
// coordinator/records encodes them. A later record of the same key replaces an earlier one.
type Record interface{ isRecord() }

// OffsetRecord is the offset that a group has committed for a partition.
type OffsetRecord struct {
	Group     string
	Topic     string
	Partition int32
	Offset    *Offset // nil if it was deleted (a tombstone)
}

// Offset is a committed offset.
type Offset struct {
	Offset      int64 // as the client gave it; not checked against the log
	LeaderEpoch int32 // of the last record that was read, or -1
	Metadata    string
	CommitMs    int64 // when it was committed, ms since 1970

	// ExpireMs is when the offset expires, as requested by an old client, in ms since 1970, or -1 if the server's
	// retention decides.
	ExpireMs int64

	TopicID [16]byte // zero if not known
}

// GroupRecord is the part of a group that outlives its coordinator.
type GroupRecord struct {
	Group string
	State *GroupMetadata // nil if the group was deleted (a tombstone)
}

// GroupMetadata is the state of a group when a generation became stable, or when it lost its last member.
type GroupMetadata struct {
	ProtocolType string
	Generation   int32
	Protocol     *string // nil when there are no members
	Leader       *string // nil when there are no members
	SinceMs      int64   // when the group entered its state, ms since 1970, or -1 if not known
	Members      []MemberMetadata
}

// MemberMetadata is one member of a generation.
type MemberMetadata struct {
	ID           string
	InstanceID   string // empty for a dynamic member
	ClientID     string
	ClientHost   string
	RebalanceMs  int32 // -1 if not known; the session timeout is used instead
	SessionMs    int32
	Subscription []byte // metadata of the selected protocol
	Assignment   []byte
}

func (OffsetRecord) isRecord() {}

func (GroupRecord) isRecord() {}
