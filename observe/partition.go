package observe

import (
	"iter"
	"log/slog"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-io/tidemark/partition"
)

// Partitions observes appends, syncs and failures of the partitions.
func Partitions(registry prometheus.Registerer, log *slog.Logger) partition.Events {
	f := factory{registry, "partition"}
	var (
		topics = topicCounters{
			batches: f.counters("appended_batches_total", "Batches written, by topic. Grows with the topics.", "topic"),
			records: f.counters("appended_records_total", "Records written, by topic. Grows with the topics.", "topic"),
			bytes:   f.counters("appended_bytes_total", "Bytes of the batches written, by topic. Grows with the topics.", "topic"),
		}
		duplicates = f.counter("duplicate_batches_total", "Batches that were in the log already from an earlier try of their producer.")
		refused    = f.counters("refused_batches_total", "Batches that were not taken, by reason.", "reason")
		took       = f.histogram("sync_duration_seconds", "Time of one sync of one log.", syncBuckets)
		riders     = f.histogram("sync_appends", "Appends that one sync released.", countBuckets)
		synced     = f.counter("synced_bytes_total", "Bytes of the appends that syncs released.")
		failed     = f.counter("failures_total", "Partitions that stopped taking records because their disk failed.")
		upkeep     = f.counter("maintenance_failures_total", "Times that retention or other maintenance failed. It is tried again.")
	)
	return partition.Events{
		Appended: func(e partition.Appended) {
			if e.Duplicate {
				duplicates.Inc()
				return
			}
			topics.of(e.Topic).add(e)
		},
		Refused: func(e partition.Refused) {
			refused.WithLabelValues(e.Reason).Inc()
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
			log.Error("the partition takes no more records until the server is started again", "topic", e.Topic,
				"partition", e.Partition, "error", e.Err)
		},
		MaintenanceFailed: func(e partition.MaintenanceFailed) {
			upkeep.Inc()
			log.Warn("maintenance failed and will be tried again", "topic", e.Topic, "partition", e.Partition,
				"doing", e.Doing, "error", e.Err)
		},
	}
}

// topicCounters keeps the counters of each topic, so that an append looks up one name.
type topicCounters struct {
	batches, records, bytes *prometheus.CounterVec
	known                   sync.Map // topic -> *topicCounter
}

type topicCounter struct {
	batches, records, bytes prometheus.Counter
}

func (t *topicCounters) of(topic string) *topicCounter {
	if known, ok := t.known.Load(topic); ok {
		return known.(*topicCounter)
	}
	c, _ := t.known.LoadOrStore(topic, &topicCounter{
		batches: t.batches.WithLabelValues(topic),
		records: t.records.WithLabelValues(topic),
		bytes:   t.bytes.WithLabelValues(topic),
	})
	return c.(*topicCounter)
}

// forget ends the series of a topic that was deleted.
func (t *topicCounters) forget(topic string) {
	t.known.Delete(topic)
	t.batches.DeleteLabelValues(topic)
	t.records.DeleteLabelValues(topic)
	t.bytes.DeleteLabelValues(topic)
}

func (c *topicCounter) add(e partition.Appended) {
	c.batches.Inc()
	c.records.Add(float64(e.Records))
	c.bytes.Add(float64(e.Bytes))
}

// Flusher observes how busy the flusher is. It is asked at each scrape.
func Flusher(registry prometheus.Registerer, stats func() partition.FlusherStats) {
	f := factory{registry, "flusher"}
	f.gaugeFunc("dirty_logs", "Logs that wait for a worker to sync them.",
		func() float64 { return float64(stats().DirtyLogs) })
	f.gaugeFunc("busy_workers", "Workers that are syncing a log.",
		func() float64 { return float64(stats().BusyWorkers) })
	f.gaugeFunc("unsynced_bytes", "Bytes that are written and that no sync covers yet.",
		func() float64 { return float64(stats().UnsyncedBytes) })
	f.gaugeFunc("waiting_appends", "Appends that wait because too many bytes are unsynced.",
		func() float64 { return float64(stats().Waiting) })
}

// Offsets observes where each log starts and ends. It is asked at each scrape, and yields three samples for each log.
func Offsets(registry prometheus.Registerer, logs func() iter.Seq[*partition.Log]) {
	labels := []string{"topic", "partition"}
	describe := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "partition", name),
			help+" Grows with the partitions.", labels, nil)
	}
	registry.MustRegister(&offsets{
		logs:  logs,
		start: describe("log_start_offset", "First offset that can be read."),
		hw:    describe("high_watermark", "Offset below which everything is durable and visible."),
		size:  describe("size_bytes", "Bytes of the record files."),
	})
}

type offsets struct {
	logs            func() iter.Seq[*partition.Log]
	start, hw, size *prometheus.Desc
}

// Describe is for the registry.
func (o *offsets) Describe(out chan<- *prometheus.Desc) {
	out <- o.start
	out <- o.hw
	out <- o.size
}

// Collect is for the registry.
func (o *offsets) Collect(out chan<- prometheus.Metric) {
	for l := range o.logs() {
		index := strconv.Itoa(int(l.Index()))
		at := l.Offsets()
		send := func(d *prometheus.Desc, v int64) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), l.Topic(), index)
		}
		send(o.start, at.LogStart)
		send(o.hw, at.HighWatermark)
		send(o.size, l.Size())
	}
}
