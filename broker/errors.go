package broker

import (
	"context"
	"errors"
	"syscall"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/coordinator"
	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/topicconfig"
)

// Error codes of the Kafka protocol, under Kafka's names. The numbers are the wire's.
const (
	codeUnknownServerError           int16 = -1
	codeNone                         int16 = 0
	codeOffsetOutOfRange             int16 = 1
	codeCorruptMessage               int16 = 2
	codeUnknownTopicOrPartition      int16 = 3
	codeLeaderNotAvailable           int16 = 5
	codeNotLeaderOrFollower          int16 = 6
	codeRequestTimedOut              int16 = 7
	codeMessageTooLarge              int16 = 10
	codeOffsetMetadataTooLarge       int16 = 12
	codeCoordinatorLoadInProgress    int16 = 14
	codeCoordinatorNotAvailable      int16 = 15
	codeNotCoordinator               int16 = 16
	codeInvalidTopicException        int16 = 17
	codeRecordListTooLarge           int16 = 18
	codeInvalidRequiredAcks          int16 = 21
	codeIllegalGeneration            int16 = 22
	codeInconsistentGroupProtocol    int16 = 23
	codeInvalidGroupID               int16 = 24
	codeUnknownMemberID              int16 = 25
	codeInvalidSessionTimeout        int16 = 26
	codeRebalanceInProgress          int16 = 27
	codeInvalidTimestamp             int16 = 32
	codeUnsupportedVersion           int16 = 35
	codeTopicAlreadyExists           int16 = 36
	codeInvalidPartitions            int16 = 37
	codeInvalidReplicationFactor     int16 = 38
	codeInvalidReplicaAssignment     int16 = 39
	codeInvalidConfig                int16 = 40
	codeInvalidRequest               int16 = 42
	codePolicyViolation              int16 = 44
	codeOutOfOrderSequenceNumber     int16 = 45
	codeInvalidProducerEpoch         int16 = 47
	codeInvalidTxnState              int16 = 48
	codeTransactionalIDAuthorization int16 = 53
	codeKafkaStorageError            int16 = 56
	codeNonEmptyGroup                int16 = 68
	codeGroupIDNotFound              int16 = 69
	codeFetchSessionIDNotFound       int16 = 70
	codeInvalidFetchSessionEpoch     int16 = 71
	codeTopicDeletionDisabled        int16 = 73
	codeFencedLeaderEpoch            int16 = 74
	codeUnknownLeaderEpoch           int16 = 75
	codeUnsupportedCompressionType   int16 = 76
	codeMemberIDRequired             int16 = 79
	codeGroupMaxSizeReached          int16 = 81
	codeFencedInstanceID             int16 = 82
	codeGroupSubscribedToTopic       int16 = 86
	codeInvalidRecord                int16 = 87
	codeUnstableOffsetCommit         int16 = 88
	codeUnknownTopicID               int16 = 100
	codeFetchSessionTopicIDError     int16 = 106
	codeMismatchedEndpointType       int16 = 114
	codeUnsupportedEndpointType      int16 = 115
	codeRebootstrapRequired          int16 = 129
)

// Errors of this package that are answered with a code.
var (
	errInvalidTopic       = errors.New("the topic name is invalid")
	errInternalTopic      = errors.New("clients may not write to an internal topic")
	errInvalidAcks        = errors.New("acks must be -1, 0 or 1")
	errNoRecords          = errors.New("a produce request must have exactly one record batch for each partition")
	errOldRecords         = errors.New("record batches must be of format version 2")
	errZstdTooEarly       = errors.New("zstd needs version 7 of the Produce request")
	errNoTransactionalID  = errors.New("a transactional batch has no transactional id")
	errNoTransaction      = errors.New("the producer has no transaction open")
	errFlushTimedOut      = errors.New("the records did not become durable in time; they may be in the log")
	errUnsupportedTime    = errors.New("the special timestamp needs a later version of the request")
	errDuplicatePartition = errors.New("the partition is named twice")
	errDivergedEpoch      = errors.New("the last fetched epoch is newer than any the log knows")
)

