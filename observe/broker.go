package observe

import (
	"log/slog"
	"net"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-io/tidemark/broker"
)

// Broker observes the connections and requests of Kafka clients.
func Broker(registry prometheus.Registerer, log *slog.Logger) broker.Events {
	f := factory{registry, "kafka"}
	var (
		opened   = f.counter("connections_opened_total", "Connections that clients opened.")
		open     = f.gauge("connections_open", "Open connections.")
		closed   = f.counters("connections_closed_total", "Connections that ended, by reason.", "reason")
		refused  = f.counters("connections_refused_total", "Connections closed unread because of a limit, by limit.", "limit")
		accept   = f.counter("accept_failures_total", "Times that a listener could not accept a connection.")
		requests = requestMetrics{
			done:    f.counters("requests_total", "Requests answered, by API and version.", "api", "version"),
			failed:  f.counters("responses_failed_total", "Responses that could not be written in full, by API.", "api"),
			in:      f.counters("request_bytes_total", "Bytes of requests, by API.", "api"),
			out:     f.counters("response_bytes_total", "Bytes of responses, by API.", "api"),
			latency: f.histograms("request_duration_seconds", "Time from the last byte of a request to the last byte of its response, by API. A fetch waits for records.", requestBuckets, "api"),
		}
		bad    = f.counters("requests_refused_total", "Requests answered by closing the connection, by API.", "api")
		panics = f.counter("panics_total", "Requests whose handling panicked. The connection was closed.")
	)
	return broker.Events{
		ConnectionOpened: func(e broker.Connection) {
			opened.Inc()
			open.Inc()
			log.Debug("connection opened", "connection", e.ID, "remote", e.Remote)
		},
		ConnectionClosed: func(e broker.ConnectionClosed) {
			open.Dec()
			closed.WithLabelValues(string(e.Reason)).Inc()
			log.Debug("connection closed", "connection", e.ID, "remote", e.Remote, "client", e.ClientID,
				"reason", e.Reason, "requests", e.Requests, "lasted", e.Lasted, "error", e.Err)
		},
		ConnectionRefused: func(e broker.ConnectionRefused) {
			refused.WithLabelValues(e.Limit).Inc()
			log.Warn("connection refused", "remote", e.Remote, "limit", e.Limit, "open", e.Open)
		},
		AcceptFailed: func(listener net.Addr, err error) {
			accept.Inc()
			log.Error("a listener could not accept a connection", "listener", listener, "error", err)
		},
		RequestDone: requests.count,
		RequestRefused: func(e broker.RequestRefused) {
			bad.WithLabelValues(apiName(e.API)).Inc()
			log.Warn("request refused", "connection", e.ID, "remote", e.Remote, "client", e.ClientID, "api", apiName(e.API),
				"key", e.Key, "version", e.Version, "bytes", e.Bytes, "error", e.Err)
		},
		Panicked: func(e broker.Panicked) {
			panics.Inc()
			log.Error("handling a request panicked; the connection is closed", "connection", e.ID, "remote", e.Remote,
				"client", e.ClientID, "api", apiName(e.API), "version", e.Version, "panic", e.Value, "stack", string(e.Stack))
		},
	}
}

// Queue observes the memory of requests in progress. queue is called at each scrape.
func Queue(registry prometheus.Registerer, queue func() broker.Queue) {
	f := factory{registry, "kafka"}
	f.gaugeFunc("queued_request_bytes", "Bytes of queued.max.request.bytes that requests in progress hold.",
		func() float64 { return float64(queue().Bytes) })
	f.gaugeFunc("waiting_requests", "Requests that wait, unread, because those in progress hold all of queued.max.request.bytes.",
		func() float64 { return float64(queue().Waiting) })
}

type requestMetrics struct {
	done, failed, in, out *prometheus.CounterVec
	latency               *prometheus.HistogramVec
}

// count counts one request. The label values are bounded by the APIs and versions that the server knows.
func (m *requestMetrics) count(e broker.RequestDone) {
	m.done.WithLabelValues(e.API, strconv.Itoa(int(e.Version))).Inc()
	m.in.WithLabelValues(e.API).Add(float64(e.BytesIn))
	m.out.WithLabelValues(e.API).Add(float64(e.BytesOut))
	m.latency.WithLabelValues(e.API).Observe(e.Latency.Seconds())
	if e.Err != nil {
		m.failed.WithLabelValues(e.API).Inc()
	}
}

// apiName is a label for an API that may be unknown.
func apiName(name string) string {
	if name == "" {
		return "unknown"
	}
	return name
}
