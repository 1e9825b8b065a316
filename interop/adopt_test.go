package interop

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/interop/kafkafiles"
	"github.com/tidemark-io/tidemark/interop/server"
)

// The files are the same in both directions: a broker of Apache Kafka whose partition directory is replaced by one that
// was written here answers its clients from it.
func TestApacheKafkaServesALogWrittenHere(t *testing.T) {
	ctx := limited(t, 3*time.Minute)
	here, err := shared.maker.New(t.TempDir())
	require.NoError(t, err)
	defer here.Kill()
	require.NoError(t, here.Start(ctx))
	topics, err := kafkafiles.Fill(ctx, here.Addr(), kafkafiles.Size{Batches: 3, Records: 20})
	require.NoError(t, err)
	want := map[string]*kafkafiles.Partition{}
	for _, topic := range topics {
		want[topic], err = kafkafiles.Ask(ctx, here.Addr(), topic)
		require.NoError(t, err)
	}
	require.NoError(t, here.Stop(ctx))

	kafka, err := server.NewKafka(shared.install, server.KafkaOptions{Dir: t.TempDir()})
	require.NoError(t, err)
	defer kafka.Kill()
	require.NoError(t, kafka.Start(ctx))
	c, err := kgo.NewClient(kgo.SeedBrokers(kafka.Addr()))
	require.NoError(t, err)
	defer c.Close()
	created, err := kadm.NewClient(c).CreateTopics(ctx, 1, 1, map[string]*string{"retention.ms": kadm.StringPtr("-1")}, topics...)
	require.NoError(t, err)
	require.NoError(t, created.Error())
	require.NoError(t, kafka.Stop(ctx))
	for _, topic := range topics {
		ours, err := here.PartitionDir(topic, 0)
		require.NoError(t, err)
		theirs, err := kafka.PartitionDir(topic, 0)
		require.NoError(t, err)
		replaceLog(t, theirs, ours)
	}
	// Without the mark of a clean stop, and with nothing said about flushed offsets, Kafka checks every batch as it starts.
	for _, name := range []string{".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "replication-offset-checkpoint"} {
		require.NoError(t, os.Remove(filepath.Join(kafka.DataDir(), name)))
	}

	require.NoError(t, kafka.Start(ctx))
	for _, topic := range topics {
		got, err := kafkafiles.Ask(ctx, kafka.Addr(), topic)
		require.NoError(t, err)
		require.Equal(t, want[topic], got, topic)
	}
}

// A partition that nothing was written to is a directory without segments. Kafka makes the first one, whether its last stop was in order or not.
func TestApacheKafkaServesAPartitionThatNothingWasWrittenToHere(t *testing.T) {
	ctx := limited(t, 4*time.Minute)
	topics := []string{"quiet", "quieter"}
	create := func(addr string) {
		c, err := kgo.NewClient(kgo.SeedBrokers(addr))
		require.NoError(t, err)
		defer c.Close()
		created, err := kadm.NewClient(c).CreateTopics(ctx, 1, 1, nil, topics...)
		require.NoError(t, err)
		require.NoError(t, created.Error())
	}
	here, err := shared.maker.New(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, here.Start(ctx))
	defer here.Kill()
	create(here.Addr())
	require.NoError(t, here.Stop(ctx))
	kafka, err := server.NewKafka(shared.install, server.KafkaOptions{Dir: t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, kafka.Start(ctx))
	defer kafka.Kill()
	create(kafka.Addr())
	for i, topic := range topics {
		require.NoError(t, kafka.Stop(ctx))
		ours, err := here.PartitionDir(topic, 0)
		require.NoError(t, err)
		entries, err := os.ReadDir(ours)
		require.NoError(t, err)
		require.Len(t, entries, 1, "no more than the identity")
		theirs, err := kafka.PartitionDir(topic, 0)
		require.NoError(t, err)
		replaceLog(t, theirs, ours)
		if i > 0 {
			require.NoError(t, os.Remove(filepath.Join(kafka.DataDir(), ".kafka_cleanshutdown")))
		}
		require.NoError(t, kafka.Start(ctx))
		c, err := kgo.NewClient(kgo.SeedBrokers(kafka.Addr()), kgo.ConsumeTopics(topic))
		require.NoError(t, err)
		sent, err := c.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("the first")}).First()
		require.NoError(t, err)
		require.Zero(t, sent.Offset)
		got := c.PollFetches(ctx)
		require.NoError(t, got.Err())
		require.Len(t, got.Records(), 1)
		c.Close()
	}
}

// replaceLog puts one partition's log in the place of another's, which keeps its identity.
func replaceLog(t *testing.T, place, log string) {
	t.Helper()
	const identity = "partition.metadata"
	old, err := os.ReadDir(place)
	require.NoError(t, err)
	for _, e := range old {
		if e.Name() != identity {
			require.NoError(t, os.Remove(filepath.Join(place, e.Name())))
		}
	}
	require.NoError(t, fs.WalkDir(os.DirFS(log), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == identity {
			return err
		}
		data, err := os.ReadFile(filepath.Join(log, name))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(place, name), data, 0o644)
	}))
}
