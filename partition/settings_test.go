package partition

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/topicconfig"
)

// unread are the settings that a log does not read, with the reason.
func unread() map[string]string {
	const (
		compaction  = "there is no compaction yet"
		replication = "there is one replica"
		remote      = "segments are not copied to an object store yet"
	)
	return map[string]string{
		"delete.retention.ms": compaction, "min.cleanable.dirty.ratio": compaction, "min.compaction.lag.ms": compaction,
		"follower.replication.throttled.replicas": replication, "leader.replication.throttled.replicas": replication,
		"min.insync.replicas": replication, "unclean.leader.election.enable": replication,
		"local.retention.bytes": remote, "local.retention.ms": remote, "remote.copy.lag.bytes": remote,
		"remote.copy.lag.ms": remote, "remote.log.copy.disable": remote, "remote.log.delete.on.disable": remote,
		"errors.deadletterqueue.group.enable": "there are no share groups yet",
		"preallocate":                         "segments grow as they are written",
	}
}

// otherValue returns overrides under which a setting has another value than its default, and counts.
func otherValue(t *testing.T, d topicconfig.Definition) map[string]string {
	t.Helper()
	overrides := map[string]string{}
	switch d.Name {
	case "cleanup.policy":
		overrides[d.Name] = "compact"
	case "compression.type":
		overrides[d.Name] = "zstd"
	case "compression.gzip.level", "compression.lz4.level", "compression.zstd.level":
		overrides["compression.type"] = map[string]string{
			"compression.gzip.level": "gzip", "compression.lz4.level": "lz4", "compression.zstd.level": "zstd",
		}[d.Name]
		overrides[d.Name] = "5"
	case "message.timestamp.type":
		overrides[d.Name] = "LogAppendTime"
	case "tidemark.flush":
		overrides[d.Name] = "every"
	case "remote.copy.lag.bytes", "remote.copy.lag.ms":
		overrides[d.Name] = "7"
	case "segment.bytes":
		overrides[d.Name] = "2000000"
	default:
		overrides[d.Name] = map[topicconfig.Type]string{
			topicconfig.Boolean: "true", topicconfig.Int: "4321", topicconfig.Long: "4321", topicconfig.Double: "0.25",
			topicconfig.List: "0:1",
		}[d.Type]
	}
	c, err := topicconfig.Parse(overrides)
	require.NoError(t, err, d.Name)
	require.NotEqual(t, d.Default, c.Value(d.Name), d.Name)
	return overrides
}

// inForce is everything that a configuration has come to mean in a log and in the one under it.
type inForce struct {
	settings settings
	under    kafkalog.Config
}

func (l *Log) inForce() inForce {
	s := *l.settings.Load()
	s.config = topicconfig.Config{} // the text; what it means is what counts
	return inForce{s, l.store.(*kafkalog.Log).ConfigSnapshot()}
}

func TestALiveLogFollowsEverySettingAsIfItWereOpenedAnew(t *testing.T) {
	d := newDisk(t)
	live := d.open(0)
	byDefault := live.inForce()
	var notRead []string
	for i, definition := range topicconfig.Definitions() {
		overrides := otherValue(t, definition)
		d.settings = overrides
		fresh := d.open(int32(i + 1))
		config, err := topicconfig.Parse(overrides)
		require.NoError(t, err)
		live.SetConfig(config)
		require.Equal(t, fresh.inForce(), live.inForce(), definition.Name)
		require.True(t, config.Equal(live.Config()))
		base, err := topicconfig.Parse(without(overrides, definition.Name))
		require.NoError(t, err)
		live.SetConfig(base)
		if assert.ObjectsAreEqual(fresh.inForce(), live.inForce()) {
			notRead = append(notRead, definition.Name)
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(unread())), notRead, "a log reads what it should, and what is said not to be read is not")
	live.SetConfig(topicconfig.Default())
	require.Equal(t, byDefault, live.inForce())
	require.NoError(t, d.stop())
}

func without(m map[string]string, name string) map[string]string {
	m = maps.Clone(m)
	delete(m, name)
	return m
}
