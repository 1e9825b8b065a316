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
	"strconv"
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
	"github.com/tidemark-io/tidemark/topicconfig"
	"github.com/tidemark-io/tidemark/vfs/memfs"
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

func TestNamesFollowPrometheusConventions(t *testing.T) {
	var families []*dto.MetricFamily
	for _, m := range Reference() {
		kinds := map[Kind]dto.MetricType{
			Counter: dto.MetricType_COUNTER, Gauge: dto.MetricType_GAUGE, Histogram: dto.MetricType_HISTOGRAM,
		}
		one := &dto.Metric{}
		for _, l := range m.Labels {
			one.Label = append(one.Label, &dto.LabelPair{Name: new(l), Value: new("x")})
		}
		families = append(families, &dto.MetricFamily{
			Name: new(m.Name), Help: new(m.Help), Type: new(kinds[m.Kind]), Metric: []*dto.Metric{one},
		})
	}
	require.Greater(t, len(families), 60)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
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
	fire(t, KafkaLogs(r.registry, r.log, &Topics{}))
	fire(t, Partitions(r.registry, r.log, NewTopics(r.registry, nothing)))
	fire(t, Broker(r.registry, r.log))
	fire(t, Meta(r.registry, r.log))
	streams := Streams(r.registry, r.log)
	fire(t, streams.Engine)
	streams.TakeOver(TakeOverEvent{})
	streams.LeaseLeft(LeaseLeftEvent{})
	fire(t, ObjectStore(r.registry, r.log))
}

// nothing is a node without logs.
func nothing() iter.Seq[*partition.Log] { return slices.Values([]*partition.Log(nil)) }

func TestWhatBecomesOfBatchesIsCounted(t *testing.T) {
	r := newRig()
	e := Partitions(r.registry, r.log, NewTopics(r.registry, nothing))
	e.Appended(partition.Appended{Topic: "orders", Records: 2, Bytes: 50, Duplicate: true})
	e.Synced(partition.Synced{Topic: "orders", Appends: 2, Bytes: 150, Took: time.Millisecond})
	e.Refused(partition.Refused{Topic: "orders", Reason: "corrupt batch", Err: errDisk})
	require.Equal(t, map[string]float64{
		`tidemark_partition_duplicate_batches_total`:                       1,
		`tidemark_partition_refused_batches_total{reason="corrupt batch"}`: 1,
		`tidemark_partition_sync_duration_seconds`:                         1,
		`tidemark_partition_sync_appends`:                                  1,
		`tidemark_partition_synced_bytes_total`:                            150,
	}, r.samples(t))
}

// logs opens an empty log of each topic on a disk in memory.
func logs(t *testing.T, topics ...string) []*partition.Log {
	var dirs []string
	for _, topic := range topics {
		dirs = append(dirs, topic+"-0")
	}
	return logsIn(t, dirs...)
}

// logsIn opens an empty log in each directory of a disk in memory, whose name says of which partition.
func logsIn(t *testing.T, dirs ...string) []*partition.Log {
	t.Helper()
	env := kafkalog.NewEnv(kafkalog.EnvOptions{FS: memfs.New()})
	flusher := partition.NewFlusher(partition.FlusherOptions{})
	maintainer := partition.NewMaintainer(partition.MaintainerOptions{})
	t.Cleanup(func() {
		maintainer.Close()
		flusher.Close()
		require.NoError(t, env.Close())
	})
	var open []*partition.Log
	for _, dir := range dirs {
		at := strings.LastIndexByte(dir, '-')
		index, err := strconv.Atoi(dir[at+1:])
		require.NoError(t, err)
		l, err := partition.Open(partition.Options{
			Env: env, Flusher: flusher, Maintainer: maintainer, Dir: dir, Topic: dir[:at], Index: int32(index),
			Config: topicconfig.Default(),
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, l.Close()) })
		open = append(open, l)
	}
	return open
}

