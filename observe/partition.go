package observe

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-io/tidemark/partition"
)

// refusalsEvery limits how often it is logged that the disk refuses records, or cannot be read. Clients may retry many
// times a second.
const refusalsEvery = 30 * time.Second

// Partitions observes appends, syncs and failures of the partitions.
func Partitions(registry prometheus.Registerer, log *slog.Logger, topics *Topics) partition.Events {
	f := factory{registry, "partition"}
	var (
		duplicates = f.counter("duplicate_batches_total", "Batches that the log already had from an earlier attempt of their producer.")
		refused    = f.counters("refused_batches_total", "Batches that were refused, by reason.", "reason")
		took       = f.histogram("sync_duration_seconds", "Time of one sync of one log.", syncBuckets)
		riders     = f.histogram("sync_appends", "Appends that one sync released.", countBuckets)
		synced     = f.counter("synced_bytes_total", "Bytes of the appends that syncs released.")
		failed     = f.counter("failures_total", "Partitions that stopped accepting records because their disk failed.")
		unread     = f.counter("read_failures_total", "Reads of records that failed because of the disk or a damaged file. Other partitions are not affected.")
		upkeep     = f.counter("maintenance_failures_total", "Times that retention or other maintenance failed. It is retried.")
	)
	loud, unreadable := &rare{every: refusalsEvery, now: time.Now}, &rare{every: refusalsEvery, now: time.Now}
	return partition.Events{
		Appended: func(e partition.Appended) {
			if e.Duplicate {
				duplicates.Inc()
				return
			}
			topics.add(e)
		},
		Refused: func(e partition.Refused) {
			refused.WithLabelValues(e.Reason).Inc()
			if e.Reason == "storage" {
				if others, ok := loud.allow(); ok {
					log.Error("records are refused: the disk does not take them", "topic", e.Topic, "partition", e.Partition,
						"error", e.Err, "others", others)
					return
				}
			}
			log.Debug("batch refused", "topic", e.Topic, "partition", e.Partition, "bytes", e.Bytes, "reason", e.Reason,
				"error", e.Err)
		},
		Removed: func(e partition.Removed) {
			topics.forget(e.Topic)
			log.Info("partition deleted", "topic", e.Topic, "partition", e.Partition, "dir", e.Dir)
		},
		Synced: func(e partition.Synced) {
			took.Observe(e.Took.Seconds())
			if e.Appends > 0 {
				riders.Observe(float64(e.Appends))
			}
			if e.Err == nil {
				synced.Add(float64(e.Bytes))
			}
		},
		Failed: func(e partition.Failed) {
			failed.Inc()
			log.Error("the partition accepts no more records until the server is restarted", "topic", e.Topic,
				"partition", e.Partition, "error", e.Err)
		},
		ReadFailed: func(e partition.ReadFailed) {
			unread.Inc()
			if others, ok := unreadable.allow(); ok {
				log.Error("records could not be read", "topic", e.Topic, "partition", e.Partition, "offset", e.Offset,
					"error", e.Err, "others", others)
			}
		},
		MaintenanceFailed: func(e partition.MaintenanceFailed) {
			upkeep.Inc()
			log.Warn("maintenance failed and will be retried", "topic", e.Topic, "partition", e.Partition,
				"doing", e.Doing, "error", e.Err)
		},
	}
}

// Flusher observes how busy the flusher is. stats is called at each scrape.
func Flusher(registry prometheus.Registerer, stats func() partition.FlusherStats) {
	f := factory{registry, "flusher"}
	f.gaugeFunc("dirty_logs", "Logs that wait for a worker to sync them.",
		func() float64 { return float64(stats().DirtyLogs) })
	f.gaugeFunc("busy_workers", "Workers that are syncing a log.",
		func() float64 { return float64(stats().BusyWorkers) })
	f.gaugeFunc("unsynced_bytes", "Bytes written that no sync covers yet.",
		func() float64 { return float64(stats().UnsyncedBytes) })
	f.gaugeFunc("waiting_appends", "Appends that wait because too many bytes are unsynced.",
		func() float64 { return float64(stats().Waiting) })
	f.counterFunc("journal_rounds_total", "Syncs of the shared journal, each for several logs.",
		func() float64 { return float64(stats().JournalRounds) })
	f.counterFunc("journal_bytes_total", "Bytes of records that went into the shared journal.",
		func() float64 { return float64(stats().JournalBytes) })
	f.gaugeFunc("journal_set_aside_bytes", "Bytes of the files with records that the shared journal held of partitions that failed. The next start restores them.",
		func() float64 { return float64(stats().JournalAside) })
	f.gaugeFunc("journal_given_up", "1 if the shared journal could not be written, so that each log is synced on its own until the next start.",
		func() float64 {
			if stats().JournalGivenUp {
				return 1
			}
			return 0
		})
}
