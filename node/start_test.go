package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/node/nodetest"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// get asks the node's HTTP side, over a connection that ends with the answer.
func get(t *testing.T, addr, what string) (code int, body string) {
	t.Helper()
	h := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	answer, err := h.Get("http://" + addr + what)
	require.NoError(t, err)
	read, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode, string(read)
}

func TestF60_U23_RecoveryIsAliveAndNotReadyAndSaysHowFarItIs(t *testing.T) {
	m := machine(t)
	m.Start()
	createTopic(t, client(t, m), 10, nil, "orders")
	m.CutPower(nodetest.Cut{Keep: 1})

	// Recovery stops at one log until it is asked how it is going.
	reached, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	m.Wrap = func(base vfs.FS) vfs.FS {
		return faultfs.New(base, faultfs.When(faultfs.Matching(faultfs.OpList, "data/orders-7"),
			faultfs.Always(faultfs.Fault{Hook: func() {
				once.Do(func() { close(reached) })
				<-leave
			}})))
	}
	started := make(chan error, 1)
	go func() {
		_, err := m.TryStart(t.Context())
		started <- err
	}()
	<-reached

	code, _ := get(t, m.HTTPAddr(), "/healthz")
	require.Equal(t, http.StatusOK, code)
	code, body := get(t, m.HTTPAddr(), "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	var said struct {
		Phase           string
		Done, Total     int
		Opening, Failed []string
	}
	require.NoError(t, json.Unmarshal([]byte(body), &said))
	require.Equal(t, "opening partitions", said.Phase)
	require.Equal(t, 10, said.Total)
	require.Less(t, said.Done, 10)
	require.Contains(t, said.Opening, "orders-7")
	require.Empty(t, said.Failed, "what is yet to be opened has not failed")

	close(leave)
	require.NoError(t, <-started)
	code, _ = get(t, m.HTTPAddr(), "/readyz")
	require.Equal(t, http.StatusOK, code)
}

func TestF60_ClosingWithClientsConnectedAnswersThemAndIsHarmlessTwice(t *testing.T) {
	m := machine(t)
	n := m.Start()
	c := client(t, m, kgo.ConsumeTopics("orders"))
	createTopic(t, c, 1, nil, "orders")
	parked := make(chan kgo.Fetches, 1)
	go func() { parked <- c.PollFetches(t.Context()) }() // waits for records
	w := client(t, m)
	for i := range 100 {
		w.Produce(t.Context(), &kgo.Record{Topic: "orders", Value: []byte(fmt.Sprint(i))}, nil)
	}
	require.NoError(t, n.Close(t.Context()))
	require.NoError(t, n.Close(t.Context()))
	require.False(t, n.Ready())
	require.ErrorIs(t, n.Err(), node.ErrClosed)
	<-n.Done()
	require.True(t, exists(m.FS, "data/.kafka_cleanshutdown"))
	require.NoError(t, m.TryStop(t.Context()))

	m.Start()
	require.NoError(t, w.Flush(within(t)))
	require.NotEmpty(t, (<-parked).Records())
	require.Len(t, consume(t, m, "orders"), 100, "each record once")
}

func TestF60_AHungDiskDoesNotHoldUpTheEndForEver(t *testing.T) {
	m := machine(t)
	var hang atomic.Bool
	release := make(chan struct{})
	m.Wrap = func(base vfs.FS) vfs.FS {
		return faultfs.New(base, faultfs.When(func(op faultfs.Op) bool { return op.Kind == faultfs.OpSync && hang.Load() },
			faultfs.Always(faultfs.Fault{Hook: func() { <-release }})))
	}
	m.Start()
	c := client(t, m)
	createTopic(t, c, 1, nil, "orders")
	acked := produce(t, c, "orders", 0, "kept")
	hang.Store(true)
	c.Produce(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("stuck")}, nil)
	require.Eventually(t, func() bool {
		return strings.Contains(metric(t, m, "tidemark_flusher_busy_workers"), " 1")
	}, patience, 5*time.Millisecond)

	over, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, m.TryStop(over), context.DeadlineExceeded)
	require.False(t, exists(m.FS, "data/.kafka_cleanshutdown"))
	hang.Store(false)
	close(release) // what was given up ends by itself, the HTTP listener near the end
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", m.HTTPAddr())
		if err == nil {
			_ = conn.Close() // it only asks whether somebody listens
		}
		return err != nil
	}, patience, 5*time.Millisecond)
	c.Close()
	m.FS = m.FS.CrashClean()
	m.Wrap = nil
	m.Start()
	require.Equal(t, "kept", consume(t, m, "orders")[acked])
}

