package broker

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/topicconfig"
)

// # CreateTopics (19): versions 0-7
//
// Creates topics, each independently of the others, and answers when they can be used. validate_only makes the same checks
// and gives the same answer without creating anything. A partition or replica count of -1 takes the server's default. Unknown
// and invalid settings are refused; the answer has all settings in force.
//
// There is no replication yet. A replica count of 1 or more is accepted, even above the number of nodes, because Connect and
// Streams ask for 3 by default, but does not determine how many copies there are. The answer and Metadata report the replicas
// that really exist.
//
// Kafka 4 starts at version 2; kafka-go's connections send version 0.
//
//	v1  validate only; error messages
//	v2  throttle time
//	v4  -1 for counts
//	v5  flexible; counts and settings in the answer
//	v7  topic ids
//
// Errors: INVALID_REQUEST for a name that occurs twice (answered once), for __cluster_metadata, and for counts next to an
// assignment; INVALID_TOPIC_EXCEPTION for an illegal name and one that differs from another only in '.' and '_';
// TOPIC_ALREADY_EXISTS; INVALID_CONFIG; INVALID_PARTITIONS; INVALID_REPLICATION_FACTOR; INVALID_REPLICA_ASSIGNMENT;
// POLICY_VIOLATION for every topic when the request would create more than 10,000 partitions; REQUEST_TIMED_OUT, after
// which the topic may exist.
func createTopicsAPI() api {
	return api{
		key: 19, name: "CreateTopics", min: 0, max: 7, served: 0, flexible: 5,
		shape: shape{
			list(1000, text(), fixed(4+2), // name, counts
				list(100, fixed(4), listOf(4, fixed(4))), // assignment: partition, replicas
				list(250, text(), text())),               // settings: name, value
			fixed(4), fixed(1).since(1), // timeout, validate only
		},
		handle: decoding(kmsg.NewPtrCreateTopicsRequest, (*call).createTopics),
	}
}

const (
	// maxCreatedPartitions is how many partitions one request may create, as in Kafka.
	maxCreatedPartitions = 10_000

	// leastAdminTimeout is the shortest time that an admin request waits, whatever its client asks: some send 0 and mean
	// "do not wait for other nodes".
	leastAdminTimeout = time.Second

	clusterMetadataTopic = "__cluster_metadata"
)

// newTopic is the state of one topic of a CreateTopics request.
type newTopic struct {
	create  CreateTopic
	config  *topicconfig.Config // nil with an error
	sources topicSources
	err     error
}

func (c *call) createTopics(req *kmsg.CreateTopicsRequest) (answer, error) {
	asked := c.planTopics(req)
	refuseTooMany(asked)
	if !req.ValidateOnly {
		c.createPlanned(asked, req.TimeoutMillis)
	}
	resp := kmsg.NewPtrCreateTopicsResponse()
	resp.Topics = make([]kmsg.CreateTopicsResponseTopic, len(asked))
	definitions := topicconfig.Definitions()
	nodes := len(c.server.backend.Nodes(c.conn.info.Via))
	for i, t := range asked {
		resp.Topics[i] = t.response(definitions, nodes)
	}
	return c.reply(resp), nil
}

// planTopics checks every topic of the request. A repeated name appears once, with its error.
func (c *call) planTopics(req *kmsg.CreateTopicsRequest) []*newTopic {
	occurs := make(map[string]int)
	for _, t := range req.Topics {
		occurs[t.Topic]++
	}
	topics := c.server.backend.Topics()
	taken := make(map[string]bool) // collision keys of this request
	var planned []*newTopic
	for _, t := range req.Topics {
		n := occurs[t.Topic]
		if n == 0 {
			continue // answered already
		}
		occurs[t.Topic] = 0
		plan := &newTopic{create: CreateTopic{Name: t.Topic, ID: newTopicID()}}
		plan.err = checkNewName(t.Topic, n, topics, taken)
		if plan.err == nil {
			plan.err = c.planTopic(plan, t)
		}
		planned = append(planned, plan)
	}
	return planned
}

