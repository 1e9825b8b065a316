package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// # DeleteTopics (20): versions 0-6
//
// Deletes topics, each independently of the others, and answers when they are gone for every client.
//
// Kafka 4 starts at version 1; kafka-go's connections send version 0.
//
//	v1  throttle time
//	v3  TOPIC_DELETION_DISABLED (before, INVALID_REQUEST)
//	v4  flexible
//	v5  error messages
//	v6  topics by name or by id; the answer has both where the topic was found
//
// Errors: UNKNOWN_TOPIC_OR_PARTITION by name, UNKNOWN_TOPIC_ID by id, INVALID_REQUEST for a topic with both or neither
// and for one that is repeated, by name or by id (answered once), TOPIC_DELETION_DISABLED, REQUEST_TIMED_OUT, after which
// the topic may be gone.
func deleteTopicsAPI() api {
	return api{
		key: 20, name: "DeleteTopics", min: 0, max: 6, served: 0, flexible: 4,
		shape: shape{
			list(400, text(), fixed(16)).since(6),
			listOf(400, text()).until(5),
			fixed(4), // timeout
		},
		handle: decoding(kmsg.NewPtrDeleteTopicsRequest, (*call).deleteTopics),
	}
}

// oldTopic is the state of one topic of a DeleteTopics request.
type oldTopic struct {
	name *string // nil: named by id and unknown
	id   TopicID // zero: named by name and unknown
	err  error
}

func (c *call) deleteTopics(req *kmsg.DeleteTopicsRequest) (answer, error) {
	asked := c.findOldTopics(req)
	if c.server.options.DisableDeleteTopics {
		refuseDeletion(asked, c.version)
	}
	c.deleteFound(asked, req.TimeoutMillis)

	resp := kmsg.NewPtrDeleteTopicsResponse()
	resp.Topics = make([]kmsg.DeleteTopicsResponseTopic, len(asked))
	for i, t := range asked {
		resp.Topics[i] = kmsg.DeleteTopicsResponseTopic{
			Topic: t.name, TopicID: t.id, ErrorCode: codeOf(t.err), ErrorMessage: message(t.err),
		}
	}
	return c.reply(resp), nil
}

// findOldTopics looks up the topics of the request. A repeated one appears once, with its error.
func (c *call) findOldTopics(req *kmsg.DeleteTopicsRequest) []*oldTopic {
	named := req.Topics
	for _, name := range req.TopicNames {
		named = append(named, kmsg.DeleteTopicsRequestTopic{Topic: &name})
	}
	topics := c.server.backend.Topics()
	var found []*oldTopic
	seen := make(map[any]*oldTopic) // by id when the topic exists, otherwise by the name or id given
	for _, n := range named {
		t := findOldTopic(n, topics)
		key := t.key()
		if first, twice := seen[key]; twice && key != nil {
			first.err = &codedError{codeInvalidRequest, "The topic was named more than once."}
			continue
		}
		seen[key] = t
		found = append(found, t)
	}
	return found
}

// key identifies a topic within a request; nil when it has neither name nor id.
func (t *oldTopic) key() any {
	switch {
	case t.id != (TopicID{}):
		return t.id
	case t.name != nil:
		return *t.name
	}
	return nil
}

func findOldTopic(n kmsg.DeleteTopicsRequestTopic, topics Topics) *oldTopic {
	t := &oldTopic{name: n.Topic, id: n.TopicID}
	byID := n.TopicID != (TopicID{})
	if byID == (n.Topic != nil) {
		t.err = &codedError{codeInvalidRequest, "A topic must be named by its name or by its id, and not by both."}
		return t
	}
	ref := topicRef{byID: byID, id: n.TopicID}
	if !byID {
		ref.name = *n.Topic
	}
	found, err := ref.find(topics)
	if err != nil {
		t.err = err
		return t
	}
	t.name, t.id = &found.Name, found.ID
	return t
}

func refuseDeletion(asked []*oldTopic, version int16) {
	code := codeTopicDeletionDisabled
	if version < 3 {
		code = codeInvalidRequest
	}
	for _, t := range asked {
		t.err = &codedError{code, "Topic deletion is disabled."}
	}
}

// deleteFound deletes the topics that exist.
func (c *call) deleteFound(asked []*oldTopic, timeoutMillis int32) {
	var good []*oldTopic
	var ids []TopicID
	for _, t := range asked {
		if t.err == nil {
			good = append(good, t)
			ids = append(ids, t.id)
		}
	}
	if len(good) == 0 {
		return
	}
	ctx, cancel := c.adminContext(timeoutMillis)
	defer cancel()
	for i, err := range c.server.backend.DeleteTopics(ctx, ids) {
		good[i].err = err
	}
}