// metric returns the lines of one metric.
func metric(t *testing.T, m *nodetest.Machine, name string) string {
	t.Helper()
	_, body := get(t, m.HTTPAddr(), "/metrics")
	var lines []string
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, name) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func TestF37_CrashesDuringRecoveryEndInWhatOneRecoveryEndsIn(t *testing.T) {
	// The first crash leaves a disk; every way to crash again while recovering it must lead to the same log.
	first := machine(t)
	first.Start()
	c := client(t, first)
	createTopic(t, c, 1, nil, "orders")
	acked := map[position]string{}
	for i := range 20 {
		acked[produce(t, c, "orders", 0, fmt.Sprint(i))] = fmt.Sprint(i)
	}
	first.CutPower(nodetest.Cut{Seed: 3, Keep: 0.5})
	disk := first.FS

	for step := int64(0); ; step++ {
		m := machine(t)
		m.Meta, m.FS = first.Meta, disk.Crash(memfs.CrashOptions{KeepUnsynced: 1})
		f := fit(m, step)
		f.lit.Store(true)
		_, err := m.TryStart(t.Context())
		m.CutPower(nodetest.Cut{Seed: uint64(step), Keep: 0.5})
		m.Wrap = nil
		m.Start()
		require.Equal(t, acked, consume(t, m, "orders"), "step %d", step)
		require.Equal(t, position{"orders", 0, 20}, produce(t, client(t, m), "orders", 0, "more"))
		m.Stop()
		if err == nil && !f.blown.Load() {
			require.Greater(t, step, int64(3))
			return
		}
	}
}

func TestF37_CheckpointsBeyondTheLogAreNotBelieved(t *testing.T) {
	m := machine(t)
	m.Start()
	c := client(t, m)
	createTopic(t, c, 1, nil, "orders")
	produce(t, c, "orders", 0, "a")
	m.Stop()
	for _, name := range []string{"recovery-point-offset-checkpoint", "replication-offset-checkpoint"} {
		require.NoError(t, vfs.WriteFileAtomic(m.FS, path.Join(nodetest.DataDir, name), []byte("0\n1\norders 0 1000\n")))
	}
	require.NoError(t, m.FS.Remove("data/.kafka_cleanshutdown"))
	m.Start()
	require.Equal(t, position{"orders", 0, 1}, produce(t, c, "orders", 0, "b"))
	m.Stop()
	checkpoint, err := vfs.ReadFile(m.FS, "data/recovery-point-offset-checkpoint")
	require.NoError(t, err)
	require.Equal(t, "0\n1\norders 0 2\n", string(checkpoint))
}

func TestF77_AStartReadsNoMoreThanWhatMayNotBeOnDisk(t *testing.T) {
	m := machine(t)
	m.Start()
	c := client(t, m, kgo.ProducerBatchCompression(kgo.NoCompression()))
	const partitions, segments, mib = 3, 4, 1 << 20
	createTopic(t, c, partitions, map[string]string{"segment.bytes": fmt.Sprint(mib)}, "orders")
	value := strings.Repeat("x", mib/8)
	for p := range int32(partitions) {
		for range 8 * segments {
			produce(t, c, "orders", p, value)
		}
	}
	createTopic(t, c, partitions, nil, "young") // of a few records, and without index files
	for p := range int32(partitions) {
		for range p {
			produce(t, c, "young", p, "a")
		}
	}
	want := consumeAll(t, m, "orders", "young")
	rolled := 0
	active := map[string]string{} // by directory; names sort by offset
	for _, name := range slices.Sorted(slices.Values(under(tree(t, m.FS, nodetest.DataDir), ".log"))) {
		if !strings.HasSuffix(name, "/"+strings.Repeat("0", 20)+".log") {
			rolled++
		}
		active[path.Dir(name)] = name
	}
	require.GreaterOrEqual(t, rolled, partitions*(segments-1))
	unsealed := int64(0)
	for _, name := range active {
		info, err := m.FS.Stat(name)
		require.NoError(t, err)
		unsealed += info.Size()
	}

	var read atomic.Int64
	m.Wrap = func(base vfs.FS) vfs.FS {
		read.Store(0)
		return faultfs.New(base, faultfs.When(faultfs.Matching(faultfs.OpReadAt, "*.log"), func(op faultfs.Op) faultfs.Fault {
			read.Add(op.Len)
			return faultfs.Fault{}
		}))
	}
	m.CutPower(nodetest.Cut{Keep: 1})
	m.Start()
	require.Positive(t, read.Load())
	require.LessOrEqual(t, read.Load(), unsealed+64<<10, "the active segment of each")
	for range 2 {
		m.Stop()
		m.Start()
		require.Zero(t, read.Load(), "a start after a clean stop")
		require.Equal(t, want, consumeAll(t, m, "orders", "young"))
		want[produce(t, c, "orders", 1, value)] = value
		want[produce(t, c, "young", 2, "b")] = "b"
		want[produce(t, c, "young", 0, "c")] = "c"
	}
}

