package broker

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// # Metadata (3): versions 0-13
//
// Describes nodes, topics, partitions and leaders, and creates topics that do not exist if the client allows it and
// Options.DisableAutoCreateTopics is not set. A topic is created before the answer is sent, so the first answer names its
// leader. Addresses are those of the listener that the request came in on. The controller is this node: any node takes admin
// requests.
//
//	v0   an empty list of topics asks for all
//	v1   null asks for all, empty for none; racks, controller, internal flag
//	v2   cluster id
//	v3   throttle time
//	v4   the client says whether topics may be created (before, they may)
//	v5   offline replicas
//	v7   leader epochs
//	v8   authorized operations: of the cluster (until v10) and of topics
//	v9   flexible
//	v10  topic ids in the response
//	v12  topics by id; once one is asked by id, only ids are looked up
//	v13  error of the whole response
//
// Errors of a topic: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION. Errors of a partition:
// LEADER_NOT_AVAILABLE. INVALID_REQUEST for every topic when v10 or v11 asks with an id or without a name. A topic that
// cannot be created is answered as one that does not exist, which clients retry.
func metadataAPI() api {
	return api{
		key: 3, name: "Metadata", min: 0, max: 13, served: 0, flexible: 9,
		shape: shape{
			list(200, fixed(16).since(10), text()),
			fixed(1).since(4), fixed(1).since(8).until(10), fixed(1).since(8), // create, include operations
		},
		handle: decoding(kmsg.NewPtrMetadataRequest, (*call).metadata),
	}
}

// Without authorization every operation that exists for a resource is allowed; bit n stands for operation n.
const (
	operationsNotAsked   int32 = -1 << 31
	allTopicOperations   int32 = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	allClusterOperations int32 = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
)

// autoCreateTimeout bounds how long a Metadata request waits for topics to be created.
const autoCreateTimeout = 10 * time.Second

func (c *call) metadata(req *kmsg.MetadataRequest) (answer, error) {
	b := c.server.backend
	resp := kmsg.NewPtrMetadataResponse()
	for _, n := range b.Nodes(c.conn.info.Via) {
		node := kmsg.MetadataResponseBroker{NodeID: n.ID, Host: n.Host, Port: n.Port}
		if n.Rack != "" {
			node.Rack = &n.Rack
		}
		resp.Brokers = append(resp.Brokers, node)
	}
	resp.ClusterID = kmsg.StringPtr(b.ClusterID())
	resp.ControllerID = b.NodeID()
	resp.AuthorizedOperations = operationsNotAsked
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = allClusterOperations
	}

	switch {
	case req.Topics == nil || c.version == 0 && len(req.Topics) == 0:
		topics := b.Topics()
		release, err := c.building(partitionsIn(topics.All()) * describedPartitionCost)
		if err != nil {
			return nil, err
		}
		defer release()
		resp.Topics = make([]kmsg.MetadataResponseTopic, 0, topics.Len())
		for t := range topics.All() {
			resp.Topics = append(resp.Topics, c.describeTopic(t, req))
		}
	case c.version < 12 && !allByName(req.Topics):
		for _, asked := range req.Topics {
			resp.Topics = append(resp.Topics, unknownTopic(asked, codeInvalidRequest))
		}
	default:
		req.Topics = unique(req.Topics, askedTopicKey)
		c.autoCreate(req)
		release, err := c.building(partitionsIn(c.askedTopics(req)) * describedPartitionCost)
		if err != nil {
			return nil, err
		}
		defer release()
		c.describeAsked(req, resp)
	}
	return c.reply(resp), nil
}

func allByName(topics []kmsg.MetadataRequestTopic) bool {
	for _, t := range topics {
		if t.Topic == nil || t.TopicID != (TopicID{}) {
			return false
		}
	}
	return true
}

func anyByID(topics []kmsg.MetadataRequestTopic) bool {
	for _, t := range topics {
		if t.TopicID != (TopicID{}) {
			return true
		}
	}
	return false
}

// askedTopicKey is equal for two topics of a request that are named in the same way.
func askedTopicKey(t kmsg.MetadataRequestTopic) askedTopic {
	if t.Topic == nil {
		return askedTopic{id: t.TopicID}
	}
	return askedTopic{id: t.TopicID, name: *t.Topic, named: true}
}

type askedTopic struct {
	id    TopicID
	name  string
	named bool
}

