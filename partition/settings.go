package partition

import (
	"math"
	"time"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/topicconfig"
)

// flushMode is the topic's tidemark.flush.
type flushMode uint8

const (
	flushGroup flushMode = 1
	flushOS    flushMode = 2
	flushEvery flushMode = 3
)

// settings is what a topic's configuration means for one log. It is never changed; a new configuration is a new value.
type settings struct {
	config        topicconfig.Config
	mode          flushMode
	flushMessages int64 // offsets that may be unsynced under flushOS
	flushMs       int64 // how long they may be; math.MaxInt64: forever
	checks        batch.Rules
}

func newSettings(c topicconfig.Config) *settings {
	s := &settings{config: c, mode: flushGroup, flushMessages: c.FlushMessages, flushMs: c.FlushMs}
	switch c.Flush {
	case topicconfig.FlushOS:
		s.mode = flushOS
	case topicconfig.FlushEvery:
		s.mode = flushEvery
	}
	s.checks = checks(c)
	return s
}

// checks is what the topic requires of a produced batch, apart from the time and the version of the request.
func checks(c topicconfig.Config) batch.Rules {
	r := batch.Rules{
		MaxMessageBytes: int(c.MaxMessageBytes),
		SegmentBytes:    int64(c.SegmentBytes),
		MaxRecordBytes:  int64(c.MaxDecompressedMessageBytes),
		Compacted:       c.CleanupPolicy.Compacts(),
		TimestampType:   batch.CreateTime,
		BeforeMaxMs:     c.MessageTimestampBeforeMaxMs,
		AfterMaxMs:      c.MessageTimestampAfterMaxMs,
	}
	if c.MessageTimestampType == topicconfig.LogAppendTime {
		r.TimestampType = batch.LogAppendTime
	}
	r.Recompress = true
	switch c.CompressionType {
	case topicconfig.CompressionUncompressed:
		r.TargetCodec = batch.None
	case topicconfig.CompressionGzip:
		r.TargetCodec, r.TargetLevel = batch.Gzip, int(c.CompressionGzipLevel)
	case topicconfig.CompressionSnappy:
		r.TargetCodec = batch.Snappy
	case topicconfig.CompressionLZ4:
		r.TargetCodec, r.TargetLevel = batch.LZ4, int(c.CompressionLZ4Level)
	case topicconfig.CompressionZstd:
		r.TargetCodec, r.TargetLevel = batch.Zstd, int(c.CompressionZstdLevel)
	default:
		r.Recompress = false
	}
	return r
}

// rules are the rules for a batch that arrives now.
func (s *settings) rules(now time.Time, produceVersion int16) batch.Rules {
	r := s.checks
	r.NowMs = now.UnixMilli()
	r.ProduceVersion = produceVersion
	if produceVersion < 0 {
		r.ProduceVersion = math.MaxInt16
	}
	return r
}

// flushDelay is flush.ms, if the topic has it and it means anything.
func (s *settings) flushDelay() (time.Duration, bool) {
	if s.mode != flushOS || s.flushMs == math.MaxInt64 {
		return 0, false
	}
	const longest = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(s.flushMs, longest)) * time.Millisecond, true
}

// retains reports whether records may ever be deleted by age or size.
func (s *settings) retains() bool {
	return s.config.CleanupPolicy.Deletes() && (s.config.RetentionMs >= 0 || s.config.RetentionBytes >= 0)
}

// proven is the offset below which everything was synced according to the checkpoints. The high watermark of a log that
// follows the page cache proves nothing.
func (s *settings) proven(o Options) int64 {
	if s.mode == flushOS || o.PageCached {
		return o.RecoveryPoint
	}
	return max(o.RecoveryPoint, o.HighWatermark)
}

// logConfig is the configuration of the log under a [Log]. That one never syncs of its own accord: syncs are the
// flusher's work.
func (s *settings) logConfig(producerExpiry time.Duration) kafkalog.Config {
	c := s.config
	var policy kafkalog.Policy
	if c.CleanupPolicy.Deletes() {
		policy |= kafkalog.PolicyDelete
	}
	if c.CleanupPolicy.Compacts() {
		policy |= kafkalog.PolicyCompact
	}
	k := kafkalog.DefaultConfig()
	k.SegmentBytes = int64(c.SegmentBytes)
	k.SegmentMs = c.SegmentMs
	k.SegmentJitterMs = c.SegmentJitterMs
	k.SegmentIndexBytes = int64(c.SegmentIndexBytes)
	k.IndexIntervalBytes = int64(c.IndexIntervalBytes)
	k.Policy = policy
	k.RetentionMs = c.RetentionMs
	k.RetentionBytes = c.RetentionBytes
	k.FileDeleteDelayMs = c.FileDeleteDelayMs
	k.MaxCompactionLagMs = c.MaxCompactionLagMs
	k.FlushMessages = math.MaxInt64
	k.FlushMs = math.MaxInt64
	k.LogAppendTime = c.MessageTimestampType == topicconfig.LogAppendTime
	k.MaxDecompressedRecord = int64(c.MaxDecompressedMessageBytes)
	k.RemoteStorage = c.RemoteStorageEnable
	k.ProducerExpirationMs = producerExpiry.Milliseconds()
	return k
}
