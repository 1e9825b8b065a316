package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	consumerTool = "org.apache.kafka.tools.consumer.ConsoleConsumer"
	groupsTool   = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
)

// What differs from run to run in what the group tools print.
var (
	memberIDs   = regexp.MustCompile(`\b(tools-live|console-consumer)-[0-9a-f-]{36}\b`)
	clientHosts = regexp.MustCompile(`/127\.0\.0\.1\b`)
)

func TestKafkasConsoleConsumerAndGroupToolPrintWhatTheyPrintOfKafkasBroker(t *testing.T) {
	const topic, group, live = "group-tools", "tools-group", "tools-live-group"
	createTopics(t, nil, topic)
	c := client(t, kgo.DefaultProduceTopic(topic))
	for i := range 20 {
		record := &kgo.Record{Value: fmt.Appendf(nil, "%d", i), Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i)*1000)}
		require.NoError(t, c.ProduceSync(limited(t, time.Minute), record).FirstErr())
	}
	member := client(t, kgo.ClientID("tools-live"), kgo.ConsumerGroup(live), kgo.ConsumeTopics(topic),
		kgo.Balancers(kgo.RangeBalancer()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	fetches := member.PollRecords(limited(t, time.Minute), 5)
	require.NoError(t, fetches.Err())
	require.NoError(t, member.CommitRecords(limited(t, time.Minute), fetches.Records()...))

	plan := filepath.Join(t.TempDir(), "plan.csv")
	require.NoError(t, os.WriteFile(plan, []byte(group+","+topic+",0,11\n"), 0o600))
	of := func(name string, args ...string) toolRun {
		return toolRun{main: groupsTool, args: append([]string{"--group", name}, args...)}
	}
	reset := func(args ...string) toolRun {
		return of(group, append([]string{"--reset-offsets", "--topic", topic}, args...)...)
	}
	consume := func(n int) toolRun {
		return toolRun{main: consumerTool, args: []string{"--topic", topic, "--group", group, "--command-property",
			"auto.offset.reset=earliest", "--max-messages", fmt.Sprint(n), "--timeout-ms", "60000"}}
	}
	runs := []toolRun{
		consume(8),
		of(group, "--describe"),
		of(group, "--describe", "--offsets", "--verbose"),
		of(group, "--describe", "--members"),
		of(group, "--describe", "--state"),
		consume(2),
		of(live, "--describe"),
		of(live, "--describe", "--members", "--verbose"),
		of(live, "--describe", "--state", "--verbose"),
		of(live, "--reset-offsets", "--topic", topic, "--to-earliest", "--execute"),
		of(live, "--delete"),
		of(live, "--delete-offsets", "--topic", topic),
		reset("--to-earliest", "--dry-run"),
		reset("--to-latest", "--execute"),
		reset("--shift-by", "-3", "--execute"),
		reset("--to-offset", "100", "--execute"),
		reset("--to-datetime", "2023-11-14T22:13:25.000", "--execute"),
		reset("--to-current", "--execute", "--export"),
		of(group, "--reset-offsets", "--from-file", plan, "--execute"),
		of(group, "--describe"),
		consume(9),
		of(group, "--delete-offsets", "--topic", topic),
		of(group, "--describe"),
		reset("--to-earliest", "--execute"),
		{main: groupsTool, args: []string{"--list"}},
		{main: groupsTool, args: []string{"--list", "--state"}},
		{main: groupsTool, args: []string{"--list", "--type"}},
		{main: groupsTool, args: []string{"--list", "--state", "Empty"}},
		{main: groupsTool, args: []string{"--describe", "--all-groups"}},
		{main: groupsTool, args: []string{"--describe", "--all-groups", "--members"}},
		{main: groupsTool, args: []string{"--describe", "--all-groups", "--state"}},
		reset("--by-duration", "PT0S", "--execute"),
		{main: groupsTool, args: []string{"--group", group, "--reset-offsets", "--all-topics", "--to-earliest", "--dry-run"}},
		{main: groupsTool, args: []string{"--group", group, "--reset-offsets", "--topic", topic + ":0", "--to-offset", "7", "--execute"}},
		of(group, "--delete"),
		of(group, "--delete"),
		of(group, "--describe"),
		of("tools-nowhere", "--describe"),
		of("tools-nowhere", "--describe", "--members"),
		of("tools-nowhere", "--reset-offsets", "--topic", topic, "--to-earliest", "--execute"),
	}
	var got strings.Builder
	for _, r := range runTools(t, runs) {
		name := r.main[strings.LastIndexByte(r.main, '.')+1:]
		out := memberIDs.ReplaceAllString(comparable(t, r), "${1}-ID")
		out = clientHosts.ReplaceAllString(out, "/HOST")
		if r.args[0] == "--list" || slices.Contains(r.args, "--all-groups") {
			out = listedGroups(out)
		}
		fmt.Fprintf(&got, "$ %s %s\n%sexit %d\n\n", name, strings.ReplaceAll(strings.Join(r.args, " "), plan, "PLAN"), out, r.code)
	}
	golden := filepath.Join("testdata", "tools", "groups.txt")
	if *update {
		require.False(t, shared.maker.IsTidemark(), "what is compared with comes from Kafka: set INTEROP_SERVER=kafka")
		require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}

// listedGroups is what was printed of the groups of this test, in order, with the heading.
func listedGroups(out string) string {
	var heading, groups []string
	for line := range strings.Lines(out) {
		switch {
		case strings.HasPrefix(line, "GROUP "):
			heading = append(heading, line)
		case strings.HasPrefix(line, "tools-"):
			groups = append(groups, line)
		}
	}
	slices.Sort(groups)
	return strings.Join(append(heading[:min(len(heading), 1)], groups...), "")
}
