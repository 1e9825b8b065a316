package coordinator

// Request is what a client asks of a group. A shard keeps what is in a request, so nobody may change it after.
type Request interface {
	// GroupID is the group it is about.
	GroupID() string
}

// Join asks to be a member of a group. The answer, a [JoinAnswer], comes when the group has a new generation.
type Join struct {
	Group      string
	MemberID   string // empty: a new member
	InstanceID string // empty: a dynamic member
	ClientID   string
	ClientHost string

	SessionMs   int32
	RebalanceMs int32

	ProtocolType string
	Protocols    []Protocol // the member's preference first

	// RequireKnownID has a new dynamic member join twice, the second time with the id it was given, so that one whose
	// client gave up leaves nothing behind (KIP-394; JoinGroup version 4).
	RequireKnownID bool

	// CanSkipAssignment says that the client knows what to do as a leader that need not assign (JoinGroup version 9).
	CanSkipAssignment bool
}

// Protocol is a way to assign partitions that a member knows, with what the member has to say for it.
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

// Sync asks for the member's assignment, and brings those of all when it comes from the leader. The answer, a
// [SyncAnswer], comes when the leader has synced.
type Sync struct {
	Group       string
	MemberID    string
	InstanceID  string
	Generation  int32
	Assignments map[string][]byte // by member id; the leader's

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

// Heartbeat says that a member is alive. It is answered with a [Done].
type Heartbeat struct {
	Group      string
	MemberID   string
	InstanceID string
	Generation int32
}

// Done is the answer to what is done or is not.
type Done struct{ Err error }

// Leave takes members out of a group. It is answered with a [LeaveAnswer].
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
	Members []error // one for each that was named
}

// Commit stores offsets of a group. It is answered with a [CommitAnswer].
type Commit struct {
	Group      string
	MemberID   string // empty: of nobody, which only a group without members allows
	InstanceID string
	Generation int32 // -1: of nobody

	// RetentionMs is how long the offsets are to be kept (OffsetCommit 2 to 4), or -1: as long as the server keeps them.
	RetentionMs int64

	Offsets []CommittedOffset
}

// CommittedOffset is one offset of a [Commit].
type CommittedOffset struct {
	Topic       string
	TopicID     [16]byte // zero: not known
	Partition   int32
	Offset      int64
	LeaderEpoch int32 // -1: not known
	Metadata    string
}

// CommitAnswer answers a [Commit].
type CommitAnswer struct {
	Err     error   // of all
	Offsets []error // one for each, when Err is nil
}

// Fetch asks for the offsets that a group has committed. It is answered with a [FetchAnswer].
type Fetch struct {
	Group         string
	All           bool // every partition that has one
	Topics        []FetchTopic
	RequireStable bool // fail where an open transaction may change the offset
}

// FetchTopic names partitions of a topic.
type FetchTopic struct {
	Topic      string
	TopicID    [16]byte // an offset that was stored for another id is not returned; zero: not known
	Partitions []int32
}

// FetchAnswer answers a [Fetch], in the order of the request, or of topic and partition when all were asked for.
type FetchAnswer struct {
	Err    error
	Topics []FetchedTopic
}

// FetchedTopic is the offsets of a topic.
type FetchedTopic struct {
	Topic      string
	TopicID    [16]byte // as stored, when all were asked for
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
	Err     error   // of all
	Offsets []error // one for each, when Err is nil
}

// DeleteGroup removes a group and its offsets. It is answered with a [Done].
type DeleteGroup struct{ Group string }

// Describe asks what a group is. It is answered with a [Description].
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

// DescribedMember is a member of a group. Metadata and Assignment are there when the group is Stable.
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

// TopicGone says that topics were deleted: their offsets are removed soon. It is answered with a [Done].
type TopicGone struct{}

// GroupID is the group to join.
func (r *Join) GroupID() string { return r.Group }

// GroupID is the member's group.
func (r *Sync) GroupID() string { return r.Group }

// GroupID is the member's group.
func (r *Heartbeat) GroupID() string { return r.Group }

// GroupID is the group to leave.
func (r *Leave) GroupID() string { return r.Group }

// GroupID is the group whose offsets they are.
func (r *Commit) GroupID() string { return r.Group }

// GroupID is the group whose offsets they are.
func (r *Fetch) GroupID() string { return r.Group }

// GroupID is the group whose offsets they are.
func (r *DeleteOffsets) GroupID() string { return r.Group }

// GroupID is the group to delete.
func (r *DeleteGroup) GroupID() string { return r.Group }

// GroupID is the group to describe.
func (r *Describe) GroupID() string { return r.Group }

// GroupID is empty: it is about the shard.
func (r *List) GroupID() string { return "" }

// GroupID is empty: it is about the shard.
func (r *TopicGone) GroupID() string { return "" }

// Answer is what a [Request] is answered with: the type that the request names.
type Answer interface {
	// Error is what went wrong with the request as a whole, or nil.
	Error() error
}

// Error is what kept the member out.
func (a *JoinAnswer) Error() error { return a.Err }

// Error is why there is no assignment.
func (a *SyncAnswer) Error() error { return a.Err }

// Error is why it was not done.
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

// Refuse is the answer to a request that failed as a whole.
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
