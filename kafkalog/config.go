package kafkalog

import "math"

// Policy is a set of clean-up policies, Kafka's cleanup.policy. The zero value is the empty policy: only segments below
// the log start are deleted.
type Policy uint8

const (
	// PolicyDelete removes old segments by time and by size.
	PolicyDelete Policy = 1
	// PolicyCompact keeps the last record of each key.
	PolicyCompact Policy = 2
)

// Has reports whether p contains all of q.
func (p Policy) Has(q Policy) bool { return p&q == q }

// Config is what may be changed on a live log with [Log.SetConfig]. Each operation reads one snapshot of it. Names in
// brackets are Kafka's. Times are milliseconds, sizes are bytes.
//
// Start from [DefaultConfig] and change individual fields: unless the whole Config is zero, a zero field means 0, such
// as a retention of 0 ms, or producers that are forgotten when the log is reopened.
type Config struct {
	// SegmentBytes [segment.bytes] is the maximum size of a segment, up to 2^31-1. A single larger batch is accepted,
	// alone in its segment.
	SegmentBytes int64
	// SegmentMs [segment.ms] is the age, in record time, at which an append starts a new segment.
	SegmentMs int64
	// SegmentJitterMs [segment.jitter.ms] spreads rolls by age: up to this much earlier, drawn for each segment.
	SegmentJitterMs int64
	// SegmentIndexBytes [segment.index.bytes] bounds each index file. A full one starts a new segment. At least 24.
	SegmentIndexBytes int64
	// IndexIntervalBytes [index.interval.bytes] is the distance, in the log file, above which a batch gets an index entry.
	IndexIntervalBytes int64

	// Policy [cleanup.policy] selects what retention removes.
	Policy Policy
	// RetentionMs [retention.ms] is the age above which a segment may be deleted; -1 is no limit.
	RetentionMs int64
	// RetentionBytes [retention.bytes] is the size to retain when older segments are deleted; -1 is no limit.
	RetentionBytes int64
	// FileDeleteDelayMs [file.delete.delay.ms] is how long the files of a dropped segment stay on disk. 0 unlinks
	// immediately.
	FileDeleteDelayMs int64
	// MaxCompactionLagMs [max.compaction.lag.ms] bounds SegmentMs on a compacted log, since only sealed segments are
	// compacted.
	MaxCompactionLagMs int64

	// FlushMessages [flush.messages] is how many offsets may be unflushed before an append flushes. With Kafka's
	// default, never.
	FlushMessages int64
	// FlushMs [flush.ms] is how long an append may stay unflushed before the next append or [Log.Maintain] flushes.
	FlushMs int64
	// FlushOnAppend flushes before each append returns.
	FlushOnAppend bool

	// LogAppendTime [message.timestamp.type=LogAppendTime] makes the leader stamp its clock into each batch.
	LogAppendTime bool
	// MaxDecompressedRecord [max.decompressed.message.bytes] bounds the size of one record of a compressed batch that a
	// checked lookup by time or MaxTimestampOffset decodes. 0 is no limit.
	MaxDecompressedRecord int64
	// RemoteStorage [remote.storage.enable] says that an archive may hold offsets below the first local segment, so that
	// the log start is not derived from the files. See [Log.ReportedLogStart].
	RemoteStorage bool
	// StartCheckpointMs [log.flush.start.offset.checkpoint.interval.ms] is how long a log start that retention moved may
	// wait to be written.
	StartCheckpointMs int64
	// ProducerExpirationMs [producer.id.expiration.ms] is the age above which a producer in a snapshot is not loaded.
	ProducerExpirationMs int64
}

// DefaultConfig returns Kafka's defaults: segments of 1 GiB or 7 days, 7 days of retention, no fsync unless asked.
func DefaultConfig() Config {
	return Config{
		SegmentBytes:         1 << 30,
		SegmentMs:            7 * 24 * 3600 * 1000,
		SegmentIndexBytes:    10 << 20,
		IndexIntervalBytes:   4096,
		Policy:               PolicyDelete,
		RetentionMs:          7 * 24 * 3600 * 1000,
		RetentionBytes:       -1,
		FileDeleteDelayMs:    60_000,
		MaxCompactionLagMs:   math.MaxInt64,
		FlushMessages:        math.MaxInt64,
		FlushMs:              math.MaxInt64,
		StartCheckpointMs:    60_000,
		ProducerExpirationMs: 24 * 3600 * 1000,
	}
}

// maxSegmentFile is the largest segment file: positions in the index are int32.
const maxSegmentFile = math.MaxInt32

// normalised returns c with the default for a zero Config and with limits that the format imposes.
func (c Config) normalised() Config {
	if c == (Config{}) {
		c = DefaultConfig()
	}
	if c.SegmentBytes <= 0 || c.SegmentBytes > maxSegmentFile {
		c.SegmentBytes = maxSegmentFile
	}
	c.SegmentIndexBytes = max(c.SegmentIndexBytes, 24)
	return c
}

// offsetEntries and timeEntries are the capacities of the two indexes.
func (c *Config) offsetEntries() int { return int(c.SegmentIndexBytes / 8) }
func (c *Config) timeEntries() int   { return int(c.SegmentIndexBytes / 12) }

// segmentAge is the age in ms at which a segment rolls, before jitter.
func (c *Config) segmentAge() int64 {
	if c.Policy.Has(PolicyCompact) && c.MaxCompactionLagMs > 0 {
		return min(c.SegmentMs, c.MaxCompactionLagMs)
	}
	return c.SegmentMs
}

// flushesOnAppend reports whether an append may have to fsync.
func (c *Config) flushesOnAppend() bool {
	return c.FlushOnAppend || c.FlushMessages != math.MaxInt64 || c.FlushMs != math.MaxInt64
}
