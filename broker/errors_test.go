package broker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/topicconfig"
)

func TestF43_EveryErrorHasItsCode(t *testing.T) {
	_, badConfig := topicconfig.Parse(map[string]string{"no.such": "1"})
	tests := []struct {
		err          error
		byName, byID int16
	}{
		{nil, codeNone, codeNone},
		{&partition.OffsetError{Offset: 5}, codeOffsetOutOfRange, codeOffsetOutOfRange},
		{&partition.StorageError{Topic: "t", Err: errors.New("gone")}, codeKafkaStorageError, codeKafkaStorageError},
		{partition.ErrFenced, codeFencedLeaderEpoch, codeFencedLeaderEpoch},
		{partition.ErrUnknownLeaderEpoch, codeUnknownLeaderEpoch, codeUnknownLeaderEpoch},
		{partition.ErrNotLeader, codeNotLeaderOrFollower, codeNotLeaderOrFollower},
		{partition.ErrClosed, codeNotLeaderOrFollower, codeNotLeaderOrFollower},
		{partition.ErrDeleted, codeUnknownTopicOrPartition, codeUnknownTopicID},
		{partition.ErrOutOfOrderSequence, codeOutOfOrderSequenceNumber, codeOutOfOrderSequenceNumber},
		{partition.ErrInvalidProducerEpoch, codeInvalidProducerEpoch, codeInvalidProducerEpoch},
		{partition.ErrInvalidTxnState, codeInvalidTxnState, codeInvalidTxnState},
		{ErrUnknownTopic, codeUnknownTopicOrPartition, codeUnknownTopicID},
		{ErrUnknownTopicID, codeUnknownTopicOrPartition, codeUnknownTopicID},
		{ErrUnknownPartition, codeUnknownTopicOrPartition, codeUnknownTopicOrPartition},
		{ErrNotLeader, codeNotLeaderOrFollower, codeNotLeaderOrFollower},
		{ErrTopicExists, codeTopicAlreadyExists, codeTopicAlreadyExists},
		{ErrTopicCollides, codeInvalidTopicException, codeInvalidTopicException},
		{badConfig, codeInvalidConfig, codeInvalidConfig},
		{&batch.ValidationError{Kind: batch.Corrupt, Err: errors.New("x")}, codeCorruptMessage, codeCorruptMessage},
		{&batch.ValidationError{Kind: batch.TooLarge, Err: errors.New("x")}, codeMessageTooLarge, codeMessageTooLarge},
		{&batch.ValidationError{Kind: batch.ListTooLarge, Err: errors.New("x")}, codeRecordListTooLarge, codeRecordListTooLarge},
		{&codedError{codePolicyViolation, "no"}, codePolicyViolation, codePolicyViolation},
		{context.DeadlineExceeded, codeRequestTimedOut, codeRequestTimedOut},
		{errFlushTimedOut, codeRequestTimedOut, codeRequestTimedOut},
		{errors.New("nobody knows"), codeUnknownServerError, codeUnknownServerError},
	}
	for _, test := range tests {
		for _, err := range []error{test.err, wrapped(test.err)} {
			require.Equal(t, test.byName, codeByTopic(err, false), "%v", err)
			require.Equal(t, test.byID, codeByTopic(err, true), "%v", err)
		}
	}
}

func TestAClientIsNotToldWhereTheServersFilesAre(t *testing.T) {
	failed := func(cause error) error {
		return &partition.StorageError{Topic: "orders", Doing: "append", Err: &fs.PathError{Op: "write", Path: "/var/lib/tidemark", Err: cause}}
	}
	for want, err := range map[string]error{
		"the disk is full: delete topics or records, or add space": failed(syscall.ENOSPC),
		"the server's storage failed; its log says how":            failed(syscall.EIO),
		"orders-0: append: too little space is left on the disk":   &partition.StorageError{Topic: "orders", Doing: "append", Err: partition.ErrLowDisk},
		"while testing: no such thing":                             wrapped(errors.New("no such thing")),
	} {
		require.Equal(t, want, *message(err))
	}
	require.Nil(t, message(nil))
}

func wrapped(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("while testing: %w", err)
}

func TestEveryKindOfBadBatchHasACode(t *testing.T) {
	for kind := batch.InvalidRecord; kind <= batch.UnsupportedFormat; kind++ {
		require.Contains(t, validationCodes, kind)
	}
}
