package importer

import (
	"path"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/vfs"
)

func TestU20_WhatKafkaServedIsServed(t *testing.T) {
	for _, how := range []How{Copy, Link, Move} {
		t.Run(string(how), func(t *testing.T) {
			m := newMachine(t)
			require.NoError(t, m.run(func(o *Options) { o.How = how }))
			require.Equal(t, kafkaServed(t), m.served())
			require.Equal(t, kafkaServed(t), m.served(), "after a restart")
		})
	}
}

func TestADryRunListsWhatWouldBeTakenAndChangesNothing(t *testing.T) {
	m := newMachine(t)
	before := tree(t, m.fs, ".")
	plan := m.mustPlan(nil)
	after := tree(t, m.fs, ".")
	delete(after, "kafka/.lock")
	require.Equal(t, before, after)

	served := kafkaServed(t)
	taken := map[string]*stateTopic{}
	for _, topic := range plan.Taken() {
		if topic.Name == "__consumer_offsets" || topic.Name == "__transaction_state" {
			continue
		}
		require.Equal(t, topicID(t, served.Topics[topic.Name].ID), topic.ID)
		taken[topic.Name] = &stateTopic{ID: served.Topics[topic.Name].ID, Configs: topic.Configs}
		for i, p := range topic.Partitions {
			require.Positive(t, p.Bytes)
			require.Empty(t, p.Repairs)
			want := served.Topics[topic.Name].Partitions[i]
			taken[topic.Name].Partitions = append(taken[topic.Name].Partitions,
				statePartition{Start: p.Start, End: p.End, Stable: want.Stable, Records: want.Records})
			for _, r := range want.Records {
				require.Less(t, r.LeaderEpoch, p.LeaderEpoch)
				require.Less(t, r.ProducerID, plan.NextProducerID)
			}
		}
	}
	require.Equal(t, served.Topics, taken)
	require.True(t, plan.Clean)
	require.Equal(t, map[string]string{"log.retention.ms": "-1", "min.insync.replicas": "1"}, plan.BrokerConfigs)
	reasons := map[string]int{}
	for _, l := range plan.Left {
		reasons[l.Reason]++
	}
	require.Equal(t, map[string]int{
		"it was being deleted": 2, "it is Kafka's metadata log: what it says of topics is taken": 1,
	}, reasons)
}

// tree is every file below a directory and its bytes.
func tree(t *testing.T, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	list, err := fsys.List(dir)
	require.NoError(t, err)
	for _, e := range list {
		name := path.Join(dir, e.Name())
		if e.IsDir() {
			for below, data := range tree(t, fsys, name) {
				files[below] = data
			}
			continue
		}
		data, err := vfs.ReadFile(fsys, name)
		require.NoError(t, err)
		files[name] = string(data)
	}
	return files
}

func TestCopyAndLinkLeaveTheSourceAsItWas(t *testing.T) {
	for _, how := range []How{Copy, Link} {
		t.Run(string(how), func(t *testing.T) {
			m := newMachine(t)
			before := tree(t, m.fs, "kafka")
			require.NoError(t, m.run(func(o *Options) { o.How = how }))
			_, stop, err := m.start()
			require.NoError(t, err)
			stop()
			after := tree(t, m.fs, "kafka")
			delete(after, "kafka/.lock")
			require.Equal(t, before, after)
		})
	}
}

func TestAMoveLeavesWhatIsNotTaken(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, m.run(func(o *Options) { o.How, o.Exclude = Move, []string{"topic-0[1-9]", "__*"} }))
	var dirs []string
	list, err := m.fs.List("kafka")
	require.NoError(t, err)
	for _, e := range list {
		if e.IsDir() {
			dirs = append(dirs, e.Name())
		}
	}
	require.Contains(t, dirs, "topic-01-0")
	require.NotContains(t, dirs, "topic-00-0")
	served := m.served()
	require.Equal(t, kafkaServed(t).Topics["topic-00"], served.Topics["topic-00"])
	require.Len(t, served.Topics, 1)
}

func TestTopicsCanBeTakenIntoADirectoryThatHasOthers(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, m.run(func(o *Options) { o.Exclude = []string{"topic-00"} }))
	_, stop, err := m.start()
	require.NoError(t, err)
	stop()
	plan := m.mustPlan(nil)
	require.Len(t, plan.Taken(), 1)
	require.NoError(t, m.run(nil))
	require.Equal(t, kafkaServed(t), m.served())
	require.Empty(t, m.mustPlan(nil).Taken())
	require.NoError(t, m.run(nil), "again, with nothing to do")
}

