package kafkalog

import "time"

// Events receives what happens in the logs of an [Env]. Every field may be nil. A callback may run under a log's lock
// and on the goroutine of an append: it must return quickly and must not call the log. Nothing in the package depends on
// an event being observed.
type Events struct {
	// PartialBatch tells that recovery cut a torn or corrupt tail, or what stood behind records that were lost.
	PartialBatch func(PartialBatchEvent)
	// DamagedBatch tells that recovery found damage in what was flushed and kept it.
	DamagedBatch func(DamagedBatchEvent)
	// Split tells that Open split a segment whose offsets did not fit its indexes.
	Split func(SplitEvent)
	// SetAside tells that Open found a damaged file, kept a copy of it and made it again.
	SetAside func(SetAsideEvent)
	// DamagedIndex tells, once for each index file of an opened log, that it cannot be used: reads find their way without it,
	// more slowly.
	DamagedIndex func(DamagedIndexEvent)
	// LogEndBehind tells that a log ends below the recovery point or the high watermark it was opened with, as when its
	// files were removed.
	LogEndBehind func(LogEndBehindEvent)
	// Rolled tells that a new active segment was started.
	Rolled func(RolledEvent)
	// RollFlushed tells that the background flush of a sealed segment ended.
	RollFlushed func(RollFlushedEvent)
	// Retired tells that a segment left the log.
	Retired func(RetiredEvent)
	// FutureTimestamp tells that time retention keeps a segment because a record's timestamp lies in the future.
	FutureTimestamp func(FutureTimestampEvent)
	// Failed tells, once for each opened log, that the log refuses appends from now on.
	Failed func(FailedEvent)
	// CloseFailed tells of an error while closing that Close does not return, since the next Open repairs it.
	CloseFailed func(FailedEvent)
}

// PartialBatchEvent describes a cut in recovery.
type PartialBatchEvent struct {
	File     string // the segment's file
	Position int64  // where it was cut, in bytes
	Cut      int64  // bytes that were cut off; 0 if the file ends there and only later segments were removed
	Offset   int64  // the log end after the cut
	Reason   error  // why the batch at Position was refused

	// LostBatches are the whole batches, with right checksums, that went with the cut, in this file and in later segments.
	// After a power cut they are what the disk wrote ahead of a batch that it lost, and nobody was promised them. Without
	// one they are records that damage before them has cost.
	LostBatches int
	LostBytes   int64 // of these
	LostOffsets int64 // that these held
}

// DamagedBatchEvent describes damage in flushed data, which stays where it is and which reads report.
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

// SetAsideEvent describes a damaged file that was made again.
type SetAsideEvent struct {
	File   string
	Kept   string // where a copy of what it was is kept
	Reason error  // what is wrong with it
}

// DamagedIndexEvent describes an index file that cannot be used.
type DamagedIndexEvent struct {
	File string
	Err  error
}

// LogEndBehindEvent describes a log that is shorter than what was said to be flushed, or to be visible.
type LogEndBehindEvent struct {
	Dir           string
	LogEnd        int64
	RecoveryPoint int64 // what was said to be flushed
	HighWatermark int64 // what was said to be visible
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
	Err  error // also when it is tried again later; Failed tells what is final
}

// RetiredEvent describes a segment that left the log.
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

// FailedEvent describes a log that stopped taking appends.
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