func TestTheLeaderEpochRisesOnlyAfterAnUncleanStop(t *testing.T) {
	m := machine(t)
	m.Start()
	createTopic(t, client(t, m), 1, nil, "orders")
	epoch := func() int32 {
		topics, err := kadm.NewClient(client(t, m)).ListTopics(within(t), "orders")
		require.NoError(t, err)
		return topics["orders"].Partitions[0].LeaderEpoch
	}
	require.Equal(t, int32(0), epoch())
	m.Stop()
	m.Start()
	require.Equal(t, int32(0), epoch())
	m.CutPower(nodetest.Cut{Keep: 1})
	m.Start()
	require.Equal(t, int32(1), epoch())
	require.Contains(t, metric(t, m, "tidemark_node_unclean_starts_total"), " 1")
	m.Stop()
	m.Start()
	require.Equal(t, int32(1), epoch())
}

func TestF12_ADuplicateOnAnotherConnectionIsAnsweredNoSoonerThanTheOriginal(t *testing.T) {
	m := machine(t)
	var holding atomic.Bool
	held, released := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	defer release()
	var once sync.Once
	m.Wrap = func(base vfs.FS) vfs.FS {
		return faultfs.New(base, faultfs.When(
			func(op faultfs.Op) bool { return holding.Load() && faultfs.Matching(faultfs.OpSync, "*.log")(op) },
			faultfs.Always(faultfs.Fault{Hook: func() {
				once.Do(func() { close(held) })
				<-released
			}})))
	}
	m.Start()
	createTopic(t, client(t, m), 1, nil, "orders")
	topics, err := kadm.NewClient(client(t, m)).ListTopics(within(t), "orders")
	require.NoError(t, err)
	id, err := client(t, m).Request(within(t), kmsg.NewPtrInitProducerIDRequest())
	require.NoError(t, err)
	builder := batch.NewBuilder(batch.BuilderOptions{
		HasProducer: true, ProducerID: id.(*kmsg.InitProducerIDResponse).ProducerID,
	})
	builder.Add(time.Now().UnixMilli(), nil, []byte("once"))
	records, err := builder.Build()
	require.NoError(t, err)

	holding.Store(true)
	answers := make(chan kmsg.ProduceResponseTopicPartition, 2)
	send := func() {
		go func() { answers <- produceRaw(t, client(t, m), topics["orders"], records) }()
	}
	send()
	select {
	case <-held:
	case answer := <-answers:
		t.Fatalf("answered before it was durable: %+v", answer)
	}
	send() // the first connection is as good as gone
	require.Eventually(t, func() bool {
		return strings.Contains(metric(t, m, "tidemark_partition_duplicate_batches_total"), " 1")
	}, patience, 5*time.Millisecond)
	require.Empty(t, answers, "the first copy is not durable yet")

	release()
	for range 2 {
		answer := <-answers
		require.Zero(t, answer.ErrorCode)
		require.Zero(t, answer.BaseOffset)
	}
	m.CutPower(nodetest.Cut{Seed: 1})
	m.Wrap = nil
	m.Start()
	require.Equal(t, map[position]string{{"orders", 0, 0}: "once"}, consume(t, m, "orders"))
}

// produceRaw sends a batch as it is to partition 0 and returns the answer.
func produceRaw(t *testing.T, c *kgo.Client, topic kadm.TopicDetail, records []byte) kmsg.ProduceResponseTopicPartition {
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = records
	to := kmsg.NewProduceRequestTopic()
	to.Topic, to.TopicID, to.Partitions = topic.Topic, topic.ID, []kmsg.ProduceRequestTopicPartition{partition}
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis, request.Topics = -1, 30_000, []kmsg.ProduceRequestTopic{to}
	response, err := c.Request(t.Context(), request)
	if err != nil {
		t.Error(err)
		return partition0(-1)
	}
	return response.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
}

