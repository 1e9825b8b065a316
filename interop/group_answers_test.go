package interop

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupQuestions are asked in order of the group asked-group, which has no members and one committed offset.
func groupQuestions() []question {
	describe := func(groups ...string) *kmsg.DescribeGroupsRequest {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups = groups
		return req
	}
	remove := func(groups ...string) *kmsg.DeleteGroupsRequest {
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = groups
		return req
	}
	removeOffsets := func(group, topic string, partitions ...int32) *kmsg.OffsetDeleteRequest {
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = group
		t := kmsg.OffsetDeleteRequestTopic{Topic: topic}
		for _, p := range partitions {
			t.Partitions = append(t.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: p})
		}
		req.Topics = append(req.Topics, t)
		return req
	}
	offsets := func(groups ...string) *kmsg.OffsetFetchRequest {
		req := kmsg.NewPtrOffsetFetchRequest()
		for _, g := range groups {
			req.Groups = append(req.Groups, kmsg.OffsetFetchRequestGroup{Group: g})
		}
		return req
	}
	coordinators := func(kind int8, keys ...string) *kmsg.FindCoordinatorRequest {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorType, req.CoordinatorKeys = kind, keys
		return req
	}
	heartbeat := kmsg.NewPtrHeartbeatRequest()
	heartbeat.Group, heartbeat.MemberID, heartbeat.Generation = "asked-nowhere", "m", 3
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = "asked-nowhere", "m", 3
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.Members = "asked-nowhere", []kmsg.LeaveGroupRequestMember{{MemberID: "m"}}
	return []question{
		{"describe", describe("asked-group")},
		{"describe an unknown group", describe("asked-nowhere")},
		{"describe the group without a name", describe("")},
		{"heartbeat in an unknown group", heartbeat},
		{"sync in an unknown group", sync},
		{"leave an unknown group", leave},
		{"offsets of an unknown group", offsets("asked-nowhere")},
		{"offsets", offsets("asked-group")},
		{"coordinators", coordinators(0, "asked-group", "asked-group", "")},
		{"delete offsets of an unknown group", removeOffsets("asked-nowhere", "asked-offsets", 0)},
		{"delete offsets of an unknown partition", removeOffsets("asked-group", "asked-offsets", 9)},
		{"delete offsets of an unknown topic", removeOffsets("asked-group", "asked-nowhere", 0)},
		{"delete offsets, one twice", removeOffsets("asked-group", "asked-offsets", 0, 0)},
		{"then", offsets("asked-group")},
		{"delete an unknown group", remove("asked-nowhere")},
		{"delete the group without a name", remove("")},
		{"delete, one twice", remove("asked-group", "asked-group")},
		{"describe what is deleted", describe("asked-group")},
	}
}

// What differs from server to server in answers about groups; what is for people is compared.
var unsaidOfGroups = regexp.MustCompile(`,?"(UnknownTags|TopicID|ThrottleMillis|NodeID|Host|Metadata)":("[^"]*"|\{\}|\[[0-9,]*\]|null|-?[0-9]+)`)

func TestGroupAnswersAreThoseOfKafkasBrokerWordForWord(t *testing.T) {
	createTopics(t, nil, "asked-offsets")
	c := client(t, kgo.ConsumerGroup("asked-group"), kgo.ConsumeTopics("asked-offsets"), kgo.DefaultProduceTopic("asked-offsets"))
	record := &kgo.Record{Value: []byte("x"), Timestamp: time.UnixMilli(1_700_000_000_000)}
	require.NoError(t, c.ProduceSync(limited(t, time.Minute), record).FirstErr())
	fetches := c.PollRecords(limited(t, time.Minute), 1)
	require.NoError(t, fetches.Err())
	require.NoError(t, c.CommitRecords(limited(t, time.Minute), fetches.Records()...))
	c.LeaveGroup()

	var got strings.Builder
	for _, q := range groupQuestions() {
		answer, err := client(t).Broker(1).RetriableRequest(limited(t, time.Minute), q.req)
		require.NoError(t, err, q.name)
		text, err := json.Marshal(answer)
		require.NoError(t, err)
		fmt.Fprintf(&got, "%s\n%s\n\n", q.name, ports.ReplaceAllString(unsaidOfGroups.ReplaceAllString(string(text), ""), `"Port":0`))
	}
	compareWithKafkas(t, "group-answers.txt", got.String())
}