// checkNewName reports whether a topic may have this name.
func checkNewName(name string, occurs int, topics Topics, taken map[string]bool) error {
	switch {
	case occurs > 1:
		return &codedError{codeInvalidRequest, "Duplicate topic name."}
	case name == clusterMetadataTopic:
		return &codedError{codeInvalidRequest, "Creation of internal topic " + name + " is prohibited."}
	}
	if err := checkTopicName(name); err != nil {
		return err
	}
	if _, exists := topics.ByName(name); exists {
		return &codedError{codeTopicAlreadyExists, "Topic '" + name + "' already exists."}
	}
	key := collisionKey(name)
	if other, exists := topics.ByCollision(name); exists {
		return &codedError{codeInvalidTopicException, "Topic '" + name + "' collides with existing topic: " + other.Name}
	}
	if taken[key] {
		return ErrTopicCollides
	}
	taken[key] = true
	return nil
}

// planTopic fills in the rest of a topic whose name is valid.
func (c *call) planTopic(plan *newTopic, t kmsg.CreateTopicsRequestTopic) (err error) {
	overrides := make(map[string]string, len(t.Configs))
	for _, config := range t.Configs {
		if config.Value == nil {
			return &codedError{codeInvalidConfig, "Null value not supported for topic configs: " + config.Name}
		}
		overrides[config.Name] = *config.Value
	}
	config, err := c.server.backend.ResolveConfig(t.Topic, overrides)
	if err != nil {
		return err
	}
	if plan.sources, err = c.topicSources(t.Topic); err != nil {
		return err
	}
	plan.config = &config
	plan.create.Overrides = overrides
	if len(t.ReplicaAssignment) > 0 {
		plan.create.Partitions, plan.create.Replicas, err = c.assignedCounts(t)
		return err
	}
	plan.create.Partitions, plan.create.Replicas, err = c.counts(t)
	return err
}

