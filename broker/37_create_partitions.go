package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// # CreatePartitions (37): versions 0-3
//
// Adds partitions to topics, each independently of the others, and answers when the new ones can be used. The count is
// the new total. validate_only makes the same checks and changes nothing. A replica assignment has one entry for each new
// partition and must name existing nodes.
//
//	v2  flexible
//
// Errors of a topic: UNKNOWN_TOPIC_OR_PARTITION; INVALID_PARTITIONS for a total that is no increase;
// INVALID_REPLICA_ASSIGNMENT; INVALID_REQUEST for a name that occurs twice (answered once); POLICY_VIOLATION for every
// topic when the request would create more than 10,000 partitions; REQUEST_TIMED_OUT, after which they may exist.
func createPartitionsAPI() api {
	return api{
		key: 37, name: "CreatePartitions", min: 0, max: 3, served: 0, flexible: 2,
		shape: shape{
			list(400, text(), fixed(4), list(100, listOf(4, fixed(4)))), // name, total, replicas of each new one
			fixed(4 + 1), // timeout, validate only
		},
		handle: decoding(kmsg.NewPtrCreatePartitionsRequest, (*call).createPartitions),
	}
}

// growth is the state of one topic of a CreatePartitions request.
type growth struct {
	asked  kmsg.CreatePartitionsRequestTopic
	create CreatePartitions
	done   bool // err is the outcome
	err    error
}

func (c *call) createPartitions(req *kmsg.CreatePartitionsRequest) (answer, error) {
	asked := uniqueGrowth(req.Topics)
	c.planGrowth(asked)
	if !req.ValidateOnly {
		ctx, cancel := c.adminContext(req.TimeoutMillis)
		defer cancel()
		for c.grow(ctx, asked) {
			c.planGrowth(asked) // others were faster: check against their changes
		}
	}
	resp := kmsg.NewPtrCreatePartitionsResponse()
	resp.Topics = make([]kmsg.CreatePartitionsResponseTopic, len(asked))
	for i, g := range asked {
		resp.Topics[i] = kmsg.CreatePartitionsResponseTopic{
			Topic: g.asked.Topic, ErrorCode: codeByTopic(g.err, false), ErrorMessage: message(g.err),
		}
	}
	return c.reply(resp), nil
}

// errNotPlanned marks topics that planGrowth has yet to check.
var errNotPlanned = errors.New("not looked at yet")

// uniqueGrowth lists the topics of a request. A repeated name appears once, with its error.
func uniqueGrowth(topics []kmsg.CreatePartitionsRequestTopic) []*growth {
	first := make(map[string]*growth)
	var unique []*growth
	for _, t := range topics {
		if g, twice := first[t.Topic]; twice {
			g.err = &codedError{codeInvalidRequest, "Duplicate topic name."}
			continue
		}
		g := &growth{asked: t, err: errNotPlanned}
		first[t.Topic] = g
		unique = append(unique, g)
	}
	return unique
}

// planGrowth checks the topics that were not checked yet, or that have changed since.
func (c *call) planGrowth(asked []*growth) {
	topics := c.server.backend.Topics()
	total := 0
	for _, g := range asked {
		if !errors.Is(g.err, errNotPlanned) && !errors.Is(g.err, ErrPartitionsChanged) {
			continue
		}
		t, err := topicRef{name: g.asked.Topic}.find(topics)
		if err == nil {
			g.create = CreatePartitions{Topic: t.ID, Expected: int32(len(t.Partitions)), Total: g.asked.Count}
			err = c.checkGrowth(g)
		}
		if g.err = err; err == nil {
			total += int(g.create.Total - g.create.Expected)
		}
	}
	if total <= maxCreatedPartitions {
		return
	}
	for _, g := range asked {
		if g.err == nil && !g.done {
			g.err = &codedError{codePolicyViolation, "Excessively large number of additional partitions per request."}
		}
	}
}

func (c *call) checkGrowth(g *growth) error {
	now, total := g.create.Expected, g.create.Total
	switch {
	case total == now:
		return &codedError{codeInvalidPartitions, fmt.Sprintf("Topic already has %d partition(s).", now)}
	case total < now:
		return &codedError{codeInvalidPartitions,
			fmt.Sprintf("The topic %s currently has %d partition(s); %d would not be an increase.", g.asked.Topic, now, total)}
	case total-now > maxCreatedPartitions:
		return &codedError{codePolicyViolation, "Excessively large number of additional partitions per request."}
	}
	return c.checkNewReplicas(g)
}

// checkNewReplicas checks an assignment, if there is one: each new partition has the topic's number of replicas, on nodes
// that exist.
func (c *call) checkNewReplicas(g *growth) error {
	if g.asked.Assignment == nil {
		return nil
	}
	if more := int(g.create.Total - g.create.Expected); len(g.asked.Assignment) != more {
		return badAssignment("Attempted to add %d additional partition(s), but only %d assignment(s) were specified.",
			more, len(g.asked.Assignment))
	}
	nodes := make(map[int32]bool)
	for _, n := range c.server.backend.Nodes(c.conn.info.Via) {
		nodes[n.ID] = true
	}
	for i, a := range g.asked.Assignment {
		replicas := kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: g.create.Expected + int32(i), Replicas: a.Replicas}
		if err := checkReplicas(replicas, len(g.asked.Assignment[0].Replicas), nodes); err != nil {
			return err
		}
	}
	return nil
}

// grow creates what passed every check. It reports whether some topic was changed by others meanwhile, so that another
// try makes sense.
func (c *call) grow(ctx context.Context, asked []*growth) (again bool) {
	var good []*growth
	var creates []CreatePartitions
	for _, g := range asked {
		if g.err == nil && !g.done {
			good = append(good, g)
			creates = append(creates, g.create)
		}
	}
	if len(good) == 0 {
		return false
	}
	for i, err := range c.server.backend.CreatePartitions(ctx, creates) {
		changed := errors.Is(err, ErrPartitionsChanged)
		good[i].err, good[i].done = err, !changed
		again = again || changed
	}
	return again && ctx.Err() == nil
}
