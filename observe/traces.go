package observe

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// TraceOptions configure [NewTraces].
type TraceOptions struct {
	Endpoint string  // URL of an OTLP receiver over HTTP; without a path, /v1/traces. Empty disables tracing
	Ratio    float64 // share of the requests and syncs to trace, 0 to 1; rare events are always traced
	Version  string
	Node     int32
	Now      func() time.Time // nil is time.Now
}

// Traces creates spans and sends them to an OTLP receiver. A nil Traces creates none and costs nothing.
//
// Spans wait in memory and are sent in batches; when the receiver does not keep up, the newest are dropped. Nothing in
// the server waits for it.
type Traces struct {
	frequent, rare trace.Tracer // frequent sends only a share of its spans
	queue          sdk.SpanProcessor
	exporter       *countedExporter
	now            func() time.Time
}

// How spans are batched. A start after a crash makes one for each partition at once.
const (
	spanQueue     = 8192
	spanBatch     = 512
	exportTimeout = 5 * time.Second
	maxAttribute  = 256 // characters
)

// NewTraces returns Traces, or nil without an endpoint. The metrics of sending are registered either way. The exporter
// reads the variables OTEL_EXPORTER_OTLP_HEADERS, _CERTIFICATE and the like, and OTEL_RESOURCE_ATTRIBUTES.
func NewTraces(registry prometheus.Registerer, log *slog.Logger, o TraceOptions) (*Traces, error) {
	f := factory{registry, "trace"}
	exporter := &countedExporter{
		log:    log,
		sent:   f.counter("spans_sent_total", "Spans that the OTLP receiver accepted."),
		failed: f.counter("spans_failed_total", "Spans that were lost because the OTLP receiver did not accept them."),
	}
	if o.Endpoint == "" {
		return nil, nil
	}
	if err := exporter.connect(o.Endpoint); err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	t := &Traces{exporter: exporter, now: o.Now}
	if t.now == nil {
		t.now = time.Now
	}
	if err := t.makeTracers(o); err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	return t, nil
}

// makeTracers creates the tracers, which share one queue in front of the exporter.
func (t *Traces) makeTracers(o TraceOptions) error {
	about, err := resource.New(t.exporter.life, resource.WithAttributes(
		attribute.String("service.name", "tidemark"), attribute.String("service.version", o.Version),
		attribute.String("service.instance.id", fmt.Sprint(o.Node)),
	), resource.WithFromEnv())
	if err != nil {
		return err
	}
	limits := sdk.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxAttribute
	t.queue = sdk.NewBatchSpanProcessor(t.exporter, sdk.WithMaxQueueSize(spanQueue), sdk.WithMaxExportBatchSize(spanBatch),
		sdk.WithExportTimeout(exportTimeout))
	tracer := func(s sdk.Sampler) trace.Tracer {
		p := sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithRawSpanLimits(limits), sdk.WithSampler(s),
			sdk.WithSpanProcessor(t.queue))
		return p.Tracer("github.com/tidemark-io/tidemark", trace.WithInstrumentationVersion(o.Version))
	}
	t.frequent, t.rare = tracer(sdk.TraceIDRatioBased(o.Ratio)), tracer(sdk.AlwaysSample())
	return nil
}

// tracesURL returns the URL to post spans to.
func tracesURL(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("%s is not a URL such as http://collector:4318", u.Redacted())
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

// Close sends waiting spans, and drops those that are not sent when ctx ends. A nil Traces does nothing.
func (t *Traces) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	defer t.exporter.end()
	return t.queue.Shutdown(ctx)
}

// countedExporter counts what is sent and logs failures itself, because the SDK's own error handler is a process-wide
// global.
type countedExporter struct {
	sdk.SpanExporter
	life         context.Context // ends when a send in progress is to be abandoned
	end          context.CancelFunc
	log          *slog.Logger
	sent, failed prometheus.Counter
	failing      bool // calls of ExportSpans never overlap
}

// connect creates the exporter for an endpoint. It sends nothing yet.
func (e *countedExporter) connect(endpoint string) error {
	receiver, err := tracesURL(endpoint)
	if err != nil {
		return err
	}
	e.life, e.end = context.WithCancel(context.Background())
	e.SpanExporter, err = otlptracehttp.New(e.life, otlptracehttp.WithEndpointURL(receiver),
		otlptracehttp.WithTimeout(exportTimeout), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}))
	return err
}

// ExportSpans implements the SDK's SpanExporter.
func (e *countedExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.life, cancel)()
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		e.sent.Add(float64(len(spans)))
		e.failing = false
		return nil
	}
	e.failed.Add(float64(len(spans)))
	if !e.failing {
		e.log.Warn("spans cannot be sent and are lost; later ones will be tried", "spans", len(spans), "error", err)
	}
	e.failing = true
	return nil
}

// Work begins a span of some rare work under ctx; the returned context carries the span, and the returned func ends it.
// about is a list of alternating names and values, as for slog. A nil Traces begins nothing.
func (t *Traces) Work(ctx context.Context, name string, about ...any) (context.Context, func(err error)) {
	if t == nil {
		return ctx, func(error) {}
	}
	ctx, span := t.rare.Start(ctx, name, trace.WithTimestamp(t.now()), trace.WithAttributes(attributes(about)...))
	return ctx, func(err error) { finish(span, err, t.now()) }
}

// attributes converts alternating names and values to attributes.
func attributes(about []any) []attribute.KeyValue {
	var all []attribute.KeyValue
	for i := 0; i+1 < len(about); i += 2 {
		name, _ := about[i].(string)
		switch v := about[i+1].(type) {
		case int:
			all = append(all, attribute.Int(name, v))
		case int32:
			all = append(all, attribute.Int64(name, int64(v)))
		case bool:
			all = append(all, attribute.Bool(name, v))
		default:
			all = append(all, attribute.String(name, text(fmt.Sprint(v))))
		}
	}
	return all
}

// ended records a span of something frequent that ends now and took that long. Its attributes are computed only if it is
// sampled.
func (t *Traces) ended(name string, kind trace.SpanKind, took time.Duration, err error, about func() []attribute.KeyValue) {
	at := t.now()
	_, span := t.frequent.Start(context.Background(), name, trace.WithSpanKind(kind), trace.WithTimestamp(at.Add(-took)))
	if span.IsRecording() {
		span.SetAttributes(about()...)
		finish(span, err, at)
	}
}

// finish ends a span, with an error if there was one.
func finish(span trace.Span, err error, at time.Time) {
	if err != nil {
		span.SetStatus(codes.Error, text(err.Error()))
	}
	span.End(trace.WithTimestamp(at))
}

// text makes arbitrary bytes valid UTF-8, which the receiver requires.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