// counts reads the partition and replica counts, and takes the defaults for -1.
func (c *call) counts(t kmsg.CreateTopicsRequestTopic) (partitions int32, replicas int16, err error) {
	partitions, replicas = t.NumPartitions, t.ReplicationFactor
	if replicas == -1 {
		replicas = c.server.options.DefaultReplicationFactor
	}
	if replicas < 1 {
		return 0, 0, &codedError{codeInvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value."}
	}
	if partitions == -1 {
		partitions = c.server.options.NumPartitions
	}
	if partitions < 1 {
		return 0, 0, &codedError{codeInvalidPartitions, "Number of partitions must be larger than 0, or -1 to use the default value."}
	}
	return partitions, replicas, nil
}

// assignedCounts derives the counts from an assignment of replicas, which must be complete: partitions 0 to n-1 once
// each, with the same number of replicas, on nodes that exist.
func (c *call) assignedCounts(t kmsg.CreateTopicsRequestTopic) (partitions int32, replicas int16, err error) {
	if t.NumPartitions != -1 {
		return 0, 0, &codedError{codeInvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1."}
	}
	if t.ReplicationFactor != -1 {
		return 0, 0, &codedError{codeInvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1."}
	}
	nodes := make(map[int32]bool)
	for _, n := range c.server.backend.Nodes(c.conn.info.Via) {
		nodes[n.ID] = true
	}
	n := len(t.ReplicaAssignment)
	seen := make([]bool, n)
	for _, a := range t.ReplicaAssignment {
		if a.Partition < 0 || int(a.Partition) >= n {
			return 0, 0, badAssignment("partition %d is outside of [0, %d)", a.Partition, n)
		}
		if seen[a.Partition] {
			return 0, 0, badAssignment("partition %d is assigned twice", a.Partition)
		}
		seen[a.Partition] = true
		if err := checkReplicas(a, len(t.ReplicaAssignment[0].Replicas), nodes); err != nil {
			return 0, 0, err
		}
	}
	return int32(n), int16(len(t.ReplicaAssignment[0].Replicas)), nil
}

func checkReplicas(a kmsg.CreateTopicsRequestTopicReplicaAssignment, want int, nodes map[int32]bool) error {
	if len(a.Replicas) == 0 || len(a.Replicas) > math.MaxInt16 {
		return badAssignment("partition %d has %d replicas", a.Partition, len(a.Replicas))
	}
	if len(a.Replicas) != want {
		return badAssignment("partition %d has %d replicas, others %d", a.Partition, len(a.Replicas), want)
	}
	seen := make(map[int32]bool, len(a.Replicas))
	for _, id := range a.Replicas {
		if !nodes[id] {
			return badAssignment("partition %d is assigned to node %d, which is not there", a.Partition, id)
		}
		if seen[id] {
			return badAssignment("partition %d is assigned to node %d twice", a.Partition, id)
		}
		seen[id] = true
	}
	return nil
}

func badAssignment(format string, args ...any) error {
	return &codedError{codeInvalidReplicaAssignment, fmt.Sprintf(format, args...)}
}

// refuseTooMany refuses every topic of a request that would create too many partitions.
func refuseTooMany(asked []*newTopic) {
	var total int64
	for _, t := range asked {
		if t.err == nil {
			total += int64(t.create.Partitions)
		}
	}
	if total <= maxCreatedPartitions {
		return
	}
	text := fmt.Sprintf("Excessively large number of partitions per request: %d, the limit is %d.", total, maxCreatedPartitions)
	for _, t := range asked {
		if t.err == nil {
			t.err = &codedError{codePolicyViolation, text}
		}
	}
}

// createPlanned creates the topics that passed every check.
func (c *call) createPlanned(asked []*newTopic, timeoutMillis int32) {
	var good []*newTopic
	var creates []CreateTopic
	for _, t := range asked {
		if t.err == nil {
			good = append(good, t)
			creates = append(creates, t.create)
		}
	}
	if len(good) == 0 {
		return
	}
	ctx, cancel := c.adminContext(timeoutMillis)
	defer cancel()
	for i, err := range c.server.backend.CreateTopics(ctx, creates) {
		good[i].err = err
	}
}

// adminContext ends when an admin request has waited for as long as its client wants, or when the client is gone.
func (c *call) adminContext(timeoutMillis int32) (context.Context, context.CancelFunc) {
	timeout := max(time.Duration(timeoutMillis)*time.Millisecond, leastAdminTimeout)
	return context.WithTimeout(c.conn.ctx, timeout)
}

// The sources of a setting's value, with Kafka's numbers.
const (
	sourceTopic       int8 = 1
	sourceThisNode    int8 = 2 // DYNAMIC_BROKER_CONFIG
	sourceAllNodes    int8 = 3 // DYNAMIC_DEFAULT_BROKER_CONFIG
	sourceNodeAtStart int8 = 4 // STATIC_BROKER_CONFIG
	sourceDefault     int8 = 5
)

func (t *newTopic) response(definitions []topicconfig.Definition, nodes int) kmsg.CreateTopicsResponseTopic {
	r := kmsg.NewCreateTopicsResponseTopic()
	r.Topic = t.create.Name
	r.NumPartitions, r.ReplicationFactor = -1, -1
	if t.err != nil {
		r.ErrorCode, r.ErrorMessage = codeOf(t.err), message(t.err)
		r.Configs = []kmsg.CreateTopicsResponseTopicConfig{} // null means that the client may not see them
		return r
	}
	r.TopicID = t.create.ID
	r.NumPartitions = t.create.Partitions
	r.ReplicationFactor = int16(min(int(t.create.Replicas), nodes))
	r.Configs = make([]kmsg.CreateTopicsResponseTopicConfig, len(definitions))
	for i, d := range definitions {
		value := t.config.Value(d.Name)
		r.Configs[i] = kmsg.CreateTopicsResponseTopicConfig{Name: d.Name, Value: &value, Source: t.sources.source(*t.config, d)}
	}
	return r
}