func TestATopicOfTheTargetIsNotReplaced(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, m.run(func(o *Options) { o.Exclude = []string{"*"} }))
	n, stop, err := m.start()
	require.NoError(t, err)
	createTopic(t, n.Addrs().Kafka.String(), "topic-00")
	stop()
	refused := map[string]string{}
	for _, topic := range m.mustPlan(nil).Topics {
		if topic.Refused != "" {
			refused[topic.Name] = topic.Refused
		}
	}
	require.Len(t, refused, 1)
	require.Contains(t, refused["topic-00"], "another topic of this name")
}

func TestNeitherServerMayRun(t *testing.T) {
	m := newMachine(t)
	held, err := m.fs.Lock("kafka/.lock")
	require.NoError(t, err)
	_, _, err = m.open(nil)
	require.ErrorIs(t, err, vfs.ErrLocked)
	require.ErrorContains(t, err, "a server is using kafka")
	require.NoError(t, held.Close())

	require.NoError(t, m.run(nil))
	held, err = m.fs.Lock("data/.lock")
	require.NoError(t, err)
	_, _, err = m.open(nil)
	require.ErrorIs(t, err, vfs.ErrLocked)
	require.ErrorContains(t, err, "a server is using data")
	require.NoError(t, held.Close())
}

func TestDirectoriesThatAreNotKafkasAreRefused(t *testing.T) {
	m := newMachine(t)
	var wrong *NotKafkaError
	_, _, err := m.open(func(o *Options) { o.Sources = []string{"kafka/topic-00-0"} })
	require.ErrorAs(t, err, &wrong)
	require.NoError(t, vfs.RemoveAll(m.fs, "kafka/__cluster_metadata-0"))
	_, _, err = m.open(nil)
	require.ErrorAs(t, err, &wrong)
	_, _, err = m.open(func(o *Options) { o.Target = "kafka/tidemark" })
	require.ErrorContains(t, err, "is inside the other")
}

func TestDirectoriesThatAreNoTopicsAreLeft(t *testing.T) {
	m := newMachine(t)
	for _, dir := range []string{"lost+found", "stranger-0", "topic-00-7", "topic-00-0.0123456789abcdef0123456789abcdef-stray",
		"topic-00-0.0123456789abcdef0123456789abcdef-future"} {
		require.NoError(t, vfs.EnsureDir(m.fs, "kafka/"+dir))
	}
	require.NoError(t, vfs.RemoveAll(m.fs, "kafka/topic-03-0"))
	require.NoError(t, logdir.WriteMetadata(m.fs, "kafka/topic-05-1", logdir.NewUUID()))
	plan := m.mustPlan(nil)
	left := map[string]string{}
	for _, l := range plan.Left {
		left[path.Base(l.Dir)] = l.Reason
	}
	require.Contains(t, left["lost+found"], "no partition's")
	require.Equal(t, "the metadata log has no topic of this name", left["stranger-0"])
	require.Equal(t, "its topic has no such partition", left["topic-00-7"])
	require.Contains(t, left["topic-00-0.0123456789abcdef0123456789abcdef-stray"], "moved it aside")
	require.Contains(t, left["topic-00-0.0123456789abcdef0123456789abcdef-future"], "another log directory")
	refused := map[string]string{}
	for _, topic := range plan.Topics {
		if topic.Refused != "" {
			refused[topic.Name] = topic.Refused
		}
	}
	require.Len(t, refused, 2)
	require.Equal(t, "the directory of partition 0 is not there", refused["topic-03"])
	require.Contains(t, refused["topic-05"], "belongs to another topic")
}

func TestProducerIDsOfKafkaAreNotGivenOutAgain(t *testing.T) {
	m := newMachine(t)
	plan := m.mustPlan(nil)
	require.NoError(t, m.run(nil))
	n, stop, err := m.start()
	require.NoError(t, err)
	defer stop()
	require.GreaterOrEqual(t, producerID(t, n), plan.NextProducerID)
}

func TestAServerDoesNotStartWhileAnImportIsUnfinished(t *testing.T) {
	m := newMachine(t)
	im, closeAll, err := m.open(nil)
	require.NoError(t, err)
	ctx := within(t)
	require.NoError(t, im.openStore(ctx))
	require.NoError(t, im.store.Begin())
	require.NoError(t, im.stage(ctx))
	require.NoError(t, im.store.BeginImport(ctx, "kafka", 1))
	require.NoError(t, closeAll())
	_, _, err = m.start()
	var unfinished *node.UnfinishedImportError
	require.ErrorAs(t, err, &unfinished)
	require.Equal(t, "kafka", unfinished.Source)

	require.NoError(t, vfs.RemoveAll(m.fs, "kafka"), "everything is here already")
	require.NoError(t, m.run(nil))
	require.Equal(t, kafkaServed(t), m.served())
}
