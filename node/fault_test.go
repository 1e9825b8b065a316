package node_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/ledger"
	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/node/nodetest"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
)

// real is a node over the real files of a directory, with faults that can be switched on.
type real struct {
	t      *testing.T
	config node.Config
	node   *node.Node
	disk   *faultfs.FS
	log    said
}

// said keeps what a node logs.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write never fails.
func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// String returns it all.
func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func onRealFiles(t *testing.T) *real {
	t.Helper()
	r := &real{t: t, disk: faultfs.New(vfs.OS(), nil)}
	r.config = node.Config{
		DataDir: t.TempDir(), NodeID: 1, Kafka: []node.Listener{{Listen: nodetest.FreePort()}}, HTTP: nodetest.FreePort(), FS: r.disk,
		DiskReserve: -1, Log: slog.New(slog.NewTextHandler(&r.log, nil)),
	}
	t.Cleanup(r.stop)
	r.start()
	return r
}

// start starts the node at the addresses that it had before.
func (r *real) start() {
	r.t.Helper()
	n, err := node.Open(r.t.Context(), r.config)
	require.NoError(r.t, err)
	r.node = n
	r.config.Kafka[0].Listen, r.config.HTTP = n.Addrs().Kafka.String(), n.Addrs().HTTP.String()
}

// stop closes it, whatever its disk says to that.
func (r *real) stop() {
	if r.node != nil {
		_ = r.node.Close(context.Background()) // the test's context is over when the test is
		r.node = nil
	}
}

func (r *real) client(o ...kgo.Opt) *kgo.Client {
	r.t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(r.config.Kafka[0].Listen), kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}, o...)...)
	require.NoError(r.t, err)
	r.t.Cleanup(c.Close)
	return c
}

// produce sends one record once.
func (r *real) produce(partition int32, value string) (position, error) {
	r.t.Helper()
	c := r.client(kgo.RecordRetries(0), kgo.DisableIdempotentWrite())
	got, err := c.ProduceSync(within(r.t), &kgo.Record{Topic: "orders", Partition: partition, Value: []byte(value)}).First()
	return position{"orders", partition, got.Offset}, err
}

// read returns what a partition holds, or its first error.
func (r *real) read(partition int32) (map[position]string, error) {
	r.t.Helper()
	ends, err := kadm.NewClient(r.client()).ListEndOffsets(within(r.t), "orders")
	require.NoError(r.t, err)
	end, _ := ends.Lookup("orders", partition)
	if end.Err != nil {
		return nil, end.Err
	}
	c := r.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {partition: kgo.NewOffset().AtStart()}}),
		kgo.KeepRetryableFetchErrors())
	got := map[position]string{}
	for int64(len(got)) < end.Offset {
		fetches := c.PollFetches(within(r.t))
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(k *kgo.Record) { got[position{k.Topic, k.Partition, k.Offset}] = string(k.Value) })
	}
	return got, nil
}