// askedTopics yields the requested topics that exist.
func (c *call) askedTopics(req *kmsg.MetadataRequest) iter.Seq[*Topic] {
	topics := c.server.backend.Topics()
	return func(yield func(*Topic) bool) {
		for _, asked := range req.Topics {
			ref := topicRef{id: asked.TopicID, byID: asked.TopicID != TopicID{}}
			if asked.Topic != nil {
				ref.name = *asked.Topic
			}
			if t, err := ref.find(topics); err == nil && !yield(t) {
				return
			}
		}
	}
}

// describeAsked answers the requested topics, in order, each once.
func (c *call) describeAsked(req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) {
	topics := c.server.backend.Topics()
	byID := anyByID(req.Topics)
	if byID { // names no longer count
		req.Topics = unique(req.Topics, func(t kmsg.MetadataRequestTopic) TopicID { return t.TopicID })
	}
	resp.Topics = make([]kmsg.MetadataResponseTopic, 0, len(req.Topics))
	for _, asked := range req.Topics {
		ref := topicRef{id: asked.TopicID, byID: byID}
		if !byID && asked.Topic != nil {
			ref.name = *asked.Topic
		}
		t, err := ref.find(topics)
		switch {
		case err == nil:
			resp.Topics = append(resp.Topics, c.describeTopic(t, req))
		case byID:
			asked.Topic = nil
			resp.Topics = append(resp.Topics, unknownTopic(asked, codeOf(err)))
		case !validTopicName(ref.name):
			resp.Topics = append(resp.Topics, unknownTopic(asked, codeInvalidTopicException))
		default:
			unknown := unknownTopic(asked, codeOf(err))
			if req.IncludeTopicAuthorizedOperations && asked.Topic != nil {
				unknown.AuthorizedOperations = allTopicOperations // what may be done to a topic of that name
			}
			resp.Topics = append(resp.Topics, unknown)
		}
	}
}

func (c *call) describeTopic(t *Topic, req *kmsg.MetadataRequest) kmsg.MetadataResponseTopic {
	d := kmsg.MetadataResponseTopic{
		Topic:                &t.Name,
		TopicID:              t.ID,
		IsInternal:           t.Internal,
		AuthorizedOperations: operationsNotAsked,
		Partitions:           make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions)),
	}
	if req.IncludeTopicAuthorizedOperations {
		d.AuthorizedOperations = allTopicOperations
	}
	for i, p := range t.Partitions {
		d.Partitions[i] = kmsg.MetadataResponseTopicPartition{
			Partition: int32(i), Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Replicas: p.Replicas, ISR: p.InSync,
		}
		if p.Leader < 0 {
			d.Partitions[i].ErrorCode = codeLeaderNotAvailable
		}
	}
	return d
}

// unknownTopic answers a topic that does not exist. Until v11 the name cannot be null.
func unknownTopic(asked kmsg.MetadataRequestTopic, code int16) kmsg.MetadataResponseTopic {
	t := kmsg.MetadataResponseTopic{
		ErrorCode: code, Topic: asked.Topic, TopicID: asked.TopicID, AuthorizedOperations: operationsNotAsked,
	}
	if t.Topic == nil && code == codeInvalidRequest {
		t.Topic = kmsg.StringPtr("")
	}
	return t
}

// autoCreate creates the topics that are requested by name and do not exist, if the client and the options allow it.
func (c *call) autoCreate(req *kmsg.MetadataRequest) {
	o := &c.server.options
	if o.DisableAutoCreateTopics || c.version >= 4 && !req.AllowAutoTopicCreation || anyByID(req.Topics) {
		return
	}
	missing := c.missingTopics(req)
	if len(missing) == 0 || len(missing)*int(o.NumPartitions) > maxCreatedPartitions {
		return
	}
	ctx, cancel := context.WithTimeout(c.conn.ctx, autoCreateTimeout)
	defer cancel()
	// Whether it worked shows in the topics, which are read next. A topic that another client has created meanwhile is as
	// good.
	_ = errors.Join(c.server.backend.CreateTopics(ctx, missing)...)
}

// missingTopics lists the topics to create, each once.
func (c *call) missingTopics(req *kmsg.MetadataRequest) []CreateTopic {
	o := &c.server.options
	topics := c.server.backend.Topics()
	taken := make(map[string]bool) // collision keys of this request
	var missing []CreateTopic
	for _, asked := range req.Topics {
		if asked.Topic == nil || !validTopicName(*asked.Topic) || isInternalName(*asked.Topic) {
			continue
		}
		name := *asked.Topic
		if _, exists := topics.ByCollision(name); exists || taken[collisionKey(name)] {
			continue
		}
		taken[collisionKey(name)] = true
		missing = append(missing, CreateTopic{
			Name: name, ID: newTopicID(), Partitions: o.NumPartitions, Replicas: o.DefaultReplicationFactor,
		})
	}
	return missing
}
