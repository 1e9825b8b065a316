package node_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/node/nodetest"
)

// alterNodes changes settings of all nodes, or of those that are named; the value - takes one away.
func alterNodes(t *testing.T, c *kgo.Client, name, value string, nodes ...int32) error {
	t.Helper()
	change := kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value}
	if value == "-" {
		change = kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name}
	}
	done, err := kadm.NewClient(c).AlterBrokerConfigs(within(t), []kadm.AlterConfig{change}, nodes...)
	if err != nil {
		return err
	}
	require.Len(t, done, 1)
	return done[0].Err
}

// nodeSetting is a setting of a node, or of all, and where it is from.
func nodeSetting(t *testing.T, c *kgo.Client, name string, nodes ...int32) (value string, source kmsg.ConfigSource) {
	t.Helper()
	told, err := kadm.NewClient(c).DescribeBrokerConfigs(within(t), nodes...)
	require.NoError(t, err)
	require.Len(t, told, 1)
	require.NoError(t, told[0].Err)
	for _, config := range told[0].Configs {
		if config.Key == name {
			return config.MaybeValue(), config.Source
		}
	}
	return "", 0
}

func TestSettingsOfNodesAreInForceAtOnceAndAfterEveryKindOfEnd(t *testing.T) {
	m := machine(t)
	m.Config.TopicDefaults = map[string]string{"max.message.bytes": "4000"}
	m.Config.TopicPatterns = []node.TopicPattern{{Pattern: "audit.*", Settings: map[string]string{"max.message.bytes": "9000"}}}
	m.Start()
	id := m.Config.NodeID
	c := client(t, m)
	createTopic(t, c, 2, nil, "orders")
	createTopic(t, c, 1, nil, "audit.log")
	createTopic(t, c, 1, map[string]string{"max.message.bytes": "8000"}, "own")
	tooLarge := func(topic string, size int) {
		t.Helper()
		refused := client(t, m, kgo.ProducerBatchCompression(kgo.NoCompression())).ProduceSync(within(t), &kgo.Record{Topic: topic, Value: make([]byte, size)})
		require.ErrorIs(t, refused.FirstErr(), kerr.MessageTooLarge)
	}
	require.Equal(t, "4000", setting(t, c, "orders", "max.message.bytes"))

	require.NoError(t, alterNodes(t, c, "message.max.bytes", "2000"))
	tooLarge("orders", 2500)
	require.NoError(t, alterNodes(t, c, "message.max.bytes", "1000", id))
	tooLarge("orders", 1500)
	createTopic(t, c, 1, nil, "later")
	tooLarge("later", 1500)

	inForce := func(when string) {
		t.Helper()
		for topic, want := range map[string]string{"orders": "1000", "later": "1000", "audit.log": "9000", "own": "8000"} {
			require.Equal(t, want, setting(t, c, topic, "max.message.bytes"), "%s: %s", when, topic)
		}
		value, source := nodeSetting(t, c, "message.max.bytes", id)
		require.Equal(t, "1000", value, when)
		require.Equal(t, kmsg.ConfigSourceDynamicBrokerConfig, source, when)
		value, source = nodeSetting(t, c, "message.max.bytes")
		require.Equal(t, "2000", value, when)
		require.Equal(t, kmsg.ConfigSourceDynamicDefaultBrokerConfig, source, when)
		tooLarge("orders", 1500)
	}
	inForce("at once")
	for seed := range uint64(3) {
		m.CutPower(nodetest.Cut{Seed: seed, Keep: 0.5})
		m.Start()
		inForce("after a power cut")
	}
	m.Stop()
	m.Start()
	inForce("after a stop in order")

	require.NoError(t, alterNodes(t, c, "message.max.bytes", "-", id))
	require.Equal(t, "2000", setting(t, c, "orders", "max.message.bytes"))
	require.NoError(t, alterNodes(t, c, "message.max.bytes", "-"))
	require.Equal(t, "4000", setting(t, c, "orders", "max.message.bytes"))
	m.CutPower(nodetest.Cut{Seed: 9, Keep: 0.5})
	m.Start()
	require.Equal(t, "4000", setting(t, c, "orders", "max.message.bytes"), "what was taken away stays away")
}

