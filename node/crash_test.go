package node_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/node/nodetest"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
)

func TestF79_EveryAcknowledgedChangeSurvivesAPowerCut(t *testing.T) {
	for seed := range uint64(8) {
		m := machine(t)
		m.Start()
		c := client(t, m)
		admin := kadm.NewClient(c)

		createTopic(t, c, 2, map[string]string{"retention.ms": "123456"}, "kept")
		for i := range 10 {
			produce(t, c, "kept", 0, fmt.Sprint(i))
		}
		createTopic(t, c, 1, nil, "gone")
		produce(t, c, "gone", 0, "private")
		m.CutPower(nodetest.Cut{Seed: seed, Keep: 0.5})
		m.Start()
		require.Len(t, consume(t, m, "kept"), 10, "a topic that was created is there")
		require.Len(t, consume(t, m, "gone"), 1)

		deleted, err := admin.DeleteTopics(within(t), "gone")
		require.NoError(t, err)
		require.NoError(t, deleted.Error())
		m.CutPower(nodetest.Cut{Seed: seed + 100, Keep: 0.5})
		m.Start()
		topics, err := admin.ListTopics(within(t), "kept", "gone")
		require.NoError(t, err)
		require.NoError(t, topics["kept"].Err)
		require.ErrorIs(t, topics["gone"].Err, kerr.UnknownTopicOrPartition)

		createTopic(t, c, 1, nil, "gone") // of the same name, with none of the old records
		require.Empty(t, consume(t, m, "gone"))
		m.CutPower(nodetest.Cut{Seed: seed + 200, Keep: 0.5})
		m.Start()
		require.Empty(t, consume(t, m, "gone"))
		// A client that knows the old topic's id is told that it is unknown; a new one sees the new topic.
		require.Equal(t, position{"gone", 0, 0}, produce(t, client(t, m), "gone", 0, "new"))
		m.Stop()
	}
}

// fuse fails every call that changes the disk from a given one on, once it is lit.
type fuse struct {
	left  atomic.Int64
	lit   atomic.Bool
	blown atomic.Bool
}

var errPower = errors.New("the power is gone")

// fit puts a fuse for the call after n others between the machine and its disk.
func fit(m *nodetest.Machine, n int64) *fuse {
	f := &fuse{}
	f.left.Store(n)
	m.Wrap = func(base vfs.FS) vfs.FS {
		return faultfs.New(base, faultfs.When(faultfs.Writes, func(faultfs.Op) faultfs.Fault {
			if !f.lit.Load() || f.left.Add(-1) >= 0 {
				return faultfs.Fault{}
			}
			f.blown.Store(true)
			return faultfs.Fault{Err: errPower}
		}))
	}
	return f
}

func TestF79_ACrashAtAnyStepOfCreatingATopicLeavesNoneOrTheWhole(t *testing.T) {
	for step := int64(0); ; step++ {
		m := machine(t)
		f := fit(m, step)
		m.Start()
		c := client(t, m, kgo.RequestRetries(0))
		f.lit.Store(true)
		created, err := kadm.NewClient(c).CreateTopic(within(t), 2, 1, nil, "orders")
		acked := err == nil && created.Err == nil
		c.Close()
		m.CutPower(nodetest.Cut{Seed: uint64(step), Keep: 0.5})
		m.Wrap = nil
		m.Start()

		c = client(t, m)
		topics, err := kadm.NewClient(c).ListTopics(within(t), "orders")
		require.NoError(t, err)
		if acked {
			require.NoError(t, topics["orders"].Err, "step %d", step)
		}
		if topics["orders"].Err != nil {
			createTopic(t, c, 2, nil, "orders") // what the crash left is not in the way
		} else {
			require.Len(t, topics["orders"].Partitions, 2)
		}
		require.Equal(t, position{"orders", 0, 0}, produce(t, c, "orders", 0, "a"))
		require.Equal(t, position{"orders", 1, 0}, produce(t, c, "orders", 1, "b"))
		c.Close()
		m.Stop()
		if acked && !f.blown.Load() {
			require.Greater(t, step, int64(5))
			return // the topic was created in no more steps than this
		}
	}
}

// A topic with very many partitions is made durable in one go.
func TestF79_ACrashWhileVeryManyPartitionsAreCreatedLeavesNoneOrAll(t *testing.T) {
	const partitions, apart = 520, 211
	for step := int64(0); ; step += apart {
		m := machine(t)
		f := fit(m, step)
		m.Start()
		c := client(t, m, kgo.RequestRetries(0))
		f.lit.Store(true)
		created, err := kadm.NewClient(c).CreateTopic(within(t), partitions, 1, nil, "orders")
		acked := err == nil && created.Err == nil
		c.Close()
		m.CutPower(nodetest.Cut{Seed: uint64(step), Keep: 0.5})
		m.Wrap = nil
		m.Start()

		c = client(t, m)
		topics, err := kadm.NewClient(c).ListTopics(within(t), "orders")
		require.NoError(t, err)
		if topics["orders"].Err != nil {
			require.False(t, acked, "step %d", step)
			require.Eventually(t, func() bool {
				return len(under(tree(t, m.FS, nodetest.DataDir), "orders")) == 0
			}, patience, time.Millisecond, "step %d: what the crash left is removed", step)
			createTopic(t, c, partitions, nil, "orders")
		}
		require.Equal(t, position{"orders", 0, 0}, produce(t, c, "orders", 0, "a"))
		require.Equal(t, position{"orders", partitions - 1, 0}, produce(t, c, "orders", partitions-1, "b"))
		c.Close()
		m.Stop()
		if acked && !f.blown.Load() {
			require.Greater(t, step, int64(5*apart))
			return
		}
	}
}

