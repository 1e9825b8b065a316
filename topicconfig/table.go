package topicconfig

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	hour = 3_600_000 // ms
	day  = 24 * hour
)

// under names the broker settings that set a setting's default, strongest first, in the same unit.
func (s setting) under(names ...string) setting {
	for _, n := range names {
		s.Synonyms = append(s.Synonyms, Synonym{Name: n, Scale: 1})
	}
	return s
}

// underScaled adds a weaker broker setting of another unit.
func (s setting) underScaled(name string, scale int64) setting {
	s.Synonyms = append(s.Synonyms, Synonym{Name: name, Scale: scale})
	return s
}

// reopens marks a setting that takes effect on an open log only when it is reopened.
func (s setting) reopens() setting {
	s.NeedsReopen = true
	return s
}

func retentionSettings() []setting {
	return []setting{
		cleanupPolicySetting().under("log.cleanup.policy"),
		longSetting("delete.retention.ms", func(c *Config) *int64 { return &c.DeleteRetentionMs }, day, atLeast(0),
			"How long a compacted topic keeps tombstones and transaction markers after compaction has met them, so that a "+
				"reader that started before has time to see them.").
			under("log.cleaner.delete.retention.ms"),
		longSetting("file.delete.delay.ms", func(c *Config) *int64 { return &c.FileDeleteDelayMs }, 60_000, atLeast(0),
			"How long a segment's files stay on disk under the name .deleted before they are removed.").
			under("log.segment.delete.delay.ms"),
		longSetting("retention.bytes", func(c *Config) *int64 { return &c.RetentionBytes }, -1, anyNumber(),
			"The size that one partition may reach before its oldest segments are deleted; -1 is no limit. It counts for "+
				"each partition, not for the topic.").
			under("log.retention.bytes"),
		longSetting("retention.ms", func(c *Config) *int64 { return &c.RetentionMs }, 7*day, atLeast(-1),
			"How long records are kept before their segment may be deleted; -1 is forever.").
			under("log.retention.ms").underScaled("log.retention.minutes", 60_000).underScaled("log.retention.hours", hour),
	}
}

