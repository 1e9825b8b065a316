package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// question is a request to administrators' APIs, in its newest version.
type question struct {
	name string
	req  kmsg.Request
}

// setting is one operation on a setting: 0 set, 1 delete, 2 append, 3 subtract. A value of "-" is null.
type setting struct {
	name  string
	op    int8
	value string
}

func altering(resource int8, name string, settings ...setting) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.IncrementalAlterConfigsRequestResource{ResourceType: kmsg.ConfigResourceType(resource), ResourceName: name}
	for _, s := range settings {
		c := kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: s.name, Op: kmsg.IncrementalAlterConfigOp(s.op)}
		if s.value != "-" {
			c.Value = &s.value
		}
		r.Configs = append(r.Configs, c)
	}
	req.Resources = append(req.Resources, r)
	return req
}

func growing(topic string, total int32, replicas ...int32) *kmsg.CreatePartitionsRequest {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = 10_000
	t := kmsg.CreatePartitionsRequestTopic{Topic: topic, Count: total}
	for _, r := range replicas {
		t.Assignment = append(t.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: []int32{r}})
	}
	req.Topics = append(req.Topics, t)
	return req
}

func deleting(topic string, partition int32, offset int64) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 10_000
	req.Topics = []kmsg.DeleteRecordsRequestTopic{{
		Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: partition, Offset: offset}},
	}}
	return req
}

func epochEnd(topic string, partition, current, epoch int32) *kmsg.OffsetForLeaderEpochRequest {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -2
	req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{
		Topic: topic, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{
			{Partition: partition, CurrentLeaderEpoch: current, LeaderEpoch: epoch},
		},
	}}
	return req
}

// epochEnds asks for the end of epoch 0 of partitions, topic by topic.
func epochEnds(topics ...topicPartitions) *kmsg.OffsetForLeaderEpochRequest {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -2
	for _, t := range topics {
		asked := kmsg.OffsetForLeaderEpochRequestTopic{Topic: t.topic}
		for _, p := range t.partitions {
			asked.Partitions = append(asked.Partitions,
				kmsg.OffsetForLeaderEpochRequestTopicPartition{Partition: p, CurrentLeaderEpoch: -1})
		}
		req.Topics = append(req.Topics, asked)
	}
	return req
}

// topicPartitions is partitions of a topic as a request names them.
type topicPartitions struct {
	topic      string
	partitions []int32
}

// logDirs asks for the sizes of partitions, topic by topic.
func logDirs(topics ...topicPartitions) *kmsg.DescribeLogDirsRequest {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Topics = []kmsg.DescribeLogDirsRequestTopic{}
	for _, t := range topics {
		req.Topics = append(req.Topics, kmsg.DescribeLogDirsRequestTopic{Topic: t.topic, Partitions: t.partitions})
	}
	return req
}

func describing(resource int8, name string, settings ...string) *kmsg.DescribeConfigsRequest {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms = true
	req.Resources = []kmsg.DescribeConfigsRequestResource{
		{ResourceType: kmsg.ConfigResourceType(resource), ResourceName: name, ConfigNames: settings},
	}
	return req
}

func paging(limit int32, from string, partition int32, topics ...string) *kmsg.DescribeTopicPartitionsRequest {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = limit
	if from != "" {
		req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: from, Partition: partition}
	}
	for _, t := range topics {
		req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: t})
	}
	return req
}

func endpoints(kind int8) *kmsg.DescribeClusterRequest {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType, req.IncludeClusterAuthorizedOperations = kind, true
	return req
}

func producersOf(topic string, partitions ...int32) *kmsg.DescribeProducersRequest {
	req := kmsg.NewPtrDescribeProducersRequest()
	req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: topic, Partitions: partitions}}
	return req
}

