package observe

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-io/tidemark/broker"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/partition"
)

// Broker adds a span for each request, named after its API, to what next does. A nil Traces returns next.
func (t *Traces) Broker(next broker.Events) broker.Events {
	if t == nil {
		return next
	}
	count, refused := next.RequestDone, next.RequestRefused
	next.RequestDone = func(e broker.RequestDone) {
		count(e)
		t.ended(e.API, trace.SpanKindServer, e.Latency, e.Err, func() []attribute.KeyValue { return aboutRequest(e) })
	}
	next.RequestRefused = func(e broker.RequestRefused) {
		refused(e)
		t.ended(apiName(e.API), trace.SpanKindServer, 0, e.Err, func() []attribute.KeyValue {
			return aboutRequest(broker.RequestDone{
				ConnectionID: e.ID, API: apiName(e.API), Version: e.Version, ClientID: e.ClientID, BytesIn: int(e.Bytes),
			})
		})
	}
	return next
}

func aboutRequest(e broker.RequestDone) []attribute.KeyValue {
	about := []attribute.KeyValue{
		attribute.String("messaging.system", "kafka"),
		attribute.String("messaging.client.id", text(e.ClientID)),
		attribute.String("kafka.api", e.API),
		attribute.Int("kafka.api.version", int(e.Version)),
		attribute.Int64("kafka.connection", int64(e.ConnectionID)),
		attribute.Int("kafka.topics", e.Topics),
		attribute.Int("kafka.request.bytes", e.BytesIn),
		attribute.Int64("kafka.response.bytes", e.BytesOut),
		attribute.Int("kafka.error_code", int(e.ErrorCode)),
	}
	if err := kerr.TypedErrorForCode(e.ErrorCode); err != nil {
		about = append(about, attribute.String("kafka.error", err.Message))
	}
	return about
}

// Partitions adds a span for each sync to what next does. A nil Traces returns next.
func (t *Traces) Partitions(next partition.Events) partition.Events {
	if t == nil {
		return next
	}
	count := next.Synced
	next.Synced = func(e partition.Synced) {
		count(e)
		t.ended("flush", trace.SpanKindInternal, e.Took, e.Err, func() []attribute.KeyValue {
			return []attribute.KeyValue{
				attribute.String("topic", e.Topic), attribute.Int("partition", int(e.Partition)),
				attribute.Int("appends", e.Appends), attribute.Int64("bytes", e.Bytes),
			}
		})
	}
	return next
}

// KafkaLogs adds a span for each flush of a sealed segment to what next does. A nil Traces returns next.
func (t *Traces) KafkaLogs(next kafkalog.Events) kafkalog.Events {
	if t == nil {
		return next
	}
	count := next.RollFlushed
	next.RollFlushed = func(e kafkalog.RollFlushedEvent) {
		count(e)
		t.ended("flush segment", trace.SpanKindInternal, e.Took, e.Err, func() []attribute.KeyValue {
			return []attribute.KeyValue{attribute.String("dir", text(e.Dir)), attribute.Int64("base", e.Base)}
		})
	}
	return next
}
