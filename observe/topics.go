package observe

import (
	"fmt"
	"iter"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-io/tidemark/partition"
)

// Topics observes what is written to each topic, where each log starts and ends, and which partitions have records from the
// future. It asks for the existing topics at each scrape, so deleted ones are no longer exported.
type Topics struct {
	hosted func() iter.Seq[*partition.Log]
	known  sync.Map // topic -> *topicCounter
	ahead  futureCounters

	batches, records, bytes *prometheus.Desc // by topic
	start, hw, size, future *prometheus.Desc // by topic and partition
}

// topicCounter is what was written to a topic since this process first heard of it.
type topicCounter struct{ batches, records, bytes atomic.Int64 }

// NewTopics registers the metrics of topics and partitions. hosted yields the logs that are open.
func NewTopics(registry prometheus.Registerer, hosted func() iter.Seq[*partition.Log]) *Topics {
	f := factory{registry, "partition"}
	t := &Topics{
		hosted:  hosted,
		batches: f.describe(Counter, "appended_batches_total", "Batches written, by topic. Grows with the topics.", "topic"),
		records: f.describe(Counter, "appended_records_total", "Records written, by topic. Grows with the topics.", "topic"),
		bytes:   f.describe(Counter, "appended_bytes_total", "Bytes of the batches written, by topic. Grows with the topics.", "topic"),
		start: f.describe(Gauge, "log_start_offset", "First offset that can be read. Grows with the partitions.",
			"topic", "partition"),
		hw: f.describe(Gauge, "high_watermark", "Offset below which everything is durable and visible. Grows with the partitions.",
			"topic", "partition"),
		size: f.describe(Gauge, "size_bytes", "Bytes of the record files. Grows with the partitions.", "topic", "partition"),
		future: f.describe(Counter, "future_timestamps_total", fmt.Sprintf("Times that retention by age kept a segment of the partition because a record's timestamp is in the future. Only of partitions with such records, and of no more than %d.", futurePartitions),
			"topic", "partition"),
	}
	registry.MustRegister(t)
	return t
}

// Appended returns how many records and bytes were written to a topic since the start.
func (t *Topics) Appended(topic string) (records, bytes int64) {
	known, ok := t.known.Load(topic)
	if !ok {
		return 0, 0
	}
	c := known.(*topicCounter)
	return c.records.Load(), c.bytes.Load()
}

func (t *Topics) of(topic string) *topicCounter {
	if known, ok := t.known.Load(topic); ok {
		return known.(*topicCounter)
	}
	c, _ := t.known.LoadOrStore(topic, &topicCounter{})
	return c.(*topicCounter)
}

func (t *Topics) add(e partition.Appended) {
	c := t.of(e.Topic)
	c.batches.Add(1)
	c.records.Add(int64(e.Records))
	c.bytes.Add(int64(e.Bytes))
}

// forget drops the series of a deleted topic. An append in flight may bring them back; the next scrape drops them for good.
func (t *Topics) forget(topic string) {
	t.known.Delete(topic)
	t.ahead.forget(topic)
}

// Describe implements prometheus.Collector.
func (t *Topics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{t.batches, t.records, t.bytes, t.start, t.hw, t.size, t.future} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (t *Topics) Collect(out chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, float64(v), labels...)
	}
	live, ahead := map[string]bool{}, t.ahead.counts()
	for l := range t.hosted() {
		live[l.Topic()] = true
		at, index := l.Offsets(), strconv.Itoa(int(l.Index()))
		send(t.start, prometheus.GaugeValue, at.LogStart, l.Topic(), index)
		send(t.hw, prometheus.GaugeValue, at.HighWatermark, l.Topic(), index)
		send(t.size, prometheus.GaugeValue, l.Size(), l.Topic(), index)
		if len(ahead) == 0 {
			continue
		}
		dir := l.Dir()
		if times := ahead[dir]; times > 0 {
			send(t.future, prometheus.CounterValue, times, l.Topic(), index)
			delete(ahead, dir)
		}
	}
	t.ahead.drop(ahead) // what is left is not hosted any more
	for topic := range live {
		c := t.of(topic)
		send(t.batches, prometheus.CounterValue, c.batches.Load(), topic)
		send(t.records, prometheus.CounterValue, c.records.Load(), topic)
		send(t.bytes, prometheus.CounterValue, c.bytes.Load(), topic)
	}
	t.known.Range(func(topic, _ any) bool {
		if !live[topic.(string)] {
			t.known.Delete(topic)
		}
		return true
	})
}
