package observe

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-io/tidemark/kafkalog"
)

// kafkaLogMetrics are the metrics of the logs on local disk.
type kafkaLogMetrics struct {
	cut, damaged, behind, aside, indexes, rolled, future, failed, closeFailed prometheus.Counter

	retired, retiredBytes *prometheus.CounterVec // by reason
	rollFlush             prometheus.Histogram
}

func newKafkaLogMetrics(registry prometheus.Registerer) kafkaLogMetrics {
	f := factory{registry, "kafkalog"}
	return kafkaLogMetrics{
		cut:          f.counter("recovery_cut_bytes_total", "Bytes that recovery cut off the ends of logs after a crash."),
		damaged:      f.counter("damaged_batches_total", "Damaged batches found in what was flushed. They are kept, and reads of them fail."),
		behind:       f.counter("logs_behind_total", "Logs that a start found shorter than what was known to be on disk."),
		aside:        f.counter("files_set_aside_total", "Damaged files other than record files that a start kept in the quarantine and rebuilt."),
		indexes:      f.counter("damaged_indexes_total", "Damaged index files found. Reads continue without them, more slowly."),
		rolled:       f.counter("segments_rolled_total", "Segments that were sealed because the next one began."),
		retired:      f.counters("segments_retired_total", "Segments that left their log, by reason.", "reason"),
		retiredBytes: f.counters("segments_retired_bytes_total", "Bytes of the segments that left their log, by reason.", "reason"),
		rollFlush:    f.histogram("roll_flush_duration_seconds", "Time to make a sealed segment durable in the background.", syncBuckets),
		future:       f.counter("future_timestamps_total", "Times that retention by age kept a segment because a record's timestamp is in the future, over all partitions. tidemark_partition_future_timestamps_total and the server's log name them."),
		failed:       f.counter("logs_failed_total", "Logs that stopped accepting appends because their disk failed."),
		closeFailed:  f.counter("close_failures_total", "Logs that could not be closed cleanly; the next start repairs them."),
	}
}

// KafkaLogs observes the logs on local disk. What is told of a partition by its name goes to topics.
func KafkaLogs(registry prometheus.Registerer, log *slog.Logger, topics *Topics) kafkalog.Events {
	m := newKafkaLogMetrics(registry)
	return kafkalog.Events{
		PartialBatch: func(e kafkalog.PartialBatchEvent) {
			m.cut.Add(float64(e.Cut))
			logCut(log, e)
		},
		DamagedBatch: func(e kafkalog.DamagedBatchEvent) {
			m.damaged.Inc()
			log.Error("a flushed batch is damaged; it is kept, and reads of it fail", "file", e.File,
				"position", e.Position, "offset", e.Offset, "error", e.Err)
		},
		Split: func(e kafkalog.SplitEvent) {
			log.Warn("a segment whose offsets did not fit its indexes was split", "dir", e.Dir, "base", e.Base,
				"new_bases", e.Bases, "bytes", e.Bytes)
		},
		SetAside: func(e kafkalog.SetAsideEvent) {
			m.aside.Inc()
			log.Error("a damaged file was kept aside and rebuilt", "file", e.File, "kept", e.Kept, "reason", e.Reason)
		},
		DamagedIndex: func(e kafkalog.DamagedIndexEvent) {
			m.indexes.Inc()
			log.Error("an index file is damaged: reads continue without it, more slowly; 'tidemark log repair' rebuilds it",
				"file", e.File, "error", e.Err)
		},
		LogEndBehind: func(e kafkalog.LogEndBehindEvent) {
			m.behind.Inc()
			log.Error("a log is shorter than what was flushed or visible", "dir", e.Dir, "log_end", e.LogEnd,
				"recovery_point", e.RecoveryPoint, "high_watermark", e.HighWatermark)
		},
		Rolled: func(e kafkalog.RolledEvent) {
			m.rolled.Inc()
			log.Debug("new segment", "dir", e.Dir, "base", e.Base, "sealed", e.Sealed)
		},
		RollFlushed: func(e kafkalog.RollFlushedEvent) {
			m.rollFlush.Observe(e.Took.Seconds())
			if e.Err != nil {
				log.Error("a sealed segment could not be made durable", "dir", e.Dir, "base", e.Base, "error", e.Err)
			}
		},
		Retired: func(e kafkalog.RetiredEvent) {
			m.retired.WithLabelValues(e.Reason).Inc()
			m.retiredBytes.WithLabelValues(e.Reason).Add(float64(e.Bytes))
			log.Info("segment left its log", "dir", e.Dir, "base", e.Base, "bytes", e.Bytes, "reason", e.Reason)
		},
		FutureTimestamp: func(e kafkalog.FutureTimestampEvent) {
			m.future.Inc()
			topics.ahead.add(e.Dir)
			log.Warn("retention by age keeps a segment because a record's timestamp is in the future", "dir", e.Dir,
				"base", e.Base, "timestamp_ms", e.Timestamp, "now_ms", e.Now)
		},
		Failed: func(e kafkalog.FailedEvent) {
			m.failed.Inc()
			log.Error("a log accepts no more appends until the server is restarted", "dir", e.Dir, "error", e.Err)
		},
		CloseFailed: func(e kafkalog.FailedEvent) {
			m.closeFailed.Inc()
			log.Warn("a log was not closed cleanly; the next start repairs it", "dir", e.Dir, "error", e.Err)
		},
	}
}

// logCut logs that recovery cut the end of a log: usually the torn end of a write, at worst whole batches.
func logCut(log *slog.Logger, e kafkalog.PartialBatchEvent) {
	if e.LostBatches > 0 {
		log.Error("recovery cut a log at a bad batch, and whole batches after it are gone", "file", e.File,
			"position", e.Position, "cut_bytes", e.Cut, "log_end", e.Offset, "reason", e.Reason,
			"lost_batches", e.LostBatches, "lost_bytes", e.LostBytes, "lost_offsets", e.LostOffsets)
		return
	}
	log.Warn("recovery cut the torn end of a log", "file", e.File, "position", e.Position, "cut_bytes", e.Cut,
		"log_end", e.Offset, "reason", e.Reason)
}
