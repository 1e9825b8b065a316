package broker

import (
	"iter"
	"path"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/partition"
)

// # DescribeLogDirs (35): versions 1-5
//
// Describes the directories that hold partitions: the size of each partition's records, and how much space there is. Null
// topics ask for all; partitions that are not here are left out, and a repeated partition is answered once. Files that
// the log no longer shows and keeps only until they are deleted do not count, as in Kafka.
//
//	v2  flexible
//	v3  error of the whole response
//	v4  bytes of the file system, in all and free; -1 is unknown
//	v5  whether a directory takes no new partitions; none is
//
// Errors: none.
func describeLogDirsAPI() api {
	return api{
		key: 35, name: "DescribeLogDirs", min: 1, max: 5, served: 1, flexible: 2,
		shape:  shape{list(160, text(), listOf(40, fixed(4)))},
		handle: decoding(kmsg.NewPtrDescribeLogDirsRequest, (*call).describeLogDirs),
	}
}

func (c *call) describeLogDirs(req *kmsg.DescribeLogDirsRequest) (answer, error) {
	dirs := c.server.backend.LogDirs()
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	resp.Dirs = make([]kmsg.DescribeLogDirsResponseDir, len(dirs))
	byPath := make(map[string]*kmsg.DescribeLogDirsResponseDir, len(dirs))
	for i, d := range dirs {
		dir := &resp.Dirs[i]
		dir.Dir, dir.TotalBytes, dir.UsableBytes = d.Path, d.Total, d.Usable
		byPath[d.Holds] = dir
	}
	for log := range c.logsAsked(req) {
		if dir := byPath[path.Dir(log.Dir())]; dir != nil {
			addLog(dir, log)
		}
	}
	return c.reply(resp), nil
}

// logsAsked yields the requested logs that are open here, topic by topic.
func (c *call) logsAsked(req *kmsg.DescribeLogDirsRequest) iter.Seq[*partition.Log] {
	topics := c.server.backend.Topics()
	return func(yield func(*partition.Log) bool) {
		if req.Topics == nil {
			for t := range topics.All() {
				for index := range t.Partitions {
					if log, err := c.server.lead(t, int32(index)); err == nil && !yield(log) {
						return
					}
				}
			}
			return
		}
		for _, asked := range mergedTopics(req.Topics) {
			t, ok := topics.ByName(asked.Topic)
			if !ok {
				continue
			}
			for _, index := range unique(asked.Partitions, func(index int32) int32 { return index }) {
				if log, err := c.server.lead(t, index); err == nil && !yield(log) {
					return
				}
			}
		}
	}
}

// mergedTopics merges repeated topics, in the order of their first appearance.
func mergedTopics(topics []kmsg.DescribeLogDirsRequestTopic) []kmsg.DescribeLogDirsRequestTopic {
	first := make(map[string]int, len(topics))
	merged := topics[:0]
	for _, t := range topics {
		i, again := first[t.Topic]
		if !again {
			first[t.Topic] = len(merged)
			merged = append(merged, t)
			continue
		}
		merged[i].Partitions = append(merged[i].Partitions, t.Partitions...)
	}
	return merged
}

// addLog adds a log to the answer. The logs of a topic come one after the other.
func addLog(dir *kmsg.DescribeLogDirsResponseDir, log *partition.Log) {
	if n := len(dir.Topics); n == 0 || dir.Topics[n-1].Topic != log.Topic() {
		dir.Topics = append(dir.Topics, kmsg.DescribeLogDirsResponseDirTopic{Topic: log.Topic()})
	}
	t := &dir.Topics[len(dir.Topics)-1]
	t.Partitions = append(t.Partitions, kmsg.DescribeLogDirsResponseDirTopicPartition{
		Partition: log.Index(), Size: log.Size(),
	})
}
