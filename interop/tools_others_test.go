package interop

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	aclTool          = "org.apache.kafka.tools.AclCommand"
	clientsTool      = "org.apache.kafka.tools.ClientMetricsCommand"
	electionTool     = "org.apache.kafka.tools.LeaderElectionCommand"
	groupsOfAllTool  = "org.apache.kafka.tools.GroupsCommand"
	reassignmentTool = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
	shareGroupsTool  = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
	streamsTool      = "org.apache.kafka.tools.streams.StreamsGroupCommand"
)

// What a user of Kafka's tools reaches for once topics, groups and settings work.
func TestKafkasOtherToolsPrintWhatTheyPrintOfKafkasBroker(t *testing.T) {
	topic := func(args ...string) toolRun {
		return toolRun{main: topicsTool, args: append([]string{"--topic", "others"}, args...)}
	}
	runs := []toolRun{
		topic("--create", "--partitions", "3", "--config", "compression.type=zstd"),
		topic("--create"),
		topic("--create", "--if-not-exists"),
		topic("--describe", "--under-replicated-partitions"),
		topic("--describe", "--unavailable-partitions"),
		topic("--describe", "--at-min-isr-partitions"),
		topic("--describe", "--topics-with-overrides"),
		topic("--delete"),
		topic("--delete"),
		topic("--delete", "--if-exists"),
		topic("--describe"),
		{main: groupsOfAllTool, args: []string{"--list", "--group-type", "consumer"}},
		{main: groupsOfAllTool, args: []string{"--list", "--group-type", "share"}},
		{main: groupsTool, args: []string{"--list", "--type", "consumer"}},
		{main: groupsTool, args: []string{"--validate-regex", "a.*"}},
		{main: streamsTool, args: []string{"--list"}},
		{main: shareGroupsTool, args: []string{"--list"}},
		{main: clientsTool, args: []string{"--list"}},
		{main: transactionsTool, args: []string{"find-hanging", "--broker-id", "1"}},
		{main: configsTool, args: []string{"--describe", "--entity-type", "groups", "--entity-name", "others"}},
		{main: configsTool, args: []string{"--describe", "--client-metrics", "others"}},
	}
	var got strings.Builder
	for _, r := range runTools(t, runs) {
		fmt.Fprintf(&got, "$ %s %s\n%sexit %d\n\n", r.main[strings.LastIndexByte(r.main, '.')+1:], strings.Join(r.args, " "), comparable(t, r), r.code)
	}
	compareWithKafkas(t, "others.txt", got.String())
}

func TestKafkasToolsForWhatIsNotServedSaySo(t *testing.T) {
	if !shared.maker.IsTidemark() {
		t.Log("Kafka serves all of it")
		return
	}
	for _, r := range runTools(t, []toolRun{
		{main: electionTool, args: []string{"--election-type", "preferred", "--all-topic-partitions"}},
		{main: reassignmentTool, args: []string{"--list"}},
		{main: transactionsTool, args: []string{"list"}},
		{main: aclTool, args: []string{"--list"}},
		{main: quorumTool, args: []string{"describe", "--status"}},
		{main: configsTool, args: []string{"--describe", "--entity-type", "users"}},
	}) {
		require.Equal(t, 1, r.code, "%s\n%s", r.main, r.out)
		require.Regexp(t, regexp.MustCompile(`The node does not support [A-Z_]+`), r.out, r.main)
	}
}