// adminQuestions are asked in order of the topics asked, with one partition and ten records, and asked-compact.
func adminQuestions() []question {
	const topic, broker, logger, metrics, group = 2, 4, 8, 16, 32
	return []question{
		{"alter: unknown name", altering(topic, "asked", setting{"no.such", 0, "1"})},
		{"alter: bad value", altering(topic, "asked", setting{"retention.ms", 0, "-5"})},
		{"alter: append to no list", altering(topic, "asked", setting{"retention.ms", 2, "5"})},
		{"alter: append", altering(topic, "asked", setting{"cleanup.policy", 2, "compact"})},
		{"alter: append again", altering(topic, "asked", setting{"cleanup.policy", 2, "compact"})},
		{"then", describing(topic, "asked", "cleanup.policy")},
		{"alter: subtract", altering(topic, "asked", setting{"cleanup.policy", 3, "compact"})},
		{"then", describing(topic, "asked", "cleanup.policy")},
		{"alter: subtract what is not there", altering(topic, "asked", setting{"cleanup.policy", 3, "what"})},
		{"alter: append a word that is none", altering(topic, "asked", setting{"cleanup.policy", 2, "what"})},
		{"alter: delete what is not set", altering(topic, "asked", setting{"segment.ms", 1, "-"})},
		{"alter: delete what is unknown", altering(topic, "asked", setting{"no.such", 1, "-"})},
		{"alter: set null", altering(topic, "asked", setting{"retention.ms", 0, "-"})},
		{"alter: the same name twice", altering(topic, "asked", setting{"retention.ms", 0, "1"}, setting{"retention.ms", 0, "2"})},
		{"alter: unknown topic", altering(topic, "asked-nowhere", setting{"retention.ms", 0, "1"})},
		{"alter: unknown topic, bad value", altering(topic, "asked-nowhere", setting{"retention.ms", 0, "x"})},
		{"alter: illegal topic", altering(topic, "a b", setting{"retention.ms", 0, "1"})},
		{"alter: no topic", altering(topic, "", setting{"retention.ms", 0, "1"})},
		{"alter: nothing", altering(topic, "asked")},
		{"alter: unknown type", altering(77, "asked", setting{"retention.ms", 0, "1"})},
		{"alter: a setting of the broker", altering(broker, "1", setting{"num.partitions", 0, "3"})},
		{"alter: another broker", altering(broker, "2", setting{"num.partitions", 0, "3"})},
		{"alter: a broker that is no number", altering(broker, "x", setting{"num.partitions", 0, "3"})},
		{"alter: a logger", altering(logger, "1", setting{"no.such", 0, "INFO"})},
		{"describe: some", describing(topic, "asked", "retention.ms", "no.such")},
		{"describe: unknown topic", describing(topic, "asked-nowhere")},
		{"describe: illegal topic", describing(topic, "a b")},
		{"describe: broker", describing(broker, "1", "log.retention.hours")},
		{"describe: another broker", describing(broker, "2")},
		{"describe: no broker name of a number", describing(broker, "x")},
		{"describe: another logger", describing(logger, "2")},
		{"describe: no subscription", describing(metrics, "")},
		{"describe: no group", describing(group, "")},
		{"describe: unknown type", describing(77, "x")},
		{"grow: as many", growing("asked", 1)},
		{"grow: fewer", growing("asked", 0)},
		{"grow: unknown topic", growing("asked-nowhere", 3)},
		{"grow: far too many", growing("asked", 20_000)},
		{"grow: too few replicas", growing("asked", 4, 1)},
		{"grow: unknown node", growing("asked", 2, 9)},
		{"grow", growing("asked", 3, 1, 1)},
		{"delete records", deleting("asked", 0, 4)},
		{"delete records: below the start", deleting("asked", 0, 1)},
		{"delete records: above the end", deleting("asked", 0, 99)},
		{"delete records: below -1", deleting("asked", 0, -2)},
		{"delete records: to the end", deleting("asked", 0, -1)},
		{"delete records: unknown partition", deleting("asked", 9, 0)},
		{"delete records: unknown topic", deleting("asked-nowhere", 0, 0)},
		{"delete records: compacted", deleting("asked-compact", 0, 0)},
		{"epoch 0", epochEnd("asked", 0, -1, 0)},
		{"epoch -1", epochEnd("asked", 0, -1, -1)},
		{"epoch 9", epochEnd("asked", 0, -1, 9)},
		{"epoch of a client ahead", epochEnd("asked", 0, 5, 0)},
		{"epoch of an unknown partition", epochEnd("asked", 9, -1, 0)},
		{"epoch of an unknown topic", epochEnd("asked-nowhere", 0, -1, 0)},
		{"epochs, out of order and repeated", epochEnds(topicPartitions{"asked", []int32{2, 0, 2, 9, 0}})},
		{"epochs of topics out of order and repeated", epochEnds(topicPartitions{"asked-compact", []int32{0}},
			topicPartitions{"asked-nowhere", []int32{1, 0}}, topicPartitions{"asked", []int32{2}}, topicPartitions{"asked-compact", []int32{0}},
			topicPartitions{"asked", []int32{1}})},
		{"directories", logDirs(topicPartitions{"asked", []int32{2, 0, 2, 9, 0}})},
		{"directories of an unknown topic", logDirs(topicPartitions{"asked-nowhere", []int32{0}})},
		{"directories of a topic that is repeated", logDirs(topicPartitions{"asked", []int32{2}}, topicPartitions{"asked", []int32{1, 2}})},
		{"directories of no topic", logDirs()},
		{"cluster", endpoints(1)},
		{"cluster of controllers", endpoints(2)},
		{"cluster of something", endpoints(3)},
		{"producers", producersOf("asked", 0, 1, 99)},
		{"producers of an unknown topic", producersOf("asked-nowhere", 0)},
		{"producers of an illegal topic", producersOf("a b", 0)},
		{"page", paging(2, "", 0, "asked-compact", "asked")},
		{"page from a cursor", paging(2000, "asked", 1, "asked-compact", "asked")},
		{"page from a cursor elsewhere", paging(2000, "asked-compact", 0, "asked")},
		{"page from a negative cursor", paging(2000, "asked", -1, "asked")},
		{"page from behind the end", paging(2000, "asked", 9, "asked")},
		{"page that is full before an unknown topic", paging(3, "", 0, "asked", "asked-nowhere")},
	}
}