// errorCodes is the one table from errors to codes. The first row that an error matches decides. An error that matches
// none is UNKNOWN_SERVER_ERROR.
var errorCodes = []struct {
	err  error
	code int16
}{
	{partition.ErrOffsetOutOfRange, codeOffsetOutOfRange},
	{partition.ErrFenced, codeFencedLeaderEpoch},
	{partition.ErrUnknownLeaderEpoch, codeUnknownLeaderEpoch},
	{partition.ErrNotLeader, codeNotLeaderOrFollower},
	{partition.ErrClosed, codeNotLeaderOrFollower}, // the node is stopping or has given the partition away: find the new leader
	{partition.ErrDeleted, codeUnknownTopicOrPartition},
	{partition.ErrOutOfOrderSequence, codeOutOfOrderSequenceNumber},
	{partition.ErrInvalidProducerEpoch, codeInvalidProducerEpoch},
	{partition.ErrInvalidTxnState, codeInvalidTxnState},
	{partition.ErrStorage, codeKafkaStorageError},
	{partition.ErrInvalidArgument, codeInvalidRequest},

	{ErrTopicExists, codeTopicAlreadyExists},
	{ErrTopicCollides, codeInvalidTopicException},
	{ErrTooManyPartitions, codePolicyViolation},
	{ErrUnknownTopic, codeUnknownTopicOrPartition},
	{ErrUnknownTopicID, codeUnknownTopicID},
	{ErrUnknownPartition, codeUnknownTopicOrPartition},
	{ErrNotLeader, codeNotLeaderOrFollower},
	{partition.ErrPolicy, codePolicyViolation},
	{ErrPartitionsChanged, codeInvalidPartitions},
	{ErrConfigChanged, codeRequestTimedOut}, // concurrent changes won until the request timed out

	{coordinator.ErrLoading, codeCoordinatorLoadInProgress},
	{coordinator.ErrNotAvailable, codeCoordinatorNotAvailable},
	{coordinator.ErrNotCoordinator, codeNotCoordinator},
	{coordinator.ErrInvalidGroup, codeInvalidGroupID},
	{coordinator.ErrInvalidSession, codeInvalidSessionTimeout},
	{coordinator.ErrUnknownMember, codeUnknownMemberID},
	{coordinator.ErrMemberIDRequired, codeMemberIDRequired},
	{coordinator.ErrFencedInstance, codeFencedInstanceID},
	{coordinator.ErrGroupFull, codeGroupMaxSizeReached},
	{coordinator.ErrInconsistentProtocol, codeInconsistentGroupProtocol},
	{coordinator.ErrIllegalGeneration, codeIllegalGeneration},
	{coordinator.ErrRebalancing, codeRebalanceInProgress},
	{coordinator.ErrGroupNotFound, codeGroupIDNotFound},
	{coordinator.ErrNonEmptyGroup, codeNonEmptyGroup},
	{coordinator.ErrSubscribed, codeGroupSubscribedToTopic},
	{coordinator.ErrMetadataTooLarge, codeOffsetMetadataTooLarge},
	{coordinator.ErrUnstableOffset, codeUnstableOffsetCommit},
	{coordinator.ErrRecordTooLarge, codeUnknownServerError},

	{errInvalidTopic, codeInvalidTopicException},
	{errInternalTopic, codeInvalidTopicException},
	{errInvalidAcks, codeInvalidRequiredAcks},
	{errNoRecords, codeInvalidRecord},
	{errOldRecords, codeInvalidRecord},
	{errZstdTooEarly, codeUnsupportedCompressionType},
	{errNoTransactionalID, codeTransactionalIDAuthorization},
	{errNoTransaction, codeInvalidTxnState},
	{errFlushTimedOut, codeRequestTimedOut},
	{errUnsupportedTime, codeUnsupportedVersion},
	{errDuplicatePartition, codeInvalidRequest},
	{errDivergedEpoch, codeOffsetOutOfRange},

	{context.DeadlineExceeded, codeRequestTimedOut},
	{context.Canceled, codeNotLeaderOrFollower}, // only a connection that is being cut off sees it
}

// validationCodes are the codes for invalid batches by kind.
var validationCodes = map[batch.Kind]int16{
	batch.InvalidRecord:          codeInvalidRecord,
	batch.Corrupt:                codeCorruptMessage,
	batch.TooLarge:               codeMessageTooLarge,
	batch.InvalidTimestamp:       codeInvalidTimestamp,
	batch.UnsupportedCompression: codeUnsupportedCompressionType,
	batch.ListTooLarge:           codeRecordListTooLarge,
	batch.UnsupportedFormat:      codeInvalidRecord,
}

// codeOf returns the code for an error; nil is NONE.
func codeOf(err error) int16 {
	if err == nil {
		return codeNone
	}
	var coded *codedError
	if errors.As(err, &coded) {
		return coded.code
	}
	var invalid *batch.ValidationError
	if errors.As(err, &invalid) {
		if code, ok := validationCodes[invalid.Kind]; ok {
			return code
		}
	}
	var config *topicconfig.InvalidError
	if errors.As(err, &config) {
		return codeInvalidConfig
	}
	for _, row := range errorCodes {
		if errors.Is(err, row.err) {
			return row.code
		}
	}
	return codeUnknownServerError
}

// codeByTopic is [codeOf] for requests that may name topics by id: a missing topic is then an unknown id.
func codeByTopic(err error, byID bool) int16 {
	code := codeOf(err)
	if byID && (errors.Is(err, partition.ErrDeleted) || errors.Is(err, ErrUnknownTopic)) {
		return codeUnknownTopicID
	}
	if !byID && code == codeUnknownTopicID {
		return codeUnknownTopicOrPartition
	}
	return code
}

// codedError is an error whose code depends on the request more than on the cause.
type codedError struct {
	code int16
	text string
}

func (e *codedError) Error() string { return e.text }

// message is the text that goes with an error code, or nil. If a partition's files fail, a client learns only the kind of
// failure; the server's log names the file for its operators. A full disk and failures of the backend come with texts
// that are meant for clients.
func message(err error) *string {
	if err == nil {
		return nil
	}
	text := err.Error()
	if _, ofFiles := err.(*partition.StorageError); ofFiles && !errors.Is(err, partition.ErrLowDisk) {
		text = "the server's storage failed; its log says how"
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			text = "the disk is full: delete topics or records, or add space"
		}
	}
	return &text
}
