package observe

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-io/tidemark/broker"
	"github.com/tidemark-io/tidemark/partition"
)

// Kind is what a metric's samples are, in Prometheus' words.
type Kind string

// The kinds that there are here.
const (
	Counter   Kind = "counter"   // only grows, from 0 at each start
	Gauge     Kind = "gauge"     // goes up and down
	Histogram Kind = "histogram" // NAME_bucket, NAME_sum and NAME_count
)

// Metric describes one metric of the server.
type Metric struct {
	Name   string
	Kind   Kind
	Help   string
	Labels []string // nil: it is one series
}

// list is a registry that remembers what was registered.
type list struct {
	*prometheus.Registry
	metrics []Metric
}

func (l *list) note(m Metric) { l.metrics = append(l.metrics, m) }

// Reference returns every metric of a server that begins with tidemark_, sorted by name. Beside them a server has those
// of Go's runtime (go_) and of its process (process_).
func Reference() []Metric {
	l := &list{Registry: prometheus.NewRegistry()}
	quiet := slog.New(slog.DiscardHandler)
	noLogs := func() iter.Seq[*partition.Log] { return func(func(*partition.Log) bool) {} }
	NewNode(l, "")
	Disk(l, func() DiskState { return DiskState{} })
	KafkaLogs(l, quiet)
	Partitions(l, quiet, NewTopics(l, noLogs))
	Hosting(l, func() HostingState { return HostingState{} })
	Groups(l, new(DetailVar), func() []GroupState { return nil })
	Flusher(l, func() partition.FlusherStats { return partition.FlusherStats{} })
	Broker(l, quiet)
	Queue(l, func() broker.Queue { return broker.Queue{} })
	_, _ = NewTraces(l, quiet, TraceOptions{}) // without an endpoint nothing fails
	Meta(l, quiet)
	Streams(l, quiet)
	StreamsHeld(l, func() StreamState { return StreamState{} })
	ObjectStore(l, quiet)
	slices.SortFunc(l.metrics, func(a, b Metric) int { return cmp.Compare(a.Name, b.Name) })
	return l.metrics
}

// WriteReference writes the page docs/metrics.md.
func WriteReference(w io.Writer) error {
	var b strings.Builder
	b.WriteString(referenceHead)
	for _, m := range Reference() {
		labels := "–"
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, labels, strings.ReplaceAll(m.Help, "|", "\\|"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const referenceHead = `# Metrics

Made from the code by ` + "`go test ./observe -update`" + `; a test keeps it current.

A server answers Prometheus at ` + "`/metrics`" + ` on its HTTP port (` + "`--http-listen`" + `, 127.0.0.1:9180 unless told). Names follow
Prometheus' conventions: ` + "`tidemark_`" + `, the part of the server, the thing, the unit. Sizes are bytes, times are seconds,
counters end in ` + "`_total`" + ` and begin at 0 with each start. A metric without labels is there from the start, also when it
never moved; those of streams (` + "`tidemark_stream_*`" + `) come with the first stream, those of the object store
(` + "`tidemark_objstore_*`" + `) when it is opened: at the start if ` + "`--store`" + ` names it, otherwise with the first stream.
What grows with topics, partitions or groups says so; the series of a deleted topic or group go with it.
` + "`--group-metrics`" + ` chooses how much is told of groups: ` + "`off`, `group` or `partition`" + `;
PUT ` + "`/groupmetrics`" + ` changes it while the server runs.

Beside these there are ` + "`go_*`" + ` (the runtime: heap, goroutines, collections) and ` + "`process_*`" + ` (CPU seconds, memory, open and
allowed descriptors). A board and alert rules that use them are in ` + "`deploy/grafana`" + `.

| name | kind | labels | what it says |
|---|---|---|---|
`
