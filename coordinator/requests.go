package coordinator

// Request is a client's request to a group. A shard keeps parts of it, so it must not be changed afterwards.
type Request interface {
	// GroupID is the group that the request is for.
	GroupID() string
}

// Join asks for membership of a group. The answer, a [JoinAnswer], comes when the group has a new generation.
type Join struct {
	Group      string
	MemberID   string // empty for a new member
	InstanceID string // empty for a dynamic member
	ClientID   string
	ClientHost string

	SessionMs   int32
	RebalanceMs int32

	ProtocolType string
	Protocols    []Protocol // the member's preference first

	// RequireKnownID makes a new dynamic member join twice, the second time with the id it was assigned, so that one
	// whose client gave up leaves nothing behind (KIP-394; JoinGroup version 4).
	RequireKnownID bool

	// CanSkipAssignment says that the client supports being a leader that need not assign (JoinGroup version 9).
	CanSkipAssignment bool
}

// Protocol is an assignment protocol that a member supports, with the member's metadata for it.
type Protocol struct {
	Name     string
	Metadata []byte
}

// JoinAnswer answers a [Join].
type JoinAnswer struct {
	Err error // ErrMemberIDRequired comes with a MemberID

	MemberID       string
	Generation     int32 // -1 with an error
	ProtocolType   string
	Protocol       string
	Leader         string
	SkipAssignment bool
	Members        []JoinedMember // for the leader only
}

// JoinedMember is a member as the leader sees it.
type JoinedMember struct {
	ID         string
	InstanceID string
	Metadata   []byte // of the selected protocol
}

// Sync asks for the member's assignment; from the leader it also carries everybody's assignments. The answer, a
// [SyncAnswer], comes when the leader has synced.
type Sync struct {
	Group       string
	MemberID    string
	InstanceID  string
	Generation  int32
	Assignments map[string][]byte // by member id; from the leader only

	// ProtocolType and Protocol, if not nil, must be the group's.
	ProtocolType, Protocol *string
}

// SyncAnswer answers a [Sync].
type SyncAnswer struct {
	Err          error
	ProtocolType string
	Protocol     string
	Assignment   []byte
}

// Heartbeat keeps a member alive. It is answered with a [Done].
type Heartbeat struct {
	Group      string
	MemberID   string
	InstanceID string
	Generation int32
}

// Done is the answer to requests that return nothing but an error.
type Done struct{ Err error }

// Leave removes members from a group. It is answered with a [LeaveAnswer].
type Leave struct {
	Group   string
	Members []LeavingMember
}

// LeavingMember names a member by its id, or by its instance id alone when an administrator removes it.
type LeavingMember struct {
	ID         string
	InstanceID string
}

// LeaveAnswer answers a [Leave].
type LeaveAnswer struct {
	Err     error
	Members []error // one for each named member
}

// Commit stores offsets of a group. It is answered with a [CommitAnswer].
type Commit struct {
	Group      string
	MemberID   string // empty for a commit without a member, which only a group without members accepts
	InstanceID string
	Generation int32 // -1 without a member

	// RetentionMs is how long to keep the offsets (OffsetCommit 2 to 4), or -1 for the server's retention.
	RetentionMs int64

	Offsets []CommittedOffset
}

// CommittedOffset is one offset of a [Commit].
type CommittedOffset struct {
	Topic       string
	TopicID     [16]byte // zero if not known
	Partition   int32
	Offset      int64
	LeaderEpoch int32 // -1 if not known
	Metadata    string
}

// CommitAnswer answers a [Commit].
type CommitAnswer struct {
	Err     error   // of the whole request
	Offsets []error // one for each, when Err is nil
}

// Fetch asks for the offsets that a group has committed. It is answered with a [FetchAnswer].
type Fetch struct {
	Group         string
	All           bool // every partition with an offset
	Topics        []FetchTopic
	RequireStable bool // fail where an open transaction may change the offset
}

// FetchTopic names partitions of a topic.
type FetchTopic struct {
	Topic      string
	TopicID    [16]byte // offsets stored for another id are not returned; zero if not known
	Partitions []int32
}

// FetchAnswer answers a [Fetch], in the order of the request, or of topic and partition if all were requested.
type FetchAnswer struct {
	Err    error
	Topics []FetchedTopic
}

// FetchedTopic is the offsets of a topic.
type FetchedTopic struct {
	Topic      string
	TopicID    [16]byte // as stored, if all were requested
	Partitions []FetchedOffset
}