func segmentSettings() []setting {
	return []setting{
		longSetting("flush.messages", func(c *Config) *int64 { return &c.FlushMessages }, math.MaxInt64, atLeast(1),
			"After how many appended records the log is synced to disk, beside what tidemark.flush does.").
			under("log.flush.interval.messages"),
		longSetting("flush.ms", func(c *Config) *int64 { return &c.FlushMs }, math.MaxInt64, atLeast(0),
			"After how long the log is synced to disk, beside what tidemark.flush does.").
			under("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
		intSetting("index.interval.bytes", func(c *Config) *int32 { return &c.IndexIntervalBytes }, 4096, atLeast(0),
			"How many bytes of records lie between two entries of the offset index. Fewer make lookups exact and indexes "+
				"large.").
			under("log.index.interval.bytes"),
		boolSetting("preallocate", func(c *Config) *bool { return &c.Preallocate }, false,
			"Whether disk blocks for a whole segment are reserved when it is started.").
			under("log.preallocate"),
		intSetting("segment.bytes", func(c *Config) *int32 { return &c.SegmentBytes }, 1<<30, atLeast(1<<20),
			"The size at which a new segment is started. Retention and compaction work on whole segments.").
			under("log.segment.bytes"),
		intSetting("segment.index.bytes", func(c *Config) *int32 { return &c.SegmentIndexBytes }, 10<<20, atLeast(4),
			"The size at which an offset or time index is full, which starts a new segment.").
			under("log.index.size.max.bytes"),
		longSetting("segment.jitter.ms", func(c *Config) *int64 { return &c.SegmentJitterMs }, 0, atLeast(0),
			"The largest random part taken off segment.ms, so that many partitions do not start segments together.").
			under("log.roll.jitter.ms").underScaled("log.roll.jitter.hours", hour),
		longSetting("segment.ms", func(c *Config) *int64 { return &c.SegmentMs }, 7*day, atLeast(1),
			"The age at which a new segment is started even when it is not full, so that retention can work.").
			under("log.roll.ms").underScaled("log.roll.hours", hour),
	}
}

func messageSettings() []setting {
	return []setting{
		choiceSetting("compression.type", func(c *Config) *Compression { return &c.CompressionType }, CompressionProducer,
			[]Compression{CompressionUncompressed, CompressionZstd, CompressionLZ4, CompressionSnappy, CompressionGzip,
				CompressionProducer},
			"How batches are compressed when they are stored; producer keeps what the producer chose.").
			under("compression.type"),
		intSetting("compression.gzip.level", func(c *Config) *int32 { return &c.CompressionGzipLevel }, -1,
			betweenOr(1, 9, -1), "The level when compression.type is gzip; -1 is the codec's default.").
			under("compression.gzip.level"),
		intSetting("compression.lz4.level", func(c *Config) *int32 { return &c.CompressionLZ4Level }, 9, between(1, 17),
			"The level when compression.type is lz4.").
			under("compression.lz4.level"),
		intSetting("compression.zstd.level", func(c *Config) *int32 { return &c.CompressionZstdLevel }, 3,
			between(-131072, 22), "The level when compression.type is zstd.").
			under("compression.zstd.level"),
		intSetting("max.decompressed.message.bytes", func(c *Config) *int32 { return &c.MaxDecompressedMessageBytes },
			math.MaxInt32-8, between(1, math.MaxInt32-8),
			"The largest size of one record of a compressed batch after decompression. A batch with a larger one is "+
				"refused. Lowering it below what is stored stops compaction and timestamp lookups there.").
			under("max.decompressed.message.bytes"),
		intSetting("max.message.bytes", func(c *Config) *int32 { return &c.MaxMessageBytes }, 1<<20+12, atLeast(0),
			"The largest batch that the topic accepts, in bytes after compression.").
			under("message.max.bytes"),
		longSetting("message.timestamp.after.max.ms", func(c *Config) *int64 { return &c.MessageTimestampAfterMaxMs },
			hour, atLeast(0),
			"How far a record's timestamp may lie after the broker's clock, with message.timestamp.type=CreateTime.").
			under("log.message.timestamp.after.max.ms"),
		longSetting("message.timestamp.before.max.ms", func(c *Config) *int64 { return &c.MessageTimestampBeforeMaxMs },
			math.MaxInt64, atLeast(0),
			"How far a record's timestamp may lie before the broker's clock, with message.timestamp.type=CreateTime.").
			under("log.message.timestamp.before.max.ms"),
		choiceSetting("message.timestamp.type", func(c *Config) *TimestampType { return &c.MessageTimestampType },
			CreateTime, []TimestampType{CreateTime, LogAppendTime},
			"Whether a record carries the time that its producer gave it or the time at which it was appended.").
			under("log.message.timestamp.type"),
	}
}

func compactionSettings() []setting {
	return []setting{
		longSetting("max.compaction.lag.ms", func(c *Config) *int64 { return &c.MaxCompactionLagMs }, math.MaxInt64,
			atLeast(1), "The longest that a record of a compacted topic stays out of reach of compaction.").
			under("log.cleaner.max.compaction.lag.ms"),
		ratioSetting("min.cleanable.dirty.ratio", func(c *Config) *float64 { return &c.MinCleanableDirtyRatio }, 0.5,
			"The share of a log that must not have been compacted yet before a compaction is worth it.").
			under("log.cleaner.min.cleanable.ratio"),
		longSetting("min.compaction.lag.ms", func(c *Config) *int64 { return &c.MinCompactionLagMs }, 0, atLeast(0),
			"The shortest that a record stays out of reach of compaction.").
			under("log.cleaner.min.compaction.lag.ms"),
	}
}

func replicationSettings() []setting {
	return []setting{
		boolSetting("errors.deadletterqueue.group.enable",
			func(c *Config) *bool { return &c.ErrorsDeadLetterQueueGroupEnable }, false,
			"Whether share groups may write the records they gave up on to this topic."),
		replicasSetting("follower.replication.throttled.replicas",
			func(c *Config) *[]string { return &c.FollowerReplicationThrottledReplicas },
			"The replicas whose replication is throttled on the follower's side, as partition:broker pairs, or *."),
		replicasSetting("leader.replication.throttled.replicas",
			func(c *Config) *[]string { return &c.LeaderReplicationThrottledReplicas },
			"The replicas whose replication is throttled on the leader's side, as partition:broker pairs, or *."),
		intSetting("min.insync.replicas", func(c *Config) *int32 { return &c.MinInsyncReplicas }, 1, atLeast(1),
			"How many replicas must have a batch before acks=all is answered.").
			under("min.insync.replicas"),
		boolSetting("unclean.leader.election.enable", func(c *Config) *bool { return &c.UncleanLeaderElectionEnable },
			false, "Whether a replica that is not in sync may lead when no other can, which loses records.").
			under("unclean.leader.election.enable"),
	}
}

func remoteSettings() []setting {
	return []setting{
		longSetting("local.retention.bytes", func(c *Config) *int64 { return &c.LocalRetentionBytes }, -2, atLeast(-2),
			"With remote.storage.enable, the size that a partition may keep on local disk; -2 is retention.bytes.").
			under("log.local.retention.bytes"),
		longSetting("local.retention.ms", func(c *Config) *int64 { return &c.LocalRetentionMs }, -2, atLeast(-2),
			"With remote.storage.enable, how long records stay on local disk; -2 is retention.ms.").
			under("log.local.retention.ms"),
		longSetting("remote.copy.lag.bytes", func(c *Config) *int64 { return &c.RemoteCopyLagBytes }, -1, atLeast(-1),
			"How many bytes may wait before a sealed segment is copied to the remote store; -1 is the local retention.").
			under("log.remote.copy.lag.bytes"),
		longSetting("remote.copy.lag.ms", func(c *Config) *int64 { return &c.RemoteCopyLagMs }, 0, atLeast(-1),
			"How long a sealed segment may wait before it is copied to the remote store; -1 is the local retention.").
			under("log.remote.copy.lag.ms"),
		boolSetting("remote.log.copy.disable", func(c *Config) *bool { return &c.RemoteLogCopyDisable }, false,
			"With remote.storage.enable, stops copying segments while what was copied stays readable."),
		boolSetting("remote.log.delete.on.disable", func(c *Config) *bool { return &c.RemoteLogDeleteOnDisable }, false,
			"Whether turning remote.storage.enable off deletes what was copied."),
		boolSetting("remote.storage.enable", func(c *Config) *bool { return &c.RemoteStorageEnable }, false,
			"Whether sealed segments are copied to the object store and read back from there.").reopens(),
	}
}

func tidemarkSettings() []setting {
	return []setting{
		choiceSetting("tidemark.flush", func(c *Config) *FlushMode { return &c.Flush }, FlushGroup,
			[]FlushMode{FlushGroup, FlushOS, FlushEvery},
			"When an append is durable and answered: group syncs once for all that wait, every syncs each append alone, os "+
				"leaves it to the operating system as Kafka does, and a power cut may then lose acknowledged records.").
			under("tidemark.flush"),
	}
}

// cleanupPolicySetting is a LIST of at most two words. A word given twice counts once, as in Kafka.
func cleanupPolicySetting() setting {
	return setting{
		Definition: Definition{Name: "cleanup.policy", Type: List, Default: "delete", Range: "[compact, delete]",
			Doc: "What becomes of old records: delete removes segments by age and size, compact keeps the newest record of " +
				"each key, both may be given, and the empty list keeps everything."},
		parse: func(c *Config, text string) error {
			p := CleanupNone
			for _, word := range splitList(text) {
				switch {
				case word == "delete" && p == CleanupNone:
					p = CleanupDelete
				case word == "compact" && p == CleanupNone:
					p = CleanupCompact
				case word == "delete" && p == CleanupCompact:
					p = CleanupCompactDelete
				case word == "compact" && p == CleanupDelete:
					p = CleanupDeleteCompact
				case word != "delete" && word != "compact":
					return fmt.Errorf("string must be one of: compact, delete")
				}
			}
			c.CleanupPolicy = p
			return nil
		},
		render: func(c *Config) string { return c.CleanupPolicy.String() },
	}
}

// replicasSetting is a LIST of partition:broker pairs, or the one word *.
func replicasSetting(name string, field func(*Config) *[]string, doc string) setting {
	return setting{
		Definition: Definition{Name: name, Type: List, Default: "",
			Range: "[partitionId]:[brokerId],[partitionId]:[brokerId],...", Doc: doc},
		parse: func(c *Config, text string) error {
			items := splitList(text)
			if !slices.Equal(items, []string{"*"}) && !everyItem(items, isReplica) {
				return fmt.Errorf("must be the literal '*' or a comma-separated list of replicas, each [partitionId]:[brokerId]")
			}
			*field(c) = items
			return nil
		},
		render: func(c *Config) string { return strings.Join(*field(c), ",") },
	}
}

func everyItem(items []string, ok func(string) bool) bool {
	return !slices.ContainsFunc(items, func(s string) bool { return !ok(s) })
}

func isReplica(item string) bool {
	partition, broker, ok := strings.Cut(item, ":")
	return ok && isNumber(partition) && isNumber(broker)
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 31)
	return err == nil
}
