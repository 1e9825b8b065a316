package interop

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/interop/server"
)

// TestU08_ApacheKafkaServesALogThatWasRepairedHere damages the log of a real broker in the middle and at its end, and repairs it
// with the program. The broker starts on the directory, the quarantine in it, and its own consumer steps over the hole.
func TestU08_ApacheKafkaServesALogThatWasRepairedHere(t *testing.T) {
	ctx := limited(t, 3*time.Minute)
	if !shared.maker.IsTidemark() {
		return // there is nothing to repair with
	}
	kafka, err := server.NewKafka(shared.install, server.KafkaOptions{Dir: t.TempDir()})
	require.NoError(t, err)
	defer kafka.Kill()
	require.NoError(t, kafka.Start(ctx))
	c, err := kgo.NewClient(kgo.SeedBrokers(kafka.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer c.Close()
	created, err := kadm.NewClient(c).CreateTopics(ctx, 1, 1, map[string]*string{"retention.ms": kadm.StringPtr("-1")}, "repaired")
	require.NoError(t, err)
	require.NoError(t, created.Error())
	var want []string
	for i := range 30 {
		value := fmt.Sprintf("value-%02d", i)
		require.NoError(t, c.ProduceSync(ctx, &kgo.Record{Topic: "repaired", Value: []byte(value)}).FirstErr())
		if i != 10 {
			want = append(want, value)
		}
	}
	require.NoError(t, kafka.Stop(ctx))

	dir, err := kafka.PartitionDir("repaired", 0)
	require.NoError(t, err)
	segment := filepath.Join(dir, "00000000000000000000.log")
	data, err := os.ReadFile(segment)
	require.NoError(t, err)
	data[bytes.Index(data, []byte("value-10"))] ^= 1
	require.NoError(t, os.WriteFile(segment, append(data, "garbage"...), 0o644))
	// What a start of our own server keeps of a data directory's files.
	for _, name := range []string{"quarantine.20261130T120000.000Z.json", "quarantine.20261130T120000.000Z.meta.properties"} {
		require.NoError(t, os.WriteFile(filepath.Join(kafka.DataDir(), name), []byte("{}"), 0o644))
	}

	repair := func(args ...string) (out string, code int) {
		cmd := exec.CommandContext(ctx, shared.maker.Binary(), append([]string{"log", "repair", kafka.DataDir()}, args...)...)
		said, _ := cmd.CombinedOutput() // the exit code says it
		return string(said), cmd.ProcessState.ExitCode()
	}
	out, code := repair()
	require.Equal(t, 3, code, out)
	require.Contains(t, out, "offsets 10 to 10 are lost; consumers skip them and go on at 11")
	out, code = repair("--apply")
	require.Zero(t, code, out)
	kept, err := filepath.Glob(filepath.Join(dir, "quarantine", "*.json"))
	require.NoError(t, err)
	require.Len(t, kept, 1)

	require.NoError(t, kafka.Start(ctx))
	consumer := shared.install.Java("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", kafka.Addr(),
		"--topic", "repaired", "--from-beginning", "--max-messages", fmt.Sprint(len(want)), "--timeout-ms", "60000")
	read, err := consumer.Output()
	require.NoError(t, err)
	require.Equal(t, want, strings.Fields(string(read)))
	next := &kgo.Record{Topic: "repaired", Value: []byte("next")}
	require.NoError(t, c.ProduceSync(ctx, next).FirstErr())
	require.Equal(t, int64(30), next.Offset)
	require.NoError(t, kafka.Stop(ctx))
	_, err = os.Stat(kept[0])
	require.NoError(t, err, "Kafka takes no notice of it")
}

// TestU08_ApacheKafkaGoesOnBehindATransactionThatWasAbortedHere loses the end of a transaction in the log of a real broker that was
// killed. After the repair the broker's last stable offset stands still; once the transaction was aborted its consumer reads on.
func TestU08_ApacheKafkaGoesOnBehindATransactionThatWasAbortedHere(t *testing.T) {
	ctx := limited(t, 5*time.Minute)
	if !shared.maker.IsTidemark() {
		return // there is nothing to repair with
	}
	kafka, err := server.NewKafka(shared.install, server.KafkaOptions{Dir: t.TempDir()})
	require.NoError(t, err)
	defer kafka.Kill()
	require.NoError(t, kafka.Start(ctx))
	manual := kgo.RecordPartitioner(kgo.ManualPartitioner())
	plain, err := kgo.NewClient(kgo.SeedBrokers(kafka.Addr()), manual)
	require.NoError(t, err)
	defer plain.Close()
	admin := kadm.NewClient(plain)
	created, err := admin.CreateTopics(ctx, 1, 1, map[string]*string{"retention.ms": kadm.StringPtr("-1")}, "hanging")
	require.NoError(t, err)
	require.NoError(t, created.Error())
	c, err := kgo.NewClient(kgo.SeedBrokers(kafka.Addr()), manual, kgo.TransactionalID("hangs"))
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.BeginTransaction())
	require.NoError(t, c.ProduceSync(ctx, &kgo.Record{Topic: "hanging", Value: []byte("in-transaction")}).FirstErr())
	require.NoError(t, c.EndTransaction(ctx, kgo.TryCommit))
	stable := func() int64 {
		listed, err := admin.ListCommittedOffsets(ctx, "hanging")
		require.NoError(t, err)
		require.NoError(t, listed.Error())
		o, _ := listed.Lookup("hanging", 0)
		return o.Offset
	}
	// Markers are written after the producer was answered, so this waits for them.
	readCommitted := func(from int64, want ...string) {
		committed, err := kgo.NewClient(kgo.SeedBrokers(kafka.Addr()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"hanging": {0: kgo.NewOffset().At(from)}}))
		require.NoError(t, err)
		defer committed.Close()
		var got []string
		for len(got) < len(want) {
			fetched := committed.PollFetches(ctx)
			require.NoError(t, fetched.Err())
			fetched.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
		}
		require.Equal(t, want, got)
	}
	readCommitted(0, "in-transaction")
	require.NoError(t, plain.ProduceSync(ctx, &kgo.Record{Topic: "hanging", Value: []byte("behind")}).FirstErr())
	readCommitted(0, "in-transaction", "behind")
	kafka.Kill()

	dir, err := kafka.PartitionDir("hanging", 0)
	require.NoError(t, err)
	segment := filepath.Join(dir, "00000000000000000000.log")
	data, err := os.ReadFile(segment)
	require.NoError(t, err)
	first, rest, err := batch.Next(data)
	require.NoError(t, err)
	marker, _, err := batch.Next(rest)
	require.NoError(t, err)
	require.True(t, marker.Attributes().Control())
	copy(data[len(first):], bytes.Repeat([]byte{0xee}, len(marker)))
	require.NoError(t, os.WriteFile(segment, data, 0o644))
	repair := func(args ...string) string {
		said, err := exec.CommandContext(ctx, shared.maker.Binary(), append([]string{"log", "repair", dir, "--apply"}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", said)
		return string(said)
	}
	require.Contains(t, repair(), "open: the transaction of producer "+fmt.Sprint(first.ProducerID()))
	require.NoError(t, kafka.Start(ctx))
	require.Zero(t, stable(), "readers of committed records wait")
	require.NoError(t, kafka.Stop(ctx))

	require.Contains(t, repair("--abort", fmt.Sprint(first.ProducerID())), "with a marker at offset 3")
	require.NoError(t, kafka.Start(ctx))
	require.Equal(t, int64(4), stable())
	consumer := shared.install.Java("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", kafka.Addr(),
		"--topic", "hanging", "--from-beginning", "--isolation-level", "read_committed", "--max-messages", "1", "--timeout-ms", "60000")
	read, err := consumer.Output()
	require.NoError(t, err)
	require.Equal(t, "behind\n", string(read), "what was aborted is skipped")

	require.NoError(t, c.BeginTransaction(), "the producer goes on")
	next := &kgo.Record{Topic: "hanging", Value: []byte("next")}
	require.NoError(t, c.ProduceSync(ctx, next).FirstErr())
	require.NoError(t, c.EndTransaction(ctx, kgo.TryCommit))
	readCommitted(3, "next")
	require.NoError(t, kafka.Stop(ctx))
}
