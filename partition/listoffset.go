package partition

import (
	"fmt"

	"github.com/tidemark-io/tidemark/kafkalog"
)

// What [Log.ListOffset] takes in place of a time, with Kafka's numbers.
const (
	Latest                int64 = -1 // end of what the isolation shows
	Earliest              int64 = -2 // log start
	MaxTimestamp          int64 = -3 // the record with the largest timestamp
	EarliestLocal         int64 = -4 // first offset on local disk
	LatestTiered          int64 = -5 // last offset in the object store: none here
	EarliestPendingUpload int64 = -6 // first offset still to be copied to the object store: none here
)

// ListedOffset is the result of [Log.ListOffset]. Values that are unknown or do not exist are -1.
type ListedOffset struct {
	Offset      int64
	Timestamp   int64 // of the record at Offset, in ms since 1970; -1 for an offset that was requested by name
	LeaderEpoch int32 // of the record at Offset
}

// noOffset is the answer when no record fits.
var noOffset = ListedOffset{Offset: -1, Timestamp: -1, LeaderEpoch: -1}

// ListOffset finds the first record whose timestamp is ts or later, or one of the named offsets. A record that iso does not
// show is not found, whatever its timestamp. It reads the disk. Errors: [ErrInvalidArgument] for a negative ts without a
// meaning, [ErrStorage], [ErrClosed], [ErrDeleted].
func (l *Log) ListOffset(ts int64, iso Isolation) (ListedOffset, error) {
	if err := l.unreadable(); err != nil {
		return noOffset, err
	}
	o := l.Offsets()
	switch ts {
	case Latest:
		return ListedOffset{Offset: o.bound(iso), Timestamp: -1, LeaderEpoch: o.LeaderEpoch}, nil
	case Earliest:
		return l.named(o.LogStart), nil
	case EarliestLocal:
		return l.named(l.store.LocalLogStart()), nil
	case LatestTiered, EarliestPendingUpload:
		return noOffset, nil
	}
	if ts < 0 && ts != MaxTimestamp {
		return noOffset, fmt.Errorf("%w: timestamp %d", ErrInvalidArgument, ts)
	}
	found, ok, err := l.find(ts)
	if err != nil {
		return noOffset, l.readError(-1, err)
	}
	if !ok || found.Offset >= o.bound(iso) {
		return noOffset, nil
	}
	listed := l.named(found.Offset)
	listed.Timestamp = found.Timestamp
	return listed, nil
}

func (l *Log) find(ts int64) (kafkalog.TimestampOffset, bool, error) {
	if ts == MaxTimestamp {
		return l.store.MaxTimestampOffset()
	}
	return l.store.OffsetForTimestampChecked(ts)
}

// named is an offset with the leader epoch that its record has, if one is known.
func (l *Log) named(offset int64) ListedOffset {
	listed := ListedOffset{Offset: offset, Timestamp: -1, LeaderEpoch: -1}
	if epoch, ok := l.store.EpochForOffset(offset); ok {
		listed.LeaderEpoch = epoch
	}
	return listed
}

// CheckLeaderEpoch compares the leader epoch that a client knows with the log's. -1 is no epoch and always matches.
// Errors: [ErrFenced] when the client's is older, [ErrUnknownLeaderEpoch] when it is newer.
func (l *Log) CheckLeaderEpoch(epoch int32) error {
	switch current := l.epoch.Load(); {
	case epoch < 0 || epoch == current:
		return nil
	case epoch < current:
		return ErrFenced
	default:
		return ErrUnknownLeaderEpoch
	}
}

// EndOffsetForEpoch returns the largest leader epoch that is at most requested, and the offset at which it ended; -1
// and -1 if there is no such epoch.
func (l *Log) EndOffsetForEpoch(requested int32) (epoch int32, end int64) {
	return l.store.EndOffsetForEpoch(requested)
}

// DeleteRecords makes the given offset the log start; -1 stands for the high watermark. Records below it can no longer
// be read, and files that hold only such records are deleted some time later. It returns the log start, which is
// already higher when the offset is below it. When it returns, the new start survives a power cut. Errors:
// [ErrOffsetOutOfRange] below -1 and above the high watermark, [ErrPolicy] on a topic that is only compacted,
// [ErrStorage], [ErrClosed], [ErrDeleted], [ErrNotLeader].
func (l *Log) DeleteRecords(offset int64) (int64, error) {
	if err := l.ended(); err != nil {
		return -1, err
	}
	if p := l.settings.Load().config.CleanupPolicy; p.Compacts() && !p.Deletes() {
		return -1, ErrPolicy
	}
	return l.Trim(offset)
}

// Trim is [Log.DeleteRecords] for the topic's owner: the cleanup policy does not forbid it.
func (l *Log) Trim(offset int64) (int64, error) {
	if err := l.ended(); err != nil {
		return -1, err
	}
	o := l.Offsets()
	if offset == -1 {
		offset = o.HighWatermark
	}
	if offset < 0 || offset > o.HighWatermark {
		return -1, &OffsetError{Offset: offset, Start: 0, End: o.HighWatermark}
	}
	start, err := l.store.TrimTo(offset)
	if err == nil || start > o.LogStart { // on a full disk it may have moved, and not so far
		l.scheduleUpkeep()
		l.moved()
	}
	if err != nil {
		return -1, l.storageError("delete records", err, false)
	}
	return start, nil
}
