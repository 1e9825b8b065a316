package coordinator

import "errors"

// Errors that requests are answered with; match them with errors.Is. Each corresponds to one error code of the Kafka
// protocol.
var (
	// ErrInvalidGroup says that a group must have a name.
	ErrInvalidGroup = errors.New("the group id is empty")

	// ErrInvalidSession says that a session timeout is outside what the server allows.
	ErrInvalidSession = errors.New("the session timeout is outside the allowed range")

	// ErrUnknownMember says that the group has no such member: it never had, or the member's session has ended.
	ErrUnknownMember = errors.New("the group has no such member")

	// ErrMemberIDRequired says that a member must join again with the id that comes with this error.
	ErrMemberIDRequired = errors.New("the member must join again with the id that it was given")

	// ErrFencedInstance says that the instance id belongs to another member, which came later.
	ErrFencedInstance = errors.New("the instance id now belongs to another member")

	// ErrGroupFull says that the group is full.
	ErrGroupFull = errors.New("the group is full")

	// ErrInconsistentProtocol says that the member has no protocol in common with the group.
	ErrInconsistentProtocol = errors.New("the member's protocols do not fit the group's")

	// ErrIllegalGeneration says that the request belongs to another generation of the group.
	ErrIllegalGeneration = errors.New("the request belongs to another generation of the group")

	// ErrRebalancing says that the group is between two generations: join it again.
	ErrRebalancing = errors.New("the group is rebalancing")

	// ErrGroupNotFound says that there is no such group.
	ErrGroupNotFound = errors.New("there is no such group")

	// ErrNonEmptyGroup says that the group has members.
	ErrNonEmptyGroup = errors.New("the group has members")

	// ErrSubscribed says that a member of the group is subscribed to the topic.
	ErrSubscribed = errors.New("a member of the group is subscribed to the topic")

	// ErrMetadataTooLarge says that the metadata text of a commit is longer than allowed.
	ErrMetadataTooLarge = errors.New("the metadata of the offset is too long")

	// ErrUnstableOffset says that an open transaction may change the offset.
	ErrUnstableOffset = errors.New("an open transaction may change the offset")
)

// Errors that requests are answered with when no shard could decide them.
var (
	// ErrLoading says that the shard is still reading its partition: retry soon.
	ErrLoading = errors.New("the coordinator is loading")

	// ErrNotAvailable says that there is no coordinator at the moment, or that it could not make the change durable in
	// time, in which case the change may or may not have been made: retry.
	ErrNotAvailable = errors.New("the coordinator is not available")

	// ErrNotCoordinator says that the group's coordinator is not here, or no longer: look it up again.
	ErrNotCoordinator = errors.New("this is not the coordinator of the group")

	// ErrRecordTooLarge says that a record of the group would be larger than the partition accepts.
	ErrRecordTooLarge = errors.New("the group's record is larger than the offsets topic takes")
)
