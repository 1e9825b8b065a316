package observe

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-io/tidemark/broker"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/partition"
)

// receiver is a collector that keeps what it is sent.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	paths    []string
	resource map[string]string
	spans    map[string]*otlp.Span // the last of each name
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{spans: map[string]*otlp.Span{}}
	r.Server = httptest.NewServer(http.HandlerFunc(r.receive))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) receive(w http.ResponseWriter, req *http.Request) {
	body := io.Reader(req.Body)
	if req.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	raw, err := io.ReadAll(body)
	var sent collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(raw, &sent)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paths = append(r.paths, req.URL.Path)
	for _, rs := range sent.ResourceSpans {
		r.resource = texts(rs.Resource.Attributes)
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				r.spans[s.Name] = s
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// texts are attributes by name, with their values as texts.
func texts(attributes []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range attributes {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_IntValue:
			all[a.Key] = fmt.Sprint(v.IntValue)
		default:
			all[a.Key] = a.Value.GetStringValue()
		}
	}
	return all
}

var traceTime = time.Unix(1_700_000_000, 0)

func tracesTo(t *testing.T, r *rig, endpoint string, ratio float64) *Traces {
	t.Helper()
	traces, err := NewTraces(r.registry, r.log, TraceOptions{
		Endpoint: endpoint, Ratio: ratio, Version: "v1.2.3", Node: 7, Now: func() time.Time { return traceTime },
	})
	require.NoError(t, err)
	return traces
}

func TestARequestIsASpanThatSaysWhatItWas(t *testing.T) {
	r, to := newRig(), newReceiver(t)
	traces := tracesTo(t, r, to.URL, 1)
	e := traces.Broker(Broker(r.registry, r.log))
	e.RequestDone(broker.RequestDone{
		ConnectionID: 3, API: "Fetch", Version: 12, ClientID: "app\xff", BytesIn: 100, BytesOut: 5000,
		Latency: 40 * time.Millisecond, Topics: 2, ErrorCode: 1,
	})
	e.RequestDone(broker.RequestDone{API: "Produce", Err: errDisk})
	e.RequestRefused(broker.RequestRefused{Key: 99, Bytes: 12, Err: errDisk})
	require.NoError(t, traces.Close(t.Context()))

	require.Equal(t, []string{"/v1/traces"}, to.paths)
	require.Equal(t, map[string]string{
		"service.name": "tidemark", "service.version": "v1.2.3", "service.instance.id": "7",
	}, to.resource)
	require.Len(t, to.spans, 3)
	fetch := to.spans["Fetch"]
	require.Equal(t, map[string]string{
		"messaging.system": "kafka", "messaging.client.id": "app\uFFFD", "kafka.api": "Fetch", "kafka.api.version": "12",
		"kafka.connection": "3", "kafka.topics": "2", "kafka.request.bytes": "100", "kafka.response.bytes": "5000",
		"kafka.error_code": "1", "kafka.error": "OFFSET_OUT_OF_RANGE",
	}, texts(fetch.Attributes))
	require.Equal(t, otlp.Span_SPAN_KIND_SERVER, fetch.Kind)
	require.Equal(t, otlp.Status_STATUS_CODE_UNSET, fetch.Status.GetCode())
	require.Equal(t, uint64(traceTime.UnixNano()), fetch.EndTimeUnixNano)
	require.Equal(t, uint64(40*time.Millisecond), fetch.EndTimeUnixNano-fetch.StartTimeUnixNano)
	for _, failed := range []string{"Produce", "unknown"} {
		require.Equal(t, otlp.Status_STATUS_CODE_ERROR, to.spans[failed].Status.GetCode(), failed)
		require.Equal(t, errDisk.Error(), to.spans[failed].Status.Message)
	}
	got := r.samples(t)
	require.Equal(t, 3.0, got["tidemark_trace_spans_sent_total"])
	require.Equal(t, 1.0, got[`tidemark_kafka_requests_total{api="Fetch",version="12"}`], "what was counted still is")
}

func TestFlushesAndWorkAreSpansAndWorkNests(t *testing.T) {
	r, to := newRig(), newReceiver(t)
	traces := tracesTo(t, r, to.URL+"/custom", 1)
	traces.Partitions(Partitions(r.registry, r.log, NewTopics(r.registry, nothing))).
		Synced(partition.Synced{Topic: "orders", Partition: 3, Appends: 2, Bytes: 150, Took: time.Millisecond})
	traces.KafkaLogs(KafkaLogs(r.registry, r.log, &Topics{})).
		RollFlushed(kafkalog.RollFlushedEvent{Dir: "data/orders-3", Base: 9, Took: time.Second, Err: errDisk})
	ctx, started := traces.Work(t.Context(), "start", "node", int32(7))
	_, recovered := traces.Work(ctx, "recover log", "topic", "orders", "partition", 3)
	recovered(errDisk)
	started(nil)
	require.NoError(t, traces.Close(t.Context()))

	require.Equal(t, []string{"/custom"}, to.paths)
	require.Equal(t, map[string]string{"topic": "orders", "partition": "3", "appends": "2", "bytes": "150"},
		texts(to.spans["flush"].Attributes))
	require.Equal(t, map[string]string{"dir": "data/orders-3", "base": "9"}, texts(to.spans["flush segment"].Attributes))
	start, recovery := to.spans["start"], to.spans["recover log"]
	require.Equal(t, map[string]string{"node": "7"}, texts(start.Attributes))
	require.Equal(t, map[string]string{"topic": "orders", "partition": "3"}, texts(recovery.Attributes))
	require.Equal(t, start.SpanId, recovery.ParentSpanId)
	require.Equal(t, start.TraceId, recovery.TraceId)
	require.Equal(t, otlp.Status_STATUS_CODE_ERROR, recovery.Status.GetCode())
}

func TestOfRequestsARatioIsToldAndOfWhatIsRareAll(t *testing.T) {
	r, to := newRig(), newReceiver(t)
	traces := tracesTo(t, r, to.URL, 0)
	e := traces.Broker(Broker(r.registry, r.log))
	for range 1000 {
		e.RequestDone(broker.RequestDone{API: "Fetch"})
	}
	_, created := traces.Work(t.Context(), "create topic")
	created(nil)
	require.NoError(t, traces.Close(t.Context()))
	require.Len(t, to.spans, 1)
	require.Contains(t, to.spans, "create topic")
}

func TestWithoutAnEndpointTracesAreNothing(t *testing.T) {
	r := newRig()
	traces := tracesTo(t, r, "", 1)
	require.Nil(t, traces)
	ctx := t.Context()
	e := traces.Broker(broker.Events{})
	require.Nil(t, e.RequestDone)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, done := traces.Work(ctx, "start")
		done(nil)
	}))
	require.NoError(t, traces.Close(ctx))
}