func TestF78_AppendsAreCountedByTopicUntilTheTopicIsDeleted(t *testing.T) {
	r := newRig()
	hosted := logs(t, "orders", "clicks")
	topics := NewTopics(r.registry, func() iter.Seq[*partition.Log] { return slices.Values(hosted) })
	e := Partitions(r.registry, r.log, topics)
	e.Appended(partition.Appended{Topic: "orders", Records: 3, Bytes: 100})
	e.Appended(partition.Appended{Topic: "orders", Records: 2, Bytes: 50})
	e.Appended(partition.Appended{Topic: "clicks", Records: 1, Bytes: 10})
	require.Equal(t, map[string]float64{
		`tidemark_partition_appended_batches_total{topic="clicks"}`: 1,
		`tidemark_partition_appended_batches_total{topic="orders"}`: 2,
		`tidemark_partition_appended_records_total{topic="clicks"}`: 1,
		`tidemark_partition_appended_records_total{topic="orders"}`: 5,
		`tidemark_partition_appended_bytes_total{topic="clicks"}`:   10,
		`tidemark_partition_appended_bytes_total{topic="orders"}`:   150,
	}, r.samples(t))
	records, bytes := topics.Appended("orders")
	require.Equal(t, []int64{5, 150}, []int64{records, bytes})

	hosted = hosted[1:]
	e.Removed(partition.Removed{Topic: "orders"})
	e.Appended(partition.Appended{Topic: "orders", Records: 1, Bytes: 10}) // it was on its way
	families, err := r.registry.Gather()
	require.NoError(t, err)
	require.NotEmpty(t, families)
	for _, f := range families {
		require.NotContains(t, f.String(), "orders")
	}
	records, bytes = topics.Appended("orders")
	require.Equal(t, []int64{0, 0}, []int64{records, bytes})
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

func TestF44_ARecordFromTheFutureIsWarnedAboutAndItsPartitionHasASeries(t *testing.T) {
	r := newRig()
	var hosted []*partition.Log
	topics := NewTopics(r.registry, func() iter.Seq[*partition.Log] { return slices.Values(hosted) })
	logs, removed := KafkaLogs(r.registry, r.log, topics), Partitions(r.registry, r.log, topics).Removed
	from := func(dir string) { logs.FutureTimestamp(kafkalog.FutureTimestampEvent{Dir: dir, Timestamp: 9, Now: 1}) }
	named := func() map[string]float64 {
		samples := r.samples(t)
		for name := range samples {
			if !strings.Contains(name, "future_timestamps") {
				delete(samples, name)
			}
		}
		return samples
	}
	hosted = logsIn(t, "orders-3", "orders-3-0", "orders-4")
	from("orders-3")
	from("orders-3")
	from("orders-3-0")
	require.Contains(t, r.lines.String(), "level=WARN")
	require.Contains(t, r.lines.String(), "dir=orders-3 ")
	require.Equal(t, map[string]float64{
		`tidemark_kafkalog_future_timestamps_total`:                                  3,
		`tidemark_partition_future_timestamps_total{partition="3",topic="orders"}`:   2,
		`tidemark_partition_future_timestamps_total{partition="0",topic="orders-3"}`: 1,
	}, named())

	removed(partition.Removed{Topic: "orders", Partition: 3})
	require.NotContains(t, named(), `tidemark_partition_future_timestamps_total{partition="3",topic="orders"}`,
		"another topic of that name is another one")
	from("orders-3")
	hosted = hosted[1:2]
	require.Len(t, named(), 2)
	hosted = nil
	require.Equal(t, map[string]float64{`tidemark_kafkalog_future_timestamps_total`: 4}, named(), "with the topic the series goes")
	require.Empty(t, topics.ahead.counts())

	var dirs []string
	for i := range 2 * futurePartitions {
		dirs = append(dirs, fmt.Sprintf("many-%d", i))
		from(dirs[i])
		from(dirs[i])
	}
	hosted = logsIn(t, dirs...)
	require.Len(t, named(), 1+futurePartitions, "whatever there is")
	require.EqualValues(t, 4+4*futurePartitions, named()[`tidemark_kafkalog_future_timestamps_total`])
	for _, l := range hosted {
		removed(partition.Removed{Topic: l.Topic(), Partition: l.Index()})
	}
	require.Len(t, named(), 1)
}

func TestAFailedDiskIsAnErrorThatNamesThePartition(t *testing.T) {
	r := newRig()
	Partitions(r.registry, r.log, NewTopics(r.registry, nothing)).Failed(partition.Failed{Topic: "orders", Partition: 3, Err: errDisk})
	require.Equal(t, "level=ERROR msg=\"the partition accepts no more records until the server is restarted\" "+
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

func TestADamagedMetadataSnapshotIsVisible(t *testing.T) {
	r := newRig()
	Meta(r.registry, r.log).FellBack(meta.FallbackEvent{Damaged: 20, From: 10, Entries: 10, Err: errDisk})
	require.Equal(t, map[string]float64{"tidemark_meta_snapshot_fallbacks_total": 1}, r.samples(t))
	require.Contains(t, r.lines.String(), "level=ERROR")
	require.Contains(t, r.lines.String(), "snapshot=20 from=10 entries=10")
}

func TestTheQueueOfRequestsIsAskedAtEachScrape(t *testing.T) {
	r := newRig()
	var queue broker.Queue
	Queue(r.registry, func() broker.Queue { return queue })
	require.Empty(t, r.samples(t))
	queue = broker.Queue{Bytes: 1, Waiting: 2}
	require.Equal(t, map[string]float64{
		"tidemark_kafka_queued_request_bytes": 1,
		"tidemark_kafka_waiting_requests":     2,
	}, r.samples(t))
}

func TestTheFlusherIsAskedAtEachScrape(t *testing.T) {
	r := newRig()
	stats := partition.FlusherStats{}
	Flusher(r.registry, func() partition.FlusherStats { return stats })
	require.Empty(t, r.samples(t))
	stats = partition.FlusherStats{DirtyLogs: 1, BusyWorkers: 2, UnsyncedBytes: 3, Waiting: 4, JournalRounds: 5, JournalBytes: 6, JournalGivenUp: true}
	require.Equal(t, map[string]float64{
		"tidemark_flusher_dirty_logs":           1,
		"tidemark_flusher_busy_workers":         2,
		"tidemark_flusher_unsynced_bytes":       3,
		"tidemark_flusher_waiting_appends":      4,
		"tidemark_flusher_journal_rounds_total": 5,
		"tidemark_flusher_journal_bytes_total":  6,
		"tidemark_flusher_journal_given_up":     1,
	}, r.samples(t))
}