// FetchedOffset is one offset. Where there is none, Offset and LeaderEpoch are -1.
type FetchedOffset struct {
	Partition   int32
	Err         error
	Offset      int64
	LeaderEpoch int32
	Metadata    string
}

// DeleteOffsets removes offsets of a group. It is answered with a [DeleteAnswer].
type DeleteOffsets struct {
	Group   string
	Offsets []TopicPartition
}

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// DeleteAnswer answers a [DeleteOffsets].
type DeleteAnswer struct {
	Err     error   // of the whole request
	Offsets []error // one for each, when Err is nil
}

// DeleteGroup removes a group and its offsets. It is answered with a [Done].
type DeleteGroup struct{ Group string }

// Describe asks for the state of a group. It is answered with a [Description].
type Describe struct{ Group string }

// Description answers a [Describe].
type Description struct {
	Err          error // ErrGroupNotFound
	State        State
	ProtocolType string
	Protocol     string // when Stable
	Members      []DescribedMember
	Rebalances   int64 // join phases that ended since the shard was loaded
}

// DescribedMember is a member of a group. Metadata and Assignment are set when the group is Stable.
type DescribedMember struct {
	ID          string
	InstanceID  string
	ClientID    string
	ClientHost  string
	SessionMs   int32
	RebalanceMs int32
	Metadata    []byte
	Assignment  []byte
}

// List asks for the groups of a shard. It is answered with a [Listing].
type List struct{}

// Listing answers a [List], sorted by group.
type Listing struct {
	Err    error
	Groups []ListedGroup
}

// ListedGroup is a group in brief. A group that only holds offsets has no protocol type.
type ListedGroup struct {
	Group        string
	ProtocolType string
	State        State
}

// TopicGone announces that topics were deleted: their offsets are removed soon. It is answered with a [Done].
type TopicGone struct{}

// GroupID is the group to join.
func (r *Join) GroupID() string { return r.Group }

// GroupID is the member's group.
func (r *Sync) GroupID() string { return r.Group }

// GroupID is the member's group.
func (r *Heartbeat) GroupID() string { return r.Group }

// GroupID is the group to leave.
func (r *Leave) GroupID() string { return r.Group }

// GroupID is the group that commits.
func (r *Commit) GroupID() string { return r.Group }

// GroupID is the group whose offsets are requested.
func (r *Fetch) GroupID() string { return r.Group }

// GroupID is the group whose offsets are deleted.
func (r *DeleteOffsets) GroupID() string { return r.Group }

// GroupID is the group to delete.
func (r *DeleteGroup) GroupID() string { return r.Group }

// GroupID is the group to describe.
func (r *Describe) GroupID() string { return r.Group }

// GroupID is empty: the request is for the shard.
func (r *List) GroupID() string { return "" }

// GroupID is empty: the request is for the shard.
func (r *TopicGone) GroupID() string { return "" }

// Answer is the answer to a [Request], of the type that the request documents.
type Answer interface {
	// Error is the failure of the request as a whole, or nil.
	Error() error
}

// Error is why the member was not admitted.
func (a *JoinAnswer) Error() error { return a.Err }

// Error is why there is no assignment.
func (a *SyncAnswer) Error() error { return a.Err }

// Error is why it failed.
func (a *Done) Error() error { return a.Err }

// Error is why nobody left.
func (a *LeaveAnswer) Error() error { return a.Err }

// Error is why nothing was committed.
func (a *CommitAnswer) Error() error { return a.Err }

// Error is why nothing was found.
func (a *FetchAnswer) Error() error { return a.Err }

// Error is why nothing was deleted.
func (a *DeleteAnswer) Error() error { return a.Err }

// Error is why there is no description.
func (a *Description) Error() error { return a.Err }

// Error is why there is no list.
func (a *Listing) Error() error { return a.Err }

// Refuse returns the answer to a request that failed as a whole.
func Refuse(r Request, err error) Answer {
	switch r := r.(type) {
	case *Join:
		return refuseJoin(r.MemberID, err)
	case *Sync:
		return &SyncAnswer{Err: err}
	case *Leave:
		return &LeaveAnswer{Err: err}
	case *Commit:
		return &CommitAnswer{Err: err}
	case *Fetch:
		return &FetchAnswer{Err: err}
	case *DeleteOffsets:
		return &DeleteAnswer{Err: err}
	case *Describe:
		return &Description{Err: err}
	case *List:
		return &Listing{Err: err}
	}
	return &Done{Err: err}
}

func refuseJoin(member string, err error) *JoinAnswer {
	return &JoinAnswer{Err: err, MemberID: member, Generation: -1}
}
