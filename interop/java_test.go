package interop

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidemark-io/tidemark/interop/corpus"
)

func TestApacheKafkaConsoleProducerAndConsumer(t *testing.T) {
	exchange(t, consolePeer{}, traits{
		writes:     corpus.Abilities{TextOnly: true, NoTimestamps: true},
		reads:      corpus.Abilities{TextOnly: true},
		idempotent: true,
	})
}

// consolePeer is Apache Kafka's console producer and its console consumer with --partition.
type consolePeer struct{}

// nullText stands for null where the tools print and parse text.
const nullText = "(null)"

func orNull(b []byte) string {
	if b == nil {
		return nullText
	}
	return string(b)
}

func (consolePeer) write(t *testing.T, jobs []job) {
	t.Helper()
	for _, j := range jobs {
		var lines bytes.Buffer
		for _, r := range j.Records {
			var headers []string
			for _, h := range r.Headers {
				headers = append(headers, h.Key+":"+orNull(h.Value))
			}
			if headers == nil {
				headers = []string{nullText}
			}
			fmt.Fprintf(&lines, "%s\t%s\t%s\n", strings.Join(headers, ","), orNull(r.Key), orNull(r.Value))
		}
		java(t, &lines, "org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", shared.under.Addr(),
			"--topic", j.Topic, "--compression-codec", j.Codec, "--batch-size", fmt.Sprint(smallLimit),
			"--max-memory-bytes", fmt.Sprint(4*largeLimit),
			"--command-property", fmt.Sprintf("enable.idempotence=%t", j.Idempotent),
			"--command-property", fmt.Sprintf("max.request.size=%d", j.MaxBytes),
			"--command-property", "linger.ms=50",
			"--reader-property", "parse.key=true", "--reader-property", "parse.headers=true",
			"--reader-property", "null.marker="+nullText)
	}
}

func (consolePeer) read(t *testing.T, jobs []job) map[string][]corpus.Record {
	t.Helper()
	got := map[string][]corpus.Record{}
	for _, j := range jobs {
		out := java(t, nil, "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", shared.under.Addr(),
			"--topic", j.Topic, "--partition", "0", "--offset", "earliest",
			"--max-messages", fmt.Sprint(len(j.Records)), "--timeout-ms", "60000",
			"--command-property", fmt.Sprintf("max.partition.fetch.bytes=%d", j.MaxBytes),
			"--formatter-property", "print.timestamp=true", "--formatter-property", "print.offset=true",
			"--formatter-property", "print.headers=true", "--formatter-property", "print.key=true",
			"--formatter-property", "null.literal="+nullText)
		for _, line := range strings.Split(strings.TrimSuffix(string(out), "\n"), "\n") {
			got[j.Topic] = append(got[j.Topic], parseConsole(t, line))
		}
	}
	return got
}

// parseConsole reads one line of the console consumer: CreateTime:TS, Offset:N, headers, key, value, with tabs between.
func parseConsole(t *testing.T, line string) corpus.Record {
	t.Helper()
	fields := strings.SplitN(line, "\t", 5)
	require.Len(t, fields, 5, "%.300s", line)
	number := func(field, prefix string) int64 {
		n, err := strconv.ParseInt(strings.TrimPrefix(field, prefix), 10, 64)
		require.NoError(t, err, "%.300s", line)
		return n
	}
	text := func(s string) []byte {
		if s == nullText {
			return nil
		}
		return []byte(s)
	}
	r := corpus.Record{Timestamp: number(fields[0], "CreateTime:"), Offset: number(fields[1], "Offset:"),
		Key: text(fields[3]), Value: text(fields[4])}
	if fields[2] == "NO_HEADERS" {
		return r
	}
	for _, header := range strings.Split(fields[2], ",") {
		key, value, _ := strings.Cut(header, ":")
		r.Headers = append(r.Headers, corpus.Header{Key: key, Value: text(value)})
	}
	return r
}

// java runs a tool of Apache Kafka and returns what it printed.
func java(t *testing.T, stdin *bytes.Buffer, class string, args ...string) []byte {
	t.Helper()
	command := shared.install.Java(class, args...)
	if stdin != nil {
		command.Stdin = stdin
	}
	out, errs, err := bounded(t, command, 2*time.Minute)
	require.NoError(t, err, "%s %s\n%.2000s\n%.2000s", class, strings.Join(args, " "), out, errs)
	require.NotContains(t, string(errs), "ERROR", "%s %s", class, strings.Join(args, " "))
	return out
}

// bounded runs a command and kills it when the limit passes.
func bounded(t *testing.T, command *exec.Cmd, limit time.Duration) (stdout, stderr []byte, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Start(); err != nil {
		return nil, nil, err
	}
	timer := time.AfterFunc(limit, func() { command.Process.Kill() })
	defer timer.Stop()
	err = command.Wait()
	return out.Bytes(), errs.Bytes(), err
}

func TestKafkaProducerPerfTestSendsEveryRecord(t *testing.T) {
	const records = 50_000
	for _, tc := range []struct{ acks, codec, idempotent string }{
		{"all", "none", "true"},
		{"1", "lz4", "false"},
		{"0", "zstd", "false"},
	} {
		t.Run("acks "+tc.acks+" "+tc.codec, func(t *testing.T) {
			topic := "perf-acks-" + tc.acks
			createTopics(t, nil, topic)
			out := java(t, nil, "org.apache.kafka.tools.ProducerPerformance", "--bootstrap-server", shared.under.Addr(),
				"--topic", topic, "--num-records", fmt.Sprint(records), "--record-size", "200", "--throughput", "-1",
				"--command-property", "acks="+tc.acks, "compression.type="+tc.codec, "enable.idempotence="+tc.idempotent)
			require.Contains(t, string(out), fmt.Sprintf("%d records sent", records))
			ends, err := kadm.NewClient(client(t)).ListEndOffsets(limited(t, time.Minute), topic)
			require.NoError(t, err)
			end, _ := ends.Lookup(topic, 0)
			require.Equal(t, int64(records), end.Offset)
		})
	}
}

func TestKafkaTopicsCreatesListsAndDeletes(t *testing.T) {
	topics := func(args ...string) string {
		return string(java(t, nil, "org.apache.kafka.tools.TopicCommand",
			append([]string{"--bootstrap-server", shared.under.Addr()}, args...)...))
	}
	topics("--create", "--topic", "made-by-kafka-topics", "--partitions", "3", "--replication-factor", "1",
		"--config", "max.message.bytes=2000000", "--config", "retention.ms=-1")
	require.Contains(t, strings.Split(topics("--list"), "\n"), "made-by-kafka-topics")
	metadata, err := kadm.NewClient(client(t)).Metadata(limited(t, time.Minute), "made-by-kafka-topics")
	require.NoError(t, err)
	require.Len(t, metadata.Topics["made-by-kafka-topics"].Partitions, 3)
	topics("--delete", "--topic", "made-by-kafka-topics")
	require.NotContains(t, strings.Split(topics("--list"), "\n"), "made-by-kafka-topics")
}