// ask asks the HTTP side and returns the lines of the answer that hold a text.
func (r *real) ask(what, text string) string {
	r.t.Helper()
	_, body := get(r.t, r.config.HTTP, what)
	var lines []string
	for line := range strings.Lines(body) {
		if strings.Contains(line, text) && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func TestF10_AnErrorOfTheDeviceStaysWithItsPartition(t *testing.T) {
	kinds := func(kinds ...faultfs.Kind) faultfs.Injector {
		return faultfs.When(func(op faultfs.Op) bool {
			return slices.Contains(kinds, op.Kind) && path.Base(path.Dir(op.Name)) == "orders-0" && path.Ext(op.Name) == ".log"
		}, faultfs.Always(faultfs.Fault{Err: syscall.EIO}))
	}
	for name, row := range map[string]struct {
		fault                       faultfs.Injector
		refusesWriters, stopsReader bool // writers until the next start
	}{
		"write": {fault: kinds(faultfs.OpWriteAt, faultfs.OpWriteVectorAt), refusesWriters: true},
		"sync":  {fault: kinds(faultfs.OpSync), refusesWriters: true},
		"read":  {fault: kinds(faultfs.OpReadAt, faultfs.OpSendTo), stopsReader: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := onRealFiles(t)
			createTopic(t, r.client(), 2, nil, "orders")
			kept := []map[position]string{{}, {}}
			acknowledged := func(partition int32, value string) {
				t.Helper()
				at, err := r.produce(partition, value)
				require.NoError(t, err)
				kept[partition][at] = value
			}
			acknowledged(0, "before")
			acknowledged(1, "before")

			r.disk.SetInjector(row.fault)
			if row.refusesWriters {
				for range 2 {
					_, err := r.produce(0, "refused")
					require.ErrorIs(t, err, kerr.KafkaStorageError)
				}
				require.Contains(t, r.log.String(), "input/output error")
			} else {
				acknowledged(0, "goes on")
			}
			if row.stopsReader {
				_, err := r.read(0)
				require.ErrorIs(t, err, kerr.KafkaStorageError)
				require.Regexp(t, `records could not be read.* topic=orders partition=0 offset=0 error=.*orders-0/0{20}\.log at position \d+: .*input/output error`,
					r.log.String(), "the file and the offset are named")
				require.NotEqual(t, "tidemark_partition_read_failures_total 0\n", r.ask("/metrics", "tidemark_partition_read_failures_total "))
			} else {
				got, err := r.read(0)
				require.NoError(t, err)
				require.Equal(t, kept[0], got, "what was acknowledged is read")
			}
			acknowledged(1, "goes on")
			got, err := r.read(1)
			require.NoError(t, err)
			require.Equal(t, kept[1], got)
			code, _ := get(t, r.config.HTTP, "/healthz")
			require.Equal(t, http.StatusOK, code)
			if row.refusesWriters {
				require.True(t, name == "sync" || r.ask("/metrics", `tidemark_partition_refused_batches_total{reason="storage"}`) != "")
				require.Contains(t, r.log.String(), `the partition accepts no more records until the server is restarted" topic=orders partition=0`)
				require.Equal(t, "tidemark_partition_failures_total 1\n", r.ask("/metrics", "tidemark_partition_failures_total "))
				require.NotEmpty(t, r.ask("/readyz", `"orders-0"`))
			}

			r.disk.SetInjector(nil)
			if row.refusesWriters {
				_, err := r.produce(0, "who knows what the device kept")
				require.ErrorIs(t, err, kerr.KafkaStorageError)
				r.stop()
				r.start()
			}
			acknowledged(0, "after")
			for p := range int32(2) {
				got, err := r.read(p)
				require.NoError(t, err)
				maps.DeleteFunc(got, func(_ position, value string) bool { return value == "refused" }) // it may be there
				require.Equal(t, kept[p], got)
			}
		})
	}
}

func TestF10_AFullDiskRefusesWritersAndNobodyElse(t *testing.T) {
	const room = 16 << 20
	r := onRealFiles(t)
	q := faultfs.NewQuota(room)
	r.disk.SetInjector(q.Inject)
	createTopic(t, r.client(), 3, map[string]string{"segment.bytes": "1048576"}, "orders")
	l := ledger.New("orders")
	seeds := kgo.SeedBrokers(r.config.Kafka[0].Listen)
	load, err := ledger.StartLoad(l, ledger.LoadOptions{Client: []kgo.Opt{seeds}, Readers: 1, Group: "billing"})
	require.NoError(t, err)
	defer load.Close()
	require.Eventually(t, func() bool { return q.Left() < 100_000 }, patience, time.Millisecond)
	load.Pause()
	q.Free(-q.Left())
	for p := range int32(3) {
		_, err := r.produce(p, strings.Repeat("x", 1000))
		require.ErrorIs(t, err, kerr.KafkaStorageError)
	}
	created, err := kadm.NewClient(r.client()).CreateTopic(within(t), 1, 1, nil, "more")
	require.ErrorIs(t, errors.Join(err, created.Err), kerr.KafkaStorageError)
	require.Equal(t, "the disk is full: delete topics or records, or add space", created.ErrMessage)
	verify := func(when string) {
		t.Helper()
		report, err := l.Verify(within(t), seeds)
		require.NoError(t, err, when)
		require.NoError(t, report.Err(), when)
	}
	verify("readers are served")
	code, _ := get(t, r.config.HTTP, "/healthz")
	require.Equal(t, http.StatusOK, code)
	require.NotEmpty(t, r.ask("/metrics", "tidemark_partition_refused_batches_total"))
	require.Contains(t, r.log.String(), "no space left on device")

	require.NoError(t, r.node.Close(t.Context()), "a full disk is no reason to end badly")
	require.Contains(t, r.log.String(), "the disk is full: the marker of a clean stop could not be written")
	r.start()
	_, err = r.produce(0, "no")
	require.ErrorIs(t, err, kerr.KafkaStorageError)
	require.Contains(t, r.log.String(), "a partition is not served")

	q.Free(4 * room)
	load.Resume()
	require.NoError(t, l.WaitAcks(within(t), l.Acks()+100), "what could not be opened is, once there is room")
	require.NoError(t, load.Stop(within(t)))
	verify("there is room again")
	require.Empty(t, r.ask("/readyz", `"orders-`))
	require.NoError(t, r.node.Close(t.Context()))
	require.NotContains(t, lastLine(r.log.String()), "full")
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func TestAClockThatJumpsBothWaysStopsNothing(t *testing.T) {
	r := onRealFiles(t)
	r.stop()
	var shift atomic.Int64
	r.config.Now = func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }
	r.config.InitialTaskDelay, r.config.RetentionCheck = time.Millisecond, 10*time.Millisecond
	r.start()
	createTopic(t, r.client(), 3, map[string]string{
		"segment.bytes": "1048576", "retention.bytes": "2000000", "message.timestamp.after.max.ms": "9223372036854775807",
	}, "orders")
	createTopic(t, r.client(), 1, nil, "strict")
	l := ledger.New("orders")
	seeds := kgo.SeedBrokers(r.config.Kafka[0].Listen)
	load, err := ledger.StartLoad(l, ledger.LoadOptions{Client: []kgo.Opt{seeds}, Readers: 1, Group: "billing"})
	require.NoError(t, err)
	defer load.Close()
	strict := func() error {
		return r.client(kgo.RecordRetries(0)).ProduceSync(within(t), &kgo.Record{Topic: "strict", Value: []byte("now")}).FirstErr()
	}
	starts := func() (sum int64) {
		listed, err := kadm.NewClient(r.client()).ListStartOffsets(within(t), "orders")
		require.NoError(t, err)
		listed.Each(func(o kadm.ListedOffset) { sum += o.Offset })
		return sum
	}
	require.NoError(t, strict())
	for _, jump := range []time.Duration{10 * time.Hour, -10 * time.Hour, 0, -24 * 365 * time.Hour} {
		shift.Store(int64(jump))
		before := starts()
		require.NoError(t, l.WaitAcks(within(t), l.Acks()+300), "clients are served")
		require.Eventually(t, func() bool { return starts() > before }, patience, 10*time.Millisecond, "and retention goes on")
		err := strict()
		if jump < 0 {
			require.ErrorIs(t, err, kerr.InvalidTimestamp, "by the server's clock the record is from the future")
		} else {
			require.NoError(t, err)
		}
	}
	shift.Store(0)
	require.NoError(t, strict())
	require.NoError(t, load.Stop(within(t)))
	require.Empty(t, l.Violations(), "no write was refused, no read failed, nothing was shown in two ways")
	require.NoError(t, r.node.Close(t.Context()))
}
