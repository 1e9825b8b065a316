package kafkalog

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
)

func TestEveryErrorIsOfItsClassAndOfNoOther(t *testing.T) {
	classes := []error{
		ErrStorage, ErrOffsetOutOfRange, ErrOffsetMismatch, ErrInvalidArgument, ErrInvalidBatch,
		ErrFenced, ErrClosed, ErrOutOfOrderSequence, ErrInvalidProducerEpoch, ErrInvalidTransactionState, ErrCoordinatorFenced,
	}
	for _, test := range []struct {
		err   error
		class error
		text  string
	}{
		{&IOError{Op: "write", Path: "a/0.log", Err: io.ErrShortWrite}, ErrStorage, "kafkalog: write a/0.log: short write"},
		{&ReadError{Path: "a/0.log", Position: 61, Err: io.ErrNoProgress}, ErrStorage,
			"kafkalog: read a/0.log at position 61: multiple Read calls return no data or error"},
		{&CorruptionError{Path: "a/0.index", Position: 16, Reason: "an offset that does not rise"}, ErrStorage,
			"kafkalog: a/0.index is corrupt at position 16: an offset that does not rise"},
		{&CorruptionError{Path: "a/0.snapshot", Position: 2, Want: "01", Got: "02", Reason: "checksum"}, ErrStorage,
			"kafkalog: a/0.snapshot is corrupt at position 2: checksum: want 01, got 02"},
		{&ChecksumError{Path: "a/0.log", Position: 61, Want: 0x19d112bb, Got: 1}, ErrStorage,
			"kafkalog: a/0.log: batch at position 61 has checksum 19d112bb, its bytes have 00000001"},
		{&UnsupportedVersionError{Artifact: "producer snapshot", Path: "a/0.snapshot", Found: 2, Supported: 1}, ErrStorage,
			"kafkalog: producer snapshot a/0.snapshot has version 2 at position 0, this program reads version 1"},
		{&SegmentNameError{Name: "x.log"}, ErrStorage, `kafkalog: "x.log" is not the name of a segment, and what is in it may be records: move the file out of the directory`},
		{&IndexFullError{Path: "a/0.index", Entries: 3}, ErrStorage, "kafkalog: a/0.index is full with 3 entries"},
		{&BatchError{Offset: 7, Err: io.ErrUnexpectedEOF}, ErrInvalidBatch, "kafkalog: batch at offset 7: unexpected EOF"},
		{&OffsetTooLowError{Requested: 3, LogStart: 5}, ErrOffsetOutOfRange, "kafkalog: offset 3 is below the log start 5"},
		{&OffsetBelowLocalStartError{Requested: 3, LocalStart: 5}, ErrOffsetOutOfRange,
			"kafkalog: offset 3 is below the local log start 5"},
		{&OffsetMismatchError{Expected: 9, Actual: 5}, ErrOffsetMismatch, "kafkalog: append at offset 5, expected 9 or above"},
		{&ArgumentError{Argument: "offset", Value: -1, Reason: "is negative"}, ErrInvalidArgument,
			"kafkalog: offset -1: is negative"},
		{&OutOfOrderSequenceError{ProducerID: 1, ProducerEpoch: 2, FirstSequence: 9, CurrentEpoch: 2, LastSequence: 4},
			ErrOutOfOrderSequence, "kafkalog: producer 1: sequence 9 of epoch 2 does not follow sequence 4 of epoch 2"},
		{&ProducerEpochError{ProducerID: 1, ProducerEpoch: 2, CurrentEpoch: 3}, ErrInvalidProducerEpoch,
			"kafkalog: producer 1: epoch 2 is refused, the last one is 3"},
		{&TransactionStateError{ProducerID: 1, FirstOffset: 8}, ErrInvalidTransactionState,
			"kafkalog: producer 1: batch outside the transaction that is open since offset 8"},
		{&CoordinatorEpochError{ProducerID: 1, CoordinatorEpoch: 2, CurrentEpoch: 3}, ErrCoordinatorFenced,
			"kafkalog: producer 1: marker of coordinator epoch 2 is refused, the last one is 3"},
	} {
		require.EqualError(t, test.err, test.text)
		for _, class := range classes {
			require.Equal(t, class == test.class, errors.Is(test.err, class), "%T is %v", test.err, class)
		}
	}
}

func TestErrorsUnwrapToTheirCause(t *testing.T) {
	require.ErrorIs(t, &IOError{Op: "sync", Path: "x", Err: errInjected}, errInjected)

	cause := &batch.ControlSizeError{Part: "key", Needed: 4, Found: 1}
	var size *batch.ControlSizeError
	require.ErrorAs(t, &BatchError{Offset: 1, Err: cause}, &size)
	require.Equal(t, cause, size)
}
