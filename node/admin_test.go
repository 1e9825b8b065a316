package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/node/nodetest"
	"github.com/tidemark-io/tidemark/vfs"
)

// alter sets topic settings, one request for all of them.
func alter(t *testing.T, c *kgo.Client, topic string, settings map[string]string) error {
	t.Helper()
	var changes []kadm.AlterConfig
	for name, value := range settings {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	done, err := kadm.NewClient(c).AlterTopicConfigs(within(t), changes, topic)
	if err != nil {
		return err
	}
	return done[0].Err
}

// setting is the value of a topic's setting that is in force.
func setting(t *testing.T, c *kgo.Client, topic, name string) string {
	t.Helper()
	described, err := kadm.NewClient(c).DescribeTopicConfigs(within(t), topic)
	require.NoError(t, err)
	require.NoError(t, described[0].Err)
	for _, config := range described[0].Configs {
		if config.Key == name {
			return *config.Value
		}
	}
	return ""
}

// addPartitions raises a topic's number of partitions.
func addPartitions(t *testing.T, c *kgo.Client, topic string, total int) error {
	t.Helper()
	done, err := kadm.NewClient(c).UpdatePartitions(within(t), total, topic)
	if err != nil {
		return err
	}
	return done[topic].Err
}

// deleteBelow deletes records of partition 0.
func deleteBelow(t *testing.T, c *kgo.Client, topic string, offset int64) error {
	t.Helper()
	var below kadm.Offsets
	below.AddOffset(topic, 0, offset, -1)
	done, err := kadm.NewClient(c).DeleteRecords(within(t), below)
	if err != nil {
		return err
	}
	return done.Error()
}

// start is the first offset of partition 0.
func start(t *testing.T, c *kgo.Client, topic string) int64 {
	t.Helper()
	starts, err := kadm.NewClient(c).ListStartOffsets(within(t), topic)
	require.NoError(t, err)
	require.NoError(t, starts.Error())
	at, _ := starts.Lookup(topic, 0)
	return at.Offset
}

func TestF79_AcknowledgedAlterationsSurviveAPowerCutInTheMomentAfter(t *testing.T) {
	for seed := range uint64(6) {
		m := machine(t)
		m.Start()
		c := client(t, m, kgo.ProducerBatchCompression(kgo.NoCompression()))
		createTopic(t, c, 1, map[string]string{"retention.ms": "123456"}, "orders")
		for i := range 10 {
			produce(t, c, "orders", 0, fmt.Sprint(i))
		}
		require.NoError(t, alter(t, c, "orders", map[string]string{"max.message.bytes": "500", "segment.ms": "7000"}))
		m.CutPower(nodetest.Cut{Seed: seed, Keep: 0.5})
		m.Start()
		require.Equal(t, "500", setting(t, c, "orders", "max.message.bytes"))
		require.Equal(t, "7000", setting(t, c, "orders", "segment.ms"))
		require.Equal(t, "123456", setting(t, c, "orders", "retention.ms"))
		refused := c.ProduceSync(within(t), &kgo.Record{Topic: "orders", Value: make([]byte, 1000)})
		require.ErrorIs(t, refused.FirstErr(), kerr.MessageTooLarge, "and it is in force")

		require.NoError(t, addPartitions(t, c, "orders", 3))
		m.CutPower(nodetest.Cut{Seed: seed + 100, Keep: 0.5})
		m.Start()
		topics, err := kadm.NewClient(c).ListTopics(within(t), "orders")
		require.NoError(t, err)
		require.Len(t, topics["orders"].Partitions, 3)
		c.ForceMetadataRefresh()
		require.Equal(t, position{"orders", 2, 0}, produce(t, client(t, m), "orders", 2, "in a new one"))

		require.NoError(t, deleteBelow(t, c, "orders", 7))
		m.CutPower(nodetest.Cut{Seed: seed + 200, Keep: 0.5})
		m.Start()
		require.Equal(t, int64(7), start(t, c, "orders"))
		require.Len(t, consume(t, m, "orders"), 4)
		c.Close()
		m.Stop()
	}
}

func TestF79_ACrashAtAnyStepOfAddingPartitionsLeavesTheOldOrTheNewNumber(t *testing.T) {
	for step := int64(0); ; step++ {
		m := machine(t)
		f := fit(m, step)
		m.Start()
		c := client(t, m, kgo.RequestRetries(0))
		createTopic(t, c, 1, nil, "orders")
		produce(t, c, "orders", 0, "old")
		f.lit.Store(true)
		acked := addPartitions(t, c, "orders", 3) == nil
		c.Close()
		m.CutPower(nodetest.Cut{Seed: uint64(step), Keep: 0.5})
		m.Wrap = nil
		m.Start()

		c = client(t, m)
		topics, err := kadm.NewClient(c).ListTopics(within(t), "orders")
		require.NoError(t, err)
		if acked {
			require.Len(t, topics["orders"].Partitions, 3, "step %d", step)
		}
		if len(topics["orders"].Partitions) == 1 {
			require.NoError(t, addPartitions(t, c, "orders", 3), "what the crash left is not in the way")
			c.Close()
			c = client(t, m)
		}
		require.Len(t, consume(t, m, "orders"), 1)
		for p := range int32(2) {
			require.Equal(t, position{"orders", p + 1, 0}, produce(t, c, "orders", p+1, "new"))
		}
		c.Close()
		m.Stop()
		if acked && !f.blown.Load() {
			require.Greater(t, step, int64(5))
			return
		}
	}
}

func TestF79_DeletedRecordsStayDeletedWhateverStepOfTheNextOneACrashMeets(t *testing.T) {
	for step := int64(0); ; step++ {
		m := machine(t)
		f := fit(m, step)
		m.Start()
		c := client(t, m, kgo.RequestRetries(0))
		createTopic(t, c, 1, nil, "orders")
		for i := range 10 {
			produce(t, c, "orders", 0, fmt.Sprint(i))
		}
		require.NoError(t, deleteBelow(t, c, "orders", 4))
		f.lit.Store(true)
		acked := deleteBelow(t, c, "orders", 7) == nil
		c.Close()
		m.CutPower(nodetest.Cut{Seed: uint64(step), Keep: 0.5})
		m.Wrap = nil
		m.Start()
		at := start(t, client(t, m), "orders")
		require.Contains(t, []int64{4, 7}, at, "step %d", step)
		if acked {
			require.Equal(t, int64(7), at, "step %d", step)
		}
		require.Len(t, consume(t, m, "orders"), int(10-at))
		m.Stop()
		if acked && !f.blown.Load() {
			require.Positive(t, step)
			return
		}
	}
}

func TestF70_DirectoriesOfPartitionsThatDidNotComeToBeAreRemoved(t *testing.T) {
	m := machine(t)
	m.Start()
	c := client(t, m)
	createTopic(t, c, 2, nil, "orders")
	produce(t, c, "orders", 1, "kept")
	m.Stop()
	// As a crash leaves it between the directory and the entry in the metadata log.
	require.NoError(t, m.FS.MkdirAll("data/orders-2"))
	copyFile(t, m, "data/orders-1/partition.metadata", "data/orders-2/partition.metadata")
	m.Start()
	require.Empty(t, under(tree(t, m.FS, nodetest.DataDir), "-stray"), "it holds nothing")
	require.False(t, exists(m.FS, "data/orders-2"))
	require.NoError(t, addPartitions(t, c, "orders", 3))
	require.Equal(t, position{"orders", 2, 0}, produce(t, client(t, m), "orders", 2, "new"))
	require.Len(t, consume(t, m, "orders"), 2)
}

func copyFile(t *testing.T, m *nodetest.Machine, from, to string) {
	t.Helper()
	data, err := vfs.ReadFile(m.FS, from)
	require.NoError(t, err)
	require.NoError(t, vfs.WriteFileAtomic(m.FS, to, data))
}

func TestClientsThatAlterTheSameTopicAtOnceAllHaveTheirWay(t *testing.T) {
	m := machine(t)
	m.Start()
	c := client(t, m)
	createTopic(t, c, 1, nil, "orders")
	names := []string{"retention.ms", "segment.ms", "flush.ms", "max.message.bytes", "delete.retention.ms", "retention.bytes"}
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			if err := alter(t, c, "orders", map[string]string{name: fmt.Sprint(1000 + i)}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	grown := make(chan error, 2)
	for range 2 {
		all.Go(func() { grown <- addPartitions(t, c, "orders", 4) })
	}
	all.Wait()
	for i, name := range names {
		require.Equal(t, fmt.Sprint(1000+i), setting(t, c, "orders", name))
	}
	first, second := <-grown, <-grown
	require.True(t, (first == nil) != (second == nil), "one of two makes the partitions: %v, %v", first, second)
}

func TestAdministratorsAreToldWhereTheDataIsAndHowMuchRoomThereIs(t *testing.T) {
	dir := t.TempDir()
	n, err := onDisk(t, dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close(within(t))) }()
	c := clientOf(t, n)
	defer c.Close()
	createTopic(t, c, 2, nil, "orders")
	require.NoError(t, c.ProduceSync(within(t), &kgo.Record{Topic: "orders", Partition: 1, Value: make([]byte, 5000)}).FirstErr())
	dirs, err := kadm.NewClient(c).DescribeAllLogDirs(within(t), nil)
	require.NoError(t, err)
	var found []string
	dirs.Each(func(d kadm.DescribedLogDir) {
		found = append(found, d.Dir)
		require.Positive(t, d.TotalBytes)
		require.Positive(t, d.UsableBytes)
		require.LessOrEqual(t, d.UsableBytes, d.TotalBytes)
	})
	require.Equal(t, []string{dir}, found)
	size := int64(0)
	dirs.Each(func(d kadm.DescribedLogDir) { size += d.Size() })
	files, err := filepath.Glob(filepath.Join(dir, "orders-*", "*.log"))
	require.NoError(t, err)
	onDisk := int64(0)
	for _, name := range files {
		info, err := os.Stat(name)
		require.NoError(t, err)
		onDisk += info.Size()
	}
	require.Equal(t, onDisk, size)

	described, err := kadm.NewClient(c).DescribeBrokerConfigs(within(t), 1)
	require.NoError(t, err)
	told := map[string]string{}
	for _, config := range described[0].Configs {
		told[config.Key] = config.MaybeValue()
	}
	require.Equal(t, dir, told["log.dirs"])
	require.Equal(t, "1", told["node.id"])
	require.Equal(t, "50", told["offsets.topic.num.partitions"])
	require.Equal(t, "10080", told["offsets.retention.minutes"])
	require.Equal(t, "3000", told["group.initial.rebalance.delay.ms"])
	require.Equal(t, "PLAINTEXT://"+n.Addrs().Kafka.String(), told["advertised.listeners"])
	require.Equal(t, "168", told["log.retention.hours"])
	require.Equal(t, "300000", told["log.retention.check.interval.ms"])
}