func TestF79_ACrashAtAnyStepOfDeletingATopicLeavesTheWholeOrNone(t *testing.T) {
	for step := int64(0); ; step++ {
		m := machine(t)
		f := fit(m, step)
		m.Start()
		c := client(t, m, kgo.RequestRetries(0))
		createTopic(t, c, 2, nil, "orders")
		produce(t, c, "orders", 0, "a")
		f.lit.Store(true)
		deleted, err := kadm.NewClient(c).DeleteTopic(within(t), "orders")
		acked := err == nil && deleted.Err == nil
		c.Close()
		m.CutPower(nodetest.Cut{Seed: uint64(step), Keep: 0.5})
		m.Wrap = nil
		m.Start()

		c = client(t, m)
		topics, err := kadm.NewClient(c).ListTopics(within(t), "orders")
		require.NoError(t, err)
		if acked {
			require.ErrorIs(t, topics["orders"].Err, kerr.UnknownTopicOrPartition, "step %d", step)
			createTopic(t, c, 2, nil, "orders")
			require.Empty(t, consume(t, m, "orders"))
		} else if topics["orders"].Err == nil {
			require.Len(t, consume(t, m, "orders"), 1)
		}
		c.Close()
		m.Stop()
		require.Empty(t, under(tree(t, m.FS, nodetest.DataDir), "-stray"), "step %d: a deletion goes on being one", step)
		if acked && !f.blown.Load() {
			return
		}
	}
}

func TestF57_TopicsComeAndGoUnderLoadAndDisturbNobody(t *testing.T) {
	m := machine(t)
	var log said
	m.Config.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	m.Config.InitialTaskDelay, m.Config.RetentionCheck = time.Millisecond, 5*time.Millisecond
	m.Start()
	c := client(t, m, kgo.ProducerBatchCompression(kgo.NoCompression()))
	createTopic(t, c, 2, nil, "steady")
	settings := map[string]string{"segment.bytes": "1048576", "retention.bytes": "1", "file.delete.delay.ms": "0"}
	const loops = 200
	for i := range loops {
		name := fmt.Sprintf("passing%d", i)
		createTopic(t, c, 2, settings, name)
		for p := range int32(2) {
			for range 2 { // they do not fit into one segment
				c.Produce(t.Context(), &kgo.Record{Topic: name, Partition: p, Value: make([]byte, 600_000)}, nil)
			}
		}
		produce(t, c, name, 0, "acknowledged") // whatever the others wait for: it is deleted while they are flushed
		deleted, err := kadm.NewClient(c).DeleteTopic(within(t), name)
		require.NoError(t, err)
		require.NoError(t, deleted.Err)
		produce(t, c, "steady", 0, name)
		c.PurgeTopicsFromClient(name)
	}
	require.Len(t, consume(t, m, "steady"), loops)
	require.Empty(t, log.String(), "nobody is told of anything")
	require.Contains(t, metric(t, m, "tidemark_partition_failures_total"), " 0")
	require.Contains(t, metric(t, m, "tidemark_kafkalog_logs_failed_total"), " 0")
	m.Stop()
	m.Start()
	require.Eventually(t, func() bool {
		return len(under(tree(t, m.FS, nodetest.DataDir), "passing")) == 0
	}, patience, 5*time.Millisecond, "what was deleted is removed in the end")
}

// tree lists every name below a directory.
func tree(t *testing.T, f vfs.FS, dir string) []string {
	t.Helper()
	var names []string
	list, err := f.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a running server has removed it meanwhile
	}
	require.NoError(t, err)
	for _, e := range list {
		name := path.Join(dir, e.Name())
		names = append(names, name)
		if e.IsDir() {
			names = append(names, tree(t, f, name)...)
		}
	}
	return names
}

func under(names []string, part string) (found []string) {
	for _, n := range names {
		if strings.Contains(n, part) {
			found = append(found, n)
		}
	}
	return found
}

func exists(f vfs.FS, name string) bool {
	_, err := f.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

func TestCancellingAStartClosesWhatItHadOpened(t *testing.T) {
	m := machine(t)
	m.Start()
	createTopic(t, client(t, m), 20, nil, "orders")
	m.CutPower(nodetest.Cut{Keep: 1})
	over, cancel := context.WithCancel(t.Context())
	m.Wrap = func(base vfs.FS) vfs.FS {
		return faultfs.New(base, faultfs.When(faultfs.Matching(faultfs.OpList, "data/orders-*"),
			func(faultfs.Op) faultfs.Fault {
				cancel() // SIGTERM in the middle of recovery
				return faultfs.Fault{}
			}))
	}
	_, err := m.TryStart(over)
	require.ErrorIs(t, err, context.Canceled)
	m.Wrap = nil
	m.Start()
	require.Empty(t, consume(t, m, "orders"))
}
