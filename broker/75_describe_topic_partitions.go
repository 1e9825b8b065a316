package broker

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// # DescribeTopicPartitions (75): version 0
//
// Describes topics and their partitions a page at a time, sorted by topic name. No topics asks for all. A page has at most the
// requested number of partitions, 1 to 2000; if there are more, the answer has a cursor for the next page.
//
// Errors of a topic: UNKNOWN_TOPIC_OR_PARTITION and INVALID_TOPIC_EXCEPTION, listed without id; INVALID_REQUEST for every
// topic when the cursor is at none of the named topics or at a negative partition. Errors of a partition:
// LEADER_NOT_AVAILABLE.
func describeTopicPartitionsAPI() api {
	return api{
		key: 75, name: "DescribeTopicPartitions", min: 0, max: 0, served: 0, flexible: 0,
		shape:  shape{list(250, text()), fixed(4), maybe(text(), fixed(4))}, // topics, limit, cursor
		handle: decoding(kmsg.NewPtrDescribeTopicPartitionsRequest, (*call).describeTopicPartitions),
	}
}

// maxDescribedPartitions is the most partitions of one page (max.request.partition.size.limit).
const maxDescribedPartitions = 2000

func (c *call) describeTopicPartitions(req *kmsg.DescribeTopicPartitionsRequest) (answer, error) {
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	if !cursorIsRight(req) {
		for _, asked := range req.Topics {
			resp.Topics = append(resp.Topics, undescribed(asked.Topic, codeInvalidRequest))
		}
		return c.reply(resp), nil
	}
	page := &topicPage{resp: resp, room: min(max(int(req.ResponsePartitionLimit), 1), maxDescribedPartitions)}
	topics := c.server.backend.Topics()
	if len(req.Topics) == 0 {
		page.addAll(topics, req.Cursor)
	} else {
		page.addNamed(topics, req)
	}
	return c.reply(resp), nil
}

// cursorIsRight reports whether the request's cursor, if it has one, points into the request.
func cursorIsRight(req *kmsg.DescribeTopicPartitionsRequest) bool {
	if req.Cursor == nil {
		return true
	}
	named := func(t kmsg.DescribeTopicPartitionsRequestTopic) bool { return t.Topic == req.Cursor.Topic }
	return req.Cursor.Partition >= 0 && (len(req.Topics) == 0 || slices.ContainsFunc(req.Topics, named))
}

// topicPage is an answer that is being filled.
type topicPage struct {
	resp *kmsg.DescribeTopicPartitionsResponse
	room int // for partitions
}

// from returns the first partition of a topic to describe, by a cursor that may be nil; ok is false for a topic before
// the cursor.
func from(cursor *kmsg.DescribeTopicPartitionsRequestCursor, topic string) (first int, ok bool) {
	switch {
	case cursor == nil || topic > cursor.Topic:
		return 0, true
	case topic == cursor.Topic:
		return int(cursor.Partition), true
	}
	return 0, false
}

func (p *topicPage) addAll(topics Topics, cursor *kmsg.DescribeTopicPartitionsRequestCursor) {
	for t := range topics.All() {
		if first, ok := from(cursor, t.Name); ok && !p.add(t, first) {
			return
		}
	}
}

func (p *topicPage) addNamed(topics Topics, req *kmsg.DescribeTopicPartitionsRequest) {
	names := make(map[string]bool, len(req.Topics))
	for _, t := range req.Topics {
		names[t.Topic] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		first, ok := from(req.Cursor, name)
		if !ok {
			continue
		}
		t, known := topics.ByName(name)
		switch {
		case known:
			if !p.add(t, first) {
				return
			}
		case p.room == 0:
			p.cut(name, 0)
			return
		case !validTopicName(name):
			p.resp.Topics = append(p.resp.Topics, undescribed(name, codeInvalidTopicException))
		default:
			p.resp.Topics = append(p.resp.Topics, undescribed(name, codeUnknownTopicOrPartition))
		}
	}
}

// add describes a topic from one of its partitions on. It reports false, with the cursor set, when the page is full.
func (p *topicPage) add(t *Topic, first int) bool {
	if p.room == 0 {
		p.cut(t.Name, first)
		return false
	}
	d := kmsg.NewDescribeTopicPartitionsResponseTopic()
	d.Topic, d.TopicID, d.IsInternal, d.AuthorizedOperations = &t.Name, t.ID, t.Internal, allTopicOperations
	end := min(len(t.Partitions), first+p.room)
	for i := first; i < end; i++ {
		d.Partitions = append(d.Partitions, describedPartition(int32(i), t.Partitions[i]))
	}
	p.resp.Topics = append(p.resp.Topics, d)
	p.room -= len(d.Partitions)
	if end < len(t.Partitions) {
		p.cut(t.Name, end)
		return false
	}
	return true
}

// cut sets the cursor to where the next page begins.
func (p *topicPage) cut(topic string, partition int) {
	p.resp.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: topic, Partition: int32(partition)}
}

func describedPartition(index int32, p Partition) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	d := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	d.Partition, d.LeaderID, d.LeaderEpoch = index, p.Leader, p.LeaderEpoch
	d.Replicas, d.ISR = p.Replicas, p.InSync
	d.EligibleLeaderReplicas, d.LastKnownELR = []int32{}, []int32{}
	if p.Leader < 0 {
		d.ErrorCode = codeLeaderNotAvailable
	}
	return d
}

// undescribed answers a topic that cannot be described.
func undescribed(name string, code int16) kmsg.DescribeTopicPartitionsResponseTopic {
	d := kmsg.NewDescribeTopicPartitionsResponseTopic()
	d.Topic, d.ErrorCode, d.AuthorizedOperations = &name, code, operationsNotAsked
	return d
}