func TestDefaultsThatDoNotGoWithATopicsOwnSettingsAreRefused(t *testing.T) {
	m := machine(t)
	m.Start()
	c := client(t, m)
	createTopic(t, c, 1, map[string]string{"min.compaction.lag.ms": "5000"}, "compacted")
	err := alterNodes(t, c, "log.cleaner.max.compaction.lag.ms", "1000")
	require.ErrorIs(t, err, kerr.InvalidRequest)
	require.Equal(t, "5000", setting(t, c, "compacted", "min.compaction.lag.ms"))
	value, _ := nodeSetting(t, c, "log.cleaner.max.compaction.lag.ms")
	require.Empty(t, value)
	require.NoError(t, alter(t, c, "compacted", map[string]string{"min.compaction.lag.ms": "500"}))
	require.NoError(t, alterNodes(t, c, "log.cleaner.max.compaction.lag.ms", "1000"))
	require.Error(t, alter(t, c, "compacted", map[string]string{"min.compaction.lag.ms": "5000"}))
}

func TestTheExpiryOfProducersIsChangedWhileTheServerRuns(t *testing.T) {
	m := machine(t)
	m.Config.ProducerExpiry = time.Hour
	m.Start()
	c := client(t, m)
	id := m.Config.NodeID
	tells := func(want string, from kmsg.ConfigSource) {
		t.Helper()
		value, source := nodeSetting(t, c, "producer.id.expiration.ms", id)
		require.Equal(t, want, value)
		require.Equal(t, from, source)
	}
	tells("3600000", kmsg.ConfigSourceStaticBrokerConfig)
	require.NoError(t, alterNodes(t, c, "producer.id.expiration.ms", "5000"))
	tells("5000", kmsg.ConfigSourceDynamicDefaultBrokerConfig)
	require.NoError(t, alterNodes(t, c, "producer.id.expiration.ms", "7000", id))
	tells("7000", kmsg.ConfigSourceDynamicBrokerConfig)
	require.ErrorIs(t, alterNodes(t, c, "producer.id.expiration.ms", "0"), kerr.InvalidRequest)
	m.Stop()
	m.Start()
	tells("7000", kmsg.ConfigSourceDynamicBrokerConfig)
}

func TestSettingsOfNodesAreInABackup(t *testing.T) {
	dir := t.TempDir()
	n, err := onDisk(t, dir)
	require.NoError(t, err)
	c := clientOf(t, n)
	require.NoError(t, alterNodes(t, c, "log.retention.ms", "60000"))
	c.Close()
	require.NoError(t, n.Close(context.Background()))

	taken := backupOf(t, dir)
	require.NoError(t, os.Remove(filepath.Join(dir, "metadata.db")))
	_, err = node.RestoreMeta(t.Context(), node.MetaSource{DataDir: dir}, taken, node.RestoreOptions{Execute: true})
	require.NoError(t, err)
	n, err = onDisk(t, dir)
	require.NoError(t, err)
	c = clientOf(t, n)
	value, source := nodeSetting(t, c, "log.retention.ms")
	require.Equal(t, "60000", value)
	require.Equal(t, kmsg.ConfigSourceDynamicDefaultBrokerConfig, source)
	c.Close()
	require.NoError(t, n.Close(context.Background()))
}

func TestSettingsOfAnotherVersionOfTheServer(t *testing.T) {
	store := func(t *testing.T, m *nodetest.Machine, value string) {
		t.Helper()
		backend, err := m.Meta.Open()
		require.NoError(t, err)
		log, err := meta.Open(within(t), backend, meta.Options{})
		require.NoError(t, err)
		_, err = log.Do(within(t), meta.PutKv{Key: "node/settings/default", Value: []byte(value)})
		require.NoError(t, err)
		require.NoError(t, log.Close())
		require.NoError(t, backend.Close())
	}
	t.Run("one that this one does not know is kept, and the rest is in force", func(t *testing.T) {
		m := machine(t)
		store(t, m, `{"version":1,"settings":{"log.of.tomorrow":"7","log.retention.ms":"60000","log.roll.ms":"never"}}`)
		m.Start()
		c := client(t, m)
		createTopic(t, c, 1, nil, "orders")
		require.Equal(t, "60000", setting(t, c, "orders", "retention.ms"))
		require.Equal(t, "604800000", setting(t, c, "orders", "segment.ms"))
		require.NoError(t, alterNodes(t, c, "log.roll.ms", "70000"))
		require.Equal(t, "70000", setting(t, c, "orders", "segment.ms"))
	})
	t.Run("a format that this one cannot read is refused", func(t *testing.T) {
		m := machine(t)
		store(t, m, `{"version":2}`)
		_, err := m.TryStart(within(t))
		var refused *node.SettingsError
		require.ErrorAs(t, err, &refused)
		require.EqualError(t, refused, "the settings of nodes under the key node/settings/default of the metadata log: "+
			"they are of version 2, and this server reads version 1")
	})
}
