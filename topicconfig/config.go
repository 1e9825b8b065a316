package topicconfig

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// CleanupPolicy says what happens to old records.
type CleanupPolicy uint8

// The policies. The two that do both differ only in their text, which tools compare.
const (
	CleanupNone          CleanupPolicy = 0 // "": keep forever
	CleanupDelete        CleanupPolicy = 1 // "delete"
	CleanupCompact       CleanupPolicy = 2 // "compact"
	CleanupCompactDelete CleanupPolicy = 3 // "compact,delete"
	CleanupDeleteCompact CleanupPolicy = 4 // "delete,compact"
)

// Deletes reports whether old segments are deleted by age and size.
func (p CleanupPolicy) Deletes() bool {
	return p == CleanupDelete || p == CleanupCompactDelete || p == CleanupDeleteCompact
}

// Compacts reports whether older records of a key are removed.
func (p CleanupPolicy) Compacts() bool {
	return p == CleanupCompact || p == CleanupCompactDelete || p == CleanupDeleteCompact
}

// String returns the value of cleanup.policy.
func (p CleanupPolicy) String() string {
	switch p {
	case CleanupDelete:
		return "delete"
	case CleanupCompact:
		return "compact"
	case CleanupCompactDelete:
		return "compact,delete"
	case CleanupDeleteCompact:
		return "delete,compact"
	}
	return ""
}

// Compression is a value of compression.type.
type Compression string

// The values of compression.type. CompressionProducer keeps each batch as its producer compressed it.
const (
	CompressionProducer     Compression = "producer"
	CompressionUncompressed Compression = "uncompressed"
	CompressionGzip         Compression = "gzip"
	CompressionSnappy       Compression = "snappy"
	CompressionLZ4          Compression = "lz4"
	CompressionZstd         Compression = "zstd"
)

// TimestampType is a value of message.timestamp.type.
type TimestampType string

// The values of message.timestamp.type.
const (
	CreateTime    TimestampType = "CreateTime"
	LogAppendTime TimestampType = "LogAppendTime"
)

// FlushMode is a value of tidemark.flush: when an append counts as durable.
type FlushMode string

// The values of tidemark.flush.
const (
	// FlushGroup answers an append after a sync that covers it; appends that arrive meanwhile share the next one.
	FlushGroup FlushMode = "group"
	// FlushOS answers at once and leaves it to the operating system when to write, as Kafka does. A power cut loses what
	// was not written yet.
	FlushOS FlushMode = "os"
	// FlushEvery syncs each append by itself.
	FlushEvery FlushMode = "every"
)

// Config holds the settings of one topic. Times are milliseconds and sizes are bytes. It is a value: a copy is
// independent as long as nobody writes to its slices. The zero Config has every number zero, which is no topic's
// configuration; start from [Default] or [Parse].
type Config struct {
	CleanupPolicy     CleanupPolicy
	DeleteRetentionMs int64 // how long a tombstone or a marker outlives its compaction
	FileDeleteDelayMs int64
	RetentionBytes    int64 // below 0: no limit
	RetentionMs       int64 // -1: no limit

	FlushMessages      int64
	FlushMs            int64
	IndexIntervalBytes int32
	Preallocate        bool
	SegmentBytes       int32
	SegmentIndexBytes  int32
	SegmentJitterMs    int64
	SegmentMs          int64

	CompressionType             Compression
	CompressionGzipLevel        int32 // -1: the codec's own default
	CompressionLZ4Level         int32
	CompressionZstdLevel        int32
	MaxDecompressedMessageBytes int32
	MaxMessageBytes             int32
	MessageTimestampAfterMaxMs  int64
	MessageTimestampBeforeMaxMs int64
	MessageTimestampType        TimestampType

	MaxCompactionLagMs     int64
	MinCleanableDirtyRatio float64
	MinCompactionLagMs     int64

	FollowerReplicationThrottledReplicas []string
	LeaderReplicationThrottledReplicas   []string
	MinInsyncReplicas                    int32
	UncleanLeaderElectionEnable          bool
	ErrorsDeadLetterQueueGroupEnable     bool

	LocalRetentionBytes      int64 // -2 is RetentionBytes
	LocalRetentionMs         int64 // -2 is RetentionMs
	RemoteCopyLagBytes       int64 // -1 is the local retention
	RemoteCopyLagMs          int64 // -1 is the local retention
	RemoteLogCopyDisable     bool
	RemoteLogDeleteOnDisable bool
	RemoteStorageEnable      bool

	Flush FlushMode // tidemark.flush

	overrides map[string]string // never written after the Config was returned
}

// Default returns the configuration of a topic that sets nothing.
func Default() Config {
	var c Config
	for i := range table {
		// A default that does not parse would be a bug in the table; TestEveryDefaultParses rules it out.
		_ = table[i].parse(&c, table[i].Default)
	}
	return c
}

// Parse returns the configuration of a topic that sets the given names, and the defaults for the rest. It keeps no
// reference to overrides. The error is an [*InvalidError] with every violation.
func Parse(overrides map[string]string) (Config, error) { return Default().With(overrides) }

// With returns c with the given names set. What c itself overrides stays in force but counts as a default from then on:
// [Config.Overrides] of the result returns the given names only. So the settings of a server's topics are
// serverDefaults.With(topic's own). It keeps no reference to overrides. The error is an [*InvalidError] with every
// violation.
func (c Config) With(overrides map[string]string) (Config, error) {
	var violations []error
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		text := overrides[name]
		s := find(name)
		if s == nil {
			violations = append(violations, unknownName(name))
			continue
		}
		if err := s.parse(&c, strings.TrimSpace(text)); err != nil {
			violations = append(violations, &ValueError{Name: name, Value: text, Reason: err.Error()})
		}
	}
	if len(violations) == 0 {
		violations = conflicts(&c)
	}
	if len(violations) > 0 {
		return Config{}, &InvalidError{Violations: violations}
	}
	c.overrides = maps.Clone(overrides)
	return c, nil
}

// Overrides returns the settings that the topic sets itself, with their text as it was given. The caller owns the map.
func (c Config) Overrides() map[string]string {
	if c.overrides == nil {
		return map[string]string{}
	}
	return maps.Clone(c.overrides)
}

// Overridden reports whether the topic sets the name itself.
func (c Config) Overridden(name string) bool {
	_, ok := c.overrides[name]
	return ok
}

// Value returns the value in force of the named setting, as Kafka renders it, or "" for a name that does not exist.
func (c Config) Value(name string) string {
	s := find(name)
	if s == nil {
		return ""
	}
	return s.render(&c)
}

// Changed returns the definitions of the settings whose values differ between two configurations, in the order of their
// names. Text that is written differently but means the same is no difference.
func Changed(a, b Config) []Definition {
	var out []Definition
	for i := range table {
		if table[i].render(&a) != table[i].render(&b) {
			out = append(out, table[i].definition())
		}
	}
	return out
}

// Equal reports whether two configurations have the same values in force and the same overrides.
func (c Config) Equal(o Config) bool {
	a, b := c, o
	a.overrides, b.overrides = nil, nil
	return reflect.DeepEqual(a, b) && maps.Equal(c.overrides, o.overrides)
}
