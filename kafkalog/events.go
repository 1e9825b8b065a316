package kafkalog

import "time"

// Events receives what happens in the logs of an [Env]. Every field may be nil. A callback may run under a log's lock
// and on the goroutine of an append: it must return quickly and must not call the log. Nothing in the package depends on
// an event being observed.
type Events struct {
	// PartialBatch reports that recovery cut off a torn or corrupt tail, or what followed records that were lost.
	PartialBatch func(PartialBatchEvent)
	// DamagedBatch reports that recovery found damage in flushed data and left it in place.
	DamagedBatch func(DamagedBatchEvent)
	// Split reports that Open split a segment whose offsets did not fit its indexes.
	Split func(SplitEvent)
	// SetAside reports that Open found a damaged file, kept a copy of it and rebuilt it.
	SetAside func(SetAsideEvent)
	// DamagedIndex reports, once for each index file of an opened log, that it cannot be used: reads work without it,
	// more slowly.
	DamagedIndex func(DamagedIndexEvent)
	// LogEndBehind reports that a log ends below the recovery point or the high watermark it was opened with, as when
	// its files were removed.
	LogEndBehind func(LogEndBehindEvent)
	// Rolled reports that a new active segment was started.
	Rolled func(RolledEvent)
	// RollFlushed reports that the background flush of a sealed segment has finished.
	RollFlushed func(RollFlushedEvent)
	// Retired reports that a segment was removed from the log.
	Retired func(RetiredEvent)
	// FutureTimestamp reports that time retention keeps a segment because a record's timestamp lies in the future.
	FutureTimestamp func(FutureTimestampEvent)
	// Failed reports, once for each opened log, that the log refuses appends from now on.
	Failed func(FailedEvent)
	// CloseFailed reports an error while closing that Close does not return, since the next Open repairs it.
	CloseFailed func(FailedEvent)
}

// PartialBatchEvent describes a cut in recovery.
type PartialBatchEvent struct {
	File     string // the segment's file
	Position int64  // where the file was cut, in bytes
	Cut      int64  // bytes that were cut off; 0 if the file ends there and only later segments were removed
	Offset   int64  // the log end after the cut
	Reason   error  // why the batch at Position was refused

	// LostBatches is the number of whole batches with valid checksums that were lost with the cut, in this file and in
	// later segments. After a power cut they are what the disk wrote ahead of a batch that it lost, and none of them
	// was acknowledged. Otherwise they are records lost to damage before them.
	LostBatches int
	LostBytes   int64 // of these
	LostOffsets int64 // that these held
}

// DamagedBatchEvent describes damage in flushed data. It is left in place, and reads report it.
type DamagedBatchEvent struct {
	File     string
	Position int64
	Offset   int64 // base offset of the batch
	Err      error
}

// SplitEvent describes the split of a segment.
type SplitEvent struct {
	Dir   string
	Base  int64   // of the segment, and of the first that replaced it
	Bases []int64 // of the others
	Bytes int64   // of all of them
}

// SetAsideEvent describes a damaged file that was rebuilt.
type SetAsideEvent struct {
	File   string
	Kept   string // where a copy of the damaged file is kept
	Reason error  // what is wrong with it
}

// DamagedIndexEvent describes an index file that cannot be used.
type DamagedIndexEvent struct {
	File string
	Err  error
}

// LogEndBehindEvent describes a log that ends below the offset reported as flushed, or as visible.
type LogEndBehindEvent struct {
	Dir           string
	LogEnd        int64
	RecoveryPoint int64 // offset reported as flushed
	HighWatermark int64 // offset reported as visible
}

// RolledEvent describes a roll.
type RolledEvent struct {
	Dir    string
	Sealed int64 // base of the segment that was sealed
	Base   int64 // base of the new active segment
}

// RollFlushedEvent describes the background flush after a roll.
type RollFlushedEvent struct {
	Dir  string
	Base int64 // everything below it is durable if Err is nil
	Took time.Duration
	Err  error // also when it is retried later; Failed reports what is final
}

// RetiredEvent describes a segment that was removed from the log.
type RetiredEvent struct {
	Dir    string
	Base   int64
	Bytes  int64
	Reason string // "start", "size", "time", "truncate" or "reset"
}

// FutureTimestampEvent names a segment that time retention cannot age.
type FutureTimestampEvent struct {
	Dir       string
	Base      int64
	Timestamp int64 // ms
	Now       int64 // ms
}

// FailedEvent describes a log that no longer accepts appends.
type FailedEvent struct {
	Dir string
	Err error
}

// withDefaults returns e with empty functions for nil ones.
func (e Events) withDefaults() Events {
	if e.PartialBatch == nil {
		e.PartialBatch = func(PartialBatchEvent) {}
	}
	if e.DamagedBatch == nil {
		e.DamagedBatch = func(DamagedBatchEvent) {}
	}
	if e.Split == nil {
		e.Split = func(SplitEvent) {}
	}
	if e.SetAside == nil {
		e.SetAside = func(SetAsideEvent) {}
	}
	if e.DamagedIndex == nil {
		e.DamagedIndex = func(DamagedIndexEvent) {}
	}
	if e.LogEndBehind == nil {
		e.LogEndBehind = func(LogEndBehindEvent) {}
	}
	if e.Rolled == nil {
		e.Rolled = func(RolledEvent) {}
	}
	if e.RollFlushed == nil {
		e.RollFlushed = func(RollFlushedEvent) {}
	}
	if e.Retired == nil {
		e.Retired = func(RetiredEvent) {}
	}
	if e.FutureTimestamp == nil {
		e.FutureTimestamp = func(FutureTimestampEvent) {}
	}
	if e.Failed == nil {
		e.Failed = func(FailedEvent) {}
	}
	if e.CloseFailed == nil {
		e.CloseFailed = func(FailedEvent) {}
	}
	return e
}