func TestAReceiverThatDoesNotTakeSpansIsCountedAndSaidOnce(t *testing.T) {
	r := newRig()
	down := httptest.NewServer(http.NotFoundHandler())
	defer down.Close()
	traces := tracesTo(t, r, down.URL, 1)
	_, done := traces.Work(t.Context(), "start")
	done(nil)
	require.NoError(t, traces.Close(t.Context()))
	require.Equal(t, map[string]float64{"tidemark_trace_spans_failed_total": 1}, r.samples(t))
	require.Contains(t, r.lines.String(), `level=WARN msg="spans cannot be sent and are lost; later ones will be tried" spans=1`)
}

func TestAReceiverThatHangsIsGivenUpWithTheContext(t *testing.T) {
	r := newRig()
	began := make(chan struct{})
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body) // until it is read the end of the connection is not seen
		close(began)
		<-req.Context().Done()
	}))
	defer hung.Close()
	traces := tracesTo(t, r, hung.URL, 1)
	_, done := traces.Work(t.Context(), "start")
	done(nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	require.ErrorIs(t, traces.Close(ctx), context.Canceled)
}

func TestAnEndpointThatIsNoURLIsRefused(t *testing.T) {
	for _, endpoint := range []string{"collector:4318", "ftp://collector", "http://", "://"} {
		_, err := NewTraces(newRig().registry, newRig().log, TraceOptions{Endpoint: endpoint})
		require.ErrorContains(t, err, "traces: ", endpoint)
	}
}