func partition0(code int16) kmsg.ProduceResponseTopicPartition {
	p := kmsg.NewProduceResponseTopicPartition()
	p.ErrorCode = code
	return p
}

func TestF74_TheFirstWriteToAnAutoCreatedTopicSucceeds(t *testing.T) {
	m := machine(t)
	m.Start()
	var failed []error
	for i := range 20 {
		c := client(t, m, kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(0), kgo.RecordRetries(0))
		topic := fmt.Sprintf("fresh%d", i%10)
		if err := c.ProduceSync(within(t), &kgo.Record{Topic: topic, Value: []byte("first")}).FirstErr(); err != nil {
			failed = append(failed, err)
		}
	}
	require.NoError(t, errors.Join(failed...))
}

func TestManyClientsMayCreateTheSameTopicAtOnceAndOneDoes(t *testing.T) {
	m := machine(t)
	m.Start()
	var created atomic.Int64
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			c := client(t, m)
			r, err := kadm.NewClient(c).CreateTopic(within(t), 3, 1, nil, "orders")
			if err == nil && r.Err == nil {
				created.Add(1)
			}
		})
	}
	clients.Wait()
	require.Equal(t, int64(1), created.Load())
	produce(t, client(t, m), "orders", 2, "works")
	require.Empty(t, under(tree(t, m.FS, nodetest.DataDir), "-stray"))
	require.Empty(t, under(tree(t, m.FS, nodetest.DataDir), "-delete"))
}

func TestListenersThatOthersCanReachMustBeAllowed(t *testing.T) {
	for _, c := range []node.Config{
		{DataDir: "data", Kafka: []node.Listener{{Listen: "0.0.0.0:0"}}},
		{DataDir: "data", Kafka: []node.Listener{{Listen: ":0"}}},
		{DataDir: "data", Kafka: []node.Listener{{Listen: "[::]:0"}}},
		{DataDir: "data", Kafka: []node.Listener{{Listen: "127.0.0.1:0"}, {Listen: "192.0.2.1:0"}}},
		{DataDir: "data", HTTP: "192.0.2.1:0"},
	} {
		_, err := node.Open(t.Context(), c)
		var exposed *node.ExposedError
		require.ErrorAs(t, err, &exposed)
	}
}

func TestClientsMustBeToldAnAddressThatTheyCanConnectTo(t *testing.T) {
	for _, l := range []node.Listener{
		{Listen: "127.0.0.1:0", Advertise: "0.0.0.0:9092"},
		{Listen: "127.0.0.1:0", Advertise: ":9092"},
		{Listen: "127.0.0.1:0", Advertise: "broker.example"},
	} {
		_, err := node.Open(t.Context(), node.Config{DataDir: "data", Kafka: []node.Listener{{}, l}, InsecureListen: true})
		require.ErrorContains(t, err, "Kafka.Advertise")
	}
}

func TestAPortThatIsTakenIsAnErrorAndNothingIsLeftOpen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	dir := t.TempDir()
	_, err = node.Open(t.Context(), node.Config{DataDir: dir, Kafka: []node.Listener{{Listen: l.Addr().String()}}})
	require.ErrorContains(t, err, "address already in use")
	n, err := onDisk0(t, dir)
	require.NoError(t, err)
	require.NoError(t, n.Close(t.Context()))
}

func onDisk0(t *testing.T, dir string) (*node.Node, error) {
	t.Helper()
	return node.Open(t.Context(), node.Config{DataDir: dir, Kafka: []node.Listener{{Listen: "127.0.0.1:0"}}})
}

func TestClientsAreToldTheAdvertisedAddress(t *testing.T) {
	dir := t.TempDir()
	for advertise, want := range map[string]string{
		"":                    "127.0.0.1:",
		"broker.example:9092": "broker.example:9092",
		"broker.example:0":    "broker.example:",
	} {
		n, err := node.Open(t.Context(), node.Config{
			DataDir: dir, Kafka: []node.Listener{{Listen: "127.0.0.1:0", Advertise: advertise}},
		})
		require.NoError(t, err)
		_, port, err := net.SplitHostPort(n.Addrs().Kafka.String())
		require.NoError(t, err)
		if strings.HasSuffix(want, ":") {
			want += port
		}
		require.Equal(t, want, n.Addrs().KafkaAdvertised)
		require.NoError(t, n.Close(t.Context()))
	}
}
