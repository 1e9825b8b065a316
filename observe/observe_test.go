package observe

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/broker"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/partition"
)

// rig is a registry and a logger whose output a test reads.
type rig struct {
	registry *prometheus.Registry
	lines    bytes.Buffer
	log      *slog.Logger
}

func newRig() *rig {
	r := &rig{registry: prometheus.NewRegistry()}
	r.log = slog.New(slog.NewTextHandler(&r.lines, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	return r
}

// samples returns every sample that is not zero, as name{label="value"} and its value; of a histogram its count.
func (r *rig) samples(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := r.registry.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			if v := value(m); v != 0 {
				out[f.GetName()+labels(m)] = v
			}
		}
	}
	return out
}

func value(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Histogram != nil:
		return float64(m.Histogram.GetSampleCount())
	}
	return 0
}

func labels(m *dto.Metric) string {
	var pairs []string
	for _, l := range m.Label {
		pairs = append(pairs, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	if pairs == nil {
		return ""
	}
	return "{" + strings.Join(pairs, ",") + "}"
}

var errDisk = errors.New("input/output error")

// everything registers the metrics of every room.
func everything(r *rig) {
	KafkaLogs(r.registry, r.log)
	Partitions(r.registry, r.log)
	Flusher(r.registry, func() partition.FlusherStats { return partition.FlusherStats{} })
	Offsets(r.registry, func() iter.Seq[*partition.Log] { return slices.Values([]*partition.Log(nil)) })
	Broker(r.registry, r.log)
	Meta(r.registry, r.log)
	NewNode(r.registry, "v1.2.3")
}

func TestNamesFollowPrometheusConventions(t *testing.T) {
	r := newRig()
	everything(r)
	families, err := r.registry.Gather()
	require.NoError(t, err)
	ours := slices.DeleteFunc(families, func(f *dto.MetricFamily) bool {
		return !strings.HasPrefix(f.GetName(), namespace+"_")
	})
	require.Greater(t, len(ours), 20)
	problems, err := promlint.NewWithMetricFamilies(ours).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
}

// fire calls every func of an Events struct with a zero argument.
func fire(t *testing.T, events any) {
	t.Helper()
	v := reflect.ValueOf(events)
	for i := range v.NumField() {
		f := v.Field(i)
		require.False(t, f.IsNil(), "%s.%s is not observed", v.Type(), v.Type().Field(i).Name)
		var args []reflect.Value
		for j := range f.Type().NumIn() {
			args = append(args, reflect.Zero(f.Type().In(j)))
		}
		f.Call(args)
	}
}

func TestEveryEventOfEveryRoomIsObserved(t *testing.T) {
	r := newRig()
	fire(t, KafkaLogs(r.registry, r.log))
	fire(t, Partitions(r.registry, r.log))
	fire(t, Broker(r.registry, r.log))
	fire(t, Meta(r.registry, r.log))
}

func TestAppendsAreCountedByTopicUntilTheTopicIsDeleted(t *testing.T) {
	r := newRig()
	e := Partitions(r.registry, r.log)
	e.Appended(partition.Appended{Topic: "orders", Records: 3, Bytes: 100})
	e.Appended(partition.Appended{Topic: "orders", Records: 2, Bytes: 50})
	e.Appended(partition.Appended{Topic: "orders", Records: 2, Bytes: 50, Duplicate: true})
	e.Appended(partition.Appended{Topic: "clicks", Records: 1, Bytes: 10})
	e.Synced(partition.Synced{Topic: "orders", Appends: 2, Bytes: 150, Took: time.Millisecond})
	e.Refused(partition.Refused{Topic: "orders", Reason: "corrupt batch", Err: errDisk})
	require.Equal(t, map[string]float64{
		`tidemark_partition_appended_batches_total{topic="clicks"}`:        1,
		`tidemark_partition_appended_batches_total{topic="orders"}`:        2,
		`tidemark_partition_appended_records_total{topic="clicks"}`:        1,
		`tidemark_partition_appended_records_total{topic="orders"}`:        5,
		`tidemark_partition_appended_bytes_total{topic="clicks"}`:          10,
		`tidemark_partition_appended_bytes_total{topic="orders"}`:          150,
		`tidemark_partition_duplicate_batches_total`:                       1,
		`tidemark_partition_refused_batches_total{reason="corrupt batch"}`: 1,
		`tidemark_partition_sync_duration_seconds`:                         1,
		`tidemark_partition_sync_appends`:                                  1,
		`tidemark_partition_synced_bytes_total`:                            150,
	}, r.samples(t))

	e.Removed(partition.Removed{Topic: "orders"})
	for sample := range r.samples(t) {
		require.NotContains(t, sample, "orders")
	}
}

func TestRequestsAreCountedByAPI(t *testing.T) {
	r := newRig()
	e := Broker(r.registry, r.log)
	e.ConnectionOpened(broker.Connection{ID: 1, Remote: &net.TCPAddr{}})
	e.RequestDone(broker.RequestDone{API: "Produce", Version: 11, BytesIn: 100, BytesOut: 50, Latency: time.Millisecond})
	e.RequestDone(broker.RequestDone{API: "Produce", Version: 11, BytesIn: 100, Err: errDisk})
	e.ConnectionClosed(broker.ConnectionClosed{Reason: broker.ClosedByClient})
	require.Equal(t, map[string]float64{
		`tidemark_kafka_connections_opened_total`:                                1,
		`tidemark_kafka_connections_closed_total{reason="closed by the client"}`: 1,
		`tidemark_kafka_requests_total{api="Produce",version="11"}`:              2,
		`tidemark_kafka_request_bytes_total{api="Produce"}`:                      200,
		`tidemark_kafka_response_bytes_total{api="Produce"}`:                     50,
		`tidemark_kafka_responses_failed_total{api="Produce"}`:                   1,
		`tidemark_kafka_request_duration_seconds{api="Produce"}`:                 2,
	}, r.samples(t))
}

func TestF44_ARecordFromTheFutureIsWarnedAboutAndNamed(t *testing.T) {
	r := newRig()
	KafkaLogs(r.registry, r.log).FutureTimestamp(kafkalog.FutureTimestampEvent{Dir: "data/orders-3", Timestamp: 9, Now: 1})
	require.Equal(t, map[string]float64{
		`tidemark_kafkalog_future_timestamps_total{dir="data/orders-3"}`: 1,
	}, r.samples(t))
	require.Contains(t, r.lines.String(), "level=WARN")
	require.Contains(t, r.lines.String(), "dir=data/orders-3")
}

func TestAFailedDiskIsAnErrorThatNamesThePartition(t *testing.T) {
	r := newRig()
	Partitions(r.registry, r.log).Failed(partition.Failed{Topic: "orders", Partition: 3, Err: errDisk})
	require.Equal(t, "level=ERROR msg=\"the partition takes no more records until the server is started again\" "+
		"topic=orders partition=3 error=\"input/output error\"\n", r.lines.String())
}

func TestAStoppedMetadataLogIsVisible(t *testing.T) {
	r := newRig()
	e := Meta(r.registry, r.log)
	e.Applied(meta.AppliedEvent{Index: 7, Bytes: 100, Commands: 2, Rejected: 1})
	e.Stopped(errDisk)
	require.Equal(t, map[string]float64{
		"tidemark_meta_applied_index":           7,
		"tidemark_meta_entries_applied_total":   1,
		"tidemark_meta_entry_bytes_total":       100,
		"tidemark_meta_commands_applied_total":  2,
		"tidemark_meta_commands_rejected_total": 1,
		"tidemark_meta_stopped":                 1,
	}, r.samples(t))
}

func TestTheFlusherIsAskedAtEachScrape(t *testing.T) {
	r := newRig()
	stats := partition.FlusherStats{}
	Flusher(r.registry, func() partition.FlusherStats { return stats })
	require.Empty(t, r.samples(t))
	stats = partition.FlusherStats{DirtyLogs: 1, BusyWorkers: 2, UnsyncedBytes: 3, Waiting: 4}
	require.Equal(t, map[string]float64{
		"tidemark_flusher_dirty_logs":      1,
		"tidemark_flusher_busy_workers":    2,
		"tidemark_flusher_unsynced_bytes":  3,
		"tidemark_flusher_waiting_appends": 4,
	}, r.samples(t))
}
