package node_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/node/nodetest"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(serveUntilKilled(dir))
	}
	goleak.VerifyTestMain(m)
}

// patience bounds what a test waits for when something is wrong.
const patience = 5 * time.Minute

// machine is a machine whose disk is checked when the test is over and the node was stopped.
func machine(t *testing.T) *nodetest.Machine {
	t.Helper()
	var m *nodetest.Machine
	t.Cleanup(func() { checkLogs(t, m) })
	m = nodetest.New(t)
	return m
}

// checkLogs opens every log on a copy of the machine's disk and checks it.
func checkLogs(t *testing.T, m *nodetest.Machine) {
	t.Helper()
	disk := m.FS.Crash(memfs.CrashOptions{KeepUnsynced: 1})
	if !exists(disk, "data/.kafka_cleanshutdown") {
		return // the test ended in a crash
	}
	env := kafkalog.NewEnv(kafkalog.EnvOptions{FS: disk})
	entries, err := disk.List(nodetest.DataDir)
	require.NoError(t, err)
	for _, e := range entries {
		if !e.IsDir() || strings.Contains(e.Name(), ".") {
			continue
		}
		l, err := kafkalog.Open(env, path.Join(nodetest.DataDir, e.Name()), kafkalog.Options{Clean: true})
		require.NoError(t, err)
		require.Empty(t, l.Check(), e.Name())
	}
	require.NoError(t, env.Close())
}

// client is a Kafka client of the machine's node, closed with the test.
func client(t *testing.T, m *nodetest.Machine, o ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(m.Addr()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(10 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }),
	}, o...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("the test waited too long"))
	t.Cleanup(cancel)
	return ctx
}

func createTopic(t *testing.T, c *kgo.Client, partitions int32, settings map[string]string, name string) {
	t.Helper()
	values := map[string]*string{}
	for k, v := range settings {
		values[k] = &v
	}
	r, err := kadm.NewClient(c).CreateTopic(within(t), partitions, 1, values, name)
	require.NoError(t, err)
	require.NoError(t, r.Err)
}

// position is where a record is.
type position struct {
	topic     string
	partition int32
	offset    int64
}

// produce writes one record and returns where it is.
func produce(t *testing.T, c *kgo.Client, topic string, partition int32, value string) position {
	t.Helper()
	r, err := c.ProduceSync(within(t), &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}).First()
	require.NoError(t, err)
	return position{r.Topic, r.Partition, r.Offset}
}

// consume reads a whole topic, up to the end that it has when the call begins.
func consume(t *testing.T, m *nodetest.Machine, topic string) map[position]string {
	t.Helper()
	ctx := within(t)
	c := client(t, m, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ends, err := kadm.NewClient(c).ListEndOffsets(ctx, topic)
	require.NoError(t, err)
	starts, err := kadm.NewClient(c).ListStartOffsets(ctx, topic)
	require.NoError(t, err)
	left := map[int32]int64{}
	ends.Each(func(end kadm.ListedOffset) {
		require.NoError(t, end.Err)
		if start, _ := starts.Lookup(topic, end.Partition); start.Offset < end.Offset {
			left[end.Partition] = end.Offset
		}
	})
	got := map[position]string{}
	for len(left) > 0 {
		fetches := c.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			got[position{r.Topic, r.Partition, r.Offset}] = string(r.Value)
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return got
}

func TestAServerKeepsWhatItAcknowledgedOverARestart(t *testing.T) {
	m := machine(t)
	m.Start()
	c := client(t, m)
	createTopic(t, c, 3, nil, "orders")
	acked := map[position]string{}
	for i := range 30 {
		value := fmt.Sprint(i)
		acked[produce(t, c, "orders", int32(i%3), value)] = value
	}
	require.Equal(t, acked, consume(t, m, "orders"))

	m.Stop()
	m.Start()
	require.Equal(t, acked, consume(t, m, "orders"))
	more := produce(t, c, "orders", 0, "more")
	require.Equal(t, position{"orders", 0, 10}, more)
}
