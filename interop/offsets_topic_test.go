package interop

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What differs from run to run in what Kafka's formatters print.
var (
	stamps   = regexp.MustCompile(`\b1[0-9]{12}\b`)
	ofMember = regexp.MustCompile(`"(subscription|assignment|topicId)":"[^"]*"`)
)

// The topic of the groups is one that lag tools and mirrors read: Kafka's own formatters print of it what they print of the one
// that Kafka's broker writes.
func TestU19_KafkasFormattersReadTheTopicOfTheGroups(t *testing.T) {
	const topic, group = "readable", "readable-group"
	createTopics(t, nil, topic)
	c := client(t, kgo.ClientID("tools-live"), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DefaultProduceTopic(topic),
		kgo.Balancers(kgo.RangeBalancer()), kgo.DisableAutoCommit())
	require.NoError(t, c.ProduceSync(limited(t, time.Minute), kgo.StringRecord("x"), kgo.StringRecord("y")).FirstErr())
	fetches := c.PollRecords(limited(t, time.Minute), 2)
	require.NoError(t, fetches.Err())
	require.NoError(t, c.CommitRecords(limited(t, time.Minute), fetches.Records()[0]))
	c.LeaveGroup()
	admin := kadm.NewClient(client(t))
	moved := kadm.Offsets{}
	moved.AddOffset(topic, 0, 2, -1)
	require.NoError(t, admin.CommitAllOffsets(limited(t, time.Minute), group, moved))
	_, err := admin.DeleteGroup(limited(t, time.Minute), group)
	require.NoError(t, err)

	read := func(formatter string) toolRun {
		return toolRun{main: consumerTool, args: []string{"--topic", "__consumer_offsets", "--from-beginning", "--timeout-ms", "8000",
			"--formatter", "org.apache.kafka.tools.consumer." + formatter}}
	}
	var got strings.Builder
	for _, r := range runTools(t, []toolRun{read("OffsetsMessageFormatter"), read("GroupMetadataMessageFormatter")}) {
		fmt.Fprintln(&got, r.args[len(r.args)-1])
		for _, record := range formatted(t, r.out, group) {
			fmt.Fprintln(&got, record)
		}
	}
	compareWithKafkas(t, "offsets-topic.txt", got.String())
}

// formatted is what a formatter printed of the records of a group, without what differs from run to run. A formatter writes
// one JSON object after the other, among log lines. The record of an empty group that Kafka writes before its first member is
// there is left out: nothing follows from it.
func formatted(t *testing.T, out, group string) []string {
	t.Helper()
	const begin = `{"key":`
	var records []string
	for _, rest := range strings.Split(out, begin)[1:] {
		var text json.RawMessage
		require.NoError(t, json.NewDecoder(strings.NewReader(begin+rest)).Decode(&text))
		if strings.Contains(string(text), `"group":"`+group+`"`) && !strings.Contains(string(text), `"generation":0,`) {
			line := ofMember.ReplaceAllString(memberIDs.ReplaceAllString(string(text), "${1}-ID"), `"${1}":"…"`)
			records = append(records, stamps.ReplaceAllString(line, "0"))
		}
	}
	return records
}
