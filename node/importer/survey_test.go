package importer

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
)

// planAfter plans an import after a change of what Kafka's metadata says.
func (m *machine) planAfter(change func(*image)) map[string]Topic {
	m.t.Helper()
	im, closeAll, err := m.open(nil)
	require.NoError(m.t, err)
	defer func() { require.NoError(m.t, closeAll()) }()
	change(im.source.image)
	plan, err := im.survey(within(m.t))
	require.NoError(m.t, err)
	topics := map[string]Topic{}
	for _, t := range plan.Topics {
		topics[t.Name] = t
	}
	return topics
}

// named finds a topic, and its first partition to change.
func (m *image) named(name string) (*kraftTopic, kraftPartition) {
	for _, t := range m.topics {
		if t.name == name {
			return t, t.partitions[0]
		}
	}
	return nil, kraftPartition{}
}

func TestTopicsThatThisNodeDoesNotHaveWholeAreRefused(t *testing.T) {
	m := newMachine(t)
	topics := m.planAfter(func(i *image) {
		change := func(name string, do func(*kraftPartition)) {
			topic, p := i.named(name)
			do(&p)
			topic.partitions[0] = p
		}
		change("topic-00", func(p *kraftPartition) { p.leader, p.isr = 2, []int32{1, 2} })
		change("topic-01", func(p *kraftPartition) { p.isr, p.eligible = []int32{2}, nil })
		change("topic-02", func(p *kraftPartition) { p.isr, p.eligible, p.lastKnown = nil, nil, []int32{1} })
		gone, _ := i.named("topic-03")
		delete(gone.partitions, 0)
		hole, _ := i.named("topic-05")
		hole.partitions[7] = kraftPartition{}
	})
	require.Equal(t, "the leader of partition 0 was node 2: import that node's directory", topics["topic-00"].Refused)
	require.Contains(t, topics["topic-01"].Refused, "partition 0 may lack committed records here: the in-sync replicas are [2]")
	require.Empty(t, topics["topic-02"].Refused, "the last leader that is known")
	require.Equal(t, "the metadata log has no partition of it", topics["topic-03"].Refused)
	require.Contains(t, topics["topic-05"].Refused, "the metadata log has no partition 3 of it")
	require.Empty(t, topics["topic-04"].Refused)
}

func TestSettingsThatAreUnknownAreLeftOutAndTieredTopicsRefused(t *testing.T) {
	m := newMachine(t)
	topics := m.planAfter(func(i *image) {
		i.configs[resource{resourceTopic, "topic-01"}]["a.setting.to.come"] = "1"
		i.configs[resource{resourceTopic, "topic-02"}]["remote.storage.enable"] = "true"
	})
	require.Len(t, topics["topic-01"].Dropped, 1)
	require.Equal(t, "a.setting.to.come", topics["topic-01"].Dropped[0].Name)
	require.NotContains(t, topics["topic-01"].Configs, "a.setting.to.come")
	require.Contains(t, topics["topic-01"].Configs, "segment.ms")
	require.Equal(t, "part of it is in a remote tier, which only Kafka can read", topics["topic-02"].Refused)
}

func TestSeveralLogDirectoriesOfOneNodeAreTaken(t *testing.T) {
	for _, how := range []How{Copy, Move} {
		m := newMachine(t)
		require.NoError(t, m.fs.MkdirAll("second"))
		for _, name := range []string{"meta.properties", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint",
			"replication-offset-checkpoint", cleanMarker} {
			data, err := vfs.ReadFile(m.fs, "kafka/"+name)
			require.NoError(t, err)
			require.NoError(t, vfs.WriteFileAtomic(m.fs, "second/"+name, data))
		}
		for _, dir := range []string{"topic-01-1", "topic-02-0", "__consumer_offsets-1"} {
			require.NoError(t, m.fs.Rename("kafka/"+dir, "second/"+dir))
		}
		both := func(o *Options) { o.How, o.Sources = how, []string{"second", "kafka"} }
		require.NoError(t, m.run(both))
		require.Equal(t, kafkaServed(t), m.served())
	}
}

