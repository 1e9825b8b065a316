package observe

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-io/tidemark/kafkalog"
)

// KafkaLogs observes the logs on local disk.
func KafkaLogs(registry prometheus.Registerer, log *slog.Logger) kafkalog.Events {
	f := factory{registry, "kafkalog"}
	var (
		cut         = f.counter("recovery_cut_bytes_total", "Bytes that recovery cut off the ends of logs after a crash.")
		damaged     = f.counter("damaged_batches_total", "Batches found damaged in what was flushed. They are kept and reads of them fail.")
		behind      = f.counter("logs_behind_total", "Logs found shorter at start than what was known to be on disk.")
		aside       = f.counter("files_set_aside_total", "Damaged files beside records that a start kept in the quarantine and made again.")
		indexes     = f.counter("damaged_indexes_total", "Index files found damaged. Reads go on without them, more slowly.")
		rolled      = f.counter("segments_rolled_total", "Segments that were sealed because the next one began.")
		retired     = f.counters("segments_retired_total", "Segments that left their log, by reason.", "reason")
		retiredLen  = f.counters("segments_retired_bytes_total", "Bytes of the segments that left their log, by reason.", "reason")
		rollFlush   = f.histogram("roll_flush_duration_seconds", "Time to make a sealed segment durable in the background.", syncBuckets)
		future      = f.counter("future_timestamps_total", "Times that retention by age kept a segment because a record's timestamp is in the future. The log names it.")
		failed      = f.counter("logs_failed_total", "Logs that stopped taking appends because their disk failed.")
		closeFailed = f.counter("close_failures_total", "Logs that could not be closed in order; the next start repairs them.")
	)
	return kafkalog.Events{
		PartialBatch: func(e kafkalog.PartialBatchEvent) {
			cut.Add(float64(e.Cut))
			if e.LostBatches > 0 {
				log.Error("recovery cut a log at a bad batch, and whole batches behind it are gone", "file", e.File,
					"position", e.Position, "cut_bytes", e.Cut, "log_end", e.Offset, "reason", e.Reason,
					"lost_batches", e.LostBatches, "lost_bytes", e.LostBytes, "lost_offsets", e.LostOffsets)
				return
			}
			log.Warn("recovery cut the torn end of a log", "file", e.File, "position", e.Position, "cut_bytes", e.Cut,
				"log_end", e.Offset, "reason", e.Reason)
		},
		DamagedBatch: func(e kafkalog.DamagedBatchEvent) {
			damaged.Inc()
			log.Error("a batch that was flushed is damaged; it is kept, and reads of it fail", "file", e.File,
				"position", e.Position, "offset", e.Offset, "error", e.Err)
		},
		Split: func(e kafkalog.SplitEvent) {
			log.Warn("a segment whose offsets did not fit its indexes was split", "dir", e.Dir, "base", e.Base,
				"new_bases", e.Bases, "bytes", e.Bytes)
		},
		SetAside: func(e kafkalog.SetAsideEvent) {
			aside.Inc()
			log.Error("a damaged file was kept aside and made again", "file", e.File, "kept", e.Kept, "reason", e.Reason)
		},
		DamagedIndex: func(e kafkalog.DamagedIndexEvent) {
			indexes.Inc()
			log.Error("an index file is damaged: reads go on without it, more slowly; 'tidemark log repair' makes it again",
				"file", e.File, "error", e.Err)
		},
		LogEndBehind: func(e kafkalog.LogEndBehindEvent) {
			behind.Inc()
			log.Error("a log is shorter than what was flushed or visible", "dir", e.Dir, "log_end", e.LogEnd,
				"recovery_point", e.RecoveryPoint, "high_watermark", e.HighWatermark)
		},
		Rolled: func(e kafkalog.RolledEvent) {
			rolled.Inc()
			log.Debug("new segment", "dir", e.Dir, "base", e.Base, "sealed", e.Sealed)
		},
		RollFlushed: func(e kafkalog.RollFlushedEvent) {
			rollFlush.Observe(e.Took.Seconds())
			if e.Err != nil {
				log.Error("a sealed segment could not be made durable", "dir", e.Dir, "base", e.Base, "error", e.Err)
			}
		},
		Retired: func(e kafkalog.RetiredEvent) {
			retired.WithLabelValues(e.Reason).Inc()
			retiredLen.WithLabelValues(e.Reason).Add(float64(e.Bytes))
			log.Info("segment left its log", "dir", e.Dir, "base", e.Base, "bytes", e.Bytes, "reason", e.Reason)
		},
		FutureTimestamp: func(e kafkalog.FutureTimestampEvent) {
			future.Inc()
			log.Warn("retention by age keeps a segment because a record's timestamp is in the future", "dir", e.Dir,
				"base", e.Base, "timestamp_ms", e.Timestamp, "now_ms", e.Now)
		},
		Failed: func(e kafkalog.FailedEvent) {
			failed.Inc()
			log.Error("a log takes no more appends until the server is started again", "dir", e.Dir, "error", e.Err)
		},
		CloseFailed: func(e kafkalog.FailedEvent) {
			closeFailed.Inc()
			log.Warn("a log was not closed in order; the next start repairs it", "dir", e.Dir, "error", e.Err)
		},
	}
}