func TestAdminAnswersAreThoseOfKafkasBroker(t *testing.T) {
	createTopics(t, nil, "asked")
	createTopics(t, map[string]string{"cleanup.policy": "compact"}, "asked-compact")
	c := client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for i := range 10 {
		record := &kgo.Record{Topic: "asked", Value: []byte("x"), Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i))}
		require.NoError(t, c.ProduceSync(limited(t, time.Minute), record).FirstErr())
	}
	var got strings.Builder
	for _, q := range adminQuestions() {
		answer, err := c.Broker(1).RetriableRequest(limited(t, time.Minute), q.req)
		require.NoError(t, err, q.name)
		text, err := json.Marshal(answer)
		require.NoError(t, err)
		fmt.Fprintf(&got, "%s\n%s\n\n", q.name, sameEverywhere(string(text)))
	}
	compareWithKafkas(t, "answers.txt", got.String())
}

// What differs from server to server, or is for people.
var (
	unsaid = regexp.MustCompile(`,?"(UnknownTags|ErrorMessage|TopicID|ClusterID|ThrottleMillis|ProducerID|AuthorizedOperations|Dir|TotalBytes|UsableBytes)":("[^"]*"|\{\}|\[[0-9,]*\]|null|-?[0-9]+)`)
	ports  = regexp.MustCompile(`"Port":[0-9]+`)
)

func sameEverywhere(answer string) string {
	return ports.ReplaceAllString(unsaid.ReplaceAllString(answer, ""), `"Port":0`)
}

// compareWithKafkas holds a text against what it was with Apache Kafka's broker, or writes that with -update.
func compareWithKafkas(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "tools", name)
	if *update {
		require.False(t, shared.maker.IsTidemark(), "what is compared with comes from Kafka: set INTEROP_SERVER=kafka")
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}