func TestDirectoriesOfTwoNodesAreRefused(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, m.fs.MkdirAll("second"))
	require.NoError(t, vfs.WriteFileAtomic(m.fs, "second/meta.properties", []byte("version=1\ncluster.id=other\nnode.id=1\n")))
	_, _, err := m.open(func(o *Options) { o.Sources = []string{"kafka", "second"} })
	var wrong *NotKafkaError
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "second", wrong.Dir)
}

func TestAnotherFileSystemIsExplained(t *testing.T) {
	for _, c := range []struct {
		how   How
		kind  faultfs.Kind
		files string
	}{{Link, faultfs.OpLink, "kafka/*/*"}, {Move, faultfs.OpRename, "kafka/*"}} {
		m := newMachine(t)
		err := m.runOn(c.how, faultfs.FailMatching(c.kind, c.files, syscall.EXDEV))
		require.ErrorIs(t, err, syscall.EXDEV)
		require.ErrorContains(t, err, "the target is on another file system")
		require.Empty(t, m.served().Topics)
	}
}

// fullDisk has ten bytes left.
type fullDisk struct{ vfs.FS }

func (fullDisk) Space(string) (free, total int64, err error) { return 10, 100, nil }

func TestACopyThatDoesNotFitIsRefusedBeforeItBegins(t *testing.T) {
	m := newMachine(t)
	before := tree(t, m.fs, ".")
	err := m.run(func(o *Options) { o.FS = fullDisk{m.fs} })
	require.ErrorContains(t, err, "data has 10 bytes free")
	after := tree(t, m.fs, ".")
	delete(after, "kafka/.lock")
	require.Equal(t, before, after)
}

func TestAnImportThatIsCancelledGoesOn(t *testing.T) {
	m := newMachine(t)
	ctx, cancel := context.WithCancelCause(within(t))
	enough := errors.New("enough")
	im, closeAll, err := m.open(func(o *Options) {
		o.Progress = func(phase string, done, total int64) {
			if phase == "import" && done > total/2 {
				cancel(enough)
			}
		}
	})
	require.NoError(t, err)
	require.ErrorIs(t, im.Execute(ctx), enough)
	require.NoError(t, closeAll())
	require.Empty(t, m.served().Topics)
	require.NoError(t, m.run(nil))
	require.Equal(t, kafkaServed(t), m.served())
}

// A producer whose answer from Kafka was lost in the move sends its batch to the new server.
func TestARetryThatCrossesTheMoveIsNotStoredTwice(t *testing.T) {
	m := newMachine(t)
	var last batch.Batch
	require.NoError(t, kafkalog.ReadSegmentFile(m.fs, "kafka/topic-05-0/00000000000000000000.log", func(_ int64, b batch.Batch) error {
		last = append(batch.Batch(nil), b...)
		return nil
	}))
	require.True(t, last.Header().HasProducer())
	base, end := last.BaseOffset(), last.NextOffset()
	last.SetBaseOffset(0)
	last.SetLeaderEpoch(-1)
	require.NoError(t, m.run(nil))
	n, stop, err := m.start()
	require.NoError(t, err)
	defer stop()

	c, err := kgo.NewClient(kgo.SeedBrokers(n.Addrs().Kafka.String()))
	require.NoError(t, err)
	defer c.Close()
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = last
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.Partitions = "topic-05", []kmsg.ProduceRequestTopicPartition{partition}
	topic.TopicID = topicID(t, kafkaServed(t).Topics["topic-05"].ID)
	produce := kmsg.NewPtrProduceRequest()
	produce.Acks, produce.TimeoutMillis, produce.Topics = -1, 10_000, []kmsg.ProduceRequestTopic{topic}
	answer, err := produce.RequestWith(within(t), c)
	require.NoError(t, err)
	require.Zero(t, answer.Topics[0].Partitions[0].ErrorCode)
	require.Equal(t, base, answer.Topics[0].Partitions[0].BaseOffset)
	require.Equal(t, end, ask(t, n.Addrs().Kafka.String()).Topics["topic-05"].Partitions[0].End)
}
